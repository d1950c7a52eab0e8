"""What must stay of a table when files that nothing needs are deleted, from the few files of its log that can tell.

    idle files: old, and not of the newest version
      ->  tombstones  ->  the version at the horizon  ->  pinned versions, commits after the horizon

Each step is taken only while idle files are left that the steps before do not explain. The version at the horizon is
the last one that was written before it.

1. What the version at the horizon has stays: whoever removed it did so within the retention.
2. A removal that this version does not know of happened within the retention, whatever time the log gives for it.
3. Tombstones name no change files, and may have forgotten a file that came and went within the retention. So for what
   they do not explain commits are read: those that a transaction of a day at most can have made of a file so old.
4. Where the log begins after the horizon, its first version stands for the one at the horizon, and its commit is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.delta.actions import DomainMetadata
from holdfast.delta.ahead import each
from holdfast.delta.log import read_lines
from holdfast.delta.reachable import all_keys, commit_columns, with_vectors
from holdfast.delta.segment import LogListing, readable_versions, segments_from
from holdfast.delta.state import DeltaState, load
from holdfast.delta.times import file_times
from holdfast.delta.tombstones import removals, tombstones
from holdfast.errors import UnknownVersion
from holdfast.model.versions import Versions
from holdfast.storage.arrays import strings
from holdfast.storage.location import Location

LONGEST_MS = 86_400_000  # from the writing of a file to the commit that names it


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

    needed: pa.Array  # keys, for versions within the retention
    pinned: dict[str, pa.Array]  # keys, by the pin's name
    domains: tuple[tuple[str, str], ...]  # names and configurations that versions to be kept have
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


def reach(state: DeltaState, horizon: Horizon, idle: pa.Table, pins: Mapping[str, int]) -> Reach:
    """What must stay of files that the newest version does not have; `idle` has the columns `key`, `modified_ms`."""
    location = state.snapshot.location
    unpinnable = tuple(name for name, version in pins.items() if version not in horizon.described)
    names = [name for name in pins if name not in unpinnable]
    needed: list[pa.Array] = [strings([])]
    domains = list(_configured(state.domains))
    pinned = {name: strings([]) for name in names}
    for keys, told in _within(state, horizon, idle) if idle.num_rows else ():
        needed.append(keys)
        domains += told
        idle = _without(idle, keys)
    if idle.num_rows:
        for name, then in zip(names, _versions(location, [pins[name] for name in names]), strict=True):
            pinned[name] = file_keys(then)
            domains += _configured(then.domains)
    return Reach(pa.concat_arrays(needed), pinned, tuple(domains), unpinnable)


def file_keys(state: DeltaState) -> pa.Array:
    """The keys of a version's files and of those that their vectors are in."""
    return all_keys(with_vectors(state.snapshot.location, state.snapshot.files.table))


def _within(state: DeltaState, horizon: Horizon, idle: pa.Table) -> Iterator[tuple[pa.Array, list[tuple[str, str]]]]:
    """Keys, and configurations of domains, of versions within the retention, for as long as idle files are left."""
    location, listing = state.snapshot.location, horizon.listing
    removed = with_vectors(location, tombstones(state, ways=segments_from(listing, at=state.version)))
    late = _dated_after(removed, horizon.moment_ms)
    yield late, []
    idle = _without(idle, late)
    if not idle.num_rows or not horizon.recent:
        return
    then = state if horizon.version == state.version else load(location, version=horizon.version)
    had = file_keys(then)
    yield had, list(_configured(then.domains))
    idle = _without(idle, had)
    if not idle.num_rows:
        return
    before = with_vectors(location, tombstones(then, ways=segments_from(listing, at=then.version)))
    since = all_keys(removed.filter(pc.invert(pc.is_in(removals(removed), value_set=removals(before)))))
    since = pa.concat_arrays([since, _dated_after(before, horizon.moment_ms)])  # what checkpoints since have forgotten
    yield since, []
    idle = _without(idle, since)
    is_first = horizon.version in horizon.recent  # so that its own removals are within the retention
    unexplained = idle if is_first else _without(idle, all_keys(before))
    if unexplained.num_rows:
        youngest = pc.max(unexplained.column("modified_ms")).as_py()
        upto = youngest + LONGEST_MS
        commits = [v for v in horizon.recent if horizon.times[v] <= upto or v == horizon.version]
        yield from _named_by(location, listing, commits)


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
        told = {line.domain_metadata.domain: line.domain_metadata for line in lines if line.domain_metadata is not None}
        keys = pa.concat_arrays([all_keys(files), commit.changes.column("key").combine_chunks()])
        yield keys, list(_configured(told))


def _configured(domains: Mapping[str, DomainMetadata]) -> Iterator[tuple[str, str]]:
    for name, domain in domains.items():
        if not domain.removed and domain.configuration is not None:
            yield name, domain.configuration


def _versions(location: Location, versions: list[int]) -> Iterator[DeltaState]:
    return each(location.store, lambda version: load(location, version=version), versions)


def _without(files: pa.Table, keys: pa.Array) -> pa.Table:
    return files.filter(pc.invert(pc.is_in(files.column("key"), value_set=keys)))
