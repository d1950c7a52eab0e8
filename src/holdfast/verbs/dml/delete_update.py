"""DELETE and UPDATE from call to commit, and what MERGE shares with them: the context of a call and its commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow.compute as pc

from holdfast.engines.spark.column_text import UNREADABLE, sql_of
from holdfast.env import Env
from holdfast.errors import Invalid
from holdfast.model.mutation import (
    HANDS_OUT_NUMBERS,
    KEEPS_ROW_IDS,
    AllRows,
    Mutation,
    Reads,
    RowsWhere,
    TableDefinition,
)
from holdfast.plan.dml.change import Clause, Side
from holdfast.plan.dml.merge_condition import parse_merge_condition
from holdfast.plan.dml.metadata_names import metadata_used, refuse_provisional_ids
from holdfast.plan.dml.repeatable import is_repeatable
from holdfast.plan.maintain.auto import Auto
from holdfast.plan.scan.prune import Want, pass_detail
from holdfast.plan.scan.request import with_metadata
from holdfast.predicate.records import ALWAYS, Predicate
from holdfast.schema.identity import advanced
from holdfast.schema.properties import Isolation
from holdfast.schema.types import Struct
from holdfast.verbs.commit.rebase import Redo, Touched
from holdfast.verbs.dml.affected_rows import row_ids
from holdfast.verbs.dml.assignments import Value, assignments
from holdfast.verbs.dml.strategy import DmlRequest, Effect, Strategy, effect, preview, touched
from holdfast.verbs.dml.write import refuse_append_only
from holdfast.verbs.dml.write_mutation import CommitOptions
from holdfast.verbs.open.engine import AnyEngine, AnyRows
from holdfast.verbs.open.open_table import OpenTable


@dataclass(frozen=True)
class Changed:
    """What a change did; `version` is None when there was nothing to change, or the table had it already."""

    version: int | None
    metrics: Mapping[str, int]
    attempts: int = 0
    auto: Auto | None = None  # the compaction that followed; None: the table asks for none
    strategies: tuple[Strategy, ...] = ()
    effect: Effect = field(default_factory=Effect, repr=False)
    before: OpenTable | None = field(default=None, repr=False)
    engine: AnyEngine | None = field(default=None, repr=False)

    def rowIds(self) -> AnyRows:
        """The ids of the rows that were touched, with what happened to each (update, delete, insert).

        A DataFrame, read when it is used; an Arrow table where the table was opened without Spark.
        """
        if self.before is None or self.engine is None:
            raise Invalid("a change within a transaction has no ids yet: ask changes() once it is committed")
        return row_ids(self.before, self.effect, self.version, self.engine)


@dataclass(frozen=True)
class ChangePlan:
    """What a change would do: nothing of it is done. Printing it shows it."""

    operation: str
    strategies: tuple[Strategy, ...]
    rows: Mapping[str, int]  # updated, deleted, inserted, copied
    files: int  # read to find rows
    bytes_written: int  # an estimate: rows to be written, at the size rows have in their files
    schema_changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        counts = ", ".join(f"{n} {what}" for what, n in self.rows.items() if n) or "no row changes"
        lines = [
            f"{self.operation}: {counts}",
            f"  files searched: {self.files}",
            f"  bytes to write: about {self.bytes_written}",
        ]
        lines += [f"  schema: {text}" for text in self.schema_changes]
        lines += [f"  {note}" for note in self.notes]
        lines += [f"  {s.how:9} {s.key} ({s.rows} of {s.of} rows): {s.why}" for s in self.strategies[:50]]
        if len(self.strategies) > 50:
            lines.append(f"  and {len(self.strategies) - 50} files more")
        return "\n".join(lines)


@dataclass(frozen=True)
class ExecutionContext:
    """How a call of a verb runs."""

    engine: AnyEngine
    env: Env
    zone: str
    alias: str | None = None
    commit_options: CommitOptions = field(default_factory=CommitOptions)
    mode: str | None = None
    level: Isolation | None = None  # that races are judged by; None: the table's own
    feeds: bool = True  # whether changes write change files, where the table has a feed
    reindex: Callable[[], None] | None = None  # brings indexes up to date that ask for it after every write


@dataclass(frozen=True)
class DmlStep:
    """A change that was carried out and is not committed."""

    operation: str
    parameters: Mapping[str, Any]
    request: DmlRequest
    result: Effect
    metrics: Mapping[str, int]
    shape: TableDefinition | None = None  # what the table becomes; None: as it is
    rebases: bool = True  # where others come first, their rows are looked at and not only their files

    def touched(self) -> Touched | None:
        """What it did row by row; None where that cannot be asked again."""
        if not (self.rebases and _is_repeatable(self.request)):
            return None
        counts = "numTargetRowsDeleted" if self.request.source is not None else "numDeletedRows"
        return touched(self.request, self.result, deletes=counts)


def delete_request(table: OpenTable, condition: Value | None, call: ExecutionContext) -> DmlRequest:
    """A DELETE, understood."""
    definition = table.definition
    _check_writable(table, definition)
    metadata = metadata_used([text_of(condition)], table.snapshot, definition.schema, call.alias)
    predicate, exact = predicate_of(condition, with_metadata(table.snapshot, definition.schema, metadata), call)
    return DmlRequest(
        table.snapshot,
        (Clause(Side.ALONE, condition),),
        definition.schema,
        table.dml_mode(call.mode, "delete"),
        table.storing(definition, feeds=call.feeds),
        predicate=predicate,
        is_exact=exact,
        alias=call.alias,
        metadata=metadata,
        more=table.pruners(),
    )


def update_request(
    table: OpenTable, condition: Value | None, sets: Mapping[str, Value] | None, call: ExecutionContext
) -> DmlRequest:
    """An UPDATE, understood."""
    definition = table.definition
    _check_writable(table, definition)
    if not sets:
        raise Invalid("update needs the columns to set and their values, as in update('id = 1', {'name': \"'x'\"})")
    values = [text_of(value) for value in sets.values()]
    metadata = metadata_used([text_of(condition), *values], table.snapshot, definition.schema, call.alias)
    refuse_provisional_ids(values, table.snapshot, metadata, call.alias)
    predicate, _ = predicate_of(condition, with_metadata(table.snapshot, definition.schema, metadata), call)
    clause = Clause(Side.ALONE, condition, assignments(sets, definition.schema, call.alias))
    return DmlRequest(
        table.snapshot,
        (clause,),
        definition.schema,
        table.dml_mode(call.mode, "update"),
        table.storing(definition, feeds=call.feeds),
        predicate=predicate,
        alias=call.alias,
        metadata=metadata,
        more=table.pruners(),
    )


def delete(table: OpenTable, condition: Value | None, call: ExecutionContext) -> Changed:
    """Take rows out."""
    started = call.env.now_ms()
    return already_landed(table, call) or commit(table, deleted(table, condition, call), call, started=started)


def deleted(table: OpenTable, condition: Value | None, call: ExecutionContext) -> DmlStep:
    """Take rows out, up to the commit."""
    request = delete_request(table, condition, call)
    result = effect(request, call.engine, table.load_hidden, call.env.now_ms)
    metrics = {"numDeletedRows": result.deleted, "numCopiedRows": result.copied, **file_metrics(result)}
    return DmlStep("DELETE", _parameters(condition), request, result, metrics)


def update(
    table: OpenTable, condition: Value | None, sets: Mapping[str, Value] | None, call: ExecutionContext
) -> Changed:
    """Change columns of rows."""
    started = call.env.now_ms()
    return already_landed(table, call) or commit(table, updated(table, condition, sets, call), call, started=started)


def updated(
    table: OpenTable, condition: Value | None, sets: Mapping[str, Value] | None, call: ExecutionContext
) -> DmlStep:
    """Change columns of rows, up to the commit."""
    request = update_request(table, condition, sets, call)
    result = effect(request, call.engine, table.load_hidden, call.env.now_ms)
    metrics = {"numUpdatedRows": result.updated, "numCopiedRows": result.copied, **file_metrics(result)}
    return DmlStep("UPDATE", _parameters(condition), request, result, metrics)


def planned(
    table: OpenTable, request: DmlRequest, operation: str, call: ExecutionContext, *, notes: tuple[str, ...] = ()
) -> ChangePlan:
    """What a change would do."""
    previewed = preview(request, call.engine, table.load_hidden)
    notes = (*notes, *(text for one in request.more if (text := pass_detail(one, Want(request.snapshot)))))
    strategies = {s.key: s for s in previewed.strategies}
    files = request.snapshot.files
    touched = files.among(strategies)
    predicted = 0.0
    copied = 0
    for key, size, rows in zip(
        touched.column("key").to_pylist(),
        touched.column("size").to_pylist(),
        touched.num_records.to_pylist(),
        strict=True,
    ):
        left = (strategies[key].of or 0) - strategies[key].rows if strategies[key].how == "rewritten" else 0
        copied += left
        updated = len(previewed.taken[0].get(key, ()))
        predicted += size / rows * (left + updated) if rows else 0
    return ChangePlan(
        operation,
        previewed.strategies,
        {"updated": previewed.updated, "deleted": previewed.deleted, "inserted": previewed.inserted, "copied": copied},
        previewed.searched,
        int(predicted),
        tuple(f"new column {f.name}" for f in request.schema.fields if request.snapshot.schema.find(f.name) is None),
        notes,
    )


def already_landed(table: OpenTable, call: ExecutionContext) -> Changed | None:
    """The result of a call whose application version the table has already; None: it has not."""
    if not table.has_app_version(call.commit_options.app):
        return None
    return Changed(None, {}, 0, before=table, engine=call.engine)


def commit(table: OpenTable, step: DmlStep, call: ExecutionContext, *, started: int) -> Changed:
    """Make what was carried out true."""
    request, result, shape, metrics = step.request, step.result, step.shape, step.metrics
    tags = {KEEPS_ROW_IDS: "true"} if table.snapshot.identity is not None else {}
    if result.marks:
        tags |= {HANDS_OUT_NUMBERS: "true"} if shape is None else {}
        base = shape or table.definition
        shape = replace(base, schema=advanced(base.schema, result.marks))
    if result.is_nothing and shape is None:
        return Changed(None, metrics, 0, None, result.strategies, result, table, call.engine)
    times = {
        "scanTimeMs": result.scan_ms,
        "rewriteTimeMs": result.rewrite_ms,
        "executionTimeMs": call.env.now_ms() - started,
    }
    reads: Reads = AllRows() if request.predicate == ALWAYS else RowsWhere(request.predicate)
    mutation = Mutation(
        step.operation,
        step.parameters,
        {**metrics, **times},
        added=result.staged,
        removed=result.removed.table,
        hidden=result.hidden,
        feed=result.feed,
        reads=reads,
        shape=shape,
        app=call.commit_options.app,
        user_metadata=call.commit_options.user_metadata,
        tags=tags,
    )
    rows = step.touched()
    redo = None if rows is None else Redo(rows, call.engine, table.load_hidden)
    level = call.level or table.isolation_of(step.operation)
    landed = table.commit(mutation, call.env, redo=redo, level=level)
    metrics = landed.metrics or mutation.metrics
    return Changed(landed.version, metrics, landed.attempts, None, result.strategies, result, table, call.engine)


def _is_repeatable(request: DmlRequest) -> bool:
    conditions = [c.condition for c in request.clauses if c.condition is not None]
    conditions += [] if request.source is None else [request.source.on]
    values = [one.value for c in request.clauses for one in c.sets or ()]
    return is_repeatable([text_of(c) for c in conditions], [text_of(v) for v in values])


def file_metrics(result: Effect, *, of: str = "") -> dict[str, int]:
    """What a change did to files, as commits tell it; `of` is what stands before the noun."""
    files = result.removed
    dvs = pc.sum(pc.is_valid(files.column("dv"))).as_py() or 0 if len(files) else 0
    return {
        f"num{of}FilesAdded" if of else "numAddedFiles": result.staged.num_rows,
        f"num{of}FilesRemoved" if of else "numRemovedFiles": len(files),
        f"num{of}BytesAdded" if of else "numAddedBytes": pc.sum(result.staged.column("size")).as_py() or 0,
        f"num{of}BytesRemoved" if of else "numRemovedBytes": pc.sum(files.column("size")).as_py() or 0,
        f"num{of}DeletionVectorsAdded": len(result.hidden),
        f"num{of}DeletionVectorsRemoved": dvs,
        f"num{of}ChangeFilesAdded" if of else "numAddedChangeFiles": result.feed.num_rows,
        f"num{of}FilesScanned" if of else "numScannedFiles": result.searched,
    }


def kind_metrics(request: DmlRequest, result: Effect) -> dict[str, int]:
    """The rows that a merge took by the kind of clause; left out where two kinds share a count."""
    metrics = {}
    for what, total, deletes in (("Updated", result.updated, False), ("Deleted", result.deleted, True)):
        sides = {clause.side for clause in request.of_target if (clause.sets is None) is deletes}
        if len(sides) < 2:
            metrics[f"numTargetRowsMatched{what}"] = total if Side.MATCHED in sides else 0
            metrics[f"numTargetRowsNotMatchedBySource{what}"] = total if Side.ALONE in sides else 0
    return metrics


def text_of(expression: Value | None) -> str:
    """An expression for people, and for what is understood of it."""
    if expression is None:
        return "true"
    return expression if isinstance(expression, str) else sql_of(expression)


def _check_writable(table: OpenTable, definition: TableDefinition) -> None:
    table.check_writable()
    refuse_append_only(definition, table.snapshot.location)


def predicate_of(condition: Value | None, schema: Struct, call: ExecutionContext) -> tuple[Predicate, bool]:
    """What is understood of a condition, and whether that is all of it."""
    if condition is None:
        return ALWAYS, True
    text = text_of(condition)
    on = parse_merge_condition(text, schema, Struct(()), call.alias, None, zone=call.zone)
    return on.target_only, on.is_understood and UNREADABLE not in text


def _parameters(condition: Value | None) -> Mapping[str, Any]:
    return {"predicate": json.dumps([] if condition is None else [text_of(condition)])}
