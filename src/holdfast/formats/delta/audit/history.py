"""Checks the file actions of all commits: removals without effect, and row ids that were assigned twice.

1. A logical file is a key with a deletion vector; a removal with another deletion vector than the live one has no
   effect.
2. Every file ever added owns the row ids that it was assigned, live or not: ids are never reused. They start again
   only after row tracking was dropped.
3. A few columns are kept of each action, in one Arrow table for all commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import TableError
from holdfast.formats.delta.deletion_vectors import dv_file
from holdfast.formats.delta.log.actions import Line
from holdfast.formats.delta.log.columns import from_actions, table_ids
from holdfast.formats.delta.metadata import ROW_TRACKING_DOMAIN
from holdfast.formats.delta.stats.reader import JsonStats
from holdfast.model.files import FileTable
from holdfast.model.finding import LISTED, Finding, FindingKind
from holdfast.rows.layers import overlaps
from holdfast.storage.arrays import strings
from holdfast.storage.location import Location

_EVENTS = pa.schema(
    [
        ("version", pa.int64()),
        ("added", pa.bool_()),
        ("key", pa.string()),
        ("logical", pa.string()),
        ("base", pa.int64()),
        ("rows", pa.int64()),
    ]
)


class FileHistory:
    """The file actions of a log, in the order of its commits."""

    def __init__(self, location: Location) -> None:
        # The path of a removed file may lead outside the table, because nobody reads it.
        self._location = location.anywhere
        self._events: list[pa.Table] = [_EVENTS.empty_table()]
        self._followed_from = 0  # the first event that later removals can refer to
        self._numbered_from = 0  # the first event since row ids started
        self.keys: list[pa.Array] = []

    def starts(self, version: int, files: FileTable) -> None:
        """Starts again from a version with these files."""
        self._followed_from = len(self._events)
        self._add(version, files.table, files.num_records, added=True)

    def add_commit(self, version: int, lines: Sequence[Line]) -> None:
        """Adds the file actions of a commit."""
        adds = [line.add for line in lines if line.add is not None]
        removes = [line.remove for line in lines if line.remove is not None]
        change_files = [line.cdc.path for line in lines if line.cdc is not None]
        if any(d.domain == ROW_TRACKING_DOMAIN and d.removed for line in lines if (d := line.domain_metadata)):
            self._numbered_from = len(self._events)
        for actions, added in ((removes, False), (adds, True)):
            if actions:
                counts = JsonStats(strings([a.stats for a in actions])).read({}).num_records
                self._add(version, from_actions(actions, self._location), counts, added=added)
        if change_files:
            self.keys.append(self._location.file_keys(strings(change_files)))

    def findings(self) -> Iterator[Finding]:
        """The problems in the history."""
        yield from self._missed_removals()
        yield from self._reused_ids()

    def _add(self, version: int, files: pa.Table, counts: pa.Array, *, added: bool) -> None:
        keys = files.column("key").combine_chunks()
        columns = [
            pa.repeat(version, files.num_rows),
            pa.repeat(added, files.num_rows),
            keys,
            table_ids(files),
            files.column("base_row_id").combine_chunks(),
            counts,
        ]
        self._events.append(pa.Table.from_arrays(columns, schema=_EVENTS))
        self.keys += [keys, strings(sorted(dv_file_keys(self._location, files)))]

    def _missed_removals(self) -> Iterator[Finding]:
        """Removals of a file with another deletion vector than it has, after which the file is still live."""
        events = pa.concat_tables(self._events[self._followed_from :] or [_EVENTS.empty_table()])
        codes = np.array(events.column("logical").combine_chunks().dictionary_encode().indices, np.int64)
        order = np.arange(len(codes))  # events are in the order of commits, removals before additions within one
        added = np.array(events.column("added"), np.bool_)
        sorted_ = np.lexsort((order, codes))
        before = np.zeros(len(codes), np.bool_)  # whether the action before, on the same logical file, added it
        same = codes[sorted_][1:] == codes[sorted_][:-1]
        before[sorted_[1:]] = same & added[sorted_[:-1]]
        for at in np.flatnonzero(~added & ~before)[:LISTED].tolist():
            yield from self._still_live(events, int(at))

    def _still_live(self, events: pa.Table, at: int) -> Iterator[Finding]:
        """The finding of a removal, where a file with the same key is live with another deletion vector."""
        key, version = events.column("key")[at].as_py(), events.column("version")[at].as_py()
        earlier = events.slice(0, at).filter(pc.equal(events.slice(0, at).column("key"), key))
        last = {row["logical"]: row["added"] for row in earlier.select(["logical", "added"]).to_pylist()}
        if any(last.values()):
            yield Finding(
                FindingKind.REMOVE_MISSED,
                f"version {version} removes {key} under another deletion vector than the one it has then, so the file "
                "stays in the table with all its rows",
                file=key,
                version=version,
            )

    def _reused_ids(self) -> Iterator[Finding]:
        """Files that were assigned row ids of another file."""
        events = pa.concat_tables(self._events[self._numbered_from :] or [_EVENTS.empty_table()])
        numbered = pc.and_(events.column("added"), pc.greater(pc.fill_null(events.column("rows"), 0), 0))
        events = events.filter(pc.and_(numbered, pc.is_valid(events.column("base"))))
        owned = events.group_by(["key", "base"]).aggregate([("rows", "max"), ("version", "min")])
        owned = owned.sort_by([("base", "ascending"), ("version_min", "ascending")])
        lows = np.array(owned.column("base"), np.int64)
        highs = lows + np.array(owned.column("rows_max"), np.int64)
        keys, versions = owned.column("key"), owned.column("version_min")
        reached = overlaps(lows, highs)
        for at in np.flatnonzero(reached >= 0).tolist():
            into = int(reached[at])
            first, second = sorted((into, at), key=lambda n: versions[n].as_py())
            yield Finding(
                FindingKind.REUSED_IDS,
                f"version {versions[second]} gave {keys[second]} the row ids from {lows[second]} on, of which "
                f"{keys[first]} had been given {lows[first]} to {highs[first] - 1}: ids were used again",
                file=keys[second].as_py(),
                version=versions[second].as_py(),
            )


def dv_file_keys(location: Location, files: pa.Table) -> set[str]:
    """The keys of the files that hold deletion vectors of these; an invalid descriptor is skipped."""
    vectors = files.select(["key", "dv"]).filter(pc.is_valid(files.column("dv")))
    keys: set[str] = set()
    for row in vectors.to_pylist():  # one per file that hides rows
        with suppress(TableError):
            file = dv_file(location, row["key"], row["dv"]["storage"], row["dv"]["path"])
            if file is not None:
                keys.add(file)
    return keys
