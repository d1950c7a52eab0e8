from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis.strategies import sampled_from, text
from pyspark.errors import AnalysisException, PySparkException, UnsupportedOperationException

from holdfast import errors
from holdfast._dropin.enabling import MODULES
from holdfast._dropin.errors import RETENTION_TOO_SHORT, as_delta_spark, dress
from tests.support.depth import examples

CLASSES = sorted(
    (c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, errors.TableError)),
    key=lambda c: c.__name__,
)


def made(kind: type[errors.TableError], message: str) -> errors.TableError:
    takes = inspect.signature(kind.__init__).parameters if "__init__" in _own(kind) else {}
    needed = {
        name: 7 if name == "version" else () if name in ("row_ids", "rows", "columns") else "x"
        for name, parameter in takes.items()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
    }
    return kind(message, **needed)


def _own(kind: type[errors.TableError]) -> set[str]:
    return {name for each in kind.__mro__ if issubclass(each, errors.TableError) for name in vars(each)}


@examples(60)
@given(sampled_from(CLASSES), text())
def test_every_error_stays_what_it_is_and_is_pysparks_too(kind: type[errors.TableError], message: str) -> None:
    error = made(kind, message)
    fields = dict(vars(error))
    with pytest.raises(PySparkException) as caught, as_delta_spark():
        raise error
    assert caught.value is error
    assert isinstance(error, kind)
    assert fields.items() <= vars(error).items()
    assert message in str(error)
    condition = caught.value.getCondition()
    assert condition is None or str(error) == f"[{condition}] {message}"
    assert dress(error) is error


def test_conflicts_are_those_of_delta_exceptions() -> None:
    names = MODULES["delta.exceptions"]
    for kind, name, condition in (
        (errors.ConcurrentAppend, "ConcurrentAppendException", "DELTA_CONCURRENT_APPEND"),
        (errors.ConcurrentDeleteRead, "ConcurrentDeleteReadException", "DELTA_CONCURRENT_DELETE_READ"),
        (errors.ConcurrentDeleteDelete, "ConcurrentDeleteDeleteException", "DELTA_CONCURRENT_DELETE_DELETE"),
        (errors.ConcurrentTransaction, "ConcurrentTransactionException", "DELTA_CONCURRENT_TRANSACTION"),
        (errors.MetadataChanged, "MetadataChangedException", "DELTA_METADATA_CHANGED"),
        (errors.NumbersTaken, "MetadataChangedException", "DELTA_METADATA_CHANGED"),
        (errors.ProtocolChanged, "ProtocolChangedException", "DELTA_PROTOCOL_CHANGED"),
        (errors.ConcurrentCreate, "ConcurrentWriteException", "DELTA_CONCURRENT_WRITE"),
    ):
        error = dress(made(kind, "lost"))
        assert isinstance(error, names[name])
        assert isinstance(error, names["DeltaConcurrentModificationException"])
        assert isinstance(error, PySparkException)
        assert error.getCondition() == condition


def test_a_place_may_say_what_an_error_means_there() -> None:
    with pytest.raises(errors.Invalid) as caught, as_delta_spark(invalid=RETENTION_TOO_SHORT):
        raise errors.Invalid("too short")
    assert isinstance(caught.value, RETENTION_TOO_SHORT.kind)
    with pytest.raises(AnalysisException), as_delta_spark(invalid=RETENTION_TOO_SHORT):
        raise errors.UnknownColumn("no a", column="a")
    with pytest.raises(UnsupportedOperationException), as_delta_spark():
        raise errors.Unsupported("no")
    with pytest.raises(ValueError, match="mine"), as_delta_spark():
        raise ValueError("mine")
