"""Erases rows: deletes them, rewrites the files that hold them, and reports which files still hold their bytes.

    find the rows  ->  delete them  ->  purge live files that only hide them  ->  search the remaining old files

1. Rows are searched by id wherever rows have ids, so an older copy is found whatever its values were; and by the
   condition, so that copies of rows deleted before are found too.
2. Neither the log nor the report contains the condition or a value of a row.
3. Rows that satisfy the condition and had left the table before count as erased, by id as well; a row that satisfied it
   once and is live with other values does not.
4. A file exists if a reader finds it, behind a link too. No vacuum deletes such a file, so the report names it.
5. Files of no version are reported as possible holders: those from before the erasure, and later ones that carry the
   ids, as files of a failed rewrite would.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from holdfast.errors import Conflict, Damaged, Invalid, NoRowIdentity
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.history.pins import pins_of
from holdfast.formats.delta.history.reachable import FileLifetimes, read_lifetimes
from holdfast.formats.delta.log.cleanup import DEFAULT_RETENTION as LOG_DEFAULT
from holdfast.formats.delta.log.replay import last_of_each
from holdfast.formats.delta.state import DeltaState, refresh
from holdfast.index.reader import PinnedReader
from holdfast.index.registry import DIRECTORY
from holdfast.index.segment import files_holding
from holdfast.model.files import DV, FILES, FileTable, NoStats, Slab, hiding
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.plan.maintain.compact import purge_bins
from holdfast.plan.maintain.vacuum import plan_vacuum
from holdfast.plan.scan.request import partition_fields
from holdfast.schema.properties import LOG_RETENTION, span_ms
from holdfast.storage.arrays import positions, strings
from holdfast.verbs.dml.affected_rows import touched_rows
from holdfast.verbs.dml.delete_update import DmlStep, ExecutionContext, commit, delete_request, file_metrics
from holdfast.verbs.dml.strategy import effect
from holdfast.verbs.maintain import erasure as ops
from holdfast.verbs.maintain.erasure import Erased, ErasureStatus, Held, Proof
from holdfast.verbs.maintain.find_rows import Sought, carriers, holders, ids_where, understood
from holdfast.verbs.maintain.optimize import limits_of, run_bins
from holdfast.verbs.maintain.vacuum import default_retention_ms, layout_of
from holdfast.verbs.maintain.vacuum_files import listed, listed_behind_links
from holdfast.verbs.open.delta import open_delta
from holdfast.verbs.open.delta_handle import DeltaHandle
from holdfast.verbs.open.spark_values import stated, stated_or_none

if TYPE_CHECKING:
    from pyspark.sql import Column

# Vectors have positions in them, lists and leases the names of files; indexes are looked at by themselves.
_NO_ROWS = r"\.bin$|^_holdfast/(?:scan|lease|index)/"
_ROUNDS = 5  # of purging, while other writers are faster


def erase(handle: DeltaHandle, condition: str | Column, caller: ExecutionContext) -> Erased:
    """Delete rows for good, as far as that can be done at once, and report what is left."""
    if condition is None:
        raise Invalid("erase needs a condition: to take out every row, drop the table's directory")
    value, state = stated(condition, "erase()"), handle.newest()
    table = handle.opened(state)
    location = state.snapshot.location
    if state.snapshot.identity is None:
        raise NoRowIdentity(
            f"the table at {location.url} does not track rows, so nobody can tell where copies of one are: call "
            "enableRowTracking() first"
        )
    where = understood(state.snapshot, value, caller)
    deletion = delete_request(table, value, caller)
    started = caller.env.now_ms()
    done = effect(deletion, caller.engine, load_hidden, caller.env.now_ms)
    ids = caller.engine.touched_bitmap(touched_rows(table, done, None))
    report = Erased(str(caller.env.new_uuid()), started, ops.spans_of(ids))
    ops.save(location, report)  # before anything of the table changes: the ids are known now, and later no more
    metrics = {"numDeletedRows": done.deleted, "numCopiedRows": done.copied, **file_metrics(done)}
    parameters = {"predicate": json.dumps([f"erasure {report.id}"])}
    try:
        version = commit(table, DmlStep("DELETE", parameters, deletion, done, metrics), caller, started=started).version
    except Conflict:
        ops.forget(location, report)
        raise
    such = Sought(ids, where)
    state, versions, left = _purge(refresh(state), such, caller)
    report = msgspec.structs.replace(report, version=version, purged=versions, unpurged=ops.held_of(left))
    report = _reported(state, report, such, caller)
    ops.save(location, report)
    return report


def erasure_status(
    handle: DeltaHandle, report: Erased | str, condition: str | Column | None, caller: ExecutionContext
) -> ErasureStatus:
    """Look through the bytes for erased rows."""
    value, state = stated_or_none(condition, "erasureStatus()"), handle.newest()
    location = state.snapshot.location
    erasure = ops.saved(location, report if isinstance(report, str) else report.id)
    if not erasure.is_complete:
        raise Invalid(
            f"the erasure {erasure.id} was cut short before it was known who holds its rows: erase them again"
        )
    there = _there(state, erasure.moment_ms, erasure.ids, erasure.held)
    files = [holders(there.snapshot, there.data, Sought(erasure.ids), caller.engine), there.among(erasure.files)]
    files.append(there.among(erasure.unpurged))
    changes = [there.among(erasure.changes)]
    if value is not None:
        such = Sought(where=understood(state.snapshot, value, caller))
        files.append(holders(there.snapshot, there.old, such, caller.engine))
        changes.append(holders(there.snapshot, there.changes, such, caller.engine))
    scan = Proof(
        caller.env.now_ms(),
        there.snapshot.version,
        there.read.num_rows,
        pc.sum(there.read.column("size")).as_py() or 0,
        ops.digest_of(there.read),
    )
    status = ErasureStatus(
        erasure.id,
        erasure.rows,
        scan,
        ops.held_of(*files),
        ops.held_of(*changes),
        there.loose,
        ops.held_of(files_holding(location, there.indexes, erasure.ids)),
    )
    status = msgspec.structs.replace(status, linked=there.behind_links(status.held))
    if status.is_clean:
        ops.save(location, msgspec.structs.replace(erasure, proof=scan))
    return status


def erasures(handle: DeltaHandle) -> list[Erased]:
    """The reports that are kept, in the order of their ids."""
    location = handle.newest().snapshot.location
    return [ops.saved(location, each) for each in ops.all_saved(location)]


@dataclass(frozen=True)
class _There:
    """The files in a table's directory that may have rows in them."""

    snapshot: Snapshot
    past: FileLifetimes
    data: FileTable  # of any version
    old: FileTable  # those of them that the newest version does not have
    changes: FileTable  # change data
    loose: tuple[str, ...]  # of no version
    indexes: tuple[str, ...]  # of any index
    read: pa.Table  # names and sizes of data and change files
    names: pa.Array  # of all files in the directory, and of those behind its links
    linked: frozenset[str]  # names of the latter

    def among(self, held: Sequence[Held]) -> Mapping[str, int]:
        """Those of some files that are there still."""
        there = pc.is_in(strings([each.file for each in held]), value_set=self.names)
        return {each.file: each.rows for each, still in zip(held, there.to_pylist(), strict=True) if still}

    def behind_links(self, files: Iterable[str]) -> tuple[str, ...]:
        """Those of some files that no vacuum takes."""
        return tuple(sorted(self.linked.intersection(files)))


def _there(state: DeltaState, moment_ms: int, ids: BitMap64, held: Iterable[str] = ()) -> _There:
    """What is there now; `held` are files that may be so although the log no longer names them."""
    snapshot = state.snapshot
    location = snapshot.location
    past = read_lifetimes(location)
    named = pa.concat_arrays([past.keys(), past.changes.column("key").combine_chunks()])
    linked = listed_behind_links(location, [*pc.unique(named).to_pylist(), *held])  # one per file
    present = pa.concat_tables([listed(location), linked])
    names = present.column("key").combine_chunks()
    events = past.events.filter(past.events.column("added"))
    # A file may have been added before it was given ids: what is known of it last counts.
    bare = pc.is_null(events.column("base_row_id"))
    events = pa.concat_tables([events.filter(bare), events.filter(pc.invert(bare))]).combine_chunks()
    known = events.take(positions(last_of_each(events.column("key").combine_chunks())))
    live = snapshot.files.column("key").combine_chunks()  # some of them may be in another directory
    data = known.filter(pc.is_in(known.column("key"), value_set=pa.concat_arrays([names, live]))).select(FILES.names)
    data = data.set_column(FILES.get_field_index("dv"), FILES.field("dv"), pa.nulls(data.num_rows, DV))
    is_live = pc.is_in(data.column("key"), value_set=live)
    changes = past.changes.filter(pc.is_in(past.changes.column("key"), value_set=names))
    read = pa.concat_tables([data.select(["key", "size"]), changes.select(["key", "size"])])
    return _There(
        snapshot,
        past,
        _table_of(data),
        _table_of(data.filter(pc.invert(is_live))),
        _table_of(pa.Table.from_arrays([_column(changes, f) for f in FILES], schema=FILES)),
        _loose(snapshot, present, named, moment_ms, ids),
        tuple(names.filter(pc.starts_with(names, f"{DIRECTORY}/")).to_pylist()),
        read,
        names,
        frozenset(linked.column("key").to_pylist()),
    )


def _loose(snapshot: Snapshot, present: pa.Table, named: pa.Array, moment_ms: int, ids: BitMap64) -> tuple[str, ...]:
    """Files that no version has and that may hold such rows."""
    forever = int(pc.max(present.column("modified_ms")).as_py()) + 1
    none = plan_vacuum(present, named, {}, {}, horizon_ms=forever, layout=layout_of(snapshot)).files
    none = none.filter(pc.invert(pc.match_substring_regex(none.column("key"), _NO_ROWS)))
    before = pc.less_equal(none.column("modified_ms"), pa.scalar(moment_ms))  # also in the same millisecond
    later = none.filter(pc.invert(before)).column("key").to_pylist()
    column = None if snapshot.identity is None else snapshot.identity.id_column
    since = carriers(snapshot.location, later, column, ids)
    return (*none.filter(before).column("key").to_pylist(), *since)


def _purge(
    state: DeltaState, such: Sought, caller: ExecutionContext
) -> tuple[DeltaState, tuple[int, ...], Mapping[str, int]]:
    """Write live files anew that hide such rows, those hidden long ago too; gives what other writers kept us from."""
    versions: list[int] = []
    left: Mapping[str, int] = {}
    for _ in range(_ROUNDS):
        left = _hiding_such(state.snapshot, such, caller)
        if not left:
            break
        some = state.snapshot.files.among(left)
        names = [f.physical_name for f in partition_fields(state.snapshot)]
        table = open_delta(state)
        done = run_bins(table, purge_bins(some, names, limits_of(table)), caller, purges=True)
        versions += done.versions
        state = refresh(state)
        if not done.lost:
            left = {}
            break
    return state, tuple(versions), left


def _hiding_such(snapshot: Snapshot, such: Sought, caller: ExecutionContext) -> Mapping[str, int]:
    """Live files that hold such rows behind a vector."""
    files = snapshot.files
    files = files.filter(pc.is_valid(files.column("dv")).combine_chunks()) if len(files) else files
    if not len(files):
        return {}
    if files.num_records.null_count:
        raise Damaged(
            f"the log of {snapshot.location.url} does not say how many rows some files have, as it must where rows are "
            "tracked: run check()",
            path=snapshot.location.url,
        )
    counts = dict(zip(files.column("key").to_pylist(), files.num_records.to_pylist(), strict=True))  # one per file
    hidden = load_hidden(snapshot.location, files).positions
    shown = HiddenRows({key: hidden[key].flip(0, rows) for key, rows in counts.items()})
    return holders(snapshot, hiding(files), such, caller.engine, hidden=shown)


def _reported(state: DeltaState, report: Erased, such: Sought, caller: ExecutionContext) -> Erased:
    there = _there(state, report.moment_ms, such.ids)
    if earlier := _gone_before(there, such, caller):
        such = replace(such, ids=such.ids | earlier)
        there = _there(state, report.moment_ms, such.ids)
    files = ops.held_of(holders(there.snapshot, there.old, such, caller.engine))
    keys = strings([held.file for held in files])
    events = there.past.events
    vectors = events.filter(pc.is_in(events.column("key"), value_set=keys)).column("dv_key")
    versions = there.past.needing(keys)
    properties = state.snapshot.properties
    report = msgspec.structs.replace(
        report,
        row_ids=ops.spans_of(such.ids),
        is_complete=True,
        files=files,
        changes=ops.held_of(holders(there.snapshot, there.changes, such, caller.engine)),
        vectors=tuple(sorted(set(vectors.drop_null().to_pylist()))),
        loose=there.loose,
        indexes=ops.held_of(files_holding(state.snapshot.location, there.indexes, such.ids)),
        versions=versions.spans,
        pins={name: at for name, at in pins_of(state).items() if at in versions},
        vacuum_after_ms=caller.env.now_ms() + default_retention_ms(state),
        log_after_ms=caller.env.now_ms() + span_ms(LOG_RETENTION, properties.get(LOG_RETENTION, LOG_DEFAULT)),
    )
    return msgspec.structs.replace(report, linked=there.behind_links(report.held))


def _gone_before(there: _There, such: Sought, caller: ExecutionContext) -> BitMap64:
    """Rows that satisfied the condition and had left the table before; one that is live under other values stays."""
    assert such.where is not None, "rows are erased by a condition"
    ids = ids_where(there.snapshot, there.old, such.where, caller.engine) - such.ids
    wanted = np.fromiter(ids, np.int64, len(ids))
    live = PinnedReader(there.snapshot, load_hidden).locate(wanted).live
    return BitMap64(wanted[~live].astype(np.uint64))


def _column(files: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    return files.column(field.name) if field.name in files.column_names else pa.nulls(files.num_rows, field.type)


def _table_of(files: pa.Table) -> FileTable:
    return FileTable((Slab(files, NoStats(files.num_rows)),) if files.num_rows else ())
