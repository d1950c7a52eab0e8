"""Tables to scan: the same data files under logs that hide none, some or many of their rows, and what plain Parquet
needs to give the same rows.

1. The same arguments give the same rows, and what is there already is not written again.
2. All tables of a size share their data files by hard links; only logs and vectors differ.
3. A Parquet copy holds exactly the live rows of its table, in the same order and in as many files. Its column ID_COPY
   is the row id, which plain Parquet can give only by storing it; data files have it too, so that they weigh the same.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.formats.delta.deletion_vectors import pack

FILES = 8
ID_COPY = "id_copy"
NARROW = ("quantity", "price")
DELETED = (0, 1, 10, 30)  # percent

_ROW_GROUP = 1 << 19
_NUMBERS = ("quantity", "price", "tax", "weight", "customer", "product", "store", "clerk", "minute", "flags")
_POOLS = {  # distinct values of each string column; 0: every value is another one
    "country": 50, "currency": 20, "channel": 8, "status": 6, "brand": 1_000, "category": 200, "city": 5_000,
    "street": 50_000, "comment": 20_000, "reference": 0,
}  # fmt: skip
WIDE = (*_NUMBERS, *_POOLS)
_TYPES = {"price": "double", "tax": "double", "weight": "double", "store": "integer", "clerk": "integer"}


def table(root: Path, *, rows: int, deleted: int) -> Path:
    """A Delta table of so many rows, of which so many per cent are hidden by deletion vectors."""
    return once(root / f"scan-{rows}" / f"deleted-{deleted}", lambda place: _write_table(root, place, rows, deleted))


def parquet_copy(root: Path, *, rows: int, deleted: int) -> Path:
    """The live rows of that table as plain Parquet."""
    if deleted == 0:
        return data_files(root, rows=rows)
    place = root / f"scan-{rows}" / f"live-{100 - deleted}"
    return once(place, lambda place: _write_files(place, rows, deleted))


def data_files(root: Path, *, rows: int) -> Path:
    """The data files all tables of a size share, as a directory of plain Parquet."""
    return once(root / f"scan-{rows}" / "data", lambda place: _write_files(place, rows, 0))


def once(place: Path, write: Callable[[Path], None]) -> Path:
    """The directory, filled by `write` unless an earlier run has done it."""
    done = place.with_name(place.name + ".done")
    if not done.exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        write(place)
        done.touch()
    return place


def _write_files(place: Path, rows: int, deleted: int) -> None:
    for number in range(FILES):
        with pq.ParquetWriter(place / _name(number), _schema(), compression="snappy") as writer:
            live = ~_hidden(number, rows // FILES, deleted)
            for start in range(0, rows // FILES, _ROW_GROUP):
                stop = min(start + _ROW_GROUP, rows // FILES)
                made = _rows(number, start, stop, rows)
                writer.write_table(made.filter(pa.array(live[start:stop])), row_group_size=_ROW_GROUP)


def _write_table(root: Path, place: Path, rows: int, deleted: int) -> None:
    shared = data_files(root, rows=rows)
    hidden = [_hidden(n, rows // FILES, deleted) for n in range(FILES)]
    vectors = pack([BitMap64(np.flatnonzero(h).astype(np.uint64)) for h in hidden], uuid=UUID(int=deleted))
    if deleted:
        (place / vectors.key).write_bytes(vectors.data)
    (place / "_delta_log").mkdir()
    adds = []
    for number in range(FILES):
        os.link(shared / _name(number), place / _name(number))
        found = (place / _name(number)).stat()
        add = {
            "path": _name(number),
            "partitionValues": {},
            "size": found.st_size,
            "modificationTime": int(found.st_mtime * 1000),
            "dataChange": True,
            "stats": json.dumps({"numRecords": rows // FILES, "tightBounds": not deleted}),
            "baseRowId": number * (rows // FILES),
            "defaultRowCommitVersion": 0,
        }
        if deleted:
            add["deletionVector"] = msgspec.to_builtins(vectors.vectors[number])
        adds.append({"add": add})
    actions = [*_settings(rows), *adds]
    (place / "_delta_log" / f"{0:020d}.json").write_text("".join(json.dumps(a) + "\n" for a in actions))


def _settings(rows: int) -> list[dict[str, object]]:
    fields = [{"name": n, "type": _delta_type(n), "nullable": True, "metadata": {}} for n in (*WIDE, ID_COPY)]
    features = ["deletionVectors"]
    return [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": [*features, "rowTracking", "domainMetadata"],
            }
        },
        {
            "metaData": {
                "id": "5f54ef5f-9f5c-4c5e-9d0a-0d9f7d6f0002",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": [],
                "configuration": {
                    "delta.enableDeletionVectors": "true",
                    "delta.enableRowTracking": "true",
                    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
                    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version-col-1",
                },
                "createdTime": 1_700_000_000_000,
            }
        },
        {
            "domainMetadata": {
                "domain": "delta.rowTracking",
                "configuration": json.dumps({"rowIdHighWaterMark": rows - 1}),
                "removed": False,
            }
        },
    ]


def _hidden(number: int, count: int, deleted: int) -> NDArray[np.bool_]:
    """Which rows of a file are hidden: each with the same probability, wherever it lies."""
    return np.random.default_rng([7, number]).random(count) < deleted / 100


def _rows(number: int, start: int, stop: int, rows: int) -> pa.Table:
    count = stop - start
    random = np.random.default_rng([number, start])
    columns: list[pa.Array] = []
    for name in _NUMBERS:
        match _delta_type(name):
            case "double":
                columns.append(pa.array(np.round(random.gamma(2, 50, count), 2)))
            case "integer":
                columns.append(pa.array(random.integers(0, 5_000, count, np.int32)))
            case _:
                columns.append(pa.array(random.integers(0, 1 if name == "flags" else 10_000_000, count, endpoint=True)))
    columns += [_texts(random, name, distinct, count) for name, distinct in _POOLS.items()]
    first = number * (rows // FILES)
    columns.append(pa.array(np.arange(first + start, first + stop)))
    return pa.Table.from_arrays(columns, schema=_schema())


def _texts(random: np.random.Generator, name: str, distinct: int, count: int) -> pa.Array:
    if distinct == 0:
        return pa.array(np.char.mod("%016x", random.integers(0, 2**62, count)))
    pool = pa.array([f"{name} {n * 2_654_435_761 % 2**32:x}" + " and more" * (n % 3) for n in range(distinct)])
    return pool.take(pa.array(random.integers(0, distinct, count)))


def _schema() -> pa.Schema:
    arrow = {"long": pa.int64(), "integer": pa.int32(), "double": pa.float64(), "string": pa.string()}
    return pa.schema([(name, arrow[_delta_type(name)]) for name in (*WIDE, ID_COPY)])


def _delta_type(name: str) -> str:
    return "string" if name in _POOLS else _TYPES.get(name, "long")


def _name(number: int) -> str:
    return f"part-{number:05d}.snappy.parquet"
