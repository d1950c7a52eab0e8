"""Tables to maintain, and what their logs say of them afterwards.

1. The same arguments give the same rows. Tables share their data files by hard links; no engine ever writes to one.
2. Tables are clustered by `store`, `minute` and `product`: the values of one say nothing of the others, and files hold
   rows in no order of any.
3. A tracked table has deletion vectors and row tracking; a plain one has no table feature at all.
4. An appended table has a commit for each of its files.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
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
_TYPES = {pa.int64(): "long", pa.float64(): "double", pa.string(): "string"}


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


@contextmanager
def fresh_copy(root: Path, original: Path) -> Iterator[Path]:
    """The table once more, until the end of the block."""
    place = Path(tempfile.mkdtemp(prefix="run-", dir=root / "maintain"))
    try:
        for file in original.iterdir():
            if file.is_file():
                os.link(file, place / file.name)
        shutil.copytree(original / "_delta_log", place / "_delta_log")
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)  # an engine that was stopped may still be writing


def remove_copies(root: Path) -> None:
    """Remove what a run that was interrupted left."""
    for place in (root / "maintain").glob("run-*"):
        shutil.rmtree(place)


def live_files(place: Path) -> list[dict[str, Any]]:
    """The add actions of the newest version; all commits of a table are there."""
    live: dict[str, dict[str, Any]] = {}
    for commit in sorted((place / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            if "remove" in action:
                live.pop(action["remove"]["path"], None)
        for action in actions:
            if "add" in action:
                live[action["add"]["path"]] = action["add"]
    return list(live.values())


def live_rows(files: Sequence[Mapping[str, Any]]) -> int:
    hidden = sum((f.get("deletionVector") or {"cardinality": 0})["cardinality"] for f in files)
    return int(sum(json.loads(f["stats"])["numRecords"] for f in files) - hidden)


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
    log = place / "_delta_log"
    log.mkdir()
    commits: list[list[dict[str, Any]]] = [_settings(kind)]
    for number in range(kind.files):
        file, stats = _shared(root, kind.file_rows, number)
        os.link(file, place / file.name)
        add: dict[str, Any] = {
            "path": file.name,
            "partitionValues": {},
            "size": file.stat().st_size,
            "modificationTime": int(file.stat().st_mtime * 1000),
            "dataChange": True,
            "stats": stats,
        }
        version = number + 1 if kind.appended else 0
        tracking = {"baseRowId": number * kind.file_rows, "defaultRowCommitVersion": version}
        actions: list[dict[str, Any]] = [{"add": add | (tracking if kind.tracked else {})}]
        if kind.tracked and (kind.appended or number == kind.files - 1):
            mark = json.dumps({"rowIdHighWaterMark": (number + 1) * kind.file_rows - 1})
            actions.append({"domainMetadata": _domain("delta.rowTracking", mark)})
        if kind.appended:
            commits.append(actions)
        else:
            commits[0] += actions
    for version, actions in enumerate(commits):
        (log / f"{version:020d}.json").write_text("".join(json.dumps(a) + "\n" for a in actions))


def _shared(root: Path, rows: int, number: int) -> tuple[Path, str]:
    """A data file, and its statistics as the log has them."""
    name = f"part-{number:05d}.snappy.parquet"

    def write(place: Path) -> None:
        made = _rows(rows, np.random.default_rng([rows, number]), first=number * rows)
        pq.write_table(made, place / name, compression="snappy", write_page_index=True)
        bounds = {column: pc.min_max(made[column]).as_py() for column in made.column_names}
        stats = {
            "numRecords": made.num_rows,
            "minValues": {column: found["min"] for column, found in bounds.items()},
            "maxValues": {column: found["max"] for column, found in bounds.items()},
            "nullCount": dict.fromkeys(bounds, 0),
            "tightBounds": True,
        }
        (place / "stats.json").write_text(json.dumps(stats))

    place = once(root / "maintain" / "data" / f"{rows}-{number}", write)
    return place / name, (place / "stats.json").read_text()


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


def _settings(kind: Kind) -> list[dict[str, Any]]:
    fields = [{"name": f.name, "type": _TYPES[f.type], "nullable": True, "metadata": {}} for f in _SCHEMA]
    metadata = {
        "id": "5f54ef5f-9f5c-4c5e-9d0a-0d9f7d6f0005",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 1_700_000_000_000,
    }
    if not kind.tracked:
        return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    metadata["configuration"] = {
        "delta.enableDeletionVectors": "true",
        "delta.enableRowTracking": "true",
        "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version-col-1",
    }
    reading = ["deletionVectors"]
    writing = [*reading, "rowTracking", "domainMetadata", "appendOnly", "invariants"]
    writing += ["clustering"] if kind.clustered else []
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": reading, "writerFeatures": writing}
    columns = json.dumps({"clusteringColumns": [[c] for c in CLUSTERED_BY], "domainName": "delta.clustering"})
    clustering = [{"domainMetadata": _domain("delta.clustering", columns)}] if kind.clustered else []
    return [{"protocol": protocol}, {"metaData": metadata}, *clustering]


def _domain(name: str, configuration: str) -> dict[str, Any]:
    return {"domain": name, "configuration": configuration, "removed": False}
