"""What a table's isolation level lets a transaction stand beside."""

from __future__ import annotations

import json

import pytest

from holdfast import env
from holdfast.errors import ConcurrentAppend, Invalid
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.state import DeltaState, load
from holdfast.model.mutation import AllRows, Mutation, TableDefinition
from holdfast.schema.properties import ISOLATION_LEVEL, Isolation, isolation
from holdfast.storage.base import ObjectStore
from holdfast.storage.memory import MemoryStore
from holdfast.verbs.commit.loop import commit
from holdfast.verbs.dml.write_mutation import CommitOptions, overwritten
from tests.verbs.commit.test_commit import SCHEMA, append, at, create, staged


def level_said(store: ObjectStore, version: int) -> str:
    first = store.get(f"t/_delta_log/{version:020d}.json").split(b"\n")[0]
    return str(json.loads(first)["commitInfo"]["isolationLevel"])


def raced(store: ObjectStore, level: str | None) -> DeltaState:
    """A state that a blind append has left behind."""
    create(store, properties={} if level is None else {ISOLATION_LEVEL: level})
    append(store, "old", [1])
    read = load(at(store))
    append(store, "meanwhile", [1])
    return read


@pytest.mark.parametrize("level", [None, "Serializable"])
def test_by_default_rows_that_came_meanwhile_would_have_been_read(level: str | None) -> None:
    store = MemoryStore()
    read = raced(store, level)
    with pytest.raises(ConcurrentAppend, match=r"version 2.*meanwhile-0\.parquet"):
        commit(
            DeltaFormat(at(store)), read, overwritten(read.snapshot, staged("new", [1]), CommitOptions()), env.system()
        )
    assert level_said(store, 2) == "Serializable"


def test_with_write_serializable_a_blind_append_comes_after() -> None:
    store = MemoryStore()
    read = raced(store, "WriteSerializable")
    commit(DeltaFormat(at(store)), read, overwritten(read.snapshot, staged("new", [1]), CommitOptions()), env.system())
    files = load(at(store)).snapshot.files.column("key").to_pylist()
    assert sorted(files) == ["meanwhile-0.parquet", "new-0.parquet"]
    assert level_said(store, 3) == "WriteSerializable"


def test_an_append_that_looked_first_is_not_blind() -> None:
    store = MemoryStore()
    read = raced(store, "WriteSerializable")
    later = load(at(store))
    looked = Mutation("WRITE", added=staged("looked", [1]), reads=AllRows())
    commit(DeltaFormat(at(store)), later, looked, env.system())
    with pytest.raises(ConcurrentAppend, match=r"looked-0\.parquet"):
        commit(
            DeltaFormat(at(store)), read, overwritten(read.snapshot, staged("new", [1]), CommitOptions()), env.system()
        )


def test_what_a_table_becomes_holds_for_rows_that_came_meanwhile() -> None:
    store = MemoryStore()
    read = raced(store, "WriteSerializable")
    shape = TableDefinition(SCHEMA, (), {ISOLATION_LEVEL: "WriteSerializable", "delta.constraints.sane": "id > 0"})
    with pytest.raises(ConcurrentAppend):
        commit(DeltaFormat(at(store)), read, Mutation("ADD CONSTRAINT", reads=AllRows(), shape=shape), env.system())


def test_where_no_row_changes_the_commit_says_so() -> None:
    store = MemoryStore()
    read = raced(store, None)
    moved = Mutation("OPTIMIZE", removed=read.snapshot.files.table, added=staged("new", [1]), data_change=False)
    commit(DeltaFormat(at(store)), read, moved, env.system())
    assert level_said(store, 3) == "SnapshotIsolation"


def test_levels_are_read_in_any_case_and_unknown_ones_refused() -> None:
    assert isolation(None) is Isolation.SERIALIZABLE
    assert isolation("writeserializable ") is Isolation.WRITE_SERIALIZABLE
    with pytest.raises(Invalid, match=r"delta\.isolationLevel is 'Loose'; it must be one of Serializable, WriteSer"):
        isolation("Loose")
    store = MemoryStore()
    with pytest.raises(Invalid, match="Loose"):
        create(store, properties={ISOLATION_LEVEL: "Loose"})
