"""Conflicts by delta-spark's names: every kind is caught by its own name, by its parents', and by no other."""

from __future__ import annotations

import itertools

import pytest

from holdfast import exceptions
from holdfast.errors import CONCURRENT_WRITES, ConcurrentWrite, Conflict, TableError

NAMES = {
    "write": "ConcurrentWriteException",
    "append": "ConcurrentAppendException",
    "delete-read": "ConcurrentDeleteReadException",
    "delete-delete": "ConcurrentDeleteDeleteException",
    "metadata": "MetadataChangedException",
    "protocol": "ProtocolChangedException",
    "transaction": "ConcurrentTransactionException",
}


def test_every_name_of_delta_spark_is_there() -> None:
    assert set(exceptions.__all__) == {*NAMES.values(), "DeltaConcurrentModificationException"}
    assert exceptions.DeltaConcurrentModificationException is Conflict


def test_every_kind_has_a_name() -> None:
    assert set(CONCURRENT_WRITES) == {*NAMES, "numbers"}
    assert issubclass(CONCURRENT_WRITES["numbers"], exceptions.MetadataChangedException)


@pytest.mark.parametrize(("kind", "other"), list(itertools.product(NAMES, NAMES)))
def test_a_conflict_is_caught_by_its_own_name_alone(kind: str, other: str) -> None:
    error = CONCURRENT_WRITES[kind]("somebody came first", version=7, files=("a",))
    assert isinstance(error, getattr(exceptions, NAMES[other])) == (kind == other)
    assert isinstance(error, ConcurrentWrite)
    assert isinstance(error, exceptions.DeltaConcurrentModificationException)
    assert isinstance(error, TableError)
    assert (error.kind, error.version, error.files, str(error)) == (kind, 7, ("a",), "somebody came first")
