"""The tables of `changes.py`: one history, once with row tracking alone and once with a change data feed besides.

1. Every commit updates the rows of one bucket, 1 % of them, scattered over the table; vectors hide the old ones.
2. A compaction follows every EVERY commits. Both tables hold the same rows at the end.
3. A table is made once and kept; made in part, it is made again.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

EVERY = 50  # commits between compactions
BUCKETS = 100
FILE_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class Made:
    """Two tables, the versions of their updates, and what was written beside data files."""

    plain: Path
    feed: Path
    updates: tuple[tuple[int, ...], tuple[int, ...]]  # versions, of the plain one and of that with a feed
    plain_extra: int
    feed_extra: int
    data_bytes: int

    def last_commits(self, count: int) -> tuple[int, int]:
        """The version of the first of the last so many updates, in each table."""
        return self.updates[0][-count], self.updates[1][-count]


def make(data: Path, *, rows: int, commits: int) -> Made:
    """The tables, made unless they are there."""
    tables = [
        _table(data / f"changes-{rows}-{commits}-{name}", rows, commits, name == "feed") for name in ("plain", "feed")
    ]
    (plain, plain_versions), (feed, feed_versions) = tables
    return Made(
        plain,
        feed,
        (plain_versions, feed_versions),
        _bytes(plain / "_change_data"),
        _bytes(feed / "_change_data"),
        _bytes(feed) - _bytes(feed / "_change_data"),
    )


def _table(path: Path, rows: int, commits: int, feed: bool) -> tuple[Path, tuple[int, ...]]:
    from holdfast.table.delta import DeltaTable

    done = path.with_suffix(".done")
    if done.exists():
        return path, tuple(map(int, done.read_text().split()))
    shutil.rmtree(path, ignore_errors=True)
    builder = DeltaTable.create(None).location(str(path)).property("delta.enableChangeDataFeed", str(feed).lower())
    for name, type_ in (("id", "long"), ("bucket", "integer"), ("n", "long"), ("price", "double"), ("note", "string")):
        builder = builder.addColumn(name, type_)
    table = builder.execute()
    for first in range(0, rows, FILE_ROWS):
        table.append(_rows(first, min(first + FILE_ROWS, rows)))
    versions = []
    for number in range(commits):
        change = {"n": "n + 1", "price": "price * 1.01"}
        versions.append(table.update(f"bucket = {number % BUCKETS}", change, mode="merge-on-read").version)
        if number % EVERY == EVERY - 1:
            table.optimize(targetRows=FILE_ROWS * 4).executeCompaction()
    done.write_text(" ".join(map(str, versions)))
    return path, tuple(version for version in versions if version is not None)


def _rows(first: int, end: int) -> pa.Table:
    ids = np.arange(first, end)
    rng = np.random.default_rng(first)
    return pa.table(
        {
            "id": ids,
            "bucket": (ids * 7919 % BUCKETS).astype(np.int32),
            "n": rng.integers(0, 1000, len(ids)),
            "price": rng.random(len(ids)) * 100,
            "note": pa.array([f"order {i} of customer {i % 977}" for i in ids.tolist()]),
        }
    )


def _bytes(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*.parquet")) if directory.exists() else 0
