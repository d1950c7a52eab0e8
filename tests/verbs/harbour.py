"""A small table whose properties and columns tests change, and what is to be seen of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa

from holdfast import DeltaTable
from holdfast.formats.delta.protocol.features import table_features
from holdfast.formats.delta.state import DeltaState, load
from holdfast.storage.open import open_location

MAPPED = {"delta.columnMapping.mode": "name"}
WIDENS = {"delta.enableTypeWidening": "true"}
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "name": ["a", "b", None],
        "size": pa.array([10, 20, 30], pa.int32()),
        "s": pa.array(
            [{"x": 1, "y": "p"}, {"x": 2, "y": "q"}, None], pa.struct([("x", pa.int32()), ("y", pa.string())])
        ),
    }
)


def harbour(path: Path, *properties: dict[str, str], plain: bool = False) -> DeltaTable:
    """A table with three rows in one file."""
    builder = DeltaTable.create().location(path)
    for name, type_ in (("id", "bigint"), ("name", "string"), ("size", "int"), ("s", "struct<x: int, y: string>")):
        builder = builder.addColumn(name, type_)
    builder = builder.property("holdfast.plain", str(plain).lower())
    for given_ in properties:
        for key, value in given_.items():
            builder = builder.property(key, value)
    table = builder.execute()
    table.append(ROWS)
    return table


def state(path: Path) -> DeltaState:
    return load(open_location(str(path)))


def features(path: Path) -> set[str]:
    return set(table_features(state(path).protocol))


def rows(table: DeltaTable) -> list[dict[str, Any]]:
    return sorted(table.toArrow().to_pylist(), key=str)


def others_read(path: Path) -> list[dict[str, Any]]:
    table = deltalake.DeltaTable(str(path))
    found = deltalake.QueryBuilder().register("t", table).execute("select * from t").read_all()
    return sorted(pa.table(found).to_pylist(), key=str)


def ids(table: DeltaTable) -> list[int]:
    return sorted(table.toArrow(metadata=["_row_id"])["_row_id"].to_pylist())


def last(table: DeltaTable) -> tuple[str, dict[str, str]]:
    row = table.historyArrow(1).to_pylist()[0]
    return row["operation"], dict(row["operationParameters"])
