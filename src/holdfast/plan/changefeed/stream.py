"""Options, offsets and batch sizes of a table that is read as a stream. Pure.

    an offset  ->  the files of the first snapshot, one after another  ->  then commits, one after another

A stream of appends advances file by file, also within a commit. A stream of changes advances by whole commits, because
the change type of a row depends on all files of its commit.

1. An offset is the whole state of a stream: the next version, and how many of its files were read. The rows between
   two offsets are always the same.
2. Offsets move forward, by at least one file or commit if there is one.
3. An unknown option is refused by its name, as is an option that does not fit the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import Invalid
from holdfast.model.commits import CommitRange
from holdfast.plan.changefeed.query import ChangeKind, ChangeQuery
from holdfast.storage.error_mapping import MALFORMED_JSON

MOST_FILES = 1000  # per batch, by default; as in delta-spark
STORAGE = "storage."  # the prefix of options of the store

_FLAGS = ("ignoreDeletes", "ignoreChanges", "skipChangeCommits")
_FINER = ("includeDeleted", "dropUnchanged", "keys")
_OPTIONS = (
    *("path", "kind", "readChangeFeed", "startingVersion", "startingTimestamp", "timeZone"),
    *("maxFilesPerTrigger", "maxBytesPerTrigger", *_FLAGS, *_FINER, "ranges"),
)


class Offset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a stream has come; kept as JSON in a query's checkpoint."""

    table: str
    version: int  # the next to be read
    index: int = 0  # how many of its files were read
    snapshot: bool = False  # whether the stream reads the whole table at that version, and not its commit
    format: int = 1


@dataclass(frozen=True, slots=True)
class FromNow:
    """Begin with all rows of the table."""


@dataclass(frozen=True, slots=True)
class FromLatest:
    """Begin with the next commit."""


@dataclass(frozen=True, slots=True)
class FromVersion:
    version: int


@dataclass(frozen=True, slots=True)
class FromMoment:
    text: str
    zone: str


Start: TypeAlias = FromNow | FromLatest | FromVersion | FromMoment


@dataclass(frozen=True, slots=True)
class Appends:
    """Rows of files that commits add, and how to treat commits that remove files."""

    deletes: bool = False  # skip commits that only remove files
    changes: bool = False  # give the files that other commits add, copied rows included
    skips: bool = False  # skip every commit that removes a file


@dataclass(frozen=True, slots=True)
class Feed:
    """The change data feed."""


StreamContent: TypeAlias = Appends | Feed | ChangeQuery


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How much a batch reads; a file is begun while there is room left."""

    files: int | None = MOST_FILES
    bytes: int | None = None

    def admits(self, files: NDArray[np.int64], sizes: NDArray[np.int64]) -> int:
        """How many of the next portions a batch reads, at least one; the arrays have the files and bytes of each."""
        room = np.ones(len(files), bool)
        if self.files is not None:
            room &= np.cumsum(files) - files < self.files
        if self.bytes is not None:
            room &= np.cumsum(sizes) - sizes < self.bytes
        if len(room):
            room[0] = True
        return len(room) if room.all() else int(np.argmin(room))


@dataclass(frozen=True, slots=True)
class StreamOptions:
    path: str
    content: StreamContent
    start: Start
    limits: BatchLimits
    ranges: bool = False  # one row per batch, with its start and end, and no rows of the table
    storage: tuple[tuple[str, str], ...] = ()


def parse_options(given: Mapping[str, str]) -> StreamOptions:
    """Parse the options of a stream; the case of names does not matter."""
    options = {name.lower(): value for name, value in given.items()}
    storage = {name.removeprefix(STORAGE): options.pop(name) for name in list(options) if name.startswith(STORAGE)}
    known = {name.lower(): name for name in (*_OPTIONS, "readChangeData")}
    unknown = sorted(options.keys() - known)
    if unknown:
        raise Invalid(
            f"a stream has no option {unknown[0]!r}; it has {', '.join(_OPTIONS)}, and {STORAGE}* for the store"
        )
    if not options.get("path"):
        raise Invalid("a stream needs the path of a table: load(path), or option('path', ...)")
    content = _content(options)
    limits = BatchLimits(
        _count(options, "maxFilesPerTrigger", None if "maxbytespertrigger" in options else MOST_FILES),
        _count(options, "maxBytesPerTrigger", None),
    )
    ranges = _flag(options, "ranges")
    if ranges and isinstance(content, Appends):
        raise Invalid("ranges are of changes: name a kind")
    return StreamOptions(options["path"], content, _start(options), limits, ranges, tuple(sorted(storage.items())))


def offset_of(stored: object, table: str, url: str) -> Offset:
    """Parse an offset from a checkpoint; refused if it belongs to another table."""
    try:
        offset = msgspec.convert(stored, Offset)
    except MALFORMED_JSON as error:
        raise Invalid(f"{stored} is no offset of a Holdfast stream: begin with a new checkpoint ({error})") from error
    if offset.format != 1:
        raise Invalid(f"offsets of format {offset.format} were written by a newer Holdfast: install that one")
    refuse_other_table(offset, table, url)
    return offset


def refuse_other_table(offset: Offset, table: str, url: str) -> None:
    if offset.table != table:
        raise Invalid(
            f"the checkpoint is of another table than the one at {url}, or the table was replaced since: begin with a "
            "new checkpoint"
        )


def in_order(files: pa.Table) -> pa.Table:
    """The files of the first snapshot in the order a stream reads them: oldest first."""
    at = pc.sort_indices(files, sort_keys=[("modified_ms", "ascending"), ("key", "ascending")])
    return files.take(at)


def next_of_snapshot(start: Offset, files: pa.Table, limits: BatchLimits) -> Offset:
    """The end of a batch within the first snapshot; `files` are all files of the snapshot, in order."""
    sizes = files.column("size").to_numpy()[start.index :]
    end = start.index + limits.admits(np.ones(len(sizes), np.int64), sizes)
    if end < files.num_rows:
        return Offset(start.table, start.version, end, snapshot=True)
    return Offset(start.table, start.version + 1)


def next_of_appends(start: Offset, commit_range: CommitRange, policy: Appends, limits: BatchLimits) -> Offset:
    added = appended(commit_range, policy, start)
    count = limits.admits(np.ones(added.num_rows, np.int64), added.column("size").to_numpy())
    if count >= added.num_rows:
        end = Offset(start.table, commit_range.end + 1)
    else:
        version = added.column("version")[count].as_py()
        first = pc.index(added.column("version"), version).as_py()
        before = start.index if version == start.version else 0
        end = Offset(start.table, version, before + count - first)
    refuse_changes(commit_range, policy, start, end)
    return end


def next_of_changes(start: Offset, commit_range: CommitRange, limits: BatchLimits) -> Offset:
    versions = np.arange(commit_range.start, commit_range.end + 1)
    files, sizes = np.zeros(len(versions), np.int64), np.zeros(len(versions), np.int64)
    for moved in (commit_range.added, commit_range.removed):
        changing = moved.filter(moved.column("data_change"))
        at = changing.column("version").to_numpy() - commit_range.start
        np.add.at(files, at, 1)
        np.add.at(sizes, at, pc.fill_null(changing.column("size"), 0).to_numpy())
    return Offset(start.table, commit_range.start + limits.admits(files, sizes))


def appended(commit_range: CommitRange, policy: Appends, start: Offset, end: Offset | None = None) -> pa.Table:
    """The files that a stream of appends reads between two offsets, in the order of the log."""
    added = commit_range.added.filter(commit_range.added.column("data_change"))
    if policy.skips:
        added = added.filter(pc.invert(pc.is_in(added.column("version"), value_set=_removing(commit_range))))
    versions = added.column("version").to_numpy()
    places = np.arange(len(versions)) - np.searchsorted(versions, versions)  # within the commit
    chosen = (versions > start.version) | ((versions == start.version) & (places >= start.index))
    if end is not None:
        chosen &= (versions < end.version) | ((versions == end.version) & (places < end.index))
    return added.filter(pa.array(chosen, pa.bool_()))


def refuse_changes(commit_range: CommitRange, policy: Appends, start: Offset, end: Offset) -> None:
    """Refuse commits that change rows, up to an offset, unless the policy allows them."""
    if policy.changes or policy.skips:
        return
    last = end.version if end.index else end.version - 1
    adding = set(commit_range.added.filter(commit_range.added.column("data_change")).column("version").to_pylist())
    for version in sorted(set(_removing(commit_range).to_pylist())):
        if not start.version <= version <= last or (policy.deletes and version not in adding):
            continue
        operation = commit_range.commits[version - commit_range.start].operation
        what, options = (
            ("an update of data", "skipChangeCommits=true leaves such commits out")
            if version in adding
            else ("a deletion of data", "ignoreDeletes=true leaves such commits out")
        )
        raise Invalid(
            f"version {version} ({operation}) of {commit_range.after.location.url} is {what}, which a stream of "
            f"appends cannot tell: {options}; kind=append-only, upsert, min-delta or full-delta tells them right"
        )


def _removing(commit_range: CommitRange) -> pa.Array:
    """The versions that remove rows."""
    removed = commit_range.removed.filter(commit_range.removed.column("data_change"))
    return pc.unique(removed.column("version"))


def _content(options: Mapping[str, str]) -> StreamContent:
    feed = _flag(options, "readChangeFeed") or _flag(options, "readChangeData")
    flags = (_flag(options, _FLAGS[0]), _flag(options, _FLAGS[1]), _flag(options, _FLAGS[2]))
    finer = [name for name in _FINER if name.lower() in options]
    if "kind" not in options or feed:
        if finer or "kind" in options:
            raise Invalid(f"{finer[0] if finer else 'kind'} is for changes by row id, not for a stream without kind")
        if not feed:
            return Appends(*flags)
    if any(flags):
        raise Invalid(f"{_FLAGS[flags.index(True)]} is for a stream of appends: changes leave nothing out")
    if feed:
        return Feed()
    try:
        kind = ChangeKind(options["kind"])
    except ValueError:
        offered = ", ".join(k.value for k in ChangeKind)
        raise Invalid(f"there is no kind of changes {options['kind']!r}; ask for one of {offered}") from None
    keys = tuple(key.strip() for key in options.get("keys", "").split(",") if key.strip())
    return ChangeQuery(kind, keys, _flag(options, "includeDeleted"), _flag(options, "dropUnchanged"))


def _start(options: Mapping[str, str]) -> Start:
    version, moment = options.get("startingversion"), options.get("startingtimestamp")
    if version is not None and moment is not None:
        raise Invalid("startingVersion and startingTimestamp exclude each other: choose one")
    if moment is not None:
        return FromMoment(moment, options.get("timezone", "UTC"))
    if "timezone" in options:
        raise Invalid("timeZone is for startingTimestamp, which is not given")
    if version is None:
        return FromNow()
    if version.strip().lower() == "latest":
        return FromLatest()
    if not version.strip().isdigit():
        raise Invalid(f"startingVersion is a version or latest, not {version!r}")
    return FromVersion(int(version))


def _flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name.lower(), "false").strip().lower()
    if text not in ("true", "false"):
        raise Invalid(f"{name} is true or false, not {text!r}")
    return text == "true"


def _count(options: Mapping[str, str], name: str, otherwise: int | None) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return otherwise
    if not text.strip().isdigit() or int(text) < 1:
        raise Invalid(f"{name} is a whole number from 1 on, not {text!r}")
    return int(text)
