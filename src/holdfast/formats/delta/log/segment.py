"""Log segments: a checkpoint and the commits after it, from which a version can be replayed.

A log usually has several segments for a version. They are listed best first, so that a reader avoids a damaged file by
taking the next one.

1. A segment covers every version from 0, or from the one after its checkpoint, to its own without a gap.
2. A multi-part checkpoint is used only when it has all its parts, and no checkpoint newer than the version is used.
3. Any complete checkpoint of a version may be used; newer ones are preferred, and the last segment has none.
4. Compacted files are used where they fit the range; plain commits otherwise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from holdfast.errors import Damaged, UnknownVersion
from holdfast.formats.delta.log.file_names import (
    Checksum,
    ClassicCheckpoint,
    Commit,
    CompactedLog,
    PartCheckpoint,
    UniqueCheckpoint,
    parse_log_name,
)
from holdfast.storage.base import ObjectMeta


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint: one file, or all its parts in order."""

    version: int
    files: tuple[ObjectMeta, ...]
    unique: bool = False  # named by a uuid, hence V2

    @property
    def name(self) -> str:
        more = f" and {len(self.files) - 1} more parts" if len(self.files) > 1 else ""
        return self.files[0].name + more


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The files to replay for `version`; `deltas` are commits and compacted files, oldest first."""

    version: int
    checkpoint: Checkpoint | None
    deltas: tuple[ObjectMeta, ...]


@dataclass(frozen=True, slots=True)
class LogListing:
    """The files of a log directory by kind; checkpoints newest first, best first within a version."""

    directory: str
    commits: Mapping[int, ObjectMeta]
    checkpoints: tuple[Checkpoint, ...]
    compacted: Mapping[int, tuple[tuple[int, ObjectMeta], ...]]  # by start: (end, file), longest first
    checksums: Mapping[int, ObjectMeta]

    @property
    def latest(self) -> int | None:
        """The newest version of the log."""
        newest = max(self.commits, default=-1)
        if self.checkpoints:
            newest = max(newest, self.checkpoints[0].version)
        return None if newest < 0 else newest


def read_listing(files: Iterable[ObjectMeta], *, directory: str) -> LogListing:
    """Sorts the files of a log directory by kind."""
    commits: dict[int, ObjectMeta] = {}
    checksums: dict[int, ObjectMeta] = {}
    compacted: dict[int, list[tuple[int, ObjectMeta]]] = defaultdict(list)
    checkpoints: list[Checkpoint] = []
    parts: dict[tuple[int, int], dict[int, ObjectMeta]] = defaultdict(dict)
    for meta in files:
        match parse_log_name(meta.name):
            case Commit(version):
                commits[version] = meta
            case Checksum(version):
                checksums[version] = meta
            case CompactedLog(start, end):
                compacted[start].append((end, meta))
            case ClassicCheckpoint(version):
                checkpoints.append(Checkpoint(version, (meta,)))
            case UniqueCheckpoint(version):
                checkpoints.append(Checkpoint(version, (meta,), unique=True))
            case PartCheckpoint(version, part, count):
                parts[version, count][part] = meta
            case _:
                pass
    checkpoints += [
        Checkpoint(version, tuple(files_by_part[n] for n in range(1, count + 1)))
        for (version, count), files_by_part in parts.items()
        if len(files_by_part) == count
    ]
    # The newest file first: a checkpoint that was written later may replace a broken one.
    checkpoints.sort(key=lambda c: (-c.version, len(c.files), -c.files[0].modified_ms, c.files[0].name))
    return LogListing(
        directory,
        commits,
        tuple(checkpoints),
        {start: tuple(sorted(ends, key=lambda e: -e[0])) for start, ends in compacted.items()},
        checksums,
    )


def without(listing: LogListing, names: Collection[str]) -> LogListing:
    """The listing without these files."""
    compacted = {s: tuple(e for e in ends if e[1].name not in names) for s, ends in listing.compacted.items()}
    return LogListing(
        listing.directory,
        {v: m for v, m in listing.commits.items() if m.name not in names},
        tuple(c for c in listing.checkpoints if not any(m.name in names for m in c.files)),
        compacted,
        listing.checksums,
    )


def segments_from(listing: LogListing, *, at: int | None = None) -> Iterator[LogSegment]:
    """Every segment for a version, best first; for the latest version by default."""
    target = listing.latest if at is None else at
    if target is None or target < 0:
        return
    for checkpoint in listing.checkpoints:
        if checkpoint.version <= target and (deltas := _deltas(listing, checkpoint.version + 1, target)) is not None:
            yield LogSegment(target, checkpoint, deltas)
    if (deltas := _deltas(listing, 0, target)) is not None:
        yield LogSegment(target, None, deltas)


def missing_commit(listing: LogListing, *, at: int | None = None) -> Damaged | UnknownVersion:
    """The error for a version that has no segment: an unknown version, or a missing commit."""
    latest = listing.latest
    assert latest is not None, "a log without versions has no version to miss"
    target = latest if at is None else at
    readable = [v for v in readable_versions(listing) if v <= latest]
    ranges = _ranges(readable)
    if target > latest or target < 0 or (readable and target < readable[0]):
        advice = f"readable are versions {ranges}" if readable else "no version is readable"
        return UnknownVersion(f"version {target} is not in the log at {listing.directory}: {advice}", version=target)
    start = max((c.version for c in listing.checkpoints if c.version <= target), default=-1) + 1
    hole = next(v for v in range(start, target + 1) if v not in listing.commits)
    advice = f"; versions {ranges} can still be read" if readable else ""
    return Damaged(
        f"the commit of version {hole} is missing from {listing.directory}, so version {target} cannot be "
        f"reconstructed{advice}",
        path=f"{listing.directory}/{hole:020d}.json",
        expected=f"a commit of version {hole}",
    )


def readable_versions(listing: LogListing) -> list[int]:
    """Versions that have a segment, ascending."""
    checkpoints = {c.version for c in listing.checkpoints}
    readable = [-1]  # before version 0 there is nothing to read
    for version in sorted(checkpoints | listing.commits.keys()):
        if version in checkpoints or (version == readable[-1] + 1 and version in listing.commits):
            readable.append(version)
    return readable[1:]


def _deltas(listing: LogListing, start: int, target: int) -> tuple[ObjectMeta, ...] | None:
    """The commits and compacted files of a commit range; None where one is missing."""
    if listing.compacted and (deltas := _with_compactions(listing, start, target)) is not None:
        return deltas
    if any(version not in listing.commits for version in range(start, target + 1)):
        return None
    return tuple(listing.commits[version] for version in range(start, target + 1))


def _with_compactions(listing: LogListing, start: int, target: int) -> tuple[ObjectMeta, ...] | None:
    deltas = []
    version = start
    while version <= target:
        end, meta = next((e for e in listing.compacted.get(version, ()) if e[0] <= target), (version, None))
        meta = meta or listing.commits.get(version)
        if meta is None:
            return None
        deltas.append(meta)
        version = end + 1
    return tuple(deltas)


def _ranges(versions: list[int]) -> str:
    spans: list[list[int]] = []
    for version in versions:
        if spans and version == spans[-1][1] + 1:
            spans[-1][1] = version
        else:
            spans.append([version, version])
    shown = [f"{a}" if a == b else f"{a} to {b}" for a, b in spans]
    return ", ".join(shown if len(shown) <= 6 else [*shown[:3], "...", *shown[-2:]])
