"""Small tables to index, and what is asked of them."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa

from holdfast import DeltaTable

fresh = itertools.count()


def made(rows: pa.Table, *, files: int = 2, path: str | None = None, **properties: str) -> DeltaTable:
    builder = DeltaTable.create(None).location(path or f"memory://indexing/{next(fresh)}").addColumns(rows.schema)
    for name, value in properties.items():
        builder = builder.property(f"delta.{name}", value)
    table = builder.execute()
    step = max(1, -(-rows.num_rows // files))
    for start in range(0, rows.num_rows, step):
        table.append(rows.slice(start, step))
    return table


def numbers(count: int = 40, *, files: int = 4, path: str | None = None, **properties: str) -> DeltaTable:
    ids = range(count)
    columns = {"id": ids, "s": [f"n{i % 7}" for i in ids], "v": [float(i) for i in ids]}
    rows = pa.table(columns, pa.schema([("id", pa.int64()), ("s", pa.string()), ("v", pa.float64())]))
    return made(rows, files=files, path=path, **properties)


def found(table: DeltaTable, **by: Any) -> list[int]:
    return list(table.lookup(by, columns=["id"]).column("id").to_pylist())


def step(table: DeltaTable, where: str) -> str:
    steps = {s.name: s.detail for s in table.explain(where=where).steps}
    return steps.get("by_index", "")
