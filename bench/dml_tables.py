"""Tables to change and what is merged into them.

1. Row n has the same values in every table, so tables of all sizes share their data files by hard links. A table has
   FILE_ROWS rows in each of its files, in the order of their ids, and complete statistics.
2. `id` is a key and so are `store` and `receipt` together. Ids and receipts are even: the odd ones are free for rows
   that a merge inserts, so that these lie among the others and not behind them.
3. `clerk` is one of CLERKS, each with the same probability wherever a row lies: a condition on it hits every file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from delta_files import added, marked, settings, shared, write_log
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
_TABLE = "5f54ef5f-9f5c-4c5e-9d0a-0d9f7d6f0004"


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


def _write_table(root: Path, place: Path, rows: int, tracked: bool) -> None:
    adds = []
    for number in range(rows // FILE_ROWS):
        file, stats = _shared(root, number)
        tracking = {"baseRowId": number * FILE_ROWS, "defaultRowCommitVersion": 0} if tracked else {}
        adds.append(added(place, file, stats, tracking))
    said = [*settings(_TABLE, _SCHEMA, tracked=tracked), *([marked(rows)] if tracked else [])]
    write_log(place, [[*said, *adds]])


def _shared(root: Path, number: int) -> tuple[Path, str]:
    def rows() -> pa.Table:
        numbers = number * FILE_ROWS + np.arange(FILE_ROWS)
        return _rows(numbers, np.zeros(FILE_ROWS, np.int64), np.random.default_rng([0, number]))

    return shared(root / "dml" / "data" / str(number), number, rows, row_group_size=_ROW_GROUP)


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
