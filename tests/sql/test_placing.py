"""Where columns stand and whether they may be null, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.env import system
from holdfast.errors import ConstraintViolated, Invalid, UnknownColumn
from holdfast.table import placing
from holdfast.table.delta import DeltaTable


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


def names(table: DeltaTable) -> list[str]:
    return [f.name for f in table._state().snapshot.schema.fields]


def test_a_column_moves_and_rows_stay(table: DeltaTable) -> None:
    before = table.toArrow().to_pylist()
    placing.place_column(table._state(), "st", None, system())
    placing.place_column(table._state(), "id", "name", system())
    placing.place_column(table._state(), "st.a", "b", system())
    assert names(table) == ["st", "name", "id"]
    assert table.toArrow().to_pylist() == before
    assert placing.place_column(table._state(), "st", None, system()).version is None  # it is there already
    with pytest.raises(Invalid, match="cannot stand after"):
        placing.place_column(table._state(), "id", "nobody", system())


def test_columns_are_added_in_their_places_in_one_commit(table: DeltaTable) -> None:
    version = table.version
    placing.add_columns(table._state(), [("x", "int"), ("y", "string")], {"x": None, "y": "id"}, system())
    assert names(table) == ["x", "id", "y", "name", "st"]
    assert table.version == version + 1
    assert table.toArrow(columns=["x", "y"]).to_pylist() == [{"x": None, "y": None}] * 2


def test_null_is_allowed_and_forbidden(table: DeltaTable) -> None:
    placing.drop_not_null(table._state(), "id", system())
    table.append(pa.table({"name": ["z"]}))
    with pytest.raises(ConstraintViolated, match="NOT NULL of id"):
        placing.set_not_null(table._state(), "id", system())
    table.delete("id IS NULL OR name IS NULL")
    placing.set_not_null(table._state(), "name", system())
    with pytest.raises(ConstraintViolated):
        table.append(pa.table({"id": [3], "name": pa.array([None], pa.string())}))
    with pytest.raises(UnknownColumn):
        placing.set_not_null(table._state(), "nobody", system())
