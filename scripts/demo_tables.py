"""The tables of the demo: one written by another engine, one laid down commit by commit in the log format.

Nothing here uses Holdfast's reader, so the demo shows it tables it has never seen. Holdfast lends the codec of deletion
vectors, and that is all.
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import deltalake
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from holdfast.delta import vectors

ID_COLUMN, VERSION_COLUMN = "_row-id-col-demo", "_row-commit-version-col-demo"


def write_orders(path: Path) -> None:
    """Four versions by deltalake: two appends into three days, an update and a delete."""
    deltalake.write_deltalake(path, _orders(range(1, 10)), partition_by=["day"])
    deltalake.write_deltalake(path, _orders(range(10, 19)), mode="append")
    table = deltalake.DeltaTable(path)
    table.update(updates={"customer": "'Mira'"}, predicate="order = 11")
    table.delete("order = 18")


def _orders(numbers: range) -> pa.Table:
    names = ("Ada", "Ben", "Cleo", "Dov")
    return pa.table(
        {
            "order": pa.array(numbers, pa.int64()),
            "customer": [names[n % len(names)] for n in numbers],
            "cents": pa.array([n * 1_000 for n in numbers], pa.int64()),
            "day": [datetime.date(2024, 5, 1 + n % 3) for n in numbers],
        }
    )


class Boats:
    """A table with row tracking and deletion vectors; each verb writes one commit by hand."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version = -1
        self._high_water = -1
        (path / "_delta_log").mkdir(parents=True)

    def create(self) -> None:
        features = ["deletionVectors", "domainMetadata", "rowTracking"]
        fields = [
            {"name": name, "type": type_, "nullable": True, "metadata": {}}
            for name, type_ in (("boat", "string"), ("berth", "long"))
        ]
        settings = {
            "delta.enableDeletionVectors": "true",
            "delta.enableRowTracking": "true",
            "delta.rowTracking.materializedRowIdColumnName": ID_COLUMN,
            "delta.rowTracking.materializedRowCommitVersionColumnName": VERSION_COLUMN,
        }
        self._commit(
            "CREATE TABLE",
            {
                "protocol": {
                    "minReaderVersion": 3,
                    "minWriterVersion": 7,
                    "readerFeatures": ["deletionVectors"],
                    "writerFeatures": features,
                }
            },
            {
                "metaData": {
                    "id": str(uuid4()),
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": json.dumps({"type": "struct", "fields": fields}),
                    "partitionColumns": [],
                    "configuration": settings,
                    "createdTime": _now_ms(),
                }
            },
        )

    def first_boats(self) -> None:
        """Two files of fresh rows: ids come from where they are, none is stored."""
        self.quay_1 = self._file("quay-1.parquet", ["Gull", "Heron", "Ibis", "Jay"], [1, 2, 3, 4])
        self.quay_2 = self._file("quay-2.parquet", ["Kite", "Lark", "Merlin"], [11, 12, 13])
        self._commit("WRITE", _add(self.quay_1), _add(self.quay_2), self._mark())

    def delete_gull(self) -> None:
        """Hide position 0 of the first file; the vector stands in the log itself."""
        before, self.quay_1 = self.quay_1, _hiding(self.quay_1, vectors.inline(BitMap64([0])))
        self._commit("DELETE", _remove(before), _add(self.quay_1))

    def move_lark(self) -> None:
        """Hide Lark's old row, by a vector in a file of its own, and write the new one with the id it always had."""
        packed = vectors.pack([BitMap64([1])], uuid=uuid4())
        (self._path / packed.key).write_bytes(packed.data)
        before, self.quay_2 = self.quay_2, _hiding(self.quay_2, packed.vectors[0])
        self.moved = self._file("moved.parquet", ["Lark"], [21], ids=[5], versions=[None])
        self._commit("UPDATE", _remove(before), _add(self.quay_2), _add(self.moved), self._mark())

    def compact(self) -> None:
        """Everything that is live goes into one file, ids and versions with it."""
        after = self._file(
            "compacted.parquet",
            ["Heron", "Ibis", "Jay", "Kite", "Merlin", "Lark"],
            [2, 3, 4, 11, 13, 21],
            ids=[1, 2, 3, 4, 6, 5],
            versions=[1, 1, 1, 1, 1, 3],
        )
        gone = [_remove(file, data_change=False) for file in (self.quay_1, self.quay_2, self.moved)]
        self._commit("OPTIMIZE", *gone, _add(after, data_change=False), self._mark())

    def gull_again(self) -> None:
        """A boat of the same name at the same berth, but another row."""
        self._commit("WRITE", _add(self._file("back.parquet", ["Gull"], [1])), self._mark())

    def _file(
        self,
        name: str,
        boats: Sequence[str],
        berths: Sequence[int],
        *,
        ids: Sequence[int] | None = None,
        versions: Sequence[int | None] | None = None,
    ) -> dict[str, Any]:
        """Write a data file for the next version; what the log must say of it."""
        columns = {"boat": pa.array(boats, pa.string()), "berth": pa.array(berths, pa.int64())}
        if ids is not None:
            columns |= {ID_COLUMN: pa.array(ids, pa.int64()), VERSION_COLUMN: pa.array(versions, pa.int64())}
        pq.write_table(pa.table(columns), self._path / name)
        base, self._high_water = self._high_water + 1, self._high_water + len(boats)
        bounds = {
            "minValues": {"boat": min(boats), "berth": min(berths)},
            "maxValues": {"boat": max(boats), "berth": max(berths)},
        }
        return {
            "path": name,
            "partitionValues": {},
            "size": (self._path / name).stat().st_size,
            "modificationTime": _now_ms(),
            "stats": json.dumps({"numRecords": len(boats), **bounds, "nullCount": {"boat": 0, "berth": 0}}),
            "baseRowId": base,
            "defaultRowCommitVersion": self._version + 1,
        }

    def _mark(self) -> dict[str, Any]:
        """The highest id ever given, which no later row may get."""
        mark = json.dumps({"rowIdHighWaterMark": self._high_water})
        return {"domainMetadata": {"domain": "delta.rowTracking", "configuration": mark, "removed": False}}

    def _commit(self, operation: str, *actions: Mapping[str, Any]) -> None:
        self._version += 1
        info = {"commitInfo": {"timestamp": _now_ms(), "operation": operation, "engineInfo": "demo, by hand"}}
        text = "".join(json.dumps(action) + "\n" for action in (info, *actions))
        (self._path / "_delta_log" / f"{self._version:020}.json").write_text(text)


def _add(file: dict[str, Any], *, data_change: bool = True) -> dict[str, Any]:
    return {"add": {**file, "dataChange": data_change}}


def _remove(file: dict[str, Any], *, data_change: bool = True) -> dict[str, Any]:
    return {"remove": {**file, "dataChange": data_change, "deletionTimestamp": _now_ms(), "extendedFileMetadata": True}}


def _hiding(file: dict[str, Any], vector: msgspec.Struct) -> dict[str, Any]:
    """The same file with some of its rows hidden; its bounds may then be wider than its rows."""
    stats = {**json.loads(file["stats"]), "tightBounds": False}
    return {**file, "stats": json.dumps(stats), "deletionVector": msgspec.to_builtins(vector)}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
