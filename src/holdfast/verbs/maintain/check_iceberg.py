"""Checks an Iceberg table against its metadata, and repairs what can be repaired safely.

1. Without `repair` nothing is written. A repair writes manifests and commits through the catalog as any change does; it
   never touches a data file, and says nothing that files do not prove.
2. Each branch is repaired by a commit on it, which stands on the very snapshot that was checked; another writer in
   between means checking again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from holdfast.env import Env
from holdfast.errors import LimitReached
from holdfast.formats.iceberg.audit.metadata import MetadataChecked, check_metadata
from holdfast.formats.iceberg.format import IcebergFormat
from holdfast.formats.iceberg.metadata.table_metadata import MAIN
from holdfast.formats.iceberg.state import IcebergState, time_travel
from holdfast.model.finding import FindingKind, listed
from holdfast.model.mutation import Committed, Mutation
from holdfast.plan.engine import Engine
from holdfast.verbs.maintain.check import ROUNDS, CheckReport, refuse_dropping
from holdfast.verbs.maintain.iceberg_heads import BranchHead, heads_of

_UNREAD = (FindingKind.MISSING_COMMIT, FindingKind.BAD_COMMIT)


@dataclass(frozen=True, slots=True)
class _IcebergChecked:
    state: IcebergState
    metadata: MetadataChecked
    heads: tuple[BranchHead, ...]  # the main branch's first

    def report(self, *, deep: bool, repaired: tuple[str, ...] = ()) -> CheckReport:
        snapshot, main = self.state.snapshot, self.heads[0]
        count = 0 if main.files is None else len(snapshot.files)
        # That a snapshot cannot be read is said once, of what it fails on first.
        unread = {f.version for f in self.metadata.findings if f.kind in _UNREAD}
        of_heads = (
            f for head in self.heads for f in head.findings() if f.kind not in _UNREAD or f.version not in unread
        )
        findings = [*of_heads, *self.metadata.findings]
        kinds = dict.fromkeys(finding.kind for finding in findings)
        shown = tuple(one for kind in kinds for one in listed(f for f in findings if f.kind is kind))
        return CheckReport(snapshot.location.url, self.state.version, count, deep, shown, repaired)


def check(
    newest: Callable[[], IcebergState],
    format_: IcebergFormat,
    engine: Engine[object],
    env: Env,
    *,
    repair: bool,
    deep: bool,
    drop_missing: bool,
) -> CheckReport:
    """Check a table, and repair what can be repaired safely where that is asked for."""
    refuse_dropping(repair=repair, drop_missing=drop_missing)
    checked = _check(newest(), engine, deep=deep, repair=repair)
    if not repair:
        return checked.report(deep=deep)
    format_.check_committable(checked.state)
    done: list[str] = []
    for _ in range(ROUNDS):
        todo = [
            (head, branch, mutation)
            for head in checked.heads
            for branch in head.branches
            if (mutation := head.mutation(drop_missing=drop_missing)) is not None
        ]
        if not todo:
            return checked.report(deep=deep, repaired=tuple(done))
        for head, branch, mutation in todo:
            state = newest()
            format_.check_committable(state)
            done += _repair(replace(format_.begin(), branch=branch), state, head.state, mutation, env)
        checked = _check(newest(), engine, deep=deep, repair=True)
    raise LimitReached(f"others wrote to {checked.state.metadata.location} during {ROUNDS} checks: repair it later")


def _repair(
    format_: IcebergFormat, newest: IcebergState, checked: IcebergState, mutation: Mutation, env: Env
) -> Iterator[str]:
    """Commit a repair to a branch that is still what was checked; gives what is done."""
    branch = format_.branch
    ref = newest.metadata.refs.get(branch)
    if ref is None or ref.snapshot_id != checked.version:
        return
    state = newest if branch == MAIN else time_travel(newest, version=branch)
    outcome = format_.attempt(state, mutation, env)
    if isinstance(outcome, Committed):
        where = "" if branch == MAIN else f"branch {branch}, "
        yield from (f"{what} ({where}version {outcome.version})" for what in json.loads(mutation.parameters["repairs"]))


def _check(state: IcebergState, engine: Engine[object], *, deep: bool, repair: bool) -> _IcebergChecked:
    metadata = check_metadata(state)
    heads = heads_of(state, metadata.spoken_of, engine, deep=deep, footers=deep or repair)
    return _IcebergChecked(state, metadata, tuple(heads))
