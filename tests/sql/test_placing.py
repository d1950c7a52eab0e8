"""Where columns stand and whether they may be null, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.env import system
from holdfast.errors import ConstraintViolated, Invalid, UnknownColumn
from holdfast.schema.types import LONG
from holdfast.table.delta import DeltaTable
from holdfast.verbs.define import alter as altering
from holdfast.verbs.define import alter as placing
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
    return placing.redefine_column(table.handle.newest(), name, system(), place=placing.ColumnPlace(after))


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
    placing.add_columns(table.handle.newest(), [("x", "int"), ("y", "string")], system(), {"x": None, "y": "id"})
    assert names(table) == ["x", "id", "y", "name", "st"]
    assert table.version == version + 1
    assert table.toArrow(columns=["x", "y"]).to_pylist() == [{"x": None, "y": None}] * 2


def test_null_is_allowed_and_forbidden(table: DeltaTable) -> None:
    placing.drop_not_null(table.handle.newest(), "id", system())
    table.append(pa.table({"name": ["z"]}))
    with pytest.raises(ConstraintViolated, match="NOT NULL of id"):
        placing.set_not_null(table.handle.newest(), "id", system())
    table.delete("id IS NULL OR name IS NULL")
    placing.set_not_null(table.handle.newest(), "name", system())
    with pytest.raises(ConstraintViolated):
        table.append(pa.table({"id": [3], "name": pa.array([None], pa.string())}))
    with pytest.raises(UnknownColumn):
        placing.set_not_null(table.handle.newest(), "nobody", system())


def test_a_statement_about_columns_is_one_commit_or_none(table: DeltaTable) -> None:
    table.setProperties({"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"})
    table.addColumns({"x": "int", "y": "int"})
    before = table.handle.newest()
    refused = (
        (lambda: altering.drop_columns(table.handle.newest(), ["x", "nope"], system()), UnknownColumn, "nope"),
        (lambda: altering.drop_columns(table.handle.newest(), ["x", "X"], system()), Invalid, "named twice"),
        (lambda: altering.drop_columns(table.handle.newest(), ["st.a", "st"], system()), Invalid, "named twice"),
        (lambda: redefine(table, "x", "long", "wide", placing.ColumnPlace("nope")), Invalid, "cannot stand after nope"),
        (lambda: redefine(table, "x", "string", "wide", None), Invalid, "type"),
        (lambda: placing.add_columns(table.handle.newest(), [("z", "int")], system(), {"z": "nope"}), Invalid, "nope"),
        (lambda: altering.add_columns(table.handle.newest(), [("z", "int"), ("x", "int")], system()), Invalid, "x"),
    )
    for change, kind, text in refused:
        with pytest.raises(kind, match=text):
            change()
        assert table.handle.newest() is before
    altering.drop_columns(table.handle.newest(), ["y", "st.b"], system())
    redefine(table, "x", "long", "wide", placing.ColumnPlace(None))
    assert table.version == before.version + 2
    first = table.handle.newest().snapshot.schema.fields[0]
    assert (first.name, first.type, first.metadata["comment"]) == ("x", LONG, "wide")
    assert names(table) == ["x", "id", "name", "st"]


def redefine(table: DeltaTable, name: str, type_: str, comment: str, place: placing.ColumnPlace | None) -> Written:
    return placing.redefine_column(table.handle.newest(), name, system(), type_=type_, comment=comment, place=place)
