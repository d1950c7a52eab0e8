"""Which idle files a vacuum must keep, from as few files of the log as possible.

Idle files are old and not in the newest version. They are compared, as long as any are left that may be deleted, with:
the indexes and tombstones of the newest version, the version at the horizon, the commits after the horizon, and the
pinned versions. The version at the horizon is the last one that was written before the retention begins.

1. Files of the version at the horizon are kept: they were removed within the retention, if at all.
2. A removal that this version does not have happened within the retention, whatever its timestamp.
3. A file that was added and removed within the retention has a tombstone in the newest version, unless a checkpoint
   has dropped it. The commits to which this may apply are read.
4. Tombstones do not name change files and files of indexes. Before one of these is deleted, every commit within the
   retention is read, however old the file is. The same holds where tombstones have no timestamp.
5. Where the log begins after the horizon, its first version is used instead, and the commit of that version is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import UnknownVersion
from holdfast.formats.delta.history.reachable import all_keys, commit_columns, with_dv_keys
from holdfast.formats.delta.log.actions import DomainMetadata
from holdfast.formats.delta.log.listing import read_commits
from holdfast.formats.delta.log.segment import LogListing, readable_versions, segments_from
from holdfast.formats.delta.log.times import file_times
from holdfast.formats.delta.log.tombstones import file_retention_ms, tombstone_ids, tombstones
from holdfast.formats.delta.state import DeltaState, load
from holdfast.model.versions import Versions
from holdfast.storage.arrays import strings
from holdfast.storage.location import Location
from holdfast.storage.prefetch import each

SKEW_MS = 3_600_000  # that clocks of writers may differ by

Domains = Iterable[tuple[str, str]]  # names and configurations


@dataclass(frozen=True)
class Horizon:
    """The point in a log where the retention begins."""

    moment_ms: int
    listing: LogListing
    described: Versions  # those that the log can still replay
    version: int  # the last one written before the moment, or the first one in the log
    times: Mapping[int, int]  # when each commit was written, by version

    @property
    def recent(self) -> list[int]:
        """The versions of the commits within the retention."""
        return [v for v, ms in self.times.items() if ms >= self.moment_ms]

    def last_before(self, moment_ms: int) -> int | None:
        """The version of the last commit before a time."""
        return max((v for v, ms in self.times.items() if ms < moment_ms), default=None)

    @property
    def first_commit(self) -> int:
        """The first version from which on no commit is missing."""
        first, last = self.described.spans[-1]
        lone = max((v for v in range(first, last + 1) if v not in self.listing.commits), default=None)
        return first if lone is None else lone + 1


@dataclass(frozen=True)
class Reach:
    """The idle files to keep, by reason."""

    needed: pa.Array  # keys, for versions within the retention, and of indexes
    pinned: dict[str, pa.Array]  # keys, by the pin's name
    unpinnable: tuple[str, ...]  # pins whose version the log no longer describes


def horizon_of(location: Location, listing: LogListing, *, newest: int, moment_ms: int) -> Horizon:
    """The horizon at a time, in the log up to a version."""
    described = [v for v in readable_versions(listing) if v <= newest]
    if not described:
        raise UnknownVersion(f"no version of the table at {location.url} can be read: its log has holes")
    times = {v: ms for v, ms in file_times(listing).items() if v <= newest}
    first = min((v for v, ms in times.items() if ms >= moment_ms), default=newest + 1)
    version = max((v for v in described if v < first), default=described[0])
    return Horizon(moment_ms, listing, Versions.of(described), version, times)


def reach(
    state: DeltaState,
    horizon: Horizon,
    idle: pa.Table,
    pins: Mapping[str, int],
    *,
    of_domains: Callable[[pa.Array, Domains], pa.Array],
) -> Reach:
    """The idle files to keep; `idle` has a column `key`.

    `of_domains` returns the keys that the domain metadata of a version refers to.
    """
    location = state.snapshot.location
    unpinnable = tuple(name for name, version in pins.items() if version not in horizon.described)
    names = [name for name in pins if name not in unpinnable]
    candidates = _Idle(idle.column("key").combine_chunks(), of_domains)
    candidates.keep(strings([]), _configured(state.domains))
    _keep_recent(state, horizon, candidates)
    pinned = {name: strings([]) for name in names}
    if len(candidates.keys):
        for name, pinned_state in zip(names, _states(location, [pins[name] for name in names]), strict=True):
            pinned[name] = file_keys(pinned_state)
            candidates.keep(strings([]), _configured(pinned_state.domains))
    return Reach(pa.concat_arrays(candidates.kept), pinned, unpinnable)


def file_keys(state: DeltaState) -> pa.Array:
    """The keys of a version's files and of the files that hold their deletion vectors."""
    return all_keys(with_dv_keys(state.snapshot.location, state.snapshot.files.table))


@dataclass
class _Idle:
    """The keys of idle files that may still be deleted, and of those to keep."""

    keys: pa.Array
    of_domains: Callable[[pa.Array, Domains], pa.Array]
    kept: list[pa.Array] = field(default_factory=lambda: [strings([])])

    def keep(self, keys: pa.Array, domains: Domains = ()) -> None:
        needed = pa.concat_arrays([keys, self.of_domains(self.keys, domains)])
        self.kept.append(self.keys.filter(pc.is_in(self.keys, value_set=needed)))
        self.keys = _without(self.keys, needed)


def _keep_recent(state: DeltaState, horizon: Horizon, candidates: _Idle) -> None:
    """Keeps the files of versions within the retention, as long as idle files are left."""
    location, listing = state.snapshot.location, horizon.listing
    if not len(candidates.keys):
        return
    removed = with_dv_keys(location, tombstones(state, segments=segments_from(listing, at=state.version)))
    candidates.keep(_removed_since(removed, horizon.moment_ms))
    if not len(candidates.keys) or not horizon.recent:
        return
    horizon_state = state if horizon.version == state.version else load(location.anywhere, version=horizon.version)
    candidates.keep(file_keys(horizon_state), _configured(horizon_state.domains))
    if not len(candidates.keys):
        return
    before = with_dv_keys(
        location, tombstones(horizon_state, segments=segments_from(listing, at=horizon_state.version))
    )
    since = removed.filter(pc.invert(pc.is_in(tombstone_ids(removed), value_set=tombstone_ids(before))))
    candidates.keep(all_keys(since))
    candidates.keep(_removed_since(before, horizon.moment_ms))  # tombstones that later checkpoints dropped
    commits = horizon.recent
    untimed = removed.column("deleted_ms").null_count + before.column("deleted_ms").null_count
    if not untimed and not pc.any(pc.starts_with(candidates.keys, "_")).as_py():
        until_ms = _complete_since(listing, state, horizon_state)
        commits = [v for v in commits if v == horizon.version or horizon.times[v] < until_ms]
    for keys, domains in _commit_keys(location, listing, commits):
        candidates.keep(keys, domains)


def _complete_since(listing: LogListing, state: DeltaState, horizon_state: DeltaState) -> int:
    """The time from which on no checkpoint has dropped a tombstone with a timestamp."""
    written = [meta.modified_ms for c in listing.checkpoints if c.version <= state.version for meta in c.files]
    return max(written) - min(file_retention_ms(state), file_retention_ms(horizon_state)) + SKEW_MS if written else 0


def _removed_since(removed: pa.Table, moment_ms: int) -> pa.Array:
    """The keys of files whose tombstone has this timestamp or a later one."""
    return all_keys(removed.filter(pc.greater_equal(pc.fill_null(removed.column("deleted_ms"), 0), moment_ms)))


def _commit_keys(
    location: Location, listing: LogListing, versions: list[int]
) -> Iterator[tuple[pa.Array, list[tuple[str, str]]]]:
    """The files of each commit, and the domain metadata that it sets."""
    for version, lines in read_commits(location, listing, versions):
        commit = commit_columns(location, [(version, line) for line in lines])
        files = with_dv_keys(location, pa.concat_tables([commit.adds, commit.removes]))
        keys = pa.concat_arrays([all_keys(files), commit.changes.column("key").combine_chunks()])
        set_here = (line.domain_metadata for line in lines if line.domain_metadata is not None)
        yield keys, list(_configured({domain.domain: domain for domain in set_here}))


def _configured(domains: Mapping[str, DomainMetadata]) -> Iterator[tuple[str, str]]:
    for name, domain in domains.items():
        if not domain.removed and domain.configuration is not None:
            yield name, domain.configuration


def _states(location: Location, versions: list[int]) -> Iterator[DeltaState]:
    return each(location.store, lambda version: load(location.anywhere, version=version), versions)


def _without(keys: pa.Array, others: pa.Array) -> pa.Array:
    return keys.filter(pc.invert(pc.is_in(keys, value_set=others)))
