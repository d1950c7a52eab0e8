"""Small tables with every kind of file that either format has, and questions that read all of them.

1. A question is a name and a function from a table's directory to an answer: rows, or anything that can be compared.
2. What a question asks is there in the table as it was made, and its answer does not depend on time or place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import orc

from holdfast import DeltaTable, IcebergTable
from tests.formats.iceberg.smith import Entry, Smith, column
from tests.support.tablesmith import Tablesmith

Question = Callable[[Path], Any]
IDS = ["_row_id", "_row_commit_version"]
COLUMNS = [column(1, "id"), column(2, "s", "string"), column(3, "x", "double")]
_MAPPING = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["s"]}, {"field-id": 3, "names": ["x"]}]'


def smith_table(root: Path) -> None:
    """A table by hand: vectors in a file, ids that rows carry, a crc file, and commits alone."""
    _smithed(root).crc()


def checkpointed(kind: str) -> Callable[[Path], None]:
    """The same with a checkpoint of a kind, and all of its commits."""

    def make(root: Path) -> None:
        smith = _smithed(root, features=["v2Checkpoint"] if kind.startswith("v2") else [])
        smith.checkpoint(kind)
        smith.append(_plain(range(60, 65)))
        smith.crc()

    return make


def compacted(root: Path) -> None:
    """The same with a compaction of its log."""
    smith = _smithed(root)
    smith.compact_log(1, 4)


def _smithed(root: Path, **how: Any) -> Tablesmith:
    smith = Tablesmith(root / "t", schema=[("id", "long"), ("s", "string"), ("x", "double")], **how)
    smith.append(_plain(range(20)), files=2)
    smith.append(_plain(range(20, 40)))
    smith.hide_many({0: [1, 3], 2: [0, 5, 7]})
    smith.update(1, {2: {"s": "updated"}})
    smith.append(_plain(range(40, 60)), files=2)
    smith.hide(0, [4], storage="i")
    return smith


def _plain(ids: range) -> list[dict[str, Any]]:
    return [{"id": i, "s": f"s{i % 7}", "x": i / 4} for i in ids]


def own_table(root: Path) -> None:
    """A table of ours: a change feed, indexes of three kinds, and commits after them."""
    schema = pa.schema([("id", pa.int64()), ("s", pa.string()), ("vec", pa.list_(pa.float32()))])
    builder = DeltaTable.create(None).location(str(root / "t")).addColumns(schema)
    for name in ("delta.enableChangeDataFeed", "delta.enableDeletionVectors", "delta.enableRowTracking"):
        builder = builder.property(name, "true")
    builder.execute()
    table = DeltaTable.forPath(None, str(root / "t"))
    table.append(_vectors(schema, range(40)))
    table.createIndex("id")
    table.createIndex("s", kind="bitmap")
    table.createIndex("vec", kind="vector", metric="l2", method="ivf_flat")
    table.update("id = 7", {"s": "'updated'"})
    table.append(_vectors(schema, range(40, 50)))
    table.delete("id = 9")
    table.pin(2, "kept")


def _vectors(schema: pa.Schema, ids: range) -> pa.Table:
    points = np.random.default_rng(ids.start).normal(size=(len(ids), 4)).astype(np.float32)
    return pa.table([list(ids), [f"s{i % 5}" for i in ids], points.tolist()], schema=schema)


def ice_table(version: int) -> Callable[[Path], None]:
    """An Iceberg table: rows gone by position and by value, or by vector from version 3 on; Parquet and ORC."""

    def make(root: Path) -> None:
        smith = Smith(str(root / "t"), COLUMNS, version=version, properties={"schema.name-mapping.default": _MAPPING})
        first, second = smith.data(_columns(range(20))), smith.data(_columns(range(20, 40)))
        smith.commit([first, second])
        if version < 3:
            smith.commit(deletes=[smith.positions([(first["file_path"], 3), (second["file_path"], 5)])])
        else:
            smith.commit(deletes=smith.vectors([(first, [3, 4, 9]), (second, [5])]))
        if version < 3:  # no row of ORC is taken by its id, nor one of a table where rows are gone by value
            smith.commit([_orc(smith, range(40, 60))])
            smith.commit(deletes=[smith.equality({"id": 1}, {"id": [11, 47]})])
        else:
            smith.commit([smith.data(_columns(range(40, 60)))])
        smith.metadata()

    return make


def _columns(ids: range) -> dict[str, pa.Array]:
    return {
        "id": pa.array(list(ids), pa.int64()),
        "s": pa.array([f"s{i % 7}" for i in ids]),
        "x": pa.array([i / 4 for i in ids]),
    }


def _orc(smith: Smith, ids: range) -> Entry:
    """A data file of ORC, whose columns are found by name."""
    entry = smith.data(_columns(ids), name="data/o.parquet")
    sink = pa.BufferOutputStream()
    orc.write_table(pa.table(_columns(ids)), sink)
    path = smith.put("data/o.orc", sink.getvalue().to_pybytes())
    return entry | {"file_path": path, "file_format": "ORC", "file_size_in_bytes": sink.getvalue().size}


def _opened(root: Path) -> DeltaTable:
    return DeltaTable.forPath(None, str(root / "t"))


def _ice(root: Path) -> IcebergTable:
    return IcebergTable.forMetadata(None, str(root / "t/metadata/v1.metadata.json"))


def _rows(found: pa.Table) -> list[str]:
    return sorted(map(repr, found.to_pylist()))


ROWS: Mapping[str, Question] = {
    "rows": lambda root: _rows(_opened(root).toArrow(metadata=IDS)),
    "where": lambda root: _rows(_opened(root).toArrow(where="id BETWEEN 5 AND 45 AND x < 9", metadata=["_row_id"])),
    "take": lambda root: _rows(_opened(root).take([0, 22, 45], metadata=IDS)),
}
OWN_ROWS: Mapping[str, Question] = {name: ROWS[name] for name in ("rows", "take")}
HISTORY: Mapping[str, Question] = {
    "history": lambda root: _opened(root).historyArrow().num_rows,
    "check": lambda root: _opened(root).check(deep=False) is not None,
    "before": lambda root: _rows(_opened(root).toArrow(version=2)),
}
CHANGES: Mapping[str, Question] = {
    "changes": lambda root: _rows(_opened(root).changeFeed(1).toArrow()),
}
INDEXED: Mapping[str, Question] = {
    "lookup": lambda root: _rows(_opened(root).lookup(id=[7, 12, 44], metadata=["_row_id"])),
    "bitmap": lambda root: _rows(_opened(root).lookup(s="s3", metadata=["_row_id"])),
    "nearest": lambda root: _rows(_opened(root).nearest("vec", [0.1, 0.2, 0.3, 0.4], 5)),
}
ICE_ROWS: Mapping[str, Question] = {
    "rows": lambda root: _rows(_ice(root).toArrow()),
    "where": lambda root: _rows(_ice(root).toArrow(where="id BETWEEN 5 AND 45 AND x < 9")),
}
ICE_IDS: Mapping[str, Question] = {
    "take": lambda root: _rows(_ice(root).take([0, 22, 45], metadata=["_row_id"])),
}
ICE_HISTORY: Mapping[str, Question] = {
    "history": lambda root: _ice(root).historyArrow().num_rows,
    "check": lambda root: _ice(root).check(deep=False) is not None,
}
