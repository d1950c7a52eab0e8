"""Tables to change and what is merged into them.

1. Row n has the same values in every table, so tables of all sizes share their data files by hard links. A table has
   FILE_ROWS rows in each of its files, in the order of their ids, and complete statistics.
2. `id` is a key and so are `store` and `receipt` together. Ids and receipts are even: the odd ones are free for rows
   that a merge inserts, so that these lie among the others and not behind them.
3. `clerk` is one of CLERKS, each with the same probability wherever a row lies: a condition on it hits every file.
4. A tracked table has deletion vectors and row tracking; a plain one has no table feature at all.
5. A change is made to a copy. It shares the data files, which no engine ever writes to, and lies at a path of its own,
   because engines remember tables by path.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from tables import once

FILE_ROWS = 250_000
CLERKS = 1_000
CLUSTERED_ROWS = 1_000

_ROW_GROUP = 1 << 17
_CLUSTERED_FROM = 100_000  # every table has this row
_STORES = pa.array([f"store {n:04d}" for n in range(1_000)])
_STATUS = pa.array(["new", "paid", "packed", "sent", "returned", "lost"])
_COMMENTS = pa.array([f"comment {n * 2_654_435_761 % 2**32:x}" + " and more" * (n % 3) for n in range(20_000)])
_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("store", pa.string()),
        ("receipt", pa.int64()),
        ("clerk", pa.int32()),
        ("quantity", pa.int64()),
        ("price", pa.float64()),
        ("minute", pa.int64()),
        ("status", pa.string()),
        ("comment", pa.string()),
        ("reference", pa.string()),
    ]
)
_DELTA_TYPES = {pa.int64(): "long", pa.int32(): "integer", pa.float64(): "double", pa.string(): "string"}


def whole_files(rows: int) -> int:
    """The number of rows nearest to this one that a table can have."""
    return max(2, round(rows / FILE_ROWS)) * FILE_ROWS


def table(root: Path, *, rows: int, tracked: bool) -> Path:
    """A Delta table of so many rows in one commit."""
    name = f"{rows}-{'tracked' if tracked else 'plain'}"
    return once(root / "dml" / name, lambda place: _write_table(root, place, rows, tracked))


def scattered(root: Path, *, rows: int, count: int, seed: int) -> Path:
    """A source of so many rows from all over a table, in no order: every second one is in the table."""
    random = np.random.default_rng([1, seed, rows])

    def write(place: Path) -> None:
        drawn = np.unique(random.integers(0, rows, count + count // 8))
        while len(drawn) < count:
            drawn = np.unique(np.append(drawn, random.integers(0, rows, count)))
        numbers = random.permutation(drawn)[:count]
        pq.write_table(_rows(numbers, np.arange(count) % 2, random), place / "source.parquet")

    return once(root / "dml" / f"source-{rows}-{count}-{seed}", write)


def clustered(root: Path) -> Path:
    """CLUSTERED_ROWS rows with neighbouring keys, every second one in the table; the same for tables of all sizes."""
    numbers = _CLUSTERED_FROM + np.arange(CLUSTERED_ROWS) // 2
    made = _rows(numbers, np.arange(CLUSTERED_ROWS) % 2, np.random.default_rng(2))
    return once(root / "dml" / "source-clustered", lambda place: pq.write_table(made, place / "source.parquet"))


@contextmanager
def fresh_copy(root: Path, original: Path) -> Iterator[Path]:
    """The table once more, until the end of the block."""
    place = Path(tempfile.mkdtemp(prefix="run-", dir=root / "dml"))
    try:
        for file in original.glob("*.parquet"):
            os.link(file, place / file.name)
        shutil.copytree(original / "_delta_log", place / "_delta_log")
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)  # an engine that was stopped may still be writing


def remove_copies(root: Path) -> None:
    """Remove what a run that was interrupted left."""
    for place in (root / "dml").glob("run-*"):
        shutil.rmtree(place)


def live_rows(place: Path) -> int:
    """How many rows the log says that a table has; its commits are all there."""
    live: dict[str, int] = {}
    for commit in sorted((place / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            if "remove" in action:
                live.pop(action["remove"]["path"], None)
        for action in actions:
            if "add" in action:
                add = action["add"]
                hidden = (add.get("deletionVector") or {"cardinality": 0})["cardinality"]
                live[add["path"]] = json.loads(add["stats"])["numRecords"] - hidden
    return sum(live.values())


def _write_table(root: Path, place: Path, rows: int, tracked: bool) -> None:
    adds = []
    for number in range(rows // FILE_ROWS):
        file, stats = _shared(root, number)
        os.link(file, place / file.name)
        found = file.stat()
        add: dict[str, Any] = {
            "path": file.name,
            "partitionValues": {},
            "size": found.st_size,
            "modificationTime": int(found.st_mtime * 1000),
            "dataChange": True,
            "stats": stats,
        }
        adds.append({"add": add | ({"baseRowId": number * FILE_ROWS, "defaultRowCommitVersion": 0} if tracked else {})})
    (place / "_delta_log").mkdir()
    actions = [*_settings(rows, tracked), *adds]
    (place / "_delta_log" / f"{0:020d}.json").write_text("".join(json.dumps(a) + "\n" for a in actions))


def _shared(root: Path, number: int) -> tuple[Path, str]:
    """A data file, and its statistics as the log has them."""
    name = f"part-{number:05d}.snappy.parquet"

    def write(place: Path) -> None:
        numbers = number * FILE_ROWS + np.arange(FILE_ROWS)
        made = _rows(numbers, np.zeros(FILE_ROWS, np.int64), np.random.default_rng([0, number]))
        pq.write_table(made, place / name, compression="snappy", row_group_size=_ROW_GROUP, write_page_index=True)
        bounds = {column: pc.min_max(made[column]).as_py() for column in made.column_names}
        stats = {
            "numRecords": made.num_rows,
            "minValues": {column: found["min"] for column, found in bounds.items()},
            "maxValues": {column: found["max"] for column, found in bounds.items()},
            "nullCount": dict.fromkeys(bounds, 0),
            "tightBounds": True,
        }
        (place / "stats.json").write_text(json.dumps(stats))

    place = once(root / "dml" / "data" / str(number), write)
    return place / name, (place / "stats.json").read_text()


def _rows(numbers: NDArray[np.int64], odd: NDArray[np.int64], random: np.random.Generator) -> pa.Table:
    """Rows with these numbers; `odd` is 1 where a row takes a free key instead."""
    count = len(numbers)
    columns = [
        pa.array(2 * numbers + odd),
        _STORES.take(pa.array(numbers * 7_919 % len(_STORES))),
        pa.array(2 * (numbers // len(_STORES)) + odd),
        pa.array(random.integers(0, CLERKS, count, np.int32)),
        pa.array(random.integers(1, 100, count)),
        pa.array(np.round(random.gamma(2, 50, count), 2)),
        pa.array(random.integers(0, 10_000_000, count)),
        _STATUS.take(pa.array(random.integers(0, len(_STATUS), count))),
        _COMMENTS.take(pa.array(random.integers(0, len(_COMMENTS), count))),
        pa.array(random.integers(2**40, 2**50, count)).cast(pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=_SCHEMA)


def _settings(rows: int, tracked: bool) -> list[dict[str, Any]]:
    fields = [{"name": f.name, "type": _DELTA_TYPES[f.type], "nullable": True, "metadata": {}} for f in _SCHEMA]
    metadata = {
        "id": "5f54ef5f-9f5c-4c5e-9d0a-0d9f7d6f0004",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 1_700_000_000_000,
    }
    if not tracked:
        return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    metadata["configuration"] = {
        "delta.enableDeletionVectors": "true",
        "delta.enableRowTracking": "true",
        "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version-col-1",
    }
    reading = ["deletionVectors"]
    writing = [*reading, "rowTracking", "domainMetadata", "appendOnly", "invariants"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": reading, "writerFeatures": writing}
    mark = {
        "domain": "delta.rowTracking",
        "configuration": json.dumps({"rowIdHighWaterMark": rows - 1}),
        "removed": False,
    }
    return [{"protocol": protocol}, {"metaData": metadata}, {"domainMetadata": mark}]
