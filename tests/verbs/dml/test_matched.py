"""Rows that take the place of those they match."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import DeltaTable, Invalid
from holdfast.env import system
from holdfast.errors import AppendOnly, Unsupported
from holdfast.formats.delta.state import load
from holdfast.model.mutation import TableDefinition
from holdfast.schema.types import LONG, STRING, Field, Primitive, Struct
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.write import make
from holdfast.verbs.open.delta_handle import DeltaHandle
from tests.support.depth import examples
from tests.support.faulty import FaultyWrites, every_fault

COLUMNS = Struct((Field("id", LONG), Field("k", Primitive("integer")), Field("v", STRING)))
THERE = [(1, 1, "a"), (2, 1, "b"), (3, 2, "c"), (4, None, "d"), (5, 3, "e")]
COMING = [(10, 1, "x"), (11, 1, "y"), (12, None, "z"), (13, 9, "w")]
VECTORS = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}


def rows(values: list[tuple[Any, ...]]) -> pa.Table:
    ids, keys, texts = zip(*values, strict=True) if values else ((), (), ())
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "k": pa.array(keys, pa.int32()), "v": pa.array(texts, pa.string())}
    )


def made(store: ObjectStore, *, partitions: tuple[str, ...] = (), **properties: str) -> DeltaTable:
    shape = TableDefinition(COLUMNS, partition_columns=partitions, properties=properties)
    make(Location(store, "t"), shape, system(), mode=CreateMode.CREATE, plain=True)
    table = opened(store)
    table.append(rows(THERE[:3]))
    table.append(rows(THERE[3:]))
    return table


def opened(store: ObjectStore) -> DeltaTable:
    return DeltaTable(DeltaHandle(None, load(Location(store, "t"))))


def content(table: DeltaTable) -> list[tuple[Any, ...]]:
    return sorted(((r["id"], r["k"], r["v"]) for r in table.toArrow().to_pylist()), key=str)


def expected(*there: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return sorted([*there, *COMING], key=str)


@pytest.mark.parametrize("properties", [{}, VECTORS, {"delta.columnMapping.mode": "name"}])
@pytest.mark.parametrize("partitions", [(), ("k",)])
def test_rows_with_the_same_values_go(properties: dict[str, str], partitions: tuple[str, ...]) -> None:
    table = made(MemoryStore(), partitions=partitions, **properties)
    done = table.overwrite(rows(COMING), replaceUsing="k")
    assert content(table) == expected(*THERE[2:])
    assert done.metrics["numDeletedRows"] == 2
    told = table.historyArrow().to_pylist()[0]
    assert told["operation"] == "WRITE"
    assert dict(told["operationParameters"])["replaceUsingCols"] == "(k)"
    assert table.check().clean


def test_rows_that_satisfy_a_condition_go() -> None:
    table = made(MemoryStore(), **VECTORS)
    table.alias("t").overwrite(rows(COMING), replaceOn="t.k <=> s.k AND s.id > 10 AND t.id <> 2")
    assert content(table) == expected(THERE[1], THERE[2], THERE[4])
    version = table.version
    table.overwrite(rows([]), replaceUsing=["k", "id"])
    assert content(table) == expected(THERE[1], THERE[2], THERE[4])
    assert table.version == version + 1


def test_rows_may_bring_columns() -> None:
    table = made(MemoryStore(), **VECTORS)
    more = rows(COMING).append_column("more", pa.array([1, 2, 3, 4], pa.int32()))
    table.overwrite(more, replaceUsing="k", mergeSchema=True)
    assert content(table) == expected(*THERE[2:])
    assert table.toArrow(["more"]).column("more").null_count == 3


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"replaceUsing": "zz"}, "names 'zz'"),
        ({"replaceUsing": ""}, "at least one"),
        ({"replaceUsing": "k", "replaceOn": "true"}, "exclude each other"),
        ({"replaceUsing": "k", "replaceWhere": "id > 2"}, "exclude each other"),
        ({"replaceUsing": "k", "overwriteSchema": True}, "exclude each other"),
        ({"replaceOn": "t.k = s.k"}, "qualified by s and t"),
    ],
)
def test_what_cannot_be_matched_is_refused(asked: dict[str, Any], said: str) -> None:
    table = made(MemoryStore())
    with pytest.raises(Invalid, match=said):
        table.overwrite(rows(COMING), **asked)
    assert content(table) == sorted(THERE, key=str)


def test_tables_that_keep_rows_keep_them() -> None:
    with pytest.raises(AppendOnly):
        made(MemoryStore(), **{"delta.appendOnly": "true"}).overwrite(rows(COMING), replaceUsing="k")
    with pytest.raises(Unsupported, match="change data feed"):
        made(MemoryStore(), **{"delta.enableChangeDataFeed": "true"}).overwrite(rows(COMING), replaceUsing="k")
    fed = made(MemoryStore(), **VECTORS, **{"delta.enableChangeDataFeed": "true"})
    fed.overwrite(rows(COMING), replaceUsing="k")
    told = fed.changeFeed(fed.version, fed.version).toArrow().to_pylist()
    assert sorted((row["id"], row["_change_type"]) for row in told) == [
        *((id_, "delete") for id_ in (1, 2)),
        *((id_, "insert") for id_ in (10, 11, 12, 13)),
    ]


def test_rows_that_others_only_moved_are_found_again(meanwhile: Callable[[Callable[[], Any]], None]) -> None:
    store = MemoryStore()
    table = made(store, **VECTORS)
    table.append(rows([(6, 7, "f")]))
    beaten = list[int]()
    meanwhile(lambda: beaten.extend(opened(store).optimize().executeCompaction().versions))
    done = table.overwrite(rows(COMING), replaceUsing="k")
    assert beaten
    assert done.version == beaten[0] + 1
    assert content(table) == expected(*THERE[2:], (6, 7, "f"))


KEYS = st.one_of(st.none(), st.integers(0, 4))
VALUES = st.lists(st.tuples(st.integers(0, 9), KEYS, st.sampled_from("abc")), max_size=8)


@examples(40)
@given(VALUES, VALUES, st.sampled_from([("k",), ("k", "v"), ("id",)]), st.booleans())
def test_what_is_left_is_what_nothing_matches(
    there: list[tuple[Any, ...]], coming: list[tuple[Any, ...]], columns: tuple[str, ...], hides: bool
) -> None:
    store = MemoryStore()
    shape = TableDefinition(COLUMNS, properties=VECTORS if hides else {})
    make(Location(store, "t"), shape, system(), mode=CreateMode.CREATE, plain=True)
    table = opened(store)
    table.append(rows(there))
    table.overwrite(rows(coming), replaceUsing=columns)
    at = [("id", "k", "v").index(name) for name in columns]
    keys = {tuple(row[i] for i in at) for row in coming if all(row[i] is not None for i in at)}
    left = [row for row in there if tuple(row[i] for i in at) not in keys]
    assert content(table) == sorted([*left, *coming], key=str)


def test_a_fault_leaves_all_or_nothing() -> None:
    def fresh() -> ObjectStore:
        store = MemoryStore()
        made(store, **VECTORS)
        return store

    def check(store: ObjectStore) -> None:
        assert content(opened(store)) in (sorted(THERE, key=str), expected(*THERE[2:]))

    assert every_fault(
        lambda store: opened(store).overwrite(rows(COMING), replaceUsing="k"), check, make=fresh, faulty=FaultyWrites
    )
