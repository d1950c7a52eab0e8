"""What must stay of a table when files that nothing needs are deleted, from the few files of its log that can tell.

    idle files: old, and not of the newest version
      ->  its indexes, tombstones  ->  the version at the horizon  ->  commits after the horizon  ->  pinned versions

Each step is taken only while idle files are left that the steps before do not keep. The version at the horizon is the
last one that was written before it.

1. What the version at the horizon has stays: whoever removed it did so within the retention.
2. A removal that this version does not know of happened within the retention, whatever time the log gives for it.
3. A file that came, or came back, and went within the retention is told by tombstones of the newest version, except
   where checkpoints may have forgotten its removal. The commits that this may be true of are read.
4. Tombstones name no change files and no files of indexes. Before one of these goes every commit within the retention
   is read, however much older the file is than the commit that may name it. So it is where removals give no time.
5. Where the log begins after the horizon, its first version stands for the one at the horizon, and its commit is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import UnknownVersion
from holdfast.formats.delta.history.reachable import all_keys, commit_columns, with_vectors
from holdfast.formats.delta.log.actions import DomainMetadata
from holdfast.formats.delta.log.listing import read_lines
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
    """Where the retention begins in a log."""

    moment_ms: int
    listing: LogListing
    described: Versions  # what the log can still tell of
    version: int  # the last one written before the moment, or the first one there is
    times: Mapping[int, int]  # when each commit was written, by version

    @property
    def recent(self) -> list[int]:
        """The commits written at the moment or later."""
        return [v for v, ms in self.times.items() if ms >= self.moment_ms]

    def last_before(self, moment_ms: int) -> int | None:
        """The last commit written before some moment."""
        return max((v for v, ms in self.times.items() if ms < moment_ms), default=None)

    @property
    def first_commit(self) -> int:
        """The first version from which on no commit is missing."""
        first, last = self.described.spans[-1]
        lone = max((v for v in range(first, last + 1) if v not in self.listing.commits), default=None)
        return first if lone is None else lone + 1


@dataclass(frozen=True)
class Reach:
    """What must stay of idle files, by the reason why."""

    needed: pa.Array  # keys, for versions within the retention, and of indexes
    pinned: dict[str, pa.Array]  # keys, by the pin's name
    unpinnable: tuple[str, ...]  # pins whose version the log no longer describes


def horizon_of(location: Location, listing: LogListing, *, newest: int, moment_ms: int) -> Horizon:
    """Where a moment is in the log of a table, up to a version of it."""
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
    """What must stay of files that the newest version does not have; `idle` has a column `key`.

    `of_domains` gives those of some keys that the domains of a version refer to.
    """
    location = state.snapshot.location
    unpinnable = tuple(name for name, version in pins.items() if version not in horizon.described)
    names = [name for name in pins if name not in unpinnable]
    left = _Idle(idle.column("key").combine_chunks(), of_domains)
    left.keep(strings([]), _configured(state.domains))
    _keep_recent(state, horizon, left)
    pinned = {name: strings([]) for name in names}
    if len(left.keys):
        for name, then in zip(names, _versions(location, [pins[name] for name in names]), strict=True):
            pinned[name] = file_keys(then)
            left.keep(strings([]), _configured(then.domains))
    return Reach(pa.concat_arrays(left.kept), pinned, unpinnable)


def file_keys(state: DeltaState) -> pa.Array:
    """The keys of a version's files and of those that their vectors are in."""
    return all_keys(with_vectors(state.snapshot.location, state.snapshot.files.table))


@dataclass
class _Idle:
    """Keys of idle files that nothing known so far needs, and of those that something does."""

    keys: pa.Array
    of_domains: Callable[[pa.Array, Domains], pa.Array]
    kept: list[pa.Array] = field(default_factory=lambda: [strings([])])

    def keep(self, keys: pa.Array, domains: Domains = ()) -> None:
        needed = pa.concat_arrays([keys, self.of_domains(self.keys, domains)])
        self.kept.append(self.keys.filter(pc.is_in(self.keys, value_set=needed)))
        self.keys = _without(self.keys, needed)


def _keep_recent(state: DeltaState, horizon: Horizon, left: _Idle) -> None:
    """Keep what versions within the retention need, step by step for as long as idle files are left."""
    location, listing = state.snapshot.location, horizon.listing
    if not len(left.keys):
        return
    removed = with_vectors(location, tombstones(state, segments=segments_from(listing, at=state.version)))
    left.keep(_dated_after(removed, horizon.moment_ms))
    if not len(left.keys) or not horizon.recent:
        return
    then = state if horizon.version == state.version else load(location.anywhere, version=horizon.version)
    left.keep(file_keys(then), _configured(then.domains))
    if not len(left.keys):
        return
    before = with_vectors(location, tombstones(then, segments=segments_from(listing, at=then.version)))
    since = removed.filter(pc.invert(pc.is_in(tombstone_ids(removed), value_set=tombstone_ids(before))))
    left.keep(all_keys(since))
    left.keep(_dated_after(before, horizon.moment_ms))  # what checkpoints since have forgotten
    commits = horizon.recent
    timeless = removed.column("deleted_ms").null_count + before.column("deleted_ms").null_count
    if not timeless and not pc.any(pc.starts_with(left.keys, "_")).as_py():
        upto_ms = _remembered_from(listing, state, then)
        commits = [v for v in commits if v == horizon.version or horizon.times[v] < upto_ms]
    for keys, domains in _named_by(location, listing, commits):
        left.keep(keys, domains)


def _remembered_from(listing: LogListing, state: DeltaState, then: DeltaState) -> int:
    """The moment from which on no checkpoint has forgotten a removal that gives its time."""
    written = [meta.modified_ms for c in listing.checkpoints if c.version <= state.version for meta in c.files]
    return max(written) - min(file_retention_ms(state), file_retention_ms(then)) + SKEW_MS if written else 0


def _dated_after(removed: pa.Table, moment_ms: int) -> pa.Array:
    """The keys of files that were removed at a moment or later, by the time that the log gives."""
    return all_keys(removed.filter(pc.greater_equal(pc.fill_null(removed.column("deleted_ms"), 0), moment_ms)))


def _named_by(
    location: Location, listing: LogListing, versions: list[int]
) -> Iterator[tuple[pa.Array, list[tuple[str, str]]]]:
    """Every file that commits name, and the domains that they set."""
    for version, lines in zip(versions, read_lines(location, [listing.commits[v] for v in versions]), strict=True):
        commit = commit_columns(location, [(version, line) for line in lines])
        files = with_vectors(location, pa.concat_tables([commit.adds, commit.removes]))
        keys = pa.concat_arrays([all_keys(files), commit.changes.column("key").combine_chunks()])
        set_here = (line.domain_metadata for line in lines if line.domain_metadata is not None)
        yield keys, list(_configured({domain.domain: domain for domain in set_here}))


def _configured(domains: Mapping[str, DomainMetadata]) -> Iterator[tuple[str, str]]:
    for name, domain in domains.items():
        if not domain.removed and domain.configuration is not None:
            yield name, domain.configuration


def _versions(location: Location, versions: list[int]) -> Iterator[DeltaState]:
    return each(location.store, lambda version: load(location.anywhere, version=version), versions)


def _without(keys: pa.Array, others: pa.Array) -> pa.Array:
    return keys.filter(pc.invert(pc.is_in(keys, value_set=others)))
