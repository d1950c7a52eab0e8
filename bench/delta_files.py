"""What Delta tables of benchmarks have in common: files with statistics, what a log says at first, copies, live files.

1. Tables share their data files by hard links; no engine ever writes to one.
2. A tracked table has deletion vectors and row tracking; a plain one has no table feature at all.
3. A change is made to a copy. It lies at a path of its own, because engines remember tables by path.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tables import once

_TYPES = {pa.int64(): "long", pa.int32(): "integer", pa.float64(): "double", pa.string(): "string"}


def shared(place: Path, number: int, rows: Callable[[], pa.Table], **how: Any) -> tuple[Path, str]:
    """A data file, and its statistics as the log has them; `how` is for whoever writes Parquet."""
    name = f"part-{number:05d}.snappy.parquet"

    def write(place: Path) -> None:
        made = rows()
        pq.write_table(made, place / name, compression="snappy", write_page_index=True, **how)
        bounds = {column: pc.min_max(made[column]).as_py() for column in made.column_names}
        stats = {
            "numRecords": made.num_rows,
            "minValues": {column: found["min"] for column, found in bounds.items()},
            "maxValues": {column: found["max"] for column, found in bounds.items()},
            "nullCount": dict.fromkeys(bounds, 0),
            "tightBounds": True,
        }
        (place / "stats.json").write_text(json.dumps(stats))

    made = once(place, write)
    return made / name, (made / "stats.json").read_text()


def added(place: Path, file: Path, stats: str, tracking: Mapping[str, int]) -> dict[str, Any]:
    """A shared file linked into a table, and the action that says so."""
    os.link(file, place / file.name)
    found = file.stat()
    add = {
        "path": file.name,
        "partitionValues": {},
        "size": found.st_size,
        "modificationTime": int(found.st_mtime * 1000),
        "dataChange": True,
        "stats": stats,
    }
    return {"add": add | tracking}


def settings(table_id: str, schema: pa.Schema, *, tracked: bool, clustered_by: Sequence[str] = ()) -> list[Any]:
    """What the first commit says of a table."""
    fields = [{"name": f.name, "type": _TYPES[f.type], "nullable": True, "metadata": {}} for f in schema]
    metadata = {
        "id": table_id,
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
    writing += ["clustering"] if clustered_by else []
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": reading, "writerFeatures": writing}
    columns = {"clusteringColumns": [[c] for c in clustered_by], "domainName": "delta.clustering"}
    clustering = [domain("delta.clustering", columns)] if clustered_by else []
    return [{"protocol": protocol}, {"metaData": metadata}, *clustering]


def marked(rows: int) -> dict[str, Any]:
    """The action that says that so many row ids were given out."""
    return domain("delta.rowTracking", {"rowIdHighWaterMark": rows - 1})


def domain(name: str, configuration: Mapping[str, Any]) -> dict[str, Any]:
    return {"domainMetadata": {"domain": name, "configuration": json.dumps(configuration), "removed": False}}


def write_log(place: Path, commits: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """The log of a table, from its first version on."""
    log = place / "_delta_log"
    log.mkdir()
    for version, actions in enumerate(commits):
        (log / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


@contextmanager
def fresh_copy(directory: Path, original: Path) -> Iterator[Path]:
    """The table once more, until the end of the block."""
    place = Path(tempfile.mkdtemp(prefix="run-", dir=directory))
    try:
        for file in original.iterdir():
            if file.is_file():
                os.link(file, place / file.name)
        shutil.copytree(original / "_delta_log", place / "_delta_log")
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)  # an engine that was stopped may still be writing


def remove_copies(directory: Path) -> None:
    """Remove what a run that was interrupted left."""
    for place in directory.glob("run-*"):
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
    """How many rows the log says that files have."""
    hidden = sum((f.get("deletionVector") or {"cardinality": 0})["cardinality"] for f in files)
    return int(sum(json.loads(f["stats"])["numRecords"] for f in files) - hidden)
