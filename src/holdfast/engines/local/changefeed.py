"""Runs change queries in this process: pairs the rows of removed and added files, and labels each change.

Of rows that another file may hold unchanged, ids and versions are read first, and values only of the others.

1. Changes come in the order of their commits, then of row ids or key columns; the row before an update precedes the
   row after it.
2. Two rows of one side with the same key columns are an error.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.engines.local.join import Rows, index
from holdfast.engines.local.scan import scan_table
from holdfast.errors import Invalid
from holdfast.plan.changefeed.moves import Reading
from holdfast.plan.changefeed.query import (
    AFTER,
    BEFORE,
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    DELETE,
    ID,
    INDEX,
    INSERT,
    NUMBER,
    ROW_VERSION,
    ChangesPlan,
    scan_of,
    scan_of_recorded,
)
from holdfast.plan.changefeed.skip_moved import ChangedPositions, pays_off, without_moved
from holdfast.rows.columns import ROW_ID
from holdfast.rows.words import mask
from holdfast.schema.arrow import arrow_schema
from holdfast.schema.types import Field, Struct

_COMMIT, _CHANGE, _LABEL = "__hf_commit", "__hf_change", "__hf_label"
_MOMENT = pa.timestamp("us", tz="UTC")
MANY = 100_000  # rows: to read fewer of them twice costs more than to pair them whole
_IN_ORDER = (DELETE, BEFORE, AFTER, INSERT)


def changes(plan: ChangesPlan) -> pa.Table:
    """The changes a plan asks for."""
    plan = _without_moved(plan)
    parts = [_certain(plan, r) for r in plan.certain]
    parts += [_recorded(plan, r) for r in plan.recorded]
    if plan.left or plan.arrived:
        left = _side(plan, plan.left, plan.needs_left)
        parts += _paired(plan, left, _side(plan, plan.arrived, plan.fields))
    return _ordered(plan, pa.concat_tables([_outputs(plan).empty_table(), *parts]))


def _without_moved(plan: ChangesPlan) -> ChangesPlan:
    if not pays_off(plan, MANY):
        return plan
    left, arrived = (_places(plan, side) for side in (plan.left, plan.arrived))
    before, after = _pairs(left, arrived, (ID,), nulls=False)
    versions = (rows.column(ROW_VERSION).take(pa.array(at)) for rows, at in ((left, before), (arrived, after)))
    carried = np.asarray(pc.equal(*versions))
    return without_moved(plan, _rest(left, before, carried), _rest(arrived, after, carried))


def _places(plan: ChangesPlan, readings: Sequence[Reading]) -> pa.Table:
    """Rows of a side without their columns: what pairs them, and where they are."""
    parts, first = [], 0
    for reading in readings:
        rows = scan_table(scan_of(plan, reading, ()), reading.hidden)
        which = _which(reading, rows)
        commits, _ = _labels(reading, which)
        places = rows.select([ID, ROW_VERSION, INDEX]).append_column(_COMMIT, commits)
        parts.append(places.append_column(_LABEL, pa.array(which + first)))
        first += sum(map(len, reading.labels))
    return pa.concat_tables(parts)


def _certain(plan: ChangesPlan, reading: Reading) -> pa.Table:
    rows = _read(plan, reading, plan.fields)
    return _table(plan, rows, rows.column(_CHANGE), rows.column(_COMMIT), rows.column(ID))


def _side(plan: ChangesPlan, readings: Sequence[Reading], fields: Sequence[Field]) -> pa.Table:
    schema = arrow_schema(Struct(tuple(fields)))
    for name in (ID, ROW_VERSION, _COMMIT):
        schema = schema.append(pa.field(name, pa.int64()))
    schema = schema.append(pa.field(_CHANGE, pa.string()))
    return pa.concat_tables([schema.empty_table(), *(_read(plan, r, fields) for r in readings)])


def _read(plan: ChangesPlan, reading: Reading, fields: Sequence[Field]) -> pa.Table:
    """The rows of a reading: columns, id, row version and commit."""
    rows = scan_table(scan_of(plan, reading, fields), reading.hidden)
    commits, changes = _labels(reading, _which(reading, rows))
    if ID not in rows.column_names:
        for name in (ID, ROW_VERSION):
            rows = rows.append_column(name, pa.nulls(rows.num_rows, pa.int64()))
    rows = rows.append_column(_COMMIT, commits).append_column(_CHANGE, changes)
    return rows.select([*(f.name for f in fields), ID, ROW_VERSION, _COMMIT, _CHANGE])


def _recorded(plan: ChangesPlan, reading: Reading) -> pa.Table:
    rows = scan_table(scan_of_recorded(plan, reading), reading.hidden)
    commits, _ = _labels(reading, _which(reading, rows))
    ids = pa.nulls(rows.num_rows, pa.int64())
    types = rows.column(CHANGE_TYPE)
    table = _table(plan, rows, types, commits, ids)
    return table.filter(pc.is_in(types, value_set=pa.array(sorted(plan.shows))))


def _which(reading: Reading, rows: pa.Table) -> Rows:
    """The number of each row's label."""
    starts = np.cumsum([0, *(len(several) for several in reading.labels)])
    numbers = rows.column(NUMBER).to_numpy()
    which: Rows = starts[numbers]
    keys = reading.files.column("key").to_pylist()
    by_file = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[by_file], np.arange(len(keys)), side="right")
    for number, several in enumerate(reading.labels):  # one per file
        if len(several) > 1:
            mine = by_file[ends[number - 1] if number else 0 : ends[number]]
            positions = rows.column(INDEX).to_numpy()[mine]
            last = int(positions.max(initial=-1)) + 1
            for bit, chosen in enumerate(reading.slices[keys[number]]):
                which[mine] += mask(chosen, 0, last)[positions].astype(np.int64) << bit
            which[mine] -= 1  # moves are numbered from 1
    return which


def _labels(reading: Reading, which: Rows) -> tuple[pa.Array, pa.Array]:
    """The commit each row belongs to, and what happened to it where that is known."""
    known = [label for several in reading.labels for label in several]
    versions = pa.array([label.version for label in known], pa.int64())
    changes = pa.array([label.change for label in known], pa.string())
    at = pa.array(which)
    return versions.take(at), changes.take(at)


def _rest(rows: pa.Table, paired: Rows, carried: NDArray[np.bool_]) -> ChangedPositions:
    """Where the rows of a side are that did not merely move."""
    is_paired, stays = np.zeros(rows.num_rows, bool), np.ones(rows.num_rows, bool)
    is_paired[paired], stays[paired[carried]] = True, False
    groups = rows.column(_LABEL).to_numpy() * 2 + is_paired
    order = np.flatnonzero(stays)[np.argsort(groups[stays], kind="stable")]
    groups, positions = groups[order], rows.column(INDEX).to_numpy()[order].astype(np.uint64)
    ends = [*np.flatnonzero(np.diff(groups)) + 1, len(groups)] if len(groups) else []
    parts = zip([0, *ends], ends, strict=False)  # one per label that has such rows
    return {(int(groups[a]) // 2, bool(groups[a] % 2)): BitMap64(positions[a:b]) for a, b in parts}


def _pairs(left: pa.Table, arrived: pa.Table, names: Sequence[str], *, nulls: bool) -> tuple[Rows, Rows]:
    """Rows of both sides that belong together, as their numbers."""

    def keys(rows: pa.Table) -> list[pa.Array]:
        return [rows.column(name).combine_chunks() for name in (_COMMIT, *names)]

    safe = [True, *([nulls] * len(names))]
    pairs = list(index(keys(left), safe, left.num_rows).pairs(keys(arrived), np.arange(arrived.num_rows)))
    before = np.concatenate([np.zeros(0, np.int64), *(b for _, b in pairs)])
    after = np.concatenate([np.zeros(0, np.int64), *(a for a, _ in pairs)])
    return before, after


def _paired(plan: ChangesPlan, left: pa.Table, arrived: pa.Table) -> list[pa.Table]:
    before, after = _pairs(left, arrived, plan.keys or (ID,), nulls=bool(plan.keys))
    _refuse_doubled(plan, left, arrived)
    old, new = left.take(pa.array(before)), arrived.take(pa.array(after))
    if plan.keys:
        carried = _same(old, new, plan.fields)
    else:
        carried = np.asarray(pc.equal(old.column(ROW_VERSION), new.column(ROW_VERSION)))
        if plan.drop_unchanged:
            carried |= _same(old, new, plan.fields)
    went, came = np.ones(left.num_rows, bool), np.ones(arrived.num_rows, bool)
    went[before], came[after] = False, False
    parts = []
    if DELETE in plan.shows:
        parts.append(_shown(plan, left.filter(pa.array(went)), DELETE))
    if INSERT in plan.shows:
        parts.append(_shown(plan, arrived.filter(pa.array(came)), INSERT))
    changed = pa.array(~carried)
    if BEFORE in plan.shows:
        parts.append(_shown(plan, old.filter(changed), BEFORE))
    if AFTER in plan.shows:
        parts.append(_shown(plan, new.filter(changed), AFTER))
    return parts


def _refuse_doubled(plan: ChangesPlan, left: pa.Table, arrived: pa.Table) -> None:
    if not plan.keys:
        return
    for rows in (left, arrived):
        names = [_COMMIT, *plan.keys]
        counted = rows.select(names).group_by(names).aggregate([([], "count_all")])
        twice = counted.filter(pc.greater(counted.column("count_all"), 1))
        if twice.num_rows:
            shown = twice.select(list(plan.keys)).slice(0, 1).to_pylist()[0]
            raise Invalid(
                f"keys=[{', '.join(plan.keys)}] do not identify a row: {shown} has several in one version; add columns"
            )


def _same(old: pa.Table, new: pa.Table, fields: Sequence[Field]) -> NDArray[np.bool_]:
    """Which rows have equal values in every column."""
    same = np.ones(old.num_rows, bool)
    for f in fields:
        same &= _equal(old.column(f.name).combine_chunks(), new.column(f.name).combine_chunks())
    return same


def _equal(a: pa.Array, b: pa.Array) -> NDArray[np.bool_]:
    """Which values are equal: null to null, NaN to NaN, nested ones part by part."""
    nulls_a, nulls_b = np.asarray(a.is_null()), np.asarray(b.is_null())
    equal: NDArray[np.bool_] = nulls_a == nulls_b
    both = np.flatnonzero(~nulls_a & ~nulls_b)
    a, b = a.take(pa.array(both)), b.take(pa.array(both))
    if pa.types.is_struct(a.type):
        inside = np.ones(len(both), bool)
        for n in range(a.type.num_fields):
            inside &= _equal(a.field(n), b.field(n))
    elif pa.types.is_map(a.type) or pa.types.is_list(a.type):
        inside = _equal_lists(a, b)
    else:
        inside = np.asarray(pc.equal(a, b))
        if pa.types.is_floating(a.type):
            inside = inside | np.asarray(pc.and_(pc.is_nan(a), pc.is_nan(b)))
    equal[both] &= inside
    return equal


def _equal_lists(a: pa.Array, b: pa.Array) -> NDArray[np.bool_]:
    """Lists and maps without a null one: equal where they have as many members, equal one by one."""
    lengths_a, lengths_b = (np.diff(np.asarray(x.offsets)) for x in (a, b))
    equal: NDArray[np.bool_] = lengths_a == lengths_b
    chosen = np.flatnonzero(equal & (lengths_a > 0))
    if len(chosen):
        parts = [_members(x.take(pa.array(chosen))) for x in (a, b)]
        members = _equal(*parts)
        starts = np.concatenate(([0], np.cumsum(lengths_a[chosen])[:-1]))
        equal[chosen] = np.logical_and.reduceat(members, starts)
    return equal


def _members(lists: pa.Array) -> pa.Array:
    if not pa.types.is_map(lists.type):
        return lists.flatten()
    return pa.StructArray.from_arrays([lists.keys, lists.items], ["key", "value"])


def _shown(plan: ChangesPlan, rows: pa.Table, change: str) -> pa.Table:
    types = pa.repeat(pa.scalar(change), rows.num_rows)
    return _table(plan, rows, types, rows.column(_COMMIT), rows.column(ID))


def _table(plan: ChangesPlan, rows: pa.Table, types: pa.Array, commits: pa.Array, ids: pa.Array) -> pa.Table:
    times_ms = np.array(plan.times.made_ms or (0,), np.int64)[np.asarray(commits) - plan.times.first]
    columns = [rows.column(f.name) for f in plan.fields]
    columns += [types, commits, pa.array(times_ms * 1000).cast(_MOMENT)]
    return pa.table([*columns, ids] if plan.with_ids else columns, schema=_outputs(plan))


def _outputs(plan: ChangesPlan) -> pa.Schema:
    schema = arrow_schema(Struct(plan.fields))
    schema = schema.append(pa.field(CHANGE_TYPE, pa.string())).append(pa.field(COMMIT_VERSION, pa.int64()))
    schema = schema.append(pa.field(COMMIT_TIMESTAMP, _MOMENT))
    return schema.append(pa.field(ROW_ID, pa.int64())) if plan.with_ids else schema


def _ordered(plan: ChangesPlan, changes: pa.Table) -> pa.Table:
    who = [changes.column(name) for name in plan.keys or ((ROW_ID,) if plan.with_ids else ())]
    ranks = pc.index_in(changes.column(CHANGE_TYPE), value_set=pa.array(_IN_ORDER))
    by = pa.table([changes.column(COMMIT_VERSION), *who, ranks], names=[str(n) for n in range(len(who) + 2)])
    return changes.take(pc.sort_indices(by, sort_keys=[(name, "ascending") for name in by.column_names]))
