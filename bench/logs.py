"""Tables of which only the log exists: opening a table touches no data file, so a million of them need not be there.

1. The same arguments give the same bytes, and a table that is there already is not written again.
2. Paths, partition values, statistics and row ids look as Spark writes them; all statistics are JSON text.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ADDS_PER_COMMIT = 10
_ROWS_PER_FILE = 1_000
_BATCH = 1 << 17  # files per row group of a checkpoint
_DAYS = 365
_T0 = 1_700_000_000_000
_MAP = pa.map_(pa.string(), pa.string())
_TYPES = {"id": "long", "at": "timestamp", "customer": "string", "amount": "double", "country": "string", "day": "date"}
_SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in _TYPES.items()],
    }
)
_PROTOCOL: dict[str, Any] = {
    "minReaderVersion": 1,
    "minWriterVersion": 7,
    "writerFeatures": ["rowTracking", "domainMetadata"],
}
_METADATA: dict[str, Any] = {
    "id": "5f54ef5f-9f5c-4c5e-9d0a-0d9f7d6f0001",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": _SCHEMA,
    "partitionColumns": ["day"],
    "configuration": {
        "delta.enableRowTracking": "true",
        "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version-col-1",
    },
    "createdTime": _T0,
}
_CHECKPOINT = pa.schema(
    [
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("writerFeatures", pa.list_(pa.string())),
                ]
            ),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _MAP)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", _MAP),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        (
            "domainMetadata",
            pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
        ),
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", _MAP),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                    ("baseRowId", pa.int64()),
                    ("defaultRowCommitVersion", pa.int64()),
                ]
            ),
        ),
    ]
)


def with_checkpoint(directory: Path, *, files: int) -> Path:
    """A table whose checkpoint at version 10 holds this many files, and nothing after it."""
    return _once(directory / f"checkpoint-{files}", lambda table: _write_checkpoint(table, files))


def with_commits(directory: Path, *, commits: int) -> Path:
    """A table of this many commits, each adding some files, without a checkpoint."""
    return _once(directory / f"commits-{commits}", lambda table: _write_commits(table, commits))


def commit_one_more(table: Path, version: int) -> Path:
    """Append one file as this version; gives the commit's file, to be removed after the measurement."""
    actions = [_info(version), *_adds(version * 1_000_000_000, 1, version)]
    name = commit_path(table, version)
    name.write_text("".join(json.dumps(a) + "\n" for a in actions))
    return name


def commit_path(table: Path, version: int) -> Path:
    """Where the commit of a version is."""
    return table / "_delta_log" / f"{version:020d}.json"


def _once(table: Path, write: Callable[[Path], None]) -> Path:
    done = table.with_suffix(".done")
    if not done.exists():
        shutil.rmtree(table, ignore_errors=True)
        (table / "_delta_log").mkdir(parents=True)
        write(table)
        done.touch()
    return table


def _write_checkpoint(table: Path, files: int) -> None:
    log = table / "_delta_log"
    name = log / f"{10:020d}.checkpoint.parquet"
    mark = json.dumps({"rowIdHighWaterMark": files * _ROWS_PER_FILE - 1})
    domain = {"domain": "delta.rowTracking", "configuration": mark, "removed": False}
    metadata = _METADATA | {
        "configuration": list(_METADATA["configuration"].items()),
        "format": {"provider": "parquet", "options": []},
    }
    small = pa.Table.from_pylist(
        [{"protocol": _PROTOCOL}, {"metaData": metadata}, {"domainMetadata": domain}], schema=_CHECKPOINT
    )
    with pq.ParquetWriter(name, _CHECKPOINT, compression="snappy") as writer:
        writer.write_table(small)
        for start in range(0, files, _BATCH):
            adds = _add_structs(start, min(_BATCH, files - start))
            others = [pa.nulls(len(adds), f.type) for f in _CHECKPOINT if f.name != "add"]
            writer.write_table(pa.Table.from_arrays([*others, adds], schema=_CHECKPOINT))
    hint = {"version": 10, "size": files + 3, "sizeInBytes": name.stat().st_size, "numOfAddFiles": files}
    (log / "_last_checkpoint").write_text(json.dumps(hint))


def _write_commits(table: Path, commits: int) -> None:
    mark = {"domain": "delta.rowTracking", "removed": False}
    for version in range(commits):
        actions: list[dict[str, object]] = [_info(version)]
        if version == 0:
            actions += [{"protocol": _PROTOCOL}, {"metaData": _METADATA}]
        actions += _adds(version * ADDS_PER_COMMIT, ADDS_PER_COMMIT, version)
        top = (version + 1) * ADDS_PER_COMMIT * _ROWS_PER_FILE - 1
        actions.append({"domainMetadata": mark | {"configuration": json.dumps({"rowIdHighWaterMark": top})}})
        commit_path(table, version).write_text("".join(json.dumps(a) + "\n" for a in actions))


def _info(version: int) -> dict[str, object]:
    return {
        "commitInfo": {
            "timestamp": _T0 + version * 60_000,
            "operation": "WRITE",
            "operationParameters": {"mode": "Append", "partitionBy": "[]"},
            "isolationLevel": "Serializable",
            "isBlindAppend": True,
            "operationMetrics": {"numFiles": str(ADDS_PER_COMMIT), "numOutputRows": str(_ROWS_PER_FILE)},
            "engineInfo": "bench",
        }
    }


def _adds(start: int, count: int, version: int) -> list[dict[str, object]]:
    rows = _add_structs(start, count).to_pylist(maps_as_pydicts="strict")
    return [{"add": row | {"defaultRowCommitVersion": version}} for row in rows]


def _add_structs(start: int, count: int) -> pa.StructArray:
    random = np.random.default_rng(start)
    number = np.arange(start, start + count)
    day = np.datetime64("2024-01-01") + (number % _DAYS)
    days = pa.array(np.datetime_as_string(day))
    base = pa.array(number * _ROWS_PER_FILE)
    top = pa.array(number * _ROWS_PER_FILE + _ROWS_PER_FILE - 1)
    text = pa.string()
    hour = pc.utf8_lpad(pa.array(random.integers(0, 23, count)).cast(text), 2, padding="0")
    customers = [pa.array(random.integers(0, 10**9, count)).cast(text) for _ in range(2)]
    cents = [pa.array(np.round(random.random(count) * scale, 2)).cast(text) for scale in (10, 10_000)]
    nulls = pa.array(random.integers(0, 20, count)).cast(text)
    stats = _joined(
        '{"numRecords":1000,"minValues":{"id":', base.cast(text),
        ',"at":"', days, "T", hour, ':00:01.337Z","customer":"customer-', customers[0], '","amount":', cents[0],
        ',"country":"AD"},"maxValues":{"id":', top.cast(text),
        ',"at":"', days, "T", hour, ':59:58.402Z","customer":"customer-', customers[1], '","amount":', cents[1],
        ',"country":"ZW"},"nullCount":{"id":0,"at":0,"customer":', nulls, ',"amount":', nulls, ',"country":0}}',
    )  # fmt: skip
    partition = pa.MapArray.from_arrays(
        pa.array(np.arange(count + 1), pa.int32()), pa.array(["day"]).take(pa.array(np.zeros(count, np.int8))), days
    )
    paths = _joined(
        "day=", days, "/part-", _hex(random, count, 2), "-", _hex(random, count, 16), ".c000.snappy.parquet"
    )
    fields = list(_CHECKPOINT.field("add").type)
    return pa.StructArray.from_arrays(
        [
            paths,
            partition.cast(_MAP),
            pa.array(random.integers(10_000, 500_000_000, count)),
            pa.array(_T0 + number),
            pa.array(np.ones(count, bool)),
            stats,
            base,
            pa.array(np.full(count, 10)),
        ],
        fields=fields,
    )


def _joined(*parts: str | pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _hex(random: np.random.Generator, count: int, size: int) -> pa.Array:
    """That many random bytes per row, as lower-case hexadecimal text."""
    digits = np.frombuffer(random.bytes(count * size).hex().encode(), np.uint8)
    offsets = pa.array(np.arange(0, digits.size + 1, 2 * size), pa.int32())
    return pa.StringArray.from_buffers(count, offsets.buffers()[1], pa.py_buffer(digits))
