"""A merge with schema evolution adds what its clauses set, however they spell it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast import DeltaTable, IcebergTable
from holdfast.errors import UnknownColumn

_fresh = count()
OLD = pa.schema([("id", pa.int64()), ("t", pa.struct([("a", pa.int64())]))])
INNER = pa.struct([("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64())])
SOURCE = pa.table(
    {
        "id": [1, 2],
        "new": [7, 8],
        "a-b": ["x", "y"],
        "t": pa.array([{"a": 5, "b": 6, "c": 9}] * 2, INNER),
        "other": [0, 0],
    }
)
Make = Callable[[], Any]


@pytest.fixture(params=["delta", "iceberg"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    def made() -> Any:
        number = next(_fresh)
        if request.param == "delta":
            table: Any = DeltaTable.create(None).location(f"memory://growing/{number}").addColumns(OLD).execute()
        else:
            table = IcebergTable.create(None, tmp_path / "c.db", f"db.t{number}", OLD)
        table.append(pa.table({"id": [1], "t": [{"a": 1}]}, OLD))
        return table

    return made


@pytest.mark.parametrize(
    ("sets", "row"),
    [
        ({"new": "s.new"}, {"id": 1, "t": {"a": 1}, "new": 7}),
        ({"`NEW`": "s.new"}, {"id": 1, "t": {"a": 1}, "new": 7}),
        ({"t.new": "s.new + 1", "t.id": "s.id"}, {"id": 1, "t": {"a": 1}, "new": 8}),
        ({"t.`a-b`": "s.`a-b`"}, {"id": 1, "t": {"a": 1}, "a-b": "x"}),
        ({"t.t.b": "s.t.b"}, {"id": 1, "t": {"a": 1, "b": 6}}),
        ({"t.b": "s.t.b", "new": "s.new"}, {"id": 1, "t": {"a": 1, "b": 6}, "new": 7}),
        ({"t": "s.t"}, {"id": 1, "t": {"a": 5, "b": 6, "c": 9}}),
        ({"t.a": "s.t.a"}, {"id": 1, "t": {"a": 5}}),
    ],
)
def test_names_are_read_as_sql_spells_them(make: Make, sets: dict[str, str], row: dict[str, Any]) -> None:
    table = make()
    merge = table.alias("t").merge(SOURCE, "t.id = s.id").withSchemaEvolution()
    merge.whenMatchedUpdate(set=sets).execute()
    assert table.toArrow().to_pylist() == [row]


def test_inserted_rows_bring_columns_and_nothing_comes_without_evolution(make: Make) -> None:
    table = make()
    values = {"t.id": "s.id", "`new`": "s.new"}
    begun = table.alias("t").merge(SOURCE, "t.id = s.id")
    with pytest.raises(UnknownColumn, match="new"):
        begun.whenNotMatchedInsert(values=values).execute()
    begun = table.alias("t").merge(SOURCE, "t.id = s.id").withSchemaEvolution()
    with pytest.raises(UnknownColumn, match="nowhere"):
        begun.whenMatchedUpdate(set={"nowhere": "s.new"}).execute()
    begun = table.alias("t").merge(SOURCE, "t.id = s.id").withSchemaEvolution()
    begun.whenNotMatchedInsert(values=values).execute()
    added = {"id": 2, "t": None, "new": 8}
    assert sorted(table.toArrow().to_pylist(), key=lambda r: r["id"]) == [{"id": 1, "t": {"a": 1}, "new": None}, added]
