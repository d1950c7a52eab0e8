"""Identity columns under writers who do not know of each other."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from holdfast import DeltaTable
from holdfast.engines.local.incoming import LocalRows
from holdfast.env import system
from holdfast.errors import MetadataChanged, NumbersTaken, TableError
from holdfast.formats.delta.state import DeltaState, load
from holdfast.model.mutation import TableDefinition
from holdfast.schema.identity import identity_metadata
from holdfast.schema.types import LONG, STRING, Field, Struct
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.verbs.define.alter import DeltaAlteration
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.write import WriteOptions, make, write
from holdfast.verbs.open.delta import open_delta
from holdfast.verbs.open.delta_handle import DeltaHandle
from tests.support.depth import DEPTH

SCHEMA = Struct((Field("n", LONG, True, identity_metadata(start=1, step=1, explicit=True)), Field("name", STRING)))


def ship(*names: str) -> LocalRows:
    return LocalRows(pa.table({"name": list(names)}), system())


def harbour() -> tuple[Location, DeltaState]:
    location = Location(MemoryStore(), "t")
    return location, make(location, TableDefinition(SCHEMA), system(), mode=CreateMode.CREATE, plain=False)


def numbers(location: Location) -> list[int]:
    return sorted(DeltaTable(DeltaHandle(None, load(location))).toArrow(columns=["n"])["n"].to_pylist())


def test_rows_whose_numbers_are_taken_get_others() -> None:
    location, read = harbour()
    write(open_delta(read), ship("a", "b"), WriteOptions(), system())
    assert write(open_delta(read), ship("c"), WriteOptions(), system()).version == 2
    assert numbers(location) == [1, 2, 3]


def test_an_overwrite_is_not_repeated_behind_the_users_back() -> None:
    location, read = harbour()
    write(open_delta(read), ship("a"), WriteOptions(), system())
    with pytest.raises(NumbersTaken, match=r"version 1, a WRITE.*handed out the numbers.*repeat it"):
        write(open_delta(read), ship("b"), WriteOptions(replace=True), system())
    assert load(location).version == 1


def test_rows_that_cannot_be_stored_again_are_a_conflict() -> None:
    class Once(LocalRows):
        repeatable = False

    _, read = harbour()
    write(open_delta(read), ship("a"), WriteOptions(), system())
    with pytest.raises(MetadataChanged, match="numbers of identity columns"):
        write(open_delta(read), Once(pa.table({"name": ["b"]}), system()), WriteOptions(), system())


def test_who_hands_out_no_numbers_goes_on() -> None:
    location, read = harbour()
    write(open_delta(read), ship("a"), WriteOptions(), system())
    given = LocalRows(pa.table({"n": pa.array([70], pa.int64()), "name": ["z"]}), system())
    assert write(open_delta(read), given, WriteOptions(), system()).version == 2
    assert numbers(location) == [1, 70]
    with pytest.raises(MetadataChanged, match="schema or properties"):
        DeltaAlteration(read, system()).set_properties({"owner": "me"})


def test_many_at_once_share_no_number() -> None:
    location, read = harbour()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(3 * min(DEPTH, 5)):
                write(open_delta(read), ship("a", "b"), WriteOptions(), system())
        except (TableError, AssertionError) as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert numbers(location) == list(range(1, 1 + 2 * 4 * 3 * min(DEPTH, 5)))
