"""What commits did to files over time: removals that missed, row ids that were handed out twice.

1. A file is known by its key and its vector; a removal that names another vector than the live one removes nothing.
2. Every file ever added owns the range of ids it was given, live or not: ids are never used again. Only dropping row
   tracking altogether starts them anew.
3. Kept of an action are a few columns, of all commits together one Arrow table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import TableError
from holdfast.formats.delta.deletion_vectors import vector_file
from holdfast.formats.delta.log.actions import FileAction, Line
from holdfast.formats.delta.log.columns import from_actions, logical_ids
from holdfast.formats.delta.shape import ROW_TRACKING_DOMAIN
from holdfast.formats.delta.stats.reader import JsonStats
from holdfast.model.files import FileTable
from holdfast.model.finding import LISTED, Finding, FindingKind
from holdfast.rows.ranges import overlaps
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
        # A removed file is only a name, so its spelling may lead anywhere.
        self._location = location.anywhere
        self._events: list[pa.Table] = [_EVENTS.empty_table()]
        self._followed_from = 0  # of the events: earlier ones say nothing about later removals
        self._numbered_from = 0  # likewise about ids
        self.keys: list[pa.Array] = []

    def starts(self, version: int, files: FileTable) -> None:
        """What comes next follows a version with these files."""
        self._followed_from = len(self._events)
        self._note(version, files.table, files.num_records, added=True)

    def saw(self, version: int, lines: Sequence[Line]) -> None:
        """Take note of a commit."""
        adds = [line.add for line in lines if line.add is not None]
        removes = [line.remove for line in lines if line.remove is not None]
        feed = [line.cdc.path for line in lines if line.cdc is not None]
        if any(d.domain == ROW_TRACKING_DOMAIN and d.removed for line in lines if (d := line.domain_metadata)):
            self._numbered_from = len(self._events)
        for actions, added in ((removes, False), (adds, True)):
            if actions:
                counts = JsonStats(strings([a.stats for a in actions])).read({}).num_records
                self._note(version, self._files(actions), counts, added=added)
        if feed:
            self.keys.append(self._location.file_keys(strings(feed)))

    def findings(self) -> Iterator[Finding]:
        """What was wrong."""
        yield from self._missed()
        yield from self._reused()

    def _files(self, actions: Sequence[FileAction]) -> pa.Table:
        return from_actions(actions, self._location.file_keys(strings([a.path for a in actions])))

    def _note(self, version: int, files: pa.Table, counts: pa.Array, *, added: bool) -> None:
        keys = files.column("key").combine_chunks()
        columns = [
            pa.repeat(version, files.num_rows),
            pa.repeat(added, files.num_rows),
            keys,
            logical_ids(keys, pc.struct_field(files.column("dv").combine_chunks(), "id")),
            files.column("base_row_id").combine_chunks(),
            counts,
        ]
        self._events.append(pa.Table.from_arrays(columns, schema=_EVENTS))
        self.keys += [keys, strings(sorted(vector_keys(self._location, files)))]

    def _missed(self) -> Iterator[Finding]:
        """Removals of a file under another vector than the one it has, so that it stays."""
        events = pa.concat_tables(self._events[self._followed_from :] or [_EVENTS.empty_table()])
        codes = _codes(events.column("logical"))
        order = np.arange(len(codes))  # events are in the order of commits, removals before additions within one
        added = np.array(events.column("added"), np.bool_)
        sorted_ = np.lexsort((order, codes))
        before = np.zeros(len(codes), np.bool_)  # whether the action before, on the same logical file, added it
        same = codes[sorted_][1:] == codes[sorted_][:-1]
        before[sorted_[1:]] = same & added[sorted_[:-1]]
        for at in np.flatnonzero(~added & ~before)[:LISTED].tolist():
            yield from self._left(events, int(at))

    def _left(self, events: pa.Table, at: int) -> Iterator[Finding]:
        """The file a removal should have meant: the same key, live under another vector."""
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

    def _reused(self) -> Iterator[Finding]:
        """Files that were given ids which another file had been given."""
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


def vector_keys(location: Location, files: pa.Table) -> set[str]:
    """The keys of the files that hold vectors of these; a descriptor that leads nowhere is told elsewhere."""
    vectors = files.select(["key", "dv"]).filter(pc.is_valid(files.column("dv")))
    found: set[str] = set()
    for row in vectors.to_pylist():  # one per file that hides rows
        with suppress(TableError):
            file = vector_file(location, row["key"], row["dv"]["storage"], row["dv"]["path"])
            if file is not None:
                found.add(file)
    return found


def _codes(values: pa.ChunkedArray) -> NDArray[np.int64]:
    encoded = values.combine_chunks().dictionary_encode()
    return np.array(encoded.indices, np.int64)
