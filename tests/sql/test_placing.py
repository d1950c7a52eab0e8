"""Where columns stand and whether they may be null, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.errors import ConstraintViolated, Invalid, UnknownColumn
from holdfast.schema.types import LONG
from holdfast.table.delta import DeltaTable
from holdfast.verbs.define.alter import ColumnPlace
from holdfast.verbs.dml.write import Written


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    made = (
        DeltaTable.create(None)
        .location(tmp_path / "t")
        .addColumn("id", "bigint", nullable=False)
        .addColumn("name", "string")
        .addColumn("st", "struct<a: int, b: int>")
        .execute()
    )
    made.append(pa.table({"id": [1, 2], "name": ["x", None], "st": [{"a": 1, "b": 2}] * 2}).cast(_types()))
    return made


def _types() -> pa.Schema:
    return pa.schema(
        [("id", pa.int64()), ("name", pa.string()), ("st", pa.struct([("a", pa.int32()), ("b", pa.int32())]))]
    )


def place(table: DeltaTable, name: str, after: str | None) -> Written:
    return table.handle.alter.redefine_column(name, place=ColumnPlace(after))


def names(table: DeltaTable) -> list[str]:
    return [f.name for f in table.handle.newest().snapshot.schema.fields]


def test_a_column_moves_and_rows_stay(table: DeltaTable) -> None:
    before = table.toArrow().to_pylist()
    place(table, "st", None)
    place(table, "id", "name")
    place(table, "st.a", "b")
    assert names(table) == ["st", "name", "id"]
    assert table.toArrow().to_pylist() == before
    assert place(table, "st", None).version is None  # it is there already
    with pytest.raises(Invalid, match="cannot stand after"):
        place(table, "id", "nobody")


def test_columns_are_added_in_their_places_in_one_commit(table: DeltaTable) -> None:
    version = table.version
    table.handle.alter.add_columns([("x", "int"), ("y", "string")], {"x": None, "y": "id"})
    assert names(table) == ["x", "id", "y", "name", "st"]
    assert table.version == version + 1
    assert table.toArrow(columns=["x", "y"]).to_pylist() == [{"x": None, "y": None}] * 2


def test_null_is_allowed_and_forbidden(table: DeltaTable) -> None:
    table.handle.alter.drop_not_null("id")
    table.append(pa.table({"name": ["z"]}))
    with pytest.raises(ConstraintViolated, match="NOT NULL of id"):
        table.handle.alter.set_not_null("id")
    table.delete("id IS NULL OR name IS NULL")
    table.handle.alter.set_not_null("name")
    with pytest.raises(ConstraintViolated):
        table.append(pa.table({"id": [3], "name": pa.array([None], pa.string())}))
    with pytest.raises(UnknownColumn):
        table.handle.alter.set_not_null("nobody")


def test_a_statement_about_columns_is_one_commit_or_none(table: DeltaTable) -> None:
    table.setProperties({"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"})
    table.addColumns({"x": "int", "y": "int"})
    before = table.handle.newest()
    refused = (
        (lambda: table.handle.alter.drop_columns(["x", "nope"]), UnknownColumn, "nope"),
        (lambda: table.handle.alter.drop_columns(["x", "X"]), Invalid, "named twice"),
        (lambda: table.handle.alter.drop_columns(["st.a", "st"]), Invalid, "named twice"),
        (lambda: redefine(table, "x", "long", "wide", ColumnPlace("nope")), Invalid, "cannot stand after nope"),
        (lambda: redefine(table, "x", "string", "wide", None), Invalid, "type"),
        (lambda: table.handle.alter.add_columns([("z", "int")], {"z": "nope"}), Invalid, "nope"),
        (lambda: table.handle.alter.add_columns([("z", "int"), ("x", "int")]), Invalid, "x"),
    )
    for change, kind, text in refused:
        with pytest.raises(kind, match=text):
            change()
        assert table.handle.newest() is before
    table.handle.alter.drop_columns(["y", "st.b"])
    redefine(table, "x", "long", "wide", ColumnPlace(None))
    assert table.version == before.version + 2
    first = table.handle.newest().snapshot.schema.fields[0]
    assert (first.name, first.type, first.metadata["comment"]) == ("x", LONG, "wide")
    assert names(table) == ["x", "id", "name", "st"]


def redefine(table: DeltaTable, name: str, type_: str, comment: str, place: ColumnPlace | None) -> Written:
    return table.handle.alter.redefine_column(name, type_=type_, comment=comment, place=place)
