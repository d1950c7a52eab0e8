"""Names of columns are found in Spark's order: behind the table's alias first, then down from a column."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from holdfast import DeltaTable
from holdfast.errors import UnknownColumn
from holdfast.schema.types import LONG, Field, Struct
from holdfast.verbs.define.columns import path_of

_fresh = itertools.count()
INNER = pa.struct([("a", pa.int64())])
ROWS = pa.table({"id": [1, 2], "a": [10, 20], "t": pa.array([{"a": 2}, {"a": 1}], INNER)})
SCHEMA = Struct(
    (
        Field("a", LONG),
        Field("t", Struct((Field("a", LONG), Field("only", LONG)))),
        Field("t.a", LONG),
        Field("x.y", LONG),
    )
)


def made() -> DeltaTable:
    """Columns `a` and `t.a`, in a table that conditions call t."""
    builder = DeltaTable.create(None).location(f"memory://names/{next(_fresh)}").addColumn("id", "long")
    table = builder.addColumn("a", "long").addColumn("t", "struct<a:bigint>").execute()
    table.append(ROWS)
    return table


def content(table: DeltaTable) -> list[tuple[Any, ...]]:
    return [(r["id"], r["a"], r["t"]["a"]) for r in table.toArrow().sort_by("id").to_pylist()]


@pytest.mark.parametrize(
    ("name", "alias", "path"),
    [
        ("t.a", "t", ("a",)),
        ("T.A", "t", ("a",)),
        ("t.t.a", "t", ("t", "a")),
        ("t.t", "t", ("t",)),
        ("t.only", "t", ("t", "only")),
        ("t.a", None, ("t", "a")),
        ("t.a", "other", ("t", "a")),
        ("`t.a`", "t", ("t.a",)),
        ("t.`t.a`", "t", ("t.a",)),
        ("x.y", "t", ("x.y",)),
        ("t", "t", ("t",)),
    ],
)
def test_an_alias_comes_before_a_struct_of_its_name(name: str, alias: str | None, path: tuple[str, ...]) -> None:
    assert path_of(SCHEMA, name, alias) == path


def test_a_column_behind_the_alias_is_not_given_up_for_a_struct() -> None:
    with pytest.raises(UnknownColumn):  # `a` has no fields, and Spark looks no further
        path_of(SCHEMA, "t.a.z", "t")


def test_update_sets_the_column_behind_the_alias() -> None:
    table = made()
    table.alias("t").update("t.a = 10", {"t.a": "9"})
    assert content(table) == [(1, 9, 2), (2, 20, 1)]
    table.alias("t").update("t.t.a = 1", {"t.t.a": "t.a + t.t.a"})
    assert content(table) == [(1, 9, 2), (2, 20, 21)]
    table.update("t.a = 2", {"t.a": "8"})
    assert content(table) == [(1, 9, 8), (2, 20, 21)]
    table.alias("t").delete("t.a = 20")
    assert content(table) == [(1, 9, 8)]


def test_merge_sets_the_column_behind_the_alias() -> None:
    table = made()
    source = pa.table({"a": [10, 1], "n": [5, 6]})
    merge = table.alias("t").merge(source, "t.a = s.a")
    merge.whenMatchedUpdate(set={"t.a": "s.n"}).whenNotMatchedInsert(values={"t.a": "s.n", "t.id": "3"}).execute()
    found = [(r["id"], r["a"], r["t"]) for r in table.toArrow().sort_by("id").to_pylist()]
    assert found == [(1, 5, {"a": 2}), (2, 20, {"a": 1}), (3, 6, None)]
