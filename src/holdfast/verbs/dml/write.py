"""Append and overwrite from call to commit: fits the rows to the table, stores them and commits; and table creation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from holdfast.env import Env
from holdfast.errors import AppendOnly, ConcurrentWrite, Invalid, NotATable, NumbersTaken
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.state import DeltaState
from holdfast.model.definition import created
from holdfast.model.mutation import HANDS_OUT_NUMBERS, Mutation, RowsWhere, TableDefinition
from holdfast.plan.engine import IncomingRows
from holdfast.plan.maintain.auto import Auto
from holdfast.predicate.parse import parse
from holdfast.predicate.records import Predicate
from holdfast.schema.constraints import Demand, DemandKind, demands, pinned, references
from holdfast.schema.enforce import fit
from holdfast.schema.evolve import evolve, overwrite
from holdfast.schema.identity import advanced
from holdfast.schema.types import Struct
from holdfast.storage.location import Location
from holdfast.verbs.commit.loop import commit
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.strategy import Effect
from holdfast.verbs.dml.write_mutation import (
    CommitOptions,
    appended,
    created_table,
    overwritten,
    refuse_outside,
    replaced,
)
from holdfast.verbs.open.open_table import OpenTable

REPLACE_WHERE = "replaceWhere"  # what a constraint is called that rows in the place of others are under
_NUMBERED_AGAIN = 100  # times, before so many writers at once are the user's business


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How rows are written."""

    replace: bool = False  # else appended
    replace_where: str | None = None
    zone: str = "UTC"  # of times in it that name none
    dynamic: bool = False  # replace only the partitions that the rows have
    add_columns: bool = False
    widen_types: bool = False
    replace_schema: bool = False
    commit_options: CommitOptions = field(default_factory=CommitOptions)
    taking: Effect | None = None  # the rows that `replace_where` names, found; None: whole partitions
    stored_as: Mapping[str, str] = field(default_factory=dict)  # properties that count for these files only


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did; `version` is None when the table had it already (an application version)."""

    version: int | None
    metrics: Mapping[str, int]
    attempts: int
    auto: Auto | None = None  # the compaction that followed; None: the table asks for none


def write(table: OpenTable, rows: IncomingRows, how: WriteOptions, env: Env) -> Written:
    """Append or overwrite; rows appended whose numbers another writer handed out meanwhile get others, if they can."""
    for _ in range(_NUMBERED_AGAIN if rows.repeatable and not how.replace else 0):
        try:
            return _write(table, rows, how, env)
        except NumbersTaken:
            table = table.newest()
    return _write(table, rows, how, env)


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Rows that are written and that nobody refers to yet."""

    staged: pa.Table
    shape: TableDefinition | None  # what the table becomes with them; None: as it is
    tags: Mapping[str, str]
    where: Predicate | None  # what `replace_where` says


def store_rows(table: OpenTable, rows: IncomingRows, how: WriteOptions, env: Env) -> StagedRows:
    """Fit rows to a table and write them, up to the commit."""
    location = table.snapshot.location
    table.check_writable()
    old = table.definition
    incoming = rows.schema()
    schema = _new_schema(old, incoming, how)
    definition = old if schema is old.schema else table.evolved(old, schema, env)
    if how.replace and not how.replace_schema:
        refuse_append_only(old, location)
    where = None if how.replace_where is None else parse(how.replace_where, definition.schema, zone=how.zone)
    fitted = fit(incoming, definition.schema)
    constraints = demands(definition.schema, definition.properties, fitted)
    if how.taking is not None and how.replace_where is not None:
        constraints = (*constraints, _belongs(how.replace_where, definition.schema))
    stored_as = definition
    if how.stored_as:
        stored_as = replace(definition, properties={**definition.properties, **how.stored_as})
    spec = table.storing(stored_as, carried=False, feeds=False).data
    staged, marks = rows.store(fitted, constraints, spec, location)
    tags = {HANDS_OUT_NUMBERS: "true"} if marks and definition is old else {}
    if marks:
        definition = replace(definition, schema=advanced(definition.schema, marks))
    return StagedRows(staged, None if definition is old else definition, tags, where)


def _write(table: OpenTable, rows: IncomingRows, how: WriteOptions, env: Env) -> Written:
    stored = store_rows(table, rows, how, env)
    if how.taking is None:
        return commit_anew(table, lambda at: _mutation(at, stored, how), env)
    mutation = _mutation(table, stored, how)  # of rows that were found in this version
    landed = table.commit(mutation, env)
    return Written(landed.version, mutation.metrics, landed.attempts)


def commit_anew(table: OpenTable, mutation_on: Callable[[OpenTable], Mutation], env: Env) -> Written:
    """Commit rows that are stored; what they replace is looked up anew where others only moved rows meanwhile."""
    lost = 0
    while True:
        mutation = mutation_on(table)
        try:
            landed = table.commit(mutation, env)
        except ConcurrentWrite as conflict:
            if not conflict.repeats:
                raise
            table, lost = table.newest(), lost + 1
            continue
        return Written(landed.version, mutation.metrics, landed.attempts + lost)


def _mutation(table: OpenTable, stored: StagedRows, how: WriteOptions) -> Mutation:
    snapshot, options = table.snapshot, how.commit_options
    staged, shape, where, text = stored.staged, stored.shape, stored.where, how.replace_where or ""
    if not how.replace:
        mutation = appended(snapshot, staged, options, shape=shape)
    elif how.taking is not None and where is not None:
        parameters = {"predicate": text}
        mutation = replaced(snapshot, staged, how.taking, parameters, options, reads=RowsWhere(where), shape=shape)
    else:
        if where is not None:
            refuse_outside(snapshot, staged, where, text)
        same = table.same_partitions(staged) if how.dynamic else None
        mutation = overwritten(
            snapshot, staged, options, shape=shape, where=where, where_text=text, same_partitions=same
        )
    return replace(mutation, tags={**mutation.tags, **stored.tags})


def make(location: Location, request: TableDefinition, env: Env, *, mode: CreateMode, plain: bool) -> DeltaState:
    """Create or replace a Delta table, as the mode says."""
    format_ = DeltaFormat(location)
    state = format_.newest(None)
    if state is not None and mode is CreateMode.CREATE_IF_NOT_EXISTS:
        return state
    if state is not None and mode is CreateMode.CREATE:
        raise Invalid(
            f"there is a table at {location.url} already: open it with forPath, or use createIfNotExists or replace"
        )
    if state is None and mode is CreateMode.REPLACE:
        raise NotATable(f"there is no table at {location.url} to replace: use create", location=location.url)
    old = None if state is None else DeltaFormat.definition_of(state)
    definition = created(request, env.new_uuid, plain=plain, old=old)
    try:
        commit(format_, state, created_table(definition, None if state is None else state.snapshot), env)
    except ConcurrentWrite:
        if mode is not CreateMode.CREATE_IF_NOT_EXISTS:
            raise
    newest = format_.newest(state)
    assert newest is not None, "the table was just made"
    return newest


def _new_schema(old: TableDefinition, incoming: Struct, how: WriteOptions) -> Struct:
    if how.replace_schema:
        new = overwrite(incoming)
        if gone := [name for name in old.partition_columns if new.find(name) is None]:
            raise Invalid(
                f"the table is partitioned by {', '.join(gone)}, which these rows do not have: make it anew with "
                "createOrReplace and append them"
            )
        return new
    if how.add_columns or how.widen_types:
        new = evolve(
            old.schema,
            incoming,
            add_columns=how.add_columns,
            widen_types=how.widen_types,
            pinned=pinned(old.schema, old.properties),
        )
        return old.schema if new == old.schema else new
    return old.schema


def _belongs(text: str, schema: Struct) -> Demand:
    """What rows must satisfy that take the place of others."""
    return Demand(REPLACE_WHERE, DemandKind.CHECK, text, references(text, schema))


def refuse_append_only(shape: TableDefinition, location: Location) -> None:
    """Refuse to take rows out of a table that only takes appends."""
    if shape.properties.get("delta.appendOnly", "false").lower() == "true":
        raise AppendOnly(f"the table at {location.url} only takes appends (delta.appendOnly=true): append instead")
