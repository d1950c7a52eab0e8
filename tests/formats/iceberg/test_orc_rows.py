"""Rows of ORC data files by row id: take, lookup, follow; what is not read of them is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from holdfast import IcebergTable
from holdfast.errors import Unsupported
from holdfast.plan.changefeed.biography import What
from tests.formats.iceberg.smith import Entry, Smith, column
from tests.formats.iceberg.test_defaults import registered

MAPPING = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["v"]}]'


def orc_file(builder: Smith, name: str, rows: dict[str, Any]) -> Entry:
    sink = pa.BufferOutputStream()
    table = pa.table(rows)
    orc.write_table(table, sink)
    data = sink.getvalue().to_pybytes()
    return {
        "content": 0,
        "file_path": builder.put(f"data/{name}.orc", data),
        "file_format": "ORC",
        "partition": {},
        "record_count": table.num_rows,
        "file_size_in_bytes": len(data),
        "spec": 0,
    }


def mixed(place: Path) -> tuple[IcebergTable, int]:
    """An ORC file with ids by position, a Parquet file, and an ORC file whose _row_id is no more than a name."""
    columns = [column(1, "id"), column(2, "v", "string")]
    builder = Smith(str(place / "t"), columns, version=3, properties={"schema.name-mapping.default": MAPPING})
    first = builder.commit([orc_file(builder, "a", {"id": pa.array([1, 2, 3], pa.int64()), "v": ["a", "b", "c"]})])
    builder.commit([builder.data({"id": [4, 5], "v": ["d", "e"]})])
    builder.next_row_id = 100
    moved = {"id": pa.array([6, 7], pa.int64()), "v": ["f", "g"], "_row_id": pa.array([50, None], pa.int64())}
    builder.commit([orc_file(builder, "b", moved)])
    return registered(place, builder), first


def test_rows_are_taken_looked_up_and_followed(tmp_path: Path) -> None:
    table, first = mixed(tmp_path)
    rows = {row["id"]: row["_row_id"] for row in table.toArrow(metadata=["_row_id"]).to_pylist()}
    assert rows == {1: 0, 2: 1, 3: 2, 4: 3, 5: 4, 6: 100, 7: 101}
    assert sorted(row["id"] for row in table.take(list(rows.values())).to_pylist()) == [1, 2, 3, 4, 5, 6, 7]
    assert [row["id"] for row in table.take([100, 101, 2]).to_pylist()] == [6, 7, 3]
    by_id = table.toArrow(where="_row_id in (1, 100)", metadata=["_row_id"])
    assert by_id["id"].to_pylist() == [2, 6]
    table.createIndex("id")
    assert [row["v"] for row in table.lookup(id=6).to_pylist()] == ["f"]
    for row_id in (1, 100, 101):
        assert [event.what for event in table.biography(row_id).events] == [What.BORN]
    table.delete("id = 2", mode="merge-on-read")
    assert [row["id"] for row in table.take([0, 2]).to_pylist()] == [1, 3]
    with pytest.raises(Unsupported, match=r"a\.orc is an orc file, of which changes are not read: compact the table"):
        table.changes(first).toArrow()
    table.update("id in (1, 6)", {"v": "'x'"}, mode="copy-on-write")
    now = {row["id"]: row["_row_id"] for row in table.toArrow(metadata=["_row_id"]).to_pylist()}
    assert now == {number: row_id for number, row_id in rows.items() if number != 2}
    assert table.check().clean
