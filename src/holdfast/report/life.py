"""Reads the history of a table from its log: rows and files of each version, and the lifetime of each file.

1. A file lives from the version that adds it to the last version that has it, whatever its deletion vector.
2. Rows are live rows; rows that deletion vectors hide are counted separately.
3. No data file is read, so the history is available after a vacuum too, as far as the log goes back.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Unsupported
from holdfast.formats.delta.history.commits import history
from holdfast.formats.delta.state import load
from holdfast.model.snapshot import Snapshot
from holdfast.report.facts import FileLife, Life, Version
from holdfast.storage.location import Location

MOST_VERSIONS = 1000  # each is loaded separately; a page cannot show more


def life_of(location: Location) -> Life:
    """The history of a table, from the oldest version in its log to the newest."""
    commits = history(location, limit=MOST_VERSIONS)
    operations = dict(zip(commits["version"].to_pylist(), commits["operation"].to_pylist(), strict=True))
    versions: list[Version] = []
    lives: dict[str, FileLife] = {}
    for number in sorted(operations):
        snapshot = load(location, version=number).snapshot
        versions.append(_version(number, operations[number] or "?", snapshot))
        for key, rows in zip(snapshot.files.column("key").to_pylist(), _records(snapshot).to_pylist(), strict=True):
            first = lives[key].first if key in lives else number
            lives[key] = FileLife(key, first, number, rows, is_live=False)
    newest = versions[-1].number
    files = (FileLife(f.key, f.first, f.last, f.rows, f.last == newest) for f in lives.values())
    return Life(tuple(versions), tuple(sorted(files, key=lambda f: (f.first, f.key))))


def _version(number: int, operation: str, snapshot: Snapshot) -> Version:
    files = snapshot.files
    hidden = pc.sum(pc.struct_field(files.column("dv"), "cardinality")).as_py() or 0
    rows = pc.sum(_records(snapshot)).as_py() or 0
    return Version(number, operation, rows - hidden, hidden, len(files), pc.sum(files.column("size")).as_py() or 0)


def _records(snapshot: Snapshot) -> pa.Array:
    counts = snapshot.files.num_records
    if counts.null_count:
        raise Unsupported(
            f"{snapshot.location.url}, version {snapshot.version}: {counts.null_count} files do not say how many rows "
            "they have, so the life of the table cannot be told"
        )
    return counts
