"""Writes, put together: fit the rows to the table, store them, commit, and do what the commit made due.

This module brings a format, an engine and the commit loop together and decides nothing: `write_mutation` says what a
write becomes, the engine checks and stores rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from holdfast.env import Env
from holdfast.errors import AppendOnly, ConcurrentWrite, Invalid, NotATable, NumbersTaken
from holdfast.formats.delta.commit.loop import DeltaFormat
from holdfast.formats.delta.state import DeltaState
from holdfast.model.mutation import HANDS_OUT_NUMBERS, Mutation, RowsWhere, TableDefinition
from holdfast.plan.engine import IncomingRows
from holdfast.plan.maintain.auto import Auto
from holdfast.predicate.parse import parse
from holdfast.predicate.records import Predicate
from holdfast.schema.constraints import Demand, DemandKind, demands, pinned, references
from holdfast.schema.enforce import fit
from holdfast.schema.evolve import evolve, overwrite
from holdfast.schema.identity import advanced
from holdfast.schema.properties import Isolation
from holdfast.schema.types import Struct
from holdfast.storage.location import Location
from holdfast.terminal import phase
from holdfast.verbs.commit.loop import Landed, commit, has_seen
from holdfast.verbs.commit.rebase import Redo
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.define.shape import created
from holdfast.verbs.dml.strategy import Effect
from holdfast.verbs.dml.write_mutation import CommitOptions, appended, made, overwritten, refuse_outside, replaced
from holdfast.verbs.open.delta_dialect import DELTA
from holdfast.verbs.open.dialect import Dialect, TableState

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
    said: CommitOptions = field(default_factory=CommitOptions)
    taking: Effect | None = None  # the rows that `replace_where` names, found; None: whole partitions
    stored_as: Mapping[str, str] = field(default_factory=dict)  # properties that count for these files only


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did; `version` is None when the table had it already (an application version)."""

    version: int | None
    metrics: Mapping[str, int]
    attempts: int
    auto: Auto | None = None  # the compaction that followed; None: the table asks for none


def is_seen(state: TableState, said: CommitOptions, dialect: Dialect) -> bool:
    """Whether a table has what is said to be written: asked before rows are, and again by the commit."""
    return has_seen(dialect.commits(state.snapshot.location, state), state, said.app)


def write(state: TableState, rows: IncomingRows, how: WriteOptions, env: Env, dialect: Dialect) -> Written:
    """Append or overwrite; rows appended whose numbers another writer handed out meanwhile get others, if they can."""
    for _ in range(_NUMBERED_AGAIN if rows.repeatable and not how.replace else 0):
        try:
            return _write(state, rows, how, env, dialect)
        except NumbersTaken:
            newest = dialect.commits(state.snapshot.location, state).newest(state)
            assert newest is not None, "a table does not go away"
            state = newest
    return _write(state, rows, how, env, dialect)


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Rows that are written and that nobody refers to yet."""

    staged: pa.Table
    shape: TableDefinition | None  # what the table becomes with them; None: as it is
    tags: Mapping[str, str]
    where: Predicate | None  # what `replace_where` says


def store_rows(state: TableState, rows: IncomingRows, how: WriteOptions, env: Env, dialect: Dialect) -> StagedRows:
    """Fit rows to a table and write them, up to the commit."""
    location = state.snapshot.location
    dialect.check_writable(state)
    old = dialect.shape_of(state)
    incoming = rows.schema()
    schema = _new_schema(old, incoming, how)
    shape = old if schema is old.schema else dialect.grown(state, old, schema, env)
    if how.replace and not how.replace_schema:
        refuse_append_only(old, location)
    where = None if how.replace_where is None else parse(how.replace_where, shape.schema, zone=how.zone)
    fitted = fit(incoming, shape.schema)
    wanted = demands(shape.schema, shape.properties, fitted)
    if how.taking is not None and how.replace_where is not None:
        wanted = (*wanted, _belongs(how.replace_where, shape.schema))
    stored = replace(shape, properties={**shape.properties, **how.stored_as}) if how.stored_as else shape
    staged, marks = rows.store(
        fitted, wanted, dialect.storing(state, stored, carried=False, feeds=False).data, location
    )
    tags = {HANDS_OUT_NUMBERS: "true"} if marks and shape is old else {}
    if marks:
        shape = replace(shape, schema=advanced(shape.schema, marks))
    return StagedRows(staged, None if shape is old else shape, tags, where)


def _write(state: TableState, rows: IncomingRows, how: WriteOptions, env: Env, dialect: Dialect) -> Written:
    stored = store_rows(state, rows, how, env, dialect)
    if how.taking is None:
        return land_anew(state, lambda at: _mutation(at, stored, how, dialect), env, dialect)
    mutation = _mutation(state, stored, how, dialect)  # of rows that were found in this version
    landed = land(state, state.snapshot.location, mutation, env, dialect=dialect)
    return Written(landed.version, mutation.metrics, landed.attempts)


def land_anew(state: TableState, mutation_on: Callable[[TableState], Mutation], env: Env, dialect: Dialect) -> Written:
    """Commit rows that are stored; what they take the place of is asked anew where others only moved rows meanwhile."""
    location, lost = state.snapshot.location, 0
    while True:
        mutation = mutation_on(state)
        try:
            landed = land(state, location, mutation, env, dialect=dialect)
        except ConcurrentWrite as conflict:
            if not conflict.repeats:
                raise
            newest = dialect.commits(location, state).newest(state)
            assert newest is not None, "a table does not go away"
            state, lost = newest, lost + 1
            continue
        return Written(landed.version, mutation.metrics, landed.attempts + lost)


def _mutation(state: TableState, stored: StagedRows, how: WriteOptions, dialect: Dialect) -> Mutation:
    snapshot = state.snapshot
    staged, shape, where, text = stored.staged, stored.shape, stored.where, how.replace_where or ""
    if not how.replace:
        made = appended(snapshot, staged, how.said, shape=shape)
    elif how.taking is not None and where is not None:
        told = {"predicate": text}
        made = replaced(snapshot, staged, how.taking, told, how.said, reads=RowsWhere(where), shape=shape)
    else:
        if where is not None:
            refuse_outside(snapshot, staged, where, text)
        beside = dialect.beside(state, staged) if how.dynamic else None
        made = overwritten(snapshot, staged, how.said, shape=shape, where=where, where_text=text, beside=beside)
    return replace(made, tags={**made.tags, **stored.tags})


def land(
    state: TableState | None,
    location: Location,
    mutation: Mutation,
    env: Env,
    *,
    redo: Redo | None = None,
    level: Isolation | None = None,
    dialect: Dialect,
) -> Landed:
    """Commit, then do what is due; a failure of the latter is told in the log and undoes nothing.

    `redo` and `level` are for races with others, see `commit`.
    """
    with phase("committing"):
        landed = commit(dialect.commits(location, state), state, mutation, env, redo=redo, level=level)
    if landed.version is not None:
        dialect.tend(location, landed.after, landed.version, env)
    return landed


def make(location: Location, asked: TableDefinition, env: Env, *, mode: CreateMode, plain: bool) -> DeltaState:
    """Create or replace a table, as the mode says."""
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
    shape = created(asked, env.new_uuid, plain=plain, old=None if state is None else DELTA.shape_of(state))
    try:
        land(state, location, made(shape, None if state is None else state.snapshot), env, dialect=DELTA)
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
