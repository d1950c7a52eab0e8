"""MERGE: the builder, and how its clauses become one change.

    pin the source once -> understand the condition -> leave out files it cannot match -> change, insert -> commit

1. The source is evaluated exactly once, by writing it below the table; what was written is gone when the merge ends,
   however it ends.
2. Clauses of a kind are tried in the order they were given; one without a condition is the last of its kind.
3. A source with some of the table's columns sets those, and keeps or leaves out the others.
4. With schema evolution, columns of the source that the table lacks are added in the same commit.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from holdfast.engines.local.scan import scan_batches
from holdfast.errors import Invalid, TableError
from holdfast.model.files import FILES, FileTable, NoStats, Slab
from holdfast.model.mutation import TableDefinition
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.plan.dml.arithmetic import live_rows
from holdfast.plan.dml.change import SOURCE_ALIAS, Clause, PinnedSource, Side, Source
from holdfast.plan.dml.keys import by_keys, few_keys, gather, row_group_filter, stored_keys
from holdfast.plan.dml.merge_condition import On, parse_merge_condition, source_aliases
from holdfast.plan.dml.metadata_names import metadata_used, refuse_provisional_ids
from holdfast.plan.engine import IncomingRows
from holdfast.plan.scan.metadata_columns import MetadataColumns
from holdfast.plan.scan.request import Request, plan_scan, with_metadata
from holdfast.schema.evolve import evolve
from holdfast.schema.types import Field, Struct
from holdfast.storage.leftovers import delete_one
from holdfast.verbs.commit.retry import Retry, retried
from holdfast.verbs.dml.assignments import Sets, Value, assignments, stated_sets
from holdfast.verbs.dml.delete_update import (
    Changed,
    ChangePlan,
    DmlStep,
    ExecutionContext,
    already_landed,
    commit,
    file_metrics,
    kind_metrics,
    planned,
    text_of,
)
from holdfast.verbs.dml.merge_evolution import taken
from holdfast.verbs.dml.merge_stars import refuse_partial, starred
from holdfast.verbs.dml.strategy import DmlRequest, effect
from holdfast.verbs.dml.write import refuse_append_only
from holdfast.verbs.maintain.post_commit import after
from holdfast.verbs.open.engine import AnyRows, rows_of
from holdfast.verbs.open.open_table import OpenTable
from holdfast.verbs.open.spark_values import stated_or_none

STAGE = "_holdfast/stage"
_ONCE = Retry(1)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MergeWhen:
    """A clause as it was given; `sets` of None is a star, where the clause sets anything."""

    side: Side
    condition: Value | None
    sets: Mapping[str, Value] | None
    deletes: bool = False

    @property
    def kind(self) -> str:
        return f"{self.side.name} {'DELETE' if self.deletes else 'SET'}"


class DeltaMergeBuilder:
    """A MERGE in the making; `execute()` runs it, `plan()` says what it would do."""

    def __init__(
        self,
        newest: Callable[[], OpenTable],
        source: AnyRows,
        condition: Value,
        call: ExecutionContext,
        duplicates: Duplicates,
        retry: Retry = _ONCE,
    ) -> None:
        self._newest = newest
        self._table = newest()
        self._retry = retry
        self._source = source
        self._condition = condition
        self._call = call
        self._duplicates = duplicates
        self._whens: tuple[MergeWhen, ...] = ()
        self._evolves = False
        self._like_delta_spark = False

    def whenMatchedUpdate(self, condition: Value | None = None, set: Sets | None = None) -> DeltaMergeBuilder:
        """Set columns of matched rows, as in `set={"n": "t.n + s.n"}`."""
        return self._with(MergeWhen(Side.MATCHED, condition, _given(set, "whenMatchedUpdate", "set")))

    def whenMatchedUpdateAll(self, condition: Value | None = None) -> DeltaMergeBuilder:
        """Set every column that the source has."""
        return self._with(MergeWhen(Side.MATCHED, condition, None))

    def whenMatchedDelete(self, condition: Value | None = None) -> DeltaMergeBuilder:
        """Delete matched rows."""
        return self._with(MergeWhen(Side.MATCHED, condition, None, deletes=True))

    def whenNotMatchedInsert(self, condition: Value | None = None, values: Sets | None = None) -> DeltaMergeBuilder:
        """Insert rows of the source that match nothing, with these values."""
        return self._with(MergeWhen(Side.NEW, condition, _given(values, "whenNotMatchedInsert", "values")))

    def whenNotMatchedInsertAll(self, condition: Value | None = None) -> DeltaMergeBuilder:
        """Insert rows of the source that match nothing, as they are."""
        return self._with(MergeWhen(Side.NEW, condition, None))

    def whenNotMatchedBySourceUpdate(
        self, condition: Value | None = None, set: Sets | None = None
    ) -> DeltaMergeBuilder:
        """Set columns of rows that no row of the source matches."""
        return self._with(MergeWhen(Side.ALONE, condition, _given(set, "whenNotMatchedBySourceUpdate", "set")))

    def whenNotMatchedBySourceDelete(self, condition: Value | None = None) -> DeltaMergeBuilder:
        """Delete rows that no row of the source matches."""
        return self._with(MergeWhen(Side.ALONE, condition, None, deletes=True))

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Add columns of the source that the table lacks."""
        self._evolves = True
        return self

    def refusing_as_delta_spark(self) -> DeltaMergeBuilder:
        """Refuse, without schema evolution, stars that the source has not all columns for; with it, let fields that a
        struct of the source lacks become null."""
        self._like_delta_spark = True
        return self

    def execute(self) -> Changed:
        """Carry it out."""
        if (landed := already_landed(self._table, self._call)) is not None:
            return landed
        started = self._call.env.now_ms()
        with self._pinned() as pinned:

            def run() -> Changed:
                done = commit(self._table, self._step(pinned), self._call, started=started)
                return after(self._table, done, self._call)

            return retried(run, self._retry, self._call.env, anew=self._reread)

    def _reread(self) -> None:
        self._table = self._newest()

    def _step(self, pinned: PinnedSource) -> DmlStep:
        table, call = self._table, self._call
        request, shape = self._request(pinned)
        result = effect(request, call.engine, table.load_hidden, call.env.now_ms)
        assert request.source is not None, "a merge has a source"
        metrics = {
            "numSourceRows": request.source.rows,
            "numTargetRowsInserted": result.inserted,
            "numTargetRowsUpdated": result.updated,
            "numTargetRowsDeleted": result.deleted,
            "numTargetRowsCopied": result.copied,
            "numOutputRows": result.inserted + result.updated + result.copied,
            **kind_metrics(request, result),
            **file_metrics(result, of="Target"),
        }
        return DmlStep(
            "MERGE",
            self._parameters(),
            request,
            result,
            metrics,
            shape=None if shape.schema == table.snapshot.schema else shape,
            rebases=not self._reads_itself(),
        )

    def plan(self) -> ChangePlan:
        """What it would do; the table stays as it is."""
        with self._pinned() as pinned:
            request, _ = self._request(pinned)
            assert request.source is not None, "a merge has a source"
            rows = sum(n or 0 for n in live_rows(request.snapshot.files))
            pairs = f"the condition compares no keys: up to {rows * request.source.rows:,} pairs of rows are looked at"
            notes = () if self._understood(pinned.schema).has_equality else (pairs,)
            return planned(self._table, request, "MERGE", self._call, notes=notes)

    def _with(self, when: MergeWhen) -> DeltaMergeBuilder:
        stated_or_none(when.condition, "a clause of merge()")
        before = [w for w in self._whens if w.side is when.side]
        if before and before[-1].condition is None:
            raise Invalid(
                f"the clause before takes every row of its kind ({when.side.value}): give it a condition, or leave "
                "this one out"
            ).named("NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION")
        self._whens = (*self._whens, when)
        return self

    @contextmanager
    def _pinned(self) -> Iterator[PinnedSource]:
        """The source, written once; gone afterwards."""
        if not self._whens:
            raise Invalid("a merge needs at least one when... clause")
        table, call = self._table, self._call
        table.check_writable()
        table.dml_mode(call.mode, "merge")  # refuses before anything is written
        if any(w.side is not Side.NEW for w in self._whens):
            refuse_append_only(table.definition, table.snapshot.location)
        location = table.snapshot.location
        pinned = self._rows().pin(STAGE, table.snapshot)
        try:
            yield pinned
        finally:
            for key in pinned.staged.column("key").to_pylist():  # one per file
                try:
                    delete_one(location, location.store_key(key))
                except TableError as error:
                    _log.warning("%s of a merge that is over could not be deleted: %s", key, error)

    def _reads_itself(self) -> bool:
        """Whether rows of the source come from the table, so that they would be others now."""
        location = self._table.snapshot.location
        root = location.spark_uri("").rstrip("/") + "/"
        files = rows_of(self._source, self._call.env, self._call.zone).input_files()
        return any(path.replace("file:///", "file:/").startswith(root) for path in files)

    def _rows(self) -> IncomingRows:
        """The source as the engine takes it, with one row per key if the user wants that."""
        rows = self._call.engine.source(self._source)
        if self._duplicates.policy == "error":
            return rows
        columns = rows.names
        schema = Struct(tuple(Field(name, Struct(())) for name in columns))
        on = self._understood(schema)
        if not on.keys:
            raise Invalid("duplicates can only be settled where the condition says which columns are equal")
        keys = [(k.source, k.null_safe) for k in on.keys]
        return rows.one_per_key(keys, self._duplicates.column(columns), last=self._duplicates.policy == "last")

    def alias_of_source(self, source: Struct) -> str | None:
        """What the user calls the source, from what qualifies names in the texts and is neither target nor column."""
        target = self._table.snapshot.schema
        rows = rows_of(self._source, self._call.env, self._call.zone)
        aliases = source_aliases(list(self._texts()), target, source, self._call.alias, rows.is_called)
        if len(aliases) > 1:
            raise Invalid(
                f"names of the source are qualified by {' and '.join(sorted(aliases))}: give the source one "
                "alias, as in source.alias('s'), and the table another"
            )
        return next(iter(aliases), None)

    def _texts(self) -> Iterator[str]:
        yield text_of(self._condition)
        for when in self._whens:
            if when.condition is not None:
                yield text_of(when.condition)
            yield from (text_of(value) for value in (when.sets or {}).values())

    def _metadata(self, source: Struct) -> MetadataColumns:
        """The metadata columns of the target that the condition and the clauses on its rows name."""
        whens = [when for when in self._whens if when.side is not Side.NEW]
        conditions = [self._condition, *(when.condition for when in whens if when.condition is not None)]
        values = [text_of(value) for when in whens for value in (when.sets or {}).values()]
        snapshot, alias = self._table.snapshot, self._call.alias
        metadata = metadata_used([*map(text_of, conditions), *values], snapshot, snapshot.schema, alias, source)
        refuse_provisional_ids(values, snapshot, metadata, alias, source)
        return metadata

    def _understood(self, source: Struct) -> On:
        snapshot = self._table.snapshot
        return parse_merge_condition(
            text_of(self._condition),
            with_metadata(snapshot, snapshot.schema, self._metadata(source)),
            source,
            self._call.alias,
            self.alias_of_source(source),
            zone=self._call.zone,
        )

    def _request(self, pinned: PinnedSource) -> tuple[DmlRequest, TableDefinition]:
        table, call = self._table, self._call
        old = table.definition
        shape = self._grown(old, pinned.schema)
        alias = self.alias_of_source(pinned.schema)
        on = self._understood(pinned.schema)
        if not on.has_equality:
            _log.warning(
                "the condition of this merge compares no keys (%s): every row meets every row", text_of(self._condition)
            )
        rows = sum(pinned.staged.column("num_records").to_pylist())
        staged = _as_table(table.snapshot, pinned)
        source = Source(staged, self._condition, on.keys, alias, rows)
        clauses = tuple(self._clause(when, shape.schema, pinned.schema, alias) for when in self._whens)
        metadata = self._metadata(pinned.schema)
        if taken := [name for name in metadata.canonical if shape.schema.find(name) is not None]:
            raise Invalid(f"the source would add a column {taken[0]}, which here means the metadata column: rename it")
        request = DmlRequest(
            table.snapshot,
            clauses,
            shape.schema,
            table.dml_mode(call.mode, "merge"),
            table.storing(shape, feeds=call.feeds),
            inserts=table.storing(shape, carried=False, feeds=call.feeds),
            source=source,
            alias=call.alias,
            metadata=metadata,
        )
        if any(c.side is Side.ALONE for c in clauses):
            return request, shape
        request = replace(request, predicate=on.target_only)
        if not on.keys:
            return request, shape
        columns = list(dict.fromkeys(k.source for k in on.keys))
        plan = plan_scan(staged, Request(columns=columns))
        values = gather(scan_batches(plan, HiddenRows()), on.keys, pinned.schema)

        def keeps(files: FileTable) -> pa.BooleanArray:
            return by_keys(files, table.snapshot, values, metadata)

        schema = table.snapshot.schema
        more = table.pruners(few_keys(values, with_metadata(table.snapshot, schema, metadata)))
        skips = row_group_filter(stored_keys(values, metadata), schema)
        return replace(request, keeps=keeps, skips=skips, more=more), shape

    def _grown(self, old: TableDefinition, source: Struct) -> TableDefinition:
        if not self._evolves:
            return old
        stars = any(when.sets is None and not when.deletes for when in self._whens)
        nested = {f.name.lower() for f in old.schema.fields if isinstance(f.type, Struct)}
        named = (name for when in self._whens for name in when.sets or ())
        takes = source.fields if stars else taken(named, old.schema, source, self._call.alias)
        new = [f for f in takes if old.schema.find(f.name) is None or f.name.lower() in nested]
        widen = self._table.widens_types
        if widen:
            new = list(takes)
        schema = evolve(old.schema, Struct(tuple(new)), add_columns=True, widen_types=widen, partial=True)
        if schema == old.schema:
            return old
        return self._table.evolved(old, schema, self._call.env)

    def _clause(self, when: MergeWhen, schema: Struct, source: Struct, alias: str | None) -> Clause:
        if when.deletes:
            return Clause(when.side, when.condition)
        complete = not (self._evolves if self._like_delta_spark else when.side is Side.NEW)
        if when.sets is not None:
            sets = assignments(when.sets, schema, self._call.alias, complete=complete)
            if when.side is Side.NEW and (inner := next((s for s in sets if len(s.path) > 1), None)):
                raise Invalid(f"an inserted row sets whole columns, not {'.'.join(inner.path)}")
            return Clause(when.side, when.condition, sets)
        if self._like_delta_spark and not self._evolves:
            refuse_partial(when.side, source, schema)
        sets = starred(when.side, source, schema, alias or SOURCE_ALIAS, complete=complete)
        return Clause(when.side, when.condition, sets)

    def _parameters(self) -> Mapping[str, Any]:
        def predicates(side: Side) -> str:
            return json.dumps(
                [
                    {
                        "actionType": "delete" if w.deletes else "insert" if side is Side.NEW else "update",
                        **({} if w.condition is None else {"predicate": text_of(w.condition)}),
                    }
                    for w in self._whens
                    if w.side is side
                ]
            )

        return {
            "predicate": json.dumps([text_of(self._condition)]),
            "matchedPredicates": predicates(Side.MATCHED),
            "notMatchedPredicates": predicates(Side.NEW),
            "notMatchedBySourcePredicates": predicates(Side.ALONE),
        }


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Which of several rows of a source with the same key counts."""

    policy: str = "error"
    order_by: str | None = None

    def __post_init__(self) -> None:
        if self.policy not in ("error", "first", "last"):
            raise Invalid(f"duplicates is 'error', 'first' or 'last', not {self.policy!r}")
        if (self.policy == "error") != (self.order_by is None):
            raise Invalid(
                "duplicates='first' and 'last' go with orderBy=, the column of the source that says the order"
            )

    def column(self, known: Sequence[str]) -> str:
        """The column as the source spells it."""
        match = next((name for name in known if name.lower() == (self.order_by or "").lower()), None)
        if match is None:
            raise Invalid(f"the source has no column {self.order_by!r} to order by; it has {', '.join(known)}")
        return match


def _given(sets: Sets | None, method: str, argument: str) -> Mapping[str, Value]:
    if not (stated := stated_sets(sets, f"{method}()")):
        raise Invalid(f"{method} needs {argument}=, columns and their values")
    return stated


def _as_table(target: Snapshot, pinned: PinnedSource) -> Snapshot:
    """What was pinned, as something that is read like a table."""
    staged = pinned.staged
    nothing = {f.name: pa.nulls(staged.num_rows, f.type) for f in FILES}
    given = {name: staged.column(name) for name in ("key", "size", "modified_ms")}
    paths = pa.array([quote(key) for key in staged.column("key").to_pylist()], pa.string())  # one per file
    files = pa.table({**nothing, **given, "path": paths}).select(FILES.names).cast(FILES)
    return Snapshot(
        target.location,
        version=0,
        timestamp_ms=0,
        schema=pinned.schema,
        partition_columns=(),
        files=FileTable((Slab(files, NoStats(staged.num_rows)),)),
    )
