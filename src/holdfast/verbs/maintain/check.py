"""Checks a Delta table, its log and its files, and repairs what can be repaired safely.

1. Without `repair` nothing is written.
2. A repair never touches a data file, and never removes what can be read. One commit corrects wrong entries of the
   log, or a file of the log is written again from the commits.
3. The commit of a repair stands on the very version that was checked; another writer in between means checking again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import msgspec
import pyarrow.compute as pc

from holdfast.errors import Damaged, Invalid, LimitReached
from holdfast.formats.delta.audit.log import LogChecked, check_log
from holdfast.formats.delta.checkpoint.crc_write import crc_body
from holdfast.formats.delta.checkpoint.writer import point_hint_to, write_checkpoint
from holdfast.formats.delta.commit.restamp import described, recounted, with_counts
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.log.file_names import LAST_CHECKPOINT, LOG, checksum_name
from holdfast.formats.delta.log.listing import list_all
from holdfast.formats.delta.log.segment import Checkpoint
from holdfast.formats.delta.protocol.features import check_writable
from holdfast.formats.delta.state import DeltaState, load
from holdfast.model.files import FileTable
from holdfast.model.finding import Finding
from holdfast.model.mutation import Committed, Mutation
from holdfast.storage.leftovers import delete_one
from holdfast.verbs.define.backfill import row_counts
from holdfast.verbs.dml.delete_update import ExecutionContext
from holdfast.verbs.maintain.check_files import FilesChecked, check_files, letting_go, saying_anew

ROUNDS = 10  # of checking again because another writer was faster


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check found, and what a repair did. Printing it shows it."""

    table: str
    version: int
    files: int
    deep: bool
    findings: tuple[Finding, ...]  # after a repair: those that are left
    repaired: tuple[str, ...] = ()  # what was done

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong; what is only worth knowing does not count."""
        return all(finding.kind.is_harmless for finding in self.findings)

    def __str__(self) -> str:
        wrong = sum(finding.count for finding in self.findings if not finding.kind.is_harmless)
        depth = "log and data" if self.deep else "log and file sizes; deep=True reads row counts and row ids too"
        verdict = "sound" if self.clean else f"{wrong} thing{'s' if wrong != 1 else ''} wrong"
        lines = [f"{self.table}, version {self.version}, {self.files} files: {verdict} ({depth})"]
        lines += [f"  repaired: {done}" for done in self.repaired]
        kinds = sorted({f.kind for f in self.findings}, key=lambda kind: (kind.is_harmless, kind.value))
        for kind in kinds:
            lines.append(f"  {'note: ' if kind.is_harmless else ''}{kind.value}")
            lines += [f"    {finding}" for finding in self.findings if finding.kind is kind]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _DeltaChecked:
    state: DeltaState
    log: LogChecked
    files: FilesChecked

    def report(self, *, deep: bool, repaired: tuple[str, ...] = ()) -> CheckReport:
        snapshot = self.state.snapshot
        findings = (*self.files.findings, *self.log.findings)
        return CheckReport(snapshot.location.url, snapshot.version, len(snapshot.files), deep, findings, repaired)


def refuse_dropping(*, repair: bool, drop_missing: bool) -> None:
    """Files go only from a table that is repaired."""
    if drop_missing and not repair:
        raise Invalid("dropMissing=True takes files out of the table, which is a repair: say repair=True too")


def check(state: DeltaState, caller: ExecutionContext, *, repair: bool, deep: bool, drop_missing: bool) -> CheckReport:
    """Check a table, and repair what can be repaired safely where that is asked for."""
    refuse_dropping(repair=repair, drop_missing=drop_missing)
    checked = _check(state, caller, deep=deep)
    if not repair:
        return checked.report(deep=deep)
    location = state.snapshot.location
    check_writable(state.protocol, table=location.url)
    done = list(_repair_copies(checked, caller))
    if done:  # the table may have been read from what was wrong
        checked = _check(load(location), caller, deep=deep)
    for _ in range(ROUNDS):
        mutation = _mutation(checked, drop_missing=drop_missing)
        if mutation is None:
            break
        format_ = DeltaFormat(location)
        outcome = format_.attempt(checked.state, mutation, caller.env)
        if isinstance(outcome, Committed):
            format_.post_commit(checked.state, outcome.version, caller.env)
            done += [f"{what} (version {outcome.version})" for what in json.loads(mutation.parameters["repairs"])]
        newest = format_.newest(checked.state)
        assert newest is not None, "a table does not go away"
        checked = _check(newest, caller, deep=deep)
    else:
        raise LimitReached(f"others wrote to {location.url} during {ROUNDS} checks: repair it later")
    done += _repair_signs(checked)
    if not done:
        return checked.report(deep=deep)
    return _check(checked.state, caller, deep=deep).report(deep=deep, repaired=tuple(done))


def _check(state: DeltaState, caller: ExecutionContext, *, deep: bool) -> _DeltaChecked:
    log = check_log(state)
    return _DeltaChecked(state, log, check_files(state.snapshot, log.referenced, caller.engine, load_hidden, deep=deep))


def _mutation(checked: _DeltaChecked, *, drop_missing: bool) -> Mutation | None:
    """What the log must say anew next; None: nothing. Files go in a commit of their own: that one changes rows."""
    snapshot, files = checked.state.snapshot, checked.files
    again = described(snapshot.files.among(files.counts))
    bare = FileTable()
    if snapshot.identity is not None:
        there = snapshot.files.outside(files.missing)
        bare = there.filter(pc.is_null(there.column("base_row_id")).combine_chunks())
    unnumbered = described(bare)
    unnumbered = with_counts(unnumbered, row_counts(snapshot.location, unnumbered, files.counts))
    mutation = saying_anew(recounted(again, files.counts), recounted(unnumbered, files.counts), files.mark)
    return mutation or (letting_go(snapshot, files.missing) if drop_missing else None)


def _repair_copies(checked: _DeltaChecked, caller: ExecutionContext) -> Iterator[str]:
    """Write again, or take away, what says in another form what the commits say."""
    location, log = checked.state.snapshot.location, checked.log
    for meta in log.compacted:
        delete_one(location, meta.key)
        yield f"took {LOG}/{meta.name} away, which the commits say better"
    for checkpoint in log.wrong:
        # It can be read, so it would be taken for good: it goes first. The commits it contradicts are all there.
        _delete(checkpoint, checked)
        written = write_checkpoint(load(location, version=checkpoint.version), caller.env)
        yield f"wrote {LOG}/{written.names[0]} in the place of {checkpoint.name}"
    for checkpoint in log.broken:
        with suppress(Damaged, Invalid):  # where its version cannot be read without it, nothing is done
            written = write_checkpoint(load(location, version=checkpoint.version), caller.env)
            if not {meta.name for meta in checkpoint.files} <= set(written.names):
                _delete(checkpoint, checked)
            yield f"wrote {LOG}/{written.names[0]} in the place of {checkpoint.name}"


def _repair_signs(checked: _DeltaChecked) -> Iterator[str]:
    """Write the hint and the checksum again."""
    location, log = checked.state.snapshot.location, checked.log
    if log.bad_hint:
        yield _point_anew(checked)
    if log.bad_checksum:
        name = checksum_name(checked.state.version)
        location.store.put(location.key(LOG, name), msgspec.json.encode(crc_body(checked.state)))
        yield f"wrote {LOG}/{name}"


def _delete(checkpoint: Checkpoint, checked: _DeltaChecked) -> None:
    for meta in checkpoint.files:
        delete_one(checked.state.snapshot.location, meta.key)


def _point_anew(checked: _DeltaChecked) -> str:
    location = checked.state.snapshot.location
    listing = list_all(location).listing
    bad = {meta.name for c in checked.log.broken for meta in c.files}
    delete_one(location, location.key(LOG, LAST_CHECKPOINT))
    for checkpoint in listing.checkpoints:
        if not bad & {meta.name for meta in checkpoint.files}:
            point_hint_to(location, checkpoint, listing)
            return f"pointed {LAST_CHECKPOINT} to version {checkpoint.version}"
    return f"took {LAST_CHECKPOINT} away: there is no checkpoint to point to"
