"""A table read as a stream: what is asked for, how far it has come, and how much of it is taken next. Pure.

    an offset  ->  the files of the first snapshot, one after another  ->  then commits, one after another

A stream of appends goes on file by file, also within a commit. A stream of changes goes on by whole commits, because
what happened to a row is told by all files of its commit.

1. An offset says everything about how far a stream has come: it names the next version and how many of its files are
   done, and between the same two offsets the same rows are read, whenever that is and whoever asks.
2. Offsets move forward, and by at least one file or commit where there is one.
3. An option that is not known is refused by its name, as is one that means nothing to the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Invalid
from holdfast.model.commits import CommitRange
from holdfast.plan.changefeed.query import ChangeKind, ChangeQuery
from holdfast.storage.error_mapping import MALFORMED_JSON

MOST_FILES = 1000  # per batch, where nothing is said; as in delta-spark
STORAGE = "storage."  # what options of the store are called

_FLAGS = ("ignoreDeletes", "ignoreChanges", "skipChangeCommits")
_FINER = ("includeDeleted", "dropUnchanged", "keys")
_KNOWN = (
    *("path", "kind", "readChangeFeed", "startingVersion", "startingTimestamp", "timeZone"),
    *("maxFilesPerTrigger", "maxBytesPerTrigger", *_FLAGS, *_FINER, "ranges"),
)


class Offset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a stream has come; kept as JSON in a query's checkpoint."""

    table: str
    version: int  # the next to be read
    index: int = 0  # so many of its files are done
    snapshot: bool = False  # whether the whole table at that version is being read, and not its commit
    format: int = 1


@dataclass(frozen=True, slots=True)
class FromNow:
    """Begin with the rows that are there."""


@dataclass(frozen=True, slots=True)
class FromLatest:
    """Begin with what is committed next."""


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
    """Rows of files that commits add, and what of the other commits is put up with."""

    deletes: bool = False  # commits that only take files out are passed over
    changes: bool = False  # of commits that take out and add, what they add is given, copied rows included
    skips: bool = False  # commits that take out anything are passed over


@dataclass(frozen=True, slots=True)
class Feed:
    """The change data feed."""


Told: TypeAlias = Appends | Feed | ChangeQuery


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How much a batch takes; a file is begun as long as there is room left."""

    files: int | None = MOST_FILES
    bytes: int | None = None

    def admits(self, files: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any]) -> int:
        """How many of the next portions are taken, at least one; each has so many files and bytes."""
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
    """A stream, as its options say."""

    path: str
    told: Told
    start: Start
    limits: BatchLimits
    ranges: bool = False  # one row per batch that says from where to where it goes, and no rows of the table
    storage: tuple[tuple[str, str], ...] = ()


def asked_of(options: Mapping[str, str]) -> StreamOptions:
    """Understand the options of a stream; names count whatever their case."""
    given = {name.lower(): value for name, value in options.items()}
    storage = {name.removeprefix(STORAGE): given.pop(name) for name in list(given) if name.startswith(STORAGE)}
    known = {name.lower(): name for name in (*_KNOWN, "readChangeData")}
    unknown = sorted(given.keys() - known)
    if unknown:
        raise Invalid(
            f"a stream has no option {unknown[0]!r}; it has {', '.join(_KNOWN)}, and {STORAGE}* for the store"
        )
    if not given.get("path"):
        raise Invalid("a stream needs the path of a table: load(path), or option('path', ...)")
    told = _told(given)
    limits = BatchLimits(
        _count(given, "maxFilesPerTrigger", None if "maxbytespertrigger" in given else MOST_FILES),
        _count(given, "maxBytesPerTrigger", None),
    )
    ranges = _flag(given, "ranges")
    if ranges and isinstance(told, Appends):
        raise Invalid("ranges are of changes: name a kind")
    return StreamOptions(given["path"], told, _start(given), limits, ranges, tuple(sorted(storage.items())))


def offset_of(stored: Any, table: str, url: str) -> Offset:
    """An offset as a checkpoint holds it; refused where it is of another table."""
    try:
        found = msgspec.convert(stored, Offset)
    except MALFORMED_JSON as error:
        raise Invalid(f"{stored} is no offset of a Holdfast stream: begin with a new checkpoint ({error})") from error
    if found.format != 1:
        raise Invalid(f"offsets of format {found.format} were written by a newer Holdfast: install that one")
    refuse_other_table(found, table, url)
    return found


def refuse_other_table(offset: Offset, table: str, url: str) -> None:
    """Refuse an offset that is of another table than the one that is there."""
    if offset.table != table:
        raise Invalid(
            f"the checkpoint is of another table than the one at {url}, or the table was replaced since: begin with a "
            "new checkpoint"
        )


def in_order(files: pa.Table) -> pa.Table:
    """The files of a first snapshot in the order a stream takes them: oldest first."""
    at = pc.sort_indices(files, sort_keys=[("modified_ms", "ascending"), ("key", "ascending")])
    return files.take(at)


def next_of_snapshot(start: Offset, files: pa.Table, limits: BatchLimits) -> Offset:
    """Where a batch from here on ends, within the first snapshot; `files` are all of it, in order."""
    sizes = files.column("size").to_numpy()[start.index :]
    end = start.index + limits.admits(np.ones(len(sizes), np.int64), sizes)
    if end < files.num_rows:
        return Offset(start.table, start.version, end, snapshot=True)
    return Offset(start.table, start.version + 1)


def next_of_appends(start: Offset, stretch: CommitRange, told: Appends, limits: BatchLimits) -> Offset:
    """Where a batch from here on ends, file by file."""
    added = appended(stretch, told, start)
    count = limits.admits(np.ones(added.num_rows, np.int64), added.column("size").to_numpy())
    if count >= added.num_rows:
        end = Offset(start.table, stretch.end + 1)
    else:
        version = added.column("version")[count].as_py()
        first = pc.index(added.column("version"), version).as_py()
        before = start.index if version == start.version else 0
        end = Offset(start.table, version, before + count - first)
    refuse_changes(stretch, told, start, end)
    return end


def next_of_changes(start: Offset, stretch: CommitRange, limits: BatchLimits) -> Offset:
    """Where a batch from here on ends, commit by commit."""
    versions = np.arange(stretch.start, stretch.end + 1)
    files, sizes = np.zeros(len(versions), np.int64), np.zeros(len(versions), np.int64)
    for moved in (stretch.added, stretch.removed):
        changing = moved.filter(moved.column("data_change"))
        at = changing.column("version").to_numpy() - stretch.start
        np.add.at(files, at, 1)
        np.add.at(sizes, at, pc.fill_null(changing.column("size"), 0).to_numpy())
    return Offset(start.table, stretch.start + limits.admits(files, sizes))


def appended(stretch: CommitRange, told: Appends, start: Offset, end: Offset | None = None) -> pa.Table:
    """The files of a stretch that a stream of appends gives, between two offsets, in the order of the log."""
    added = stretch.added.filter(stretch.added.column("data_change"))
    if told.skips:
        added = added.filter(pc.invert(pc.is_in(added.column("version"), value_set=_taking(stretch))))
    versions = added.column("version").to_numpy()
    places = np.arange(len(versions)) - np.searchsorted(versions, versions)  # within the commit
    kept = (versions > start.version) | ((versions == start.version) & (places >= start.index))
    if end is not None:
        kept &= (versions < end.version) | ((versions == end.version) & (places < end.index))
    return added.filter(pa.array(kept, pa.bool_()))


def refuse_changes(stretch: CommitRange, told: Appends, start: Offset, end: Offset) -> None:
    """Refuse commits that a stream of appends does not tell, up to an offset."""
    if told.changes or told.skips:
        return
    last = end.version if end.index else end.version - 1
    adding = set(stretch.added.filter(stretch.added.column("data_change")).column("version").to_pylist())
    for version in sorted(set(_taking(stretch).to_pylist())):
        if not start.version <= version <= last or (told.deletes and version not in adding):
            continue
        operation = stretch.commits[version - stretch.start].operation
        what, options = (
            ("an update of data", "skipChangeCommits=true leaves such commits out")
            if version in adding
            else ("a deletion of data", "ignoreDeletes=true leaves such commits out")
        )
        raise Invalid(
            f"version {version} ({operation}) of {stretch.after.location.url} is {what}, which a stream of appends "
            f"cannot tell: {options}; kind=append-only, upsert, min-delta or full-delta tells them right"
        )


def _taking(stretch: CommitRange) -> pa.Array:
    """The versions that take out rows."""
    removed = stretch.removed.filter(stretch.removed.column("data_change"))
    return pc.unique(removed.column("version"))


def _told(given: Mapping[str, str]) -> Told:
    feed = _flag(given, "readChangeFeed") or _flag(given, "readChangeData")
    flags = (_flag(given, _FLAGS[0]), _flag(given, _FLAGS[1]), _flag(given, _FLAGS[2]))
    finer = [name for name in _FINER if name.lower() in given]
    if "kind" not in given or feed:
        if finer or "kind" in given:
            raise Invalid(f"{finer[0] if finer else 'kind'} is for changes by row id, not for a stream without kind")
        if not feed:
            return Appends(*flags)
    if any(flags):
        raise Invalid(f"{_FLAGS[flags.index(True)]} is for a stream of appends: changes leave nothing out")
    if feed:
        return Feed()
    try:
        kind = ChangeKind(given["kind"])
    except ValueError:
        offered = ", ".join(k.value for k in ChangeKind)
        raise Invalid(f"there is no kind of changes {given['kind']!r}; ask for one of {offered}") from None
    keys = tuple(key.strip() for key in given.get("keys", "").split(",") if key.strip())
    return ChangeQuery(kind, keys, _flag(given, "includeDeleted"), _flag(given, "dropUnchanged"))


def _start(given: Mapping[str, str]) -> Start:
    version, moment = given.get("startingversion"), given.get("startingtimestamp")
    if version is not None and moment is not None:
        raise Invalid("startingVersion and startingTimestamp exclude each other: choose one")
    if moment is not None:
        return FromMoment(moment, given.get("timezone", "UTC"))
    if "timezone" in given:
        raise Invalid("timeZone is for startingTimestamp, which is not given")
    if version is None:
        return FromNow()
    if version.strip().lower() == "latest":
        return FromLatest()
    if not version.strip().isdigit():
        raise Invalid(f"startingVersion is a version or latest, not {version!r}")
    return FromVersion(int(version))


def _flag(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name.lower(), "false").strip().lower()
    if text not in ("true", "false"):
        raise Invalid(f"{name} is true or false, not {text!r}")
    return text == "true"


def _count(given: Mapping[str, str], name: str, otherwise: int | None) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return otherwise
    if not text.strip().isdigit() or int(text) < 1:
        raise Invalid(f"{name} is a whole number from 1 on, not {text!r}")
    return int(text)
