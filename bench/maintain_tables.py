"""Tables to maintain, and what their logs say of them afterwards.

1. The same arguments give the same rows.
2. Tables are clustered by `store`, `minute` and `product`: the values of one say nothing of the others, and files hold
   rows in no order of any.
3. An appended table has a commit for each of its files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from delta_files import added, marked, settings, shared, write_log
from tables import once

CLUSTERED_BY = ("store", "minute", "product")
FILE_ROWS = 250_000
FILES_AFTER = 64  # of a table that is clustered

_PRODUCTS = 100_000
_MINUTES = 10_000_000
_STORES = pa.array([f"store {n:04d}" for n in range(5_000)])
_COMMENTS = pa.array([f"comment {n * 2_654_435_761 % 2**32:x}" + " and more" * (n % 3) for n in range(20_000)])
_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("store", pa.string()),
        ("minute", pa.int64()),
        ("product", pa.int64()),
        ("price", pa.float64()),
        ("comment", pa.string()),
    ]
)
_TABLE = "5f54ef5f-9f5c-4c5e-9d0a-0d9f7d6f0005"


@dataclass(frozen=True, slots=True)
class Kind:
    """What table: rows in each of its files, how many files, whether it is tracked, clustered, and made of appends."""

    name: str
    file_rows: int
    files: int
    tracked: bool = True
    clustered: bool = False
    appended: bool = False

    @property
    def rows(self) -> int:
        return self.file_rows * self.files


def table(root: Path, kind: Kind) -> Path:
    """A table of a kind."""
    traits = "-".join(trait for trait in ("tracked", "clustered", "appended") if getattr(kind, trait))
    name = f"{kind.file_rows}-{kind.files}-{traits or 'plain'}"
    return once(root / "maintain" / name, lambda place: _write_table(root, place, kind))


def more_rows(root: Path, rows: int) -> Path:
    """Rows to append, as Parquet."""
    made = _rows(rows, np.random.default_rng([2, rows]), first=10**12)
    return once(root / "maintain" / f"more-{rows}", lambda place: pq.write_table(made, place / "rows.parquet"))


def target_bytes(place: Path) -> int:
    """What a file has to weigh for the table to come out in FILES_AFTER of them."""
    return sum(f.stat().st_size for f in place.glob("*.parquet")) // FILES_AFTER


def shares_read(files: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    """By column, which share of all rows lies in files that a query must read: one for a value, one for 1 % of them."""
    stats = [json.loads(f["stats"]) for f in files]
    rows = np.array([s["numRecords"] for s in stats])
    random = np.random.default_rng(3)
    found = {}
    for column, (low, high) in _queries(random).items():
        least = np.array([s["minValues"][column] for s in stats])
        most = np.array([s["maxValues"][column] for s in stats])
        points, ranges = (
            float(np.mean([(rows * ((least <= end) & (most >= begin))).sum() / rows.sum() for begin, end in pairs]))
            for pairs in (zip(low, low, strict=True), zip(low, high, strict=True))
        )
        found[column] = (points, ranges)
    return found


def written_bytes(place: Path, since: int) -> int:
    """What commits after a version added, in bytes."""
    commits = [c for c in sorted((place / "_delta_log").glob("*.json")) if int(c.stem) > since]
    actions = [json.loads(line) for c in commits for line in c.read_text().splitlines()]
    return sum(a["add"]["size"] for a in actions if "add" in a)


def newest(place: Path) -> int:
    return max(int(c.stem) for c in (place / "_delta_log").glob("*.json"))


def _queries(random: np.random.Generator) -> dict[str, tuple[list[Any], list[Any]]]:
    """By column, where queries begin and end."""
    drawn = random.random(200) * 0.99
    ends = drawn + 0.01
    return {
        "store": (_stores(drawn), _stores(ends)),
        "minute": ((drawn * _MINUTES).astype(int).tolist(), (ends * _MINUTES).astype(int).tolist()),
        "product": ((drawn * _PRODUCTS).astype(int).tolist(), (ends * _PRODUCTS).astype(int).tolist()),
    }


def _stores(shares: np.ndarray[Any, Any]) -> list[str]:
    found: list[str] = _STORES.take(pa.array((shares * len(_STORES)).astype(int))).to_pylist()
    return found


def _write_table(root: Path, place: Path, kind: Kind) -> None:
    by = CLUSTERED_BY if kind.clustered else ()
    commits: list[list[Any]] = [settings(_TABLE, _SCHEMA, tracked=kind.tracked, clustered_by=by)]
    for number in range(kind.files):
        file, stats = _shared(root, kind.file_rows, number)
        version = number + 1 if kind.appended else 0
        tracking = {"baseRowId": number * kind.file_rows, "defaultRowCommitVersion": version} if kind.tracked else {}
        actions = [added(place, file, stats, tracking)]
        if kind.tracked and (kind.appended or number == kind.files - 1):
            actions.append(marked((number + 1) * kind.file_rows))
        if kind.appended:
            commits.append(actions)
        else:
            commits[0] += actions
    write_log(place, commits)


def _shared(root: Path, rows: int, number: int) -> tuple[Path, str]:
    def made() -> pa.Table:
        return _rows(rows, np.random.default_rng([rows, number]), first=number * rows)

    return shared(root / "maintain" / "data" / f"{rows}-{number}", number, made)


def _rows(count: int, random: np.random.Generator, *, first: int) -> pa.Table:
    columns = [
        pa.array(first + np.arange(count)),
        _STORES.take(pa.array(random.integers(0, len(_STORES), count))),
        pa.array(random.integers(0, _MINUTES, count)),
        pa.array(random.integers(0, _PRODUCTS, count)),
        pa.array(np.round(random.gamma(2, 50, count), 2)),
        _COMMENTS.take(pa.array(random.integers(0, len(_COMMENTS), count))),
    ]
    return pa.Table.from_arrays(columns, schema=_SCHEMA)
