"""Raises the high-water mark of an identity column to the values that rows have.

1. The mark goes to the furthest value there is, in the direction of the step, or stays: it never goes back.
2. Files whose statistics say their furthest value are not read.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Invalid
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.protocol.features import check_writable
from holdfast.formats.delta.state import DeltaState
from holdfast.model.files import FileTable
from holdfast.model.mutation import HANDS_OUT_NUMBERS, AllRows, Mutation
from holdfast.plan.scan.request import Request, plan_scan
from holdfast.schema.identity import advanced, identity_of
from holdfast.schema.mapping import fields_along
from holdfast.schema.types import LONG, Field
from holdfast.verbs.define.alter import commit_shape
from holdfast.verbs.define.columns import path_of
from holdfast.verbs.dml.delete_update import ExecutionContext
from holdfast.verbs.dml.write import Written


def sync_identity(state: DeltaState, name: str, caller: ExecutionContext) -> Written:
    """Let a column go on beyond the values it has."""
    check_writable(state.protocol, table=state.snapshot.location.url)
    shape = DeltaFormat.definition_of(state)
    path = path_of(shape.schema, name)
    column = fields_along(shape.schema, path)[-1]
    identity = identity_of(column)
    if identity is None or len(path) > 1:
        raise Invalid(f"the column {name} is no identity column: its numbers are whatever rows bring")
    furthest = _furthest(state, column, identity.step > 0, caller)
    mark = None if furthest is None else identity.mark_for(furthest)
    if mark is not None:
        shape = replace(shape, schema=advanced(shape.schema, {column.name: mark}))
    after = {"name": column.name, "type": "long", "metadata": dict(fields_along(shape.schema, path)[-1].metadata)}
    mutation = Mutation(
        "CHANGE COLUMN",
        {"column": json.dumps(after)},
        reads=AllRows(),
        shape=shape,
        tags={HANDS_OUT_NUMBERS: "true"},
    )
    return commit_shape(state, mutation, caller.env)


def _furthest(state: DeltaState, column: Field, upward: bool, caller: ExecutionContext) -> int | None:
    """The greatest value of a column, or the least; None where there is none."""
    files = state.snapshot.files
    if not len(files):
        return None
    leaf = (column.physical_name,)
    stats = files.stats({leaf: LONG})
    bound = stats.bounds[leaf].high if upward else stats.bounds[leaf].low
    exact = pc.and_(pc.is_null(files.column("dv").combine_chunks()), pc.fill_null(stats.tight, True))
    from_stats = _last(pc.if_else(exact, bound, pa.scalar(None, pa.int64())), upward)
    beyond = pa.repeat(True, len(files)) if from_stats is None else _beyond(bound, from_stats, upward)
    rest = files.filter(pc.or_(pc.is_null(bound), pc.and_(pc.invert(exact), pc.fill_null(beyond, True))))
    read = _read(state, column.name, rest, upward, caller) if len(rest) else None
    candidates = [value for value in (from_stats, read) if value is not None]
    return (max(candidates) if upward else min(candidates)) if candidates else None


def _beyond(bound: pa.Array, from_stats: int, upward: bool) -> pa.Array:
    return pc.greater(bound, from_stats) if upward else pc.less(bound, from_stats)


def _last(values: pa.Array | pa.ChunkedArray, upward: bool) -> int | None:
    value: int | None = (pc.max if upward else pc.min)(values).as_py()
    return value


def _read(state: DeltaState, name: str, files: FileTable, upward: bool, caller: ExecutionContext) -> int | None:
    plan = replace(plan_scan(state.snapshot, Request([name])), files=files)
    return caller.engine.furthest(plan, load_hidden(state.snapshot.location, files), upward=upward)
