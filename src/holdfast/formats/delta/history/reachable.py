"""Which files the versions of a table need, from one walk through its log.

    the files of the oldest version  ->  commit by commit: a file comes, a file goes, a change file is mentioned

What is needed when, what may go, and which versions stay readable are all questions to the outcome of that walk, so a
log of any length is read once, and no version is replayed by itself.

1. A logical file is needed by every version from the one that adds it up to the one that removes it, which is not one
   of them; so is the file that its vector is in.
2. Where a commit is missing, the versions from there on are walked by themselves, from their first checkpoint on.
3. Keys outside of the table's directory are told like any others; who deletes must look at them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import UnknownVersion
from holdfast.formats.delta.checkpoint.reader import REMOVED, removed_from
from holdfast.formats.delta.deletion_vectors import vector_file
from holdfast.formats.delta.log.actions import FileAction, Line, decode_lines
from holdfast.formats.delta.log.columns import from_actions, logical_ids
from holdfast.formats.delta.log.listing import list_all, log_url, read_bytes
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
class Past:
    """What a log tells of files, in the order in which it happened."""

    location: Location
    listing: LogListing
    described: Versions  # what the log can still tell of
    walks: tuple[tuple[int, int], ...]  # first and last versions of stretches without a missing commit
    events: pa.Table  # with the columns of EVENTS, and `dv_key`: the file key of the file that the vector is in
    changes: pa.Table  # change files

    @property
    def last(self) -> int:
        return self.described.spans[-1][1]

    def files_at(self, version: int) -> pa.Table:
        """The files of a version, with the columns of `events`."""
        if version not in self.described:
            raise UnknownVersion(
                f"version {version} is not in the log at {log_url(self.location)} any more: it describes versions "
                f"{self.described}",
                version=version,
            )
        return self.events.filter(mask((self._since <= version) & (version < self._until)))

    def needing(self, keys: pa.Array) -> Versions:
        """The versions that need any of these files."""
        needs = np.zeros(self.last + 2, np.int64)
        held = truths(pc.is_in(self.events.column("key"), value_set=keys))
        held |= truths(pc.is_in(self.events.column("dv_key"), value_set=keys, skip_nulls=True))
        held &= self._since < self._until
        np.add.at(needs, self._since[held], 1)
        np.add.at(needs, self._until[held], -1)
        return Versions.of(np.flatnonzero(np.cumsum(needs)).tolist())

    def keys(self) -> pa.Array:
        """Every file that some version needs."""
        return all_keys(self.events.filter(self.events.column("added")))

    def removed(self) -> pa.Table:
        """Removals, with the columns of `events`."""
        return self.events.filter(pc.invert(self.events.column("added")))

    @cached_property
    def _order(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The version of each event, and the version at which the next one speaks of the same logical file."""
        versions = self.events.column("version").to_numpy()
        vectors = pc.struct_field(self.events.column("dv").combine_chunks(), "id")
        ids = logical_ids(self.events.column("key").combine_chunks(), vectors).dictionary_encode()
        codes = ids.indices.to_numpy().astype(np.int64)
        firsts = np.array([first for first, _ in self.walks], np.int64)
        span = np.searchsorted(firsts, versions, side="right") - 1
        ends = np.array([last for _, last in self.walks], np.int64)[span] + 1
        # Within a version the order says nothing: what is removed and what is added are different logical files.
        order = np.lexsort((np.arange(len(codes)), versions, codes, span))
        follows = (codes[order][1:] == codes[order][:-1]) & (span[order][1:] == span[order][:-1])
        until = ends[order]
        until[:-1] = np.where(follows, versions[order][1:], until[:-1])
        found = np.empty_like(until)
        found[order] = until
        return versions, found

    @cached_property
    def _since(self) -> NDArray[np.int64]:
        return self._order[0]

    @cached_property
    def _until(self) -> NDArray[np.int64]:
        """Where a removal stands there is nothing that lasts."""
        return np.where(truths(self.events.column("added")), self._order[1], self._order[0])


def walk(location: Location, among: Versions | None = None) -> Past:
    """Read what is left of a log, once; of these versions alone where they are given."""
    listing = list_all(location).listing
    described = Versions.of(readable_versions(listing))
    if among is not None:
        described = described & among
    if not described.spans:
        which = "" if among is None else f" of {among}"
        raise UnknownVersion(f"no version{which} of the table at {location.url} can be read: its log has holes")
    events, changes = [EVENTS.empty_table()], [CHANGES.empty_table()]
    walks = tuple(_walks(listing, described))
    for first, last in walks:
        for start, stretch in _stretches(location, listing, first, last):
            events.append(stretch.removes)
            if start == first:
                base = load(location.anywhere, version=first).snapshot.files.table
                events.append(_dated(base.append_column("deleted_ms", pa.nulls(len(base), pa.int64())), first, True))
            else:
                events.append(stretch.adds)
            changes.append(stretch.changes)
    told = pa.concat_tables(events).combine_chunks()
    told = with_vectors(location, told)
    return Past(location, listing, described, walks, told, pa.concat_tables(changes))


def removed_between(past: Past, after: int, upto: int) -> pa.Array:
    """Files that commits after one version and up to another removed, with their vectors' files and change files."""
    removed = past.removed()
    versions = removed.column("version").to_numpy()
    changed = past.changes.column("version").to_numpy()
    return pc.unique(
        pa.concat_arrays(
            [
                all_keys(removed.filter(mask((versions > after) & (versions <= upto)))),
                past.changes.filter(mask((changed > after) & (changed <= upto))).column("key").combine_chunks(),
            ]
        )
    )


def all_keys(files: pa.Table) -> pa.Array:
    """The keys of files and of the files that their vectors are in."""
    vectors = files.column("dv_key").combine_chunks()
    return pa.concat_arrays([files.column("key").combine_chunks(), vectors.drop_null()])


def with_vectors(location: Location, files: pa.Table) -> pa.Table:
    """Files with `dv_key`: the key of the file that each one's vector is in."""
    return files.append_column("dv_key", vector_keys(location, files))


def vector_keys(location: Location, files: pa.Table) -> pa.Array:
    """The file key of the file that each file's vector is in, null where there is none; asked once per vector file."""
    dv = files.column("dv").combine_chunks()
    storage, path = pc.struct_field(dv, "storage"), pc.struct_field(dv, "path")
    spelled = pc.binary_join_element_wise(storage, path, strings([""])[0]).dictionary_encode()
    anywhere = location.anywhere
    keys = [vector_file(anywhere, "of some version", text[0], text[1:]) for text in spelled.dictionary.to_pylist()]
    return strings(keys).take(spelled.indices)


def _walks(listing: LogListing, described: Versions) -> Iterator[tuple[int, int]]:
    """Spans of versions, cut where a version is told by a checkpoint alone."""
    for first, last in described.spans:
        starts = [first, *(v for v in range(first + 1, last + 1) if v not in listing.commits)]
        yield from zip(starts, [*(start - 1 for start in starts[1:]), last], strict=True)


@dataclass(frozen=True)
class Commits:
    """The files that some commits name, as columns of EVENTS and CHANGES."""

    removes: pa.Table
    adds: pa.Table
    changes: pa.Table


def _stretches(location: Location, listing: LogListing, first: int, last: int) -> Iterator[tuple[int, Commits]]:
    """The commits of a span in stretches of many lines, the first commit by itself."""
    known = [v for v in range(first, last + 1) if v in listing.commits]
    if first not in listing.commits:
        yield first, commit_columns(location, [])
    told: list[tuple[int, Line]] = []
    files = read_bytes(location, [listing.commits[v] for v in known])
    for version, (meta, data) in zip(known, files, strict=True):
        told += [(version, line) for line in decode_lines(data, where=f"{log_url(location)}/{meta.name}")]
        if version == first or len(told) >= LAYER_LINES:
            yield version if version == first else first + 1, commit_columns(location, told)
            told = []
    if told:
        yield first + 1, commit_columns(location, told)


def commit_columns(location: Location, told: Sequence[tuple[int, Line]]) -> Commits:
    """The files that lines of commits name, each line with its version."""
    adds = [(version, line.add) for version, line in told if line.add is not None]
    removes = [(version, line.remove) for version, line in told if line.remove is not None]
    changes = [(version, line.cdc) for version, line in told if line.cdc is not None]
    anywhere = location.anywhere
    added = from_actions([a for _, a in adds], _keys(anywhere, [a for _, a in adds]))
    added = added.append_column(REMOVED.field("deleted_ms"), pa.nulls(len(adds), pa.int64()))
    gone = removed_from([a for _, a in removes], location)
    return Commits(
        _dated(gone, longs([v for v, _ in removes]), False),
        _dated(added, longs([v for v, _ in adds]), True),
        pa.Table.from_arrays(
            [
                longs([v for v, _ in changes]),
                _keys(anywhere, [a for _, a in changes]),
                longs([a.size for _, a in changes]),
                maps([a.partition_values for _, a in changes]),
            ],
            schema=CHANGES,
        ),
    )


def _keys(location: Location, actions: Sequence[FileAction]) -> pa.Array:
    return location.file_keys(strings([action.path for action in actions]))


def _dated(files: pa.Table, version: int | pa.Array, added: bool) -> pa.Table:
    count = files.num_rows
    versions: Any = longs([version] * count) if isinstance(version, int) else version
    dated = files.append_column(EVENTS.field("version"), versions)
    return dated.append_column(EVENTS.field("added"), mask(np.full(count, added)))
