"""Vacuums a Delta table, and computes which versions can be read.

    list the directory  ->  compare idle files with the log  ->  plan
      ->  VACUUM START  ->  compare again  ->  delete  ->  VACUUM END

1. Nothing is deleted before the commit that announces it has landed; files that other commits brought back or pinned
   until then are taken off the list.
2. However a vacuum ends, the versions it reports as readable can be read as before.
3. A dry run lists exactly the files that the same call would delete.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.env import Env
from holdfast.errors import Invalid, TableError
from holdfast.formats.delta.format import CHANGE_DIRECTORY, DeltaFormat
from holdfast.formats.delta.history.pins import pins_of
from holdfast.formats.delta.history.reachable import FileLifetimes, read_lifetimes, removed_between
from holdfast.formats.delta.history.retained import Horizon, file_keys, horizon_of, reach
from holdfast.formats.delta.history.vacuums import VacuumInfo, read_info, write_info
from holdfast.formats.delta.log.file_names import LOG
from holdfast.formats.delta.log.listing import list_all
from holdfast.formats.delta.protocol.features import check_writable
from holdfast.formats.delta.state import DeltaState, refresh
from holdfast.model.snapshot import Snapshot
from holdfast.model.versions import Versions
from holdfast.plan.maintain.vacuum import DirectoryLayout, VacuumPlan, plan_vacuum
from holdfast.plan.scan.request import partition_fields
from holdfast.schema.properties import DELETED_FILE_RETENTION
from holdfast.storage.arrays import mask, strings
from holdfast.storage.leftovers import link_targets, through_link
from holdfast.storage.location import Location
from holdfast.storage.open import missing
from holdfast.terminal import phase
from holdfast.verbs.index.files import of_indexes
from holdfast.verbs.maintain import vacuum_files as ops
from holdfast.verbs.maintain.vacuum_files import HOUR_MS, Vacuumed
from holdfast.verbs.open.delta import open_delta

_NONE = Versions()


@dataclass(frozen=True)
class _Survey:
    """What a vacuum would do, and what it went by."""

    state: DeltaState
    plan: VacuumPlan
    unpinnable: tuple[str, ...]
    horizon: Horizon
    listed: pa.Array | None  # the keys of a listing; None for a lite vacuum
    info: VacuumInfo | None  # of the vacuum before

    @property
    def unreadable_before(self) -> Versions:
        """What the vacuum before left unreadable, as far as the log tells of it."""
        return _NONE if self.info is None else self.horizon.described & self.info.lost

    @property
    def at_risk(self) -> Versions:
        """The versions that may be lost: older than the one at the horizon, and not pinned. Reads nothing."""
        if not self.plan.files.num_rows:
            return _NONE
        older = self.horizon.described & Versions(((0, self.horizon.version - 1),))
        return older - self.unreadable_before - Versions.of(pins_of(self.state).values())

    @cached_property
    def loss(self) -> _Loss:
        """What the files that go cost; reads the commits of versions that may need them.

        Those are versions up to the horizon, from the last one on that is older than all of these files. Where another
        engine's vacuum was the last, nobody knows what can be read, and all versions are looked at.
        """
        known = self.unreadable_before
        if self.info is not None and self.info.unreadable is None:
            return self._loss_of(self.horizon.described)
        if not self.plan.files.num_rows:
            return _Loss(_NONE, known)
        oldest_ms = pc.min(self.plan.files.column("modified_ms")).as_py()
        first = self.horizon.last_before(oldest_ms) or 0
        old = self.horizon.described & Versions(((0, self.horizon.version),))
        since = old & Versions(((first, self.horizon.version),))
        loss = self._loss_of(since)
        # Copied files may be younger than the commits that added them: then these versions know too little of them.
        is_whole = first not in loss.lost and not loss.unknown
        return loss if is_whole or since == old else self._loss_of(old)

    def _loss_of(self, versions: Versions) -> _Loss:
        known = self.unreadable_before
        doubtful = versions - known
        if not doubtful.spans:
            return _Loss(_NONE, known)
        first, last = doubtful.spans[0][0], doubtful.spans[-1][1]
        past = read_lifetimes(self.state.snapshot.location, versions & Versions(((first, last),)))
        before = past.described - known if self.listed is None else _readable(past, self.listed)
        after = before - past.needing(self.plan.keys)
        named = pa.concat_arrays([past.keys(), past.changes.column("key").combine_chunks()])
        unknown = len(self.plan.keys) - (pc.sum(pc.is_in(self.plan.keys, value_set=named)).as_py() or 0)
        return _Loss(before - after, Versions.of([*known, *(past.described - after)]), past.described, after, unknown)

    def readable(self) -> Versions:
        """What can be read once the files are gone; without a listing, what vacuums said counts."""
        described, loss = self.horizon.described, self.loss
        if self.listed is None:
            return described - loss.unreadable
        rest = described - loss.walked
        if not rest.spans:
            return loss.left
        past = read_lifetimes(self.state.snapshot.location, rest)
        return Versions.of([*loss.left, *(_readable(past, self.listed) - past.needing(self.plan.keys))])


@dataclass(frozen=True)
class _Loss:
    """What a vacuum costs."""

    lost: Versions  # readable before, and no more
    unreadable: Versions  # afterwards, with what was so before
    walked: Versions = _NONE  # the versions whose files were looked at
    left: Versions = _NONE  # those of them that can be read afterwards
    unknown: int = 0  # files that go and that none of them has


def vacuum(
    state: DeltaState,
    env: Env,
    *,
    retention_hours: float | None = None,
    dry_run: bool = False,
    lite: bool = False,
    enforced: bool = True,
) -> Vacuumed:
    """Delete what nothing needs."""
    location = state.snapshot.location
    check_writable(state.protocol, table=location.url)
    specified_ms, default_ms = _retention(state, retention_hours, enforced=enforced)
    retention_ms = default_ms if specified_ms is None else specified_ms
    with phase("looking for files that nothing needs"):
        survey = _survey(state, env.now_ms() - retention_ms, lite=lite)
    if dry_run:
        return _report(survey, retention_ms)
    lost = survey.loss.lost
    start = ops.started(survey.plan, lost, enforced=enforced, asked_ms=specified_ms, default_ms=default_ms)
    landed = open_delta(state).commit(start, env)
    assert landed.version is not None, "a vacuum is written for no application"
    files = _still_idle(survey, landed.version)
    return _report(survey, retention_ms, _delete(survey, files, landed.version, env))


def readable_versions(state: DeltaState) -> Versions:
    """The versions whose log and files are all there: one walk through the log and one listing."""
    location = state.snapshot.location
    past = read_lifetimes(location)
    return _readable(past, ops.listed(location).column("key").combine_chunks())


def layout_of(snapshot: Snapshot) -> DirectoryLayout:
    """How the directory of a Delta table is laid out."""
    fields = partition_fields(snapshot)
    names = dict.fromkeys([*(f.physical_name for f in fields), *(f.name for f in fields)])
    return DirectoryLayout(LOG, (CHANGE_DIRECTORY,), tuple(names))


def default_retention_ms(state: DeltaState) -> int:
    """How long a table keeps files that it no longer needs."""
    return DeltaFormat(state.snapshot.location).keeps_ms(state)


def _retention(state: DeltaState, hours: object, *, enforced: bool) -> tuple[int | None, int]:
    default_ms = default_retention_ms(state)
    if hours is None:
        return None, default_ms
    if isinstance(hours, bool) or not isinstance(hours, int | float) or not math.isfinite(hours) or hours < 0:
        raise Invalid(f"a retention is a number of hours from 0 on, not {hours!r}")
    asked_ms = int(hours * HOUR_MS)
    if enforced and asked_ms < default_ms:
        raise Invalid(
            f"the table at {state.snapshot.location.url} keeps files for {default_ms / HOUR_MS:g} hours "
            f"({DELETED_FILE_RETENTION}), and {hours:g} is less: a writer at work or a reader of an older version may "
            "lose files, so say enforceRetention=False if there are none"
        ).named("DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT")
    return asked_ms, default_ms


def _survey(state: DeltaState, horizon_ms: int, *, lite: bool) -> _Survey:
    state = refresh(state)
    location = state.snapshot.location
    horizon = horizon_of(location, list_all(location).listing, newest=state.version, moment_ms=horizon_ms)
    info = read_info(location)
    listed = _removed_since(location, horizon, info) if lite else ops.listed(location)
    plan, unpinnable = _plan(state, horizon, listed)
    return _Survey(state, plan, unpinnable, horizon, None if lite else listed.column("key").combine_chunks(), info)


def _plan(state: DeltaState, horizon: Horizon, listed: pa.Table) -> tuple[VacuumPlan, tuple[str, ...]]:
    """What may go of some files, and the pins that cannot keep anything."""
    layout, moment_ms, pins = layout_of(state.snapshot), horizon.moment_ms, dict(pins_of(state))
    idle = plan_vacuum(listed, file_keys(state), {}, {}, horizon_ms=moment_ms, layout=layout)
    kept = reach(state, horizon, idle.files, pins, of_domains=of_indexes)
    plan = plan_vacuum(idle.files, kept.needed, kept.pinned, pins, horizon_ms=moment_ms, layout=layout)
    if plan.files.num_rows:
        # The log knows what is behind a link by the link's name, and a listing by its own.
        for prefix in link_targets(state.snapshot.location):
            plan = replace(plan, files=plan.files.filter(pc.invert(pc.starts_with(plan.keys, prefix))))
    return plan, kept.unpinnable


def _removed_since(location: Location, horizon: Horizon, info: VacuumInfo | None) -> pa.Table:
    """The files that commits since the last vacuum and before the horizon removed, as far as they are there."""
    after = -1 if info is None or info.last is None else info.last
    if after + 1 < horizon.first_commit:
        raise Invalid(
            f"a lite vacuum of {location.url} needs every commit since version {after + 1}, and the log begins at "
            f"version {horizon.first_commit}: run a full vacuum, after which lite ones work again"
        )
    upto = horizon.last_before(horizon.moment_ms)
    keys = strings([])
    if upto is not None and upto > after:
        keys = removed_between(read_lifetimes(location, Versions(((after + 1, upto),))), after, upto)
    return ops.looked_up(location, [key for key in keys.to_pylist() if "://" not in key])


def _readable(past: FileLifetimes, listed: pa.Array) -> Versions:
    """Versions of which nothing is missing; files outside of the table's real directory are looked at one by one."""
    needed = pc.unique(past.keys())
    lacking = needed.filter(pc.invert(pc.is_in(needed, value_set=listed)))
    is_linked = through_link(past.location)  # a listing does not go through links, and readers do
    outside = mask(
        np.fromiter(("://" in k or is_linked(past.location.key(k)) for k in lacking.to_pylist()), bool, len(lacking))
    )
    away = strings(list(missing(past.location, lacking.filter(outside).to_pylist())))
    return past.described - past.needing(pa.concat_arrays([lacking.filter(pc.invert(outside)), away]))


def _still_idle(survey: _Survey, landed: int) -> pa.Table:
    """Of what was to be deleted, what is still needed by nothing, once the vacuum is announced."""
    if landed == survey.state.version + 1:
        return survey.plan.files
    now = refresh(survey.state)
    location = now.snapshot.location
    listing = list_all(location).listing
    horizon = horizon_of(location, listing, newest=now.version, moment_ms=survey.horizon.moment_ms)
    plan, _ = _plan(now, horizon, survey.plan.files)
    return plan.files


@dataclass(frozen=True)
class _Deleted:
    """What a vacuum did."""

    files: pa.Table
    directories: int
    version: int  # of its first commit
    end: int  # of its last one


def _delete(survey: _Survey, files: pa.Table, version: int, env: Env) -> _Deleted:
    location, keys = survey.state.snapshot.location, files.column("key").combine_chunks()
    info, unreadable = read_info(location), survey.loss.unreadable
    # Readers are warned first; a lite vacuum goes on from here only once everything is gone.
    write_info(location, last=None if info is None else info.last, unreadable=unreadable)
    try:
        with phase(f"deleting {len(keys)} files"):
            count = ops.delete_files(location, keys)
    except TableError:
        with suppress(TableError):
            open_delta(refresh(survey.state)).commit(ops.ended(files=0, directories=0, failed=True), env)
        raise
    directories = ops.remove_directories(location, keys)
    write_info(location, last=survey.horizon.last_before(survey.horizon.moment_ms), unreadable=unreadable)
    end = open_delta(refresh(survey.state)).commit(ops.ended(files=count, directories=directories), env).version
    assert end is not None, "a vacuum is written for no application"
    return _Deleted(files, directories, version, end)


def _report(survey: _Survey, retention_ms: int, deleted: _Deleted | None = None) -> Vacuumed:
    """What a vacuum did, or would do. What only further reads of the log can tell is read when it is asked for."""
    files = survey.plan.files if deleted is None else deleted.files

    def readable() -> Versions:
        since = () if deleted is None else range(survey.state.version + 1, deleted.end + 1)
        return Versions.of([*survey.readable(), *since])

    return Vacuumed(
        files,
        pc.sum(files.column("size")).as_py() or 0,
        0 if deleted is None else deleted.directories,
        retention_ms,
        survey.horizon.moment_ms,
        survey.at_risk,
        (lambda: survey.loss.lost) if deleted is None else survey.loss.lost,
        readable,
        tuple(kept for kept in survey.plan.kept if kept.files),
        dry_run=deleted is None,
        version=None if deleted is None else deleted.version,
        notes=tuple(f"pin {name} keeps nothing: the log no longer describes its version" for name in survey.unpinnable),
    )
