"""The part of a log that describes one version: a checkpoint, and the commits after it.

A log usually offers several ways to the same version. They are listed best first, so that a damaged file is read
around by taking the next way.

1. A segment's files cover every version from 0, or from the one after its checkpoint, to its own without a gap.
2. A checkpoint of several parts counts only when every part is there, and never when newer than the version asked for.
3. Any complete checkpoint of a version may stand for it; newer ones are preferred, the last way has none.
4. Compacted files are used where they tile; a plain commit is taken otherwise.
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
    """What must be read to know the table at `version`; `deltas` are commits and compacted files, oldest first."""

    version: int
    checkpoint: Checkpoint | None
    deltas: tuple[ObjectMeta, ...]


@dataclass(frozen=True, slots=True)
class LogListing:
    """What a log directory holds, sorted by what it is. Checkpoints are newest first, best first within a version."""

    directory: str
    commits: Mapping[int, ObjectMeta]
    checkpoints: tuple[Checkpoint, ...]
    compacted: Mapping[int, tuple[tuple[int, ObjectMeta], ...]]  # by start: (end, file), longest first
    checksums: Mapping[int, ObjectMeta]

    @property
    def latest(self) -> int | None:
        """The newest version the directory shows."""
        newest = max(self.commits, default=-1)
        if self.checkpoints:
            newest = max(newest, self.checkpoints[0].version)
        return None if newest < 0 else newest


def read_listing(found: Iterable[ObjectMeta], *, directory: str) -> LogListing:
    """Sort the files of a log directory by what they are."""
    commits: dict[int, ObjectMeta] = {}
    checksums: dict[int, ObjectMeta] = {}
    compacted: dict[int, list[tuple[int, ObjectMeta]]] = defaultdict(list)
    whole: list[Checkpoint] = []
    parts: dict[tuple[int, int], dict[int, ObjectMeta]] = defaultdict(dict)
    for meta in found:
        match parse_log_name(meta.name):
            case Commit(version):
                commits[version] = meta
            case Checksum(version):
                checksums[version] = meta
            case CompactedLog(start, end):
                compacted[start].append((end, meta))
            case ClassicCheckpoint(version):
                whole.append(Checkpoint(version, (meta,)))
            case UniqueCheckpoint(version):
                whole.append(Checkpoint(version, (meta,), unique=True))
            case PartCheckpoint(version, part, count):
                parts[version, count][part] = meta
            case _:
                pass
    whole += [
        Checkpoint(version, tuple(have[n] for n in range(1, count + 1)))
        for (version, count), have in parts.items()
        if len(have) == count
    ]
    # One file before many, the newest file first: a checkpoint written over a broken one is the better one.
    whole.sort(key=lambda c: (-c.version, len(c.files), -c.files[0].modified_ms, c.files[0].name))
    return LogListing(
        directory,
        commits,
        tuple(whole),
        {start: tuple(sorted(ends, key=lambda e: -e[0])) for start, ends in compacted.items()},
        checksums,
    )


def without(listing: LogListing, names: Collection[str]) -> LogListing:
    """The listing as if these files were not there."""
    compacted = {s: tuple(e for e in ends if e[1].name not in names) for s, ends in listing.compacted.items()}
    return LogListing(
        listing.directory,
        {v: m for v, m in listing.commits.items() if m.name not in names},
        tuple(c for c in listing.checkpoints if not any(m.name in names for m in c.files)),
        compacted,
        listing.checksums,
    )


def segments_from(listing: LogListing, *, at: int | None = None) -> Iterator[LogSegment]:
    """Every way to a version, best first; to the latest by default."""
    target = listing.latest if at is None else at
    if target is None or target < 0:
        return
    for checkpoint in listing.checkpoints:
        if checkpoint.version <= target:
            deltas = _cover(listing, checkpoint.version + 1, target)
            if deltas is not None:
                yield LogSegment(target, checkpoint, deltas)
    deltas = _cover(listing, 0, target)
    if deltas is not None:
        yield LogSegment(target, None, deltas)


def missing_commit(listing: LogListing, *, at: int | None = None) -> Damaged | UnknownVersion:
    """Why no way leads to a version: one that was never there or is gone, or a hole in the log."""
    latest = listing.latest
    assert latest is not None, "a log without versions has no version to miss"
    target = latest if at is None else at
    readable = [v for v in readable_versions(listing) if v <= latest]
    shown = _ranges(readable)
    if target > latest or target < 0 or (readable and target < readable[0]):
        told = f"readable are versions {shown}" if readable else "no version is readable"
        return UnknownVersion(f"version {target} is not in the log at {listing.directory}: {told}", version=target)
    start = max((c.version for c in listing.checkpoints if c.version <= target), default=-1) + 1
    hole = next(v for v in range(start, target + 1) if v not in listing.commits)
    told = f"; versions {shown} can still be read" if readable else ""
    return Damaged(
        f"the commit of version {hole} is missing from {listing.directory}, so version {target} cannot be "
        f"reconstructed{told}",
        path=f"{listing.directory}/{hole:020d}.json",
        expected=f"a commit of version {hole}",
    )


def readable_versions(listing: LogListing) -> list[int]:
    """Versions that the log still describes, ascending."""
    checkpoints = {c.version for c in listing.checkpoints}
    found = []
    whole = True  # whether the version before is described; before version 0 there is nothing to describe
    previous = -1
    for version in sorted(checkpoints | listing.commits.keys()):
        follows = whole and version == previous + 1 and version in listing.commits
        whole = version in checkpoints or follows
        if whole:
            found.append(version)
        previous = version
    return found


def _cover(listing: LogListing, start: int, target: int) -> tuple[ObjectMeta, ...] | None:
    if listing.compacted:
        tiled = _tile(listing, start, target)
        if tiled is not None:
            return tiled
    if any(version not in listing.commits for version in range(start, target + 1)):
        return None
    return tuple(listing.commits[version] for version in range(start, target + 1))


def _tile(listing: LogListing, start: int, target: int) -> tuple[ObjectMeta, ...] | None:
    tiles = []
    version = start
    while version <= target:
        end, meta = next((e for e in listing.compacted.get(version, ()) if e[0] <= target), (version, None))
        meta = meta or listing.commits.get(version)
        if meta is None:
            return None
        tiles.append(meta)
        version = end + 1
    return tuple(tiles)


def _ranges(versions: list[int]) -> str:
    spans: list[list[int]] = []
    for version in versions:
        if spans and version == spans[-1][1] + 1:
            spans[-1][1] = version
        else:
            spans.append([version, version])
    shown = [f"{a}" if a == b else f"{a} to {b}" for a, b in spans]
    return ", ".join(shown if len(shown) <= 6 else [*shown[:3], "...", *shown[-2:]])
