"""Which versions need which files, from one pass over the log.

The pass starts with the files of the oldest version and follows the commits: files that are added, files that are
removed, and change files. Its result answers which files can be deleted and which versions stay readable, without
replaying any version by itself.

1. Every version from the one that adds a logical file to the one before its removal needs the file, and the file that
   holds its deletion vector.
2. Where a commit is missing, a new pass starts from the next checkpoint.
3. Keys outside of the table's directory are included; a caller that deletes files must check them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import UnknownVersion
from holdfast.formats.delta.checkpoint.reader import REMOVED, removed_from
from holdfast.formats.delta.deletion_vectors import dv_file
from holdfast.formats.delta.log.actions import Line
from holdfast.formats.delta.log.columns import file_keys, from_actions, table_ids
from holdfast.formats.delta.log.listing import list_all, read_commits
from holdfast.formats.delta.log.reader import LAYER_LINES
from holdfast.formats.delta.log.segment import LogListing, readable_versions
from holdfast.formats.delta.state import load
from holdfast.model.files import STRINGS
from holdfast.model.versions import Versions
from holdfast.storage.arrays import longs, maps, mask, strings, truths
from holdfast.storage.location import Location

EVENTS = pa.schema([*REMOVED, ("version", pa.int64()), ("added", pa.bool_())])
CHANGES = pa.schema(
    [("version", pa.int64()), ("key", pa.string()), ("size", pa.int64()), ("partition_values", STRINGS)]
)


@dataclass(frozen=True)
class FileLifetimes:
    """The additions and removals of files in a log, oldest first."""

    location: Location
    listing: LogListing
    described: Versions  # those that the log can still replay
    spans: tuple[tuple[int, int], ...]  # first and last versions of ranges without a missing commit
    events: pa.Table  # with the columns of EVENTS, and `dv_key`: the file key of the deletion vector's file
    changes: pa.Table  # change files

    @property
    def last(self) -> int:
        return self.described.spans[-1][1]

    def needing(self, keys: pa.Array) -> Versions:
        """The versions that need any of these files."""
        needs = np.zeros(self.last + 2, np.int64)
        has_key = truths(pc.is_in(self.events.column("key"), value_set=keys))
        has_key |= truths(pc.is_in(self.events.column("dv_key"), value_set=keys, skip_nulls=True))
        has_key &= self._since < self._until
        np.add.at(needs, self._since[has_key], 1)
        np.add.at(needs, self._until[has_key], -1)
        return Versions.of(np.flatnonzero(np.cumsum(needs)).tolist())

    def keys(self) -> pa.Array:
        """Every file that some version needs."""
        return all_keys(self.events.filter(self.events.column("added")))

    def removed(self) -> pa.Table:
        """The removals, with the columns of `events`."""
        return self.events.filter(pc.invert(self.events.column("added")))

    @cached_property
    def _order(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The version of each event, and that of the next event of the same logical file."""
        versions = self.events.column("version").to_numpy()
        codes = table_ids(self.events).dictionary_encode().indices.to_numpy().astype(np.int64)
        firsts = np.array([first for first, _ in self.spans], np.int64)
        span = np.searchsorted(firsts, versions, side="right") - 1
        ends = np.array([last for _, last in self.spans], np.int64)[span] + 1
        # The order within a version does not matter: it removes and adds different logical files.
        order = np.lexsort((np.arange(len(codes)), versions, codes, span))
        follows = (codes[order][1:] == codes[order][:-1]) & (span[order][1:] == span[order][:-1])
        until = ends[order]
        until[:-1] = np.where(follows, versions[order][1:], until[:-1])
        next_versions = np.empty_like(until)
        next_versions[order] = until
        return versions, next_versions

    @cached_property
    def _since(self) -> NDArray[np.int64]:
        return self._order[0]

    @cached_property
    def _until(self) -> NDArray[np.int64]:
        """The version that ends the life of a file; a removal itself has none."""
        return np.where(truths(self.events.column("added")), self._order[1], self._order[0])


def read_lifetimes(location: Location, among: Versions | None = None) -> FileLifetimes:
    """Reads the log once; only these versions where they are given."""
    listing = list_all(location).listing
    described = Versions.of(readable_versions(listing))
    if among is not None:
        described = described & among
    if not described.spans:
        which = "" if among is None else f" of {among}"
        raise UnknownVersion(f"no version{which} of the table at {location.url} can be read: its log has holes")
    events, changes = [EVENTS.empty_table()], [CHANGES.empty_table()]
    spans = tuple(_spans(listing, described))
    for first, last in spans:
        for start, batch in _batches(location, listing, first, last):
            events.append(batch.removes)
            if start == first:
                base = load(location.anywhere, version=first).snapshot.files.table
                events.append(_dated(base.append_column("deleted_ms", pa.nulls(len(base), pa.int64())), first, True))
            else:
                events.append(batch.adds)
            changes.append(batch.changes)
    all_events = with_dv_keys(location, pa.concat_tables(events).combine_chunks())
    return FileLifetimes(location, listing, described, spans, all_events, pa.concat_tables(changes))


def removed_between(lifetimes: FileLifetimes, after: int, upto: int) -> pa.Array:
    """Files that commits after one version and up to another removed, with deletion vector files and change files."""
    removed = lifetimes.removed()
    versions = removed.column("version").to_numpy()
    changed = lifetimes.changes.column("version").to_numpy()
    return pc.unique(
        pa.concat_arrays(
            [
                all_keys(removed.filter(mask((versions > after) & (versions <= upto)))),
                lifetimes.changes.filter(mask((changed > after) & (changed <= upto))).column("key").combine_chunks(),
            ]
        )
    )


def all_keys(files: pa.Table) -> pa.Array:
    """The keys of files and of the files that hold their deletion vectors."""
    dv_keys = files.column("dv_key").combine_chunks()
    return pa.concat_arrays([files.column("key").combine_chunks(), dv_keys.drop_null()])


def with_dv_keys(location: Location, files: pa.Table) -> pa.Table:
    """Files with `dv_key`: the key of the file that holds the deletion vector of each."""
    return files.append_column("dv_key", dv_keys_of(location, files))


def dv_keys_of(location: Location, files: pa.Table) -> pa.Array:
    """The key of the file that holds each file's deletion vector, null where there is none; parsed once per key."""
    dv = files.column("dv").combine_chunks()
    storage, path = pc.struct_field(dv, "storage"), pc.struct_field(dv, "path")
    descriptors = pc.binary_join_element_wise(storage, path, strings([""])[0]).dictionary_encode()
    anywhere = location.anywhere
    keys = [dv_file(anywhere, "of some version", text[0], text[1:]) for text in descriptors.dictionary.to_pylist()]
    return strings(keys).take(descriptors.indices)


def _spans(listing: LogListing, described: Versions) -> Iterator[tuple[int, int]]:
    """Ranges of versions, split where a version has a checkpoint and no commit."""
    for first, last in described.spans:
        starts = [first, *(v for v in range(first + 1, last + 1) if v not in listing.commits)]
        yield from zip(starts, [*(start - 1 for start in starts[1:]), last], strict=True)


@dataclass(frozen=True)
class Commits:
    """The files in some commits, as columns of EVENTS and CHANGES."""

    removes: pa.Table
    adds: pa.Table
    changes: pa.Table


def _batches(location: Location, listing: LogListing, first: int, last: int) -> Iterator[tuple[int, Commits]]:
    """The commits of a range in batches of many lines, the first commit by itself."""
    versions = [v for v in range(first, last + 1) if v in listing.commits]
    if first not in listing.commits:
        yield first, commit_columns(location, [])
    batch: list[tuple[int, Line]] = []
    for version, lines in read_commits(location, listing, versions):
        batch += [(version, line) for line in lines]
        if version == first or len(batch) >= LAYER_LINES:
            yield version if version == first else first + 1, commit_columns(location, batch)
            batch = []
    if batch:
        yield first + 1, commit_columns(location, batch)


def commit_columns(location: Location, lines: Sequence[tuple[int, Line]]) -> Commits:
    """The files in lines of commits, each line with its version."""
    adds = [(version, line.add) for version, line in lines if line.add is not None]
    removes = [(version, line.remove) for version, line in lines if line.remove is not None]
    changes = [(version, line.cdc) for version, line in lines if line.cdc is not None]
    added = from_actions([a for _, a in adds], location.anywhere)
    added = added.append_column(REMOVED.field("deleted_ms"), pa.nulls(len(adds), pa.int64()))
    return Commits(
        _dated(removed_from([a for _, a in removes], location), longs([v for v, _ in removes]), False),
        _dated(added, longs([v for v, _ in adds]), True),
        pa.Table.from_arrays(
            [
                longs([v for v, _ in changes]),
                file_keys([a for _, a in changes], location.anywhere),
                longs([a.size for _, a in changes]),
                maps([a.partition_values for _, a in changes]),
            ],
            schema=CHANGES,
        ),
    )


def _dated(files: pa.Table, version: int | pa.Array, added: bool) -> pa.Table:
    versions = longs([version] * files.num_rows) if isinstance(version, int) else version
    dated = files.append_column(EVENTS.field("version"), versions)
    return dated.append_column(EVENTS.field("added"), mask(np.full(files.num_rows, added)))
