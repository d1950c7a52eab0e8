"""Transactions of a Delta table: several verbs in one commit.

    with table.transaction() as t:  ->  each verb is carried out on what the ones before it left  ->  one commit

1. Nobody sees anything of it before it is committed as a whole, at the end of the block; an error leaves the table as
   it was, and files that vacuum takes.
2. It reads one version of the table, the newest when it begins, and its own verbs on top of that.
3. Races are judged as those of a single verb, by all rows that any of its verbs took or looked for. What it handed to
   the user, who may have made anything of it, counts as every row of the table.
4. The change feed tells of the net effect; rows are paired by their ids.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import ConcurrentWrite, Invalid, NoRowIdentity
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.state import DeltaState
from holdfast.formats.delta.stats.reader import JsonStats
from holdfast.model.mutation import HANDS_OUT_NUMBERS, KEEPS_ROW_IDS, STAGED, AllRows, Mutation, NoRows
from holdfast.model.snapshot import Snapshot
from holdfast.parquet.write import WriteSpec
from holdfast.plan.scan.request import Condition, Request
from holdfast.schema.identity import advanced
from holdfast.verbs.commit.overlay import Overlay
from holdfast.verbs.commit.rebase import Redo
from holdfast.verbs.commit.retry import Retry, retried, retry_of
from holdfast.verbs.dml import delete_update as changing
from holdfast.verbs.dml.assignments import Sets, Value, stated_sets
from holdfast.verbs.dml.delete_update import Changed, ChangePlan, DmlStep, ExecutionContext
from holdfast.verbs.dml.merge import DeltaMergeBuilder, Duplicates
from holdfast.verbs.dml.strategy import Effect
from holdfast.verbs.dml.write import WriteOptions, Written, store_rows
from holdfast.verbs.dml.write_mutation import CommitOptions
from holdfast.verbs.maintain.post_commit import after
from holdfast.verbs.open.delta import open_delta
from holdfast.verbs.open.delta_handle import DeltaHandle
from holdfast.verbs.open.engine import LOCAL, AnyRows, on_spark, rows_of
from holdfast.verbs.open.open_table import OpenTable, opened
from holdfast.verbs.open.spark_values import stated, stated_or_none, stated_without_spark

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OPERATION = "TRANSACTION"
LocalCondition = Callable[[str | None, Snapshot], Condition | None]


def begin(handle: DeltaHandle, caller: ExecutionContext) -> Transaction:
    """Begin a transaction on the newest version."""
    transaction = Transaction(handle.newest(), caller, handle.local_condition)
    transaction.afterwards(handle.written)
    return transaction


def transact(
    handle: DeltaHandle,
    work: Callable[[Transaction], object],
    caller: ExecutionContext,
    retry: int | Retry | None,
) -> Written:
    """Run `work` in a transaction, and again on the table as it then is when another writer came first."""

    def run() -> Written:
        with begin(handle, caller) as transaction:
            work(transaction)
        return transaction.result

    return retried(run, retry_of(retry), caller.env)


@dataclass(frozen=True, slots=True)
class _Did:
    """A verb of a transaction: what it was, and how it is judged where it looked for rows."""

    operation: str
    parameters: dict[str, Any]
    effect: Effect
    step: DmlStep | None  # None: it looked for none


class Transaction:
    """Verbs that become true together; made by `table.transaction()`."""

    def __init__(self, state: DeltaState, caller: ExecutionContext, condition: LocalCondition) -> None:
        self._begun, self._caller, self._condition = state, caller, condition
        self._overlay = Overlay(state.snapshot, load_hidden, JsonStats)
        self._dids: tuple[_Did, ...] = ()
        self._grown = False  # a verb changed the schema, beyond the numbers of identity columns
        self._shown = False  # rows were handed to the user
        self._stack = ExitStack()  # pinned sources: races are judged by them
        self._began = self._open = False
        self._result: Written | None = None

    def afterwards(self, call: Callable[[], None]) -> None:
        """Have something called when the block is left."""
        self._stack.callback(call)

    def __enter__(self) -> Transaction:
        if self._began:
            raise Invalid("a transaction is used once: begin another with table.transaction()")
        self._began = self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            self._open = False
            if error is None:
                self._result = self._committed()

    @property
    def result(self) -> Written:
        """What became of it, once the block is left; its version is None where there was nothing to commit."""
        if self._result is None:
            raise Invalid("the transaction is not committed: its result is known when its block is left")
        return self._result

    def append(self, rows: AnyRows, *, mergeSchema: bool = False, widenTypes: bool = False) -> Changed:
        """Add rows, as `table.append` does."""
        table, caller = self._now(), self._asking(None)
        how = WriteOptions(add_columns=mergeSchema, widen_types=widenTypes)
        stored = store_rows(table, rows_of(rows, caller.env, caller.zone), how, caller.env)
        added: int = pc.sum(stored.staged.column("num_records")).as_py() or 0
        self._grown = self._grown or (stored.shape is not None and not stored.tags)
        effect = Effect(staged=stored.staged, inserted=added)
        self._overlay = self._overlay.after(effect, stored.shape)
        self._dids += (_Did("WRITE", {"mode": "Append"}, effect, None),)
        return Changed(None, {"numOutputRows": added, "numFiles": stored.staged.num_rows})

    def delete(self, condition: Value | None = None, *, mode: str | None = None) -> Changed:
        """Take out rows, as `table.delete` does."""
        where = stated_or_none(condition, "delete()")
        return self._did(changing.deleted(self._now(), where, self._asking(mode)))

    def update(self, condition: Value | None = None, set: Sets | None = None, *, mode: str | None = None) -> Changed:
        """Set columns of rows, as `table.update` does."""
        where, sets = stated_or_none(condition, "update()"), stated_sets(set, "update()")
        return self._did(changing.updated(self._now(), where, sets, self._asking(mode)))

    def merge(
        self,
        source: AnyRows,
        condition: str | Column,
        *,
        mode: str | None = None,
        duplicates: str = "error",
        orderBy: str | None = None,
    ) -> DeltaMergeBuilder:
        """Begin a merge, as `table.merge` does; it runs at its `execute()`."""
        return _Merge(self, mode, source, stated(condition, "merge()"), Duplicates(duplicates, orderBy))

    def toArrow(self, columns: Sequence[str] | None = None, where: str | None = None) -> pa.Table:
        """Rows as the transaction has made them so far. From then on it depends on every row of the table."""
        text = stated_without_spark(where, "toArrow(where=)")
        table = self._now()
        self._shown = True
        return table.scan(Request(columns, self._condition(text, table.snapshot)), LOCAL)

    def toDF(self) -> DataFrame:
        """Rows as the transaction has made them so far. From then on it depends on every row of the table."""
        table, engine = self._now(), on_spark(self._caller.engine)
        self._shown = True
        df = table.scan(Request(), engine)
        return df.alias(self._caller.alias) if self._caller.alias else df

    def wouldConflict(self) -> ConcurrentWrite | None:
        """The conflict that committing now would raise; None: it would land, or there is nothing to commit."""
        self._now()
        if self._overlay.is_nothing:
            return None
        mutation, redo = self._mutation()
        return open_delta(self._begun).would_conflict(mutation, redo=redo, level=self._caller.level)

    def _now(self) -> OpenTable:
        """The table as the next verb reads it."""
        if not self._open:
            raise Invalid("a transaction works within its block: with table.transaction() as t: ...")
        return self._overlaid()

    def _overlaid(self) -> OpenTable:
        """The table with what the verbs did so far. Rows of the transaction itself are in no index."""
        state = replace(self._begun, snapshot=self._overlay.snapshot)
        return opened(DeltaFormat(state.snapshot.location), state, load_hidden=self._overlay.load_hidden)

    def _asking(self, mode: str | None) -> ExecutionContext:
        """Only the first verb tells of itself in change files: with another, it is the net effect that is told."""
        return replace(
            self._caller,
            mode=mode,
            commit_options=CommitOptions(),
            feeds=not self._dids,
        )

    def _did(self, step: DmlStep) -> Changed:
        shape = step.shape
        self._grown = self._grown or shape is not None
        if step.result.marks:
            base = shape or self._now().definition
            shape = replace(base, schema=advanced(base.schema, step.result.marks))
        self._overlay = self._overlay.after(step.result, shape)
        parameters = {name: json.loads(text) for name, text in step.parameters.items()}  # JSON, as commits have them
        self._dids += (_Did(step.operation, parameters, step.result, step),)
        return Changed(None, step.metrics, strategies=step.result.strategies)

    def _committed(self) -> Written:
        if self._overlay.is_nothing:
            return Written(None, {}, 0)
        self._overlay.check()
        mutation, redo = self._mutation()
        mutation = replace(mutation, feed=self._feed())
        begun = open_delta(self._begun)
        landed = begun.commit(mutation, self._caller.env, redo=redo, level=self._caller.level)
        written = Written(landed.version, landed.metrics or mutation.metrics, landed.attempts)
        return after(begun, written, self._caller)

    def _mutation(self) -> tuple[Mutation, Redo | None]:
        """All of it, apart from its change files, and how it is judged by rows; None: by files alone."""
        overlay, steps = self._overlay, [did.step for did in self._dids if did.step is not None]
        parts = [step.touched() for step in steps]
        traced = [part for part in parts if part is not None]
        redo = None
        if traced and len(traced) == len(parts) and not self._shown:
            # What its change files tell must have happened, so no row of it is left out.
            deletes = "numDeletedRows" if self._is_told_by_files() or self._feed_spec() is None else None
            engine = self._caller.engine
            touched = overlay.touched(traced, [did.effect for did in self._dids], engine, deletes=deletes)
            redo = Redo(touched, engine, load_hidden)
        tags = {KEEPS_ROW_IDS: "true"} if self._begun.snapshot.identity is not None else {}
        if overlay.shape is not None and not self._grown:
            tags[HANDS_OUT_NUMBERS] = "true"
        removed = overlay.removed_files
        mutation = Mutation(
            OPERATION,
            {"verbs": json.dumps([{"operation": did.operation, **did.parameters} for did in self._dids])},
            self._metrics(),
            added=overlay.added,
            removed=removed.table,
            hidden=overlay.hidden,
            covered=overlay.covered_rows,
            reads=AllRows() if steps or self._shown else NoRows(),
            shape=overlay.shape,
            app=self._caller.commit_options.app,
            user_metadata=self._caller.commit_options.user_metadata,
            tags=tags,
        )
        return mutation, redo

    def _metrics(self) -> dict[str, int]:
        """Rows as the verbs counted them; files as the commit has them."""
        overlay, effects = self._overlay, [did.effect for did in self._dids]
        removed = overlay.removed_files
        return {
            "numVerbs": len(effects),
            "numInsertedRows": sum(each.inserted for each in effects),
            "numUpdatedRows": sum(each.updated for each in effects),
            "numDeletedRows": sum(each.deleted for each in effects),
            "numCopiedRows": sum(each.copied for each in effects),
            "numAddedFiles": overlay.added.num_rows,
            "numRemovedFiles": len(removed),
            "numAddedBytes": pc.sum(overlay.added.column("size")).as_py() or 0,
            "numRemovedBytes": pc.sum(removed.column("size")).as_py() or 0,
            "numDeletionVectorsAdded": len(overlay.hidden) + len(overlay.covered_rows),
        }

    def _feed_spec(self) -> WriteSpec | None:
        """How change files are written; None: the table has no feed."""
        table = self._overlaid()
        return table.storing(table.definition).feed

    def _is_told_by_files(self) -> bool:
        """Whether new files are inserts and what goes is deleted, so that a feed needs no files of its own."""
        effects = [did.effect for did in self._dids]
        return not (self._overlay.covered_rows or any(each.updated or each.copied for each in effects))

    def _feed(self) -> pa.Table:
        """Change files of the net effect."""
        if len(self._dids) == 1:
            return self._dids[0].effect.feed
        spec, location = self._feed_spec(), self._begun.snapshot.location
        if spec is None or self._is_told_by_files():
            return STAGED.empty_table()
        if self._begun.snapshot.identity is None:
            raise NoRowIdentity(
                f"the table at {location.url} has a change feed and does not track rows, so what several verbs did to "
                "one row cannot be told: call enableRowTracking(), or use the verbs one by one; nothing was committed"
            )
        return self._caller.engine.write_changes(self._overlay.changes(), spec, location)


class _Merge(DeltaMergeBuilder):
    """A MERGE that ends in a transaction."""

    def __init__(
        self, transaction: Transaction, mode: str | None, source: AnyRows, condition: Value, duplicates: Duplicates
    ) -> None:
        super().__init__(transaction._now, source, condition, transaction._asking(mode), duplicates)
        self._transaction = transaction
        self._mode = mode

    def _reread(self) -> None:
        super()._reread()
        self._caller = self._transaction._asking(self._mode)

    def plan(self) -> ChangePlan:
        """What it would do, after the verbs before it."""
        self._reread()
        return super().plan()

    def execute(self) -> Changed:
        """Carry it out, on what the verbs before it left."""
        self._reread()
        pinned = self._transaction._stack.enter_context(self._pinned())
        return self._transaction._did(self._step(pinned))
