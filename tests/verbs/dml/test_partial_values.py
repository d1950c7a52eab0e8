"""Values that lack fields of the structs they are for, and sources that lack columns: nothing becomes null unasked."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from holdfast import DeltaTable
from holdfast.errors import SchemaMismatch, UnknownColumn

_fresh = itertools.count()
ROW = {"id": 1, "x": {"a": 1, "b": {"c": 2, "d": 3}}, "l": [{"e": 4, "f": 5}], "n": 6}


def struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct(list(fields.items()))


LONG = pa.int64()
WHOLE = struct(a=LONG, b=struct(c=LONG, d=LONG))


def made(path: str | None = None) -> DeltaTable:
    builder = DeltaTable.create(None).location(path or f"memory://partial/{next(_fresh)}").addColumn("id", "long")
    builder = builder.addColumn("x", "struct<a:bigint,b:struct<c:bigint,d:bigint>>").addColumn("n", "long")
    builder = builder.addColumn("l", "array<struct<e:bigint,f:bigint>>").addColumn("y", "struct<a:bigint>")
    table = builder.execute()
    rows = {"id": [1], "x": pa.array([ROW["x"]], WHOLE), "l": pa.array([ROW["l"]], pa.list_(struct(e=LONG, f=LONG)))}
    table.append(pa.table({**rows, "n": [6], "y": pa.array([{"a": 9}], struct(a=LONG))}))
    return table


def only(table: DeltaTable, id_: int = 1) -> dict[str, Any]:
    row: dict[str, Any] = table.toArrow(where=f"id = {id_}").to_pylist()[0]
    return {name: row[name] for name in ROW}


def source(type_: pa.DataType, value: Any, name: str = "x", id_: int = 1) -> pa.Table:
    return pa.table({"id": [id_], name: pa.array([value], type_)})


LACKING = [
    ("x", struct(a=LONG), {"a": 7}, "x.b"),
    ("x", struct(a=LONG, b=struct(c=LONG)), {"a": 7, "b": {"c": 8}}, "x.b.d"),
    ("l", pa.list_(struct(e=LONG)), [{"e": 7}], "l.element.f"),
]


def test_update_does_not_null_fields_that_its_value_lacks() -> None:
    table = made()
    with pytest.raises(SchemaMismatch, match=r"the value for x has no x\.b, which would become null") as refused:
        table.update("id = 1", {"x": "y"})
    assert refused.value.columns == ("x.b",)
    assert only(table) == ROW
    table.update("id = 1", {"x.a": "y.a"})
    assert only(table)["x"] == {"a": 9, "b": {"c": 2, "d": 3}}
    table.update("id = 1", {"x": "NULL"})
    assert only(table)["x"] is None


@pytest.mark.parametrize(("name", "type_", "value", "lacks"), LACKING)
@pytest.mark.parametrize("evolves", [False, True])
def test_merge_does_not_either(name: str, type_: pa.DataType, value: Any, lacks: str, evolves: bool) -> None:
    table = made()
    merge = table.alias("t").merge(source(type_, value, name), "t.id = s.id")
    merge = merge.withSchemaEvolution() if evolves else merge
    with pytest.raises(SchemaMismatch, match=lacks):
        merge.whenMatchedUpdate(set={name: f"s.{name}"}).execute()
    assert only(table) == ROW


@pytest.mark.parametrize("evolves", [False, True])
def test_a_star_sets_what_the_source_has_and_keeps_the_rest_at_any_depth(evolves: bool) -> None:
    table = made()
    for name, type_, value, lacks in LACKING:
        merge = table.alias("t").merge(source(type_, value, name), "t.id = s.id")
        merge = (merge.withSchemaEvolution() if evolves else merge).whenMatchedUpdateAll()
        if name == "l":  # elements are replaced, so their fields cannot be kept
            with pytest.raises(SchemaMismatch, match=lacks):
                merge.execute()
        else:
            merge.execute()
    assert only(table) == {**ROW, "x": {"a": 7, "b": {"c": 8, "d": 3}}}
    rows = source(struct(a=LONG), {"a": 5}, id_=2)
    table.alias("t").merge(rows, "t.id = s.id").whenNotMatchedInsertAll().execute()
    assert only(table, 2) == {"id": 2, "x": {"a": 5, "b": None}, "l": None, "n": None}


def test_as_delta_spark_reads_it_a_star_needs_every_column_unless_the_schema_evolves() -> None:
    table = made()
    lacking = source(struct(a=LONG), {"a": 7})
    whole = {"id": [1], "x": pa.array([ROW["x"]], WHOLE), "l": pa.array([[]], pa.list_(struct(e=LONG, f=LONG)))}
    misspelt = pa.table({**whole, "m": [7], "y": pa.array([{"a": 1}], struct(a=LONG))})
    for rows, wrong in ((lacking, r"has no x\.b"), (misspelt, "the source has no column n, which .* takes from it")):
        begun = table.alias("t").merge(rows, "t.id = s.id").refusing_as_delta_spark()
        with pytest.raises((UnknownColumn, SchemaMismatch), match=wrong):
            begun.whenMatchedUpdateAll().execute()
        begun = table.alias("t").merge(rows, "t.id = s.id + 1").refusing_as_delta_spark()
        with pytest.raises((UnknownColumn, SchemaMismatch), match=wrong):
            begun.whenNotMatchedInsertAll().execute()
    begun = table.alias("t").merge(lacking, "t.id = s.id + 1").refusing_as_delta_spark()
    with pytest.raises(SchemaMismatch, match=r"x\.b"):
        begun.whenNotMatchedInsert(values={"id": "s.id", "x": "s.x"}).execute()
    assert only(table) == ROW
    begun = table.alias("t").merge(lacking, "t.id = s.id").refusing_as_delta_spark().withSchemaEvolution()
    begun.whenMatchedUpdateAll().execute()
    assert only(table) == {**ROW, "x": {"a": 7, "b": {"c": 2, "d": 3}}}
