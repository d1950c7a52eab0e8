"""What a table of any format does to its rows: append, delete, update, merge, compaction, and the plans of these."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from holdfast.engines.spark.conditions import stated, stated_or_none
from holdfast.model.mutation import AppVersion
from holdfast.plan.maintain.compact import HIDDEN_SHARE, TARGET_ROWS
from holdfast.verbs.commit.retry import Retry, retried, retry_of
from holdfast.verbs.dml import delete_update as changing
from holdfast.verbs.dml.assignments import Sets, stated_sets
from holdfast.verbs.dml.delete_update import Changed, ChangePlan
from holdfast.verbs.dml.merge import DeltaMergeBuilder, Duplicates
from holdfast.verbs.dml.write import WriteOptions, Written
from holdfast.verbs.dml.write_mutation import CommitOptions
from holdfast.verbs.maintain.lease import Lease, lease_of
from holdfast.verbs.maintain.optimize import Compacted, DeltaOptimizeBuilder, limits_of, purge
from holdfast.verbs.maintain.post_commit import after
from holdfast.verbs.open.handle import TableBase


class RowVerbs(TableBase, ABC):
    """Verbs that change rows, each in one commit."""

    @abstractmethod
    def _write(self, rows: DataFrame | pa.Table, how: WriteOptions) -> Written: ...

    def append(
        self,
        rows: DataFrame | pa.Table,
        *,
        mergeSchema: bool = False,
        widenTypes: bool = False,
        txn: tuple[str, int] | None = None,
        userMetadata: str | None = None,
    ) -> Written:
        """Add rows, from a DataFrame or, without Spark, an Arrow table.

        `mergeSchema` adds columns the table lacks, `widenTypes` widens the types of those it has, in the same commit.
        `txn` names an application and its version: one the table has seen is not written again.
        """
        how = WriteOptions(add_columns=mergeSchema, widen_types=widenTypes, said=said(txn, userMetadata))
        return self._write(rows, how)

    def delete(
        self,
        condition: str | Column | None = None,
        *,
        mode: str | None = None,
        isolation: str | None = None,
        retry: int | Retry | None = None,
        txn: tuple[str, int] | None = None,
        userMetadata: str | None = None,
    ) -> Changed:
        """Take out the rows that satisfy a condition; all without one.

        `mode` is merge-on-read, copy-on-write or auto; without it, what the table does (`delta.enableDeletionVectors`).
        `isolation` is Serializable, WriteSerializable or SnapshotIsolation; without it, what the table asks for
        (`delta.isolationLevel`). `retry` is how often to try when another writer comes first, a number or a `Retry`.
        """
        where = stated_or_none(condition, "delete()")
        caller = self._caller(mode, said(txn, userMetadata), isolation)

        def run() -> Changed:
            state = self.handle.newest()
            return after(state, changing.delete(state, where, caller), caller)

        return retried(run, retry_of(retry), caller.env)

    def update(
        self,
        condition: str | Column | None = None,
        set: Sets | None = None,
        *,
        mode: str | None = None,
        isolation: str | None = None,
        retry: int | Retry | None = None,
        txn: tuple[str, int] | None = None,
        userMetadata: str | None = None,
    ) -> Changed:
        """Set columns of the rows that satisfy a condition, as in `update("id = 1", {"n": "n + 1"})`.

        A value is SQL text or a Column; a number, a bool or None stands for itself.
        """
        where, sets = stated_or_none(condition, "update()"), stated_sets(set, "update()")
        caller = self._caller(mode, said(txn, userMetadata), isolation)

        def run() -> Changed:
            state = self.handle.newest()
            return after(state, changing.update(state, where, sets, caller), caller)

        return retried(run, retry_of(retry), caller.env)

    def merge(
        self,
        source: DataFrame | pa.Table,
        condition: str | Column,
        *,
        mode: str | None = None,
        duplicates: str = "error",
        orderBy: str | None = None,
        isolation: str | None = None,
        retry: int | Retry | None = None,
        txn: tuple[str, int] | None = None,
        userMetadata: str | None = None,
    ) -> DeltaMergeBuilder:
        """Begin a merge of a source into the table, as in delta-spark: clauses follow, then `execute()`.

        Several rows of the source with one key are an error, or the `first` or `last` by the column `orderBy` counts.
        """
        on = stated(condition, "merge()")
        caller = self._caller(mode, said(txn, userMetadata), isolation)
        settled = Duplicates(duplicates, orderBy)
        return DeltaMergeBuilder(self.handle.newest, source, on, caller, settled, retry_of(retry))

    @property
    def plan(self) -> Plans:
        """What verbs that run at once would do: `table.plan.delete(...)`, `table.plan.update(...)`."""
        return Plans(self)

    def optimize(
        self,
        *,
        full: bool = False,
        targetRows: int = TARGET_ROWS,
        targetBytes: int | None = None,
        materializeDeletionsThreshold: float = HIDDEN_SHARE,
        maxBytes: int | None = None,
        lease: bool | str | Lease = False,
    ) -> DeltaOptimizeBuilder:
        """Begin a compaction, as in delta-spark: `optimize().where(...).executeCompaction()`.

        Files below both targets (`targetBytes` is the table's own unless given) are written together, and a file anew
        that hides more than a share of its rows. A clustered table is put in order instead: what is not yet, or with
        `full` all of it. `maxBytes` bounds what is written. Row ids and versions stay.

        `lease` is for several workers at once: each leaves the others what they are at. It is the name of a worker, or
        a `Lease` that also says for how long; with True the name is made up.
        """
        state, caller = self.handle.newest(), self._caller()
        limits = limits_of(
            state,
            caller.dialect,
            target_rows=targetRows,
            target_bytes=targetBytes,
            threshold=materializeDeletionsThreshold,
            most_bytes=maxBytes,
        )
        return DeltaOptimizeBuilder(state, caller, limits, full, lease=lease_of(lease, caller.env))

    def purge(self) -> Compacted:
        """Write files that hide rows anew, so that readers without deletion vectors see the same rows."""
        state, caller = self.handle.newest(), self._caller()
        return purge(state, caller, limits_of(state, caller.dialect))


class Plans:
    """Plans of verbs: rows are read, nothing is written."""

    def __init__(self, table: RowVerbs) -> None:
        self._table = table

    def delete(self, condition: str | Column | None = None, *, mode: str | None = None) -> ChangePlan:
        """What `delete` with the same arguments would do."""
        where, caller = stated_or_none(condition, "plan.delete()"), self._table._caller(mode)
        return changing.planned(changing.delete_asked(self._table.handle.newest(), where, caller), "DELETE", caller)

    def update(
        self, condition: str | Column | None = None, set: Sets | None = None, *, mode: str | None = None
    ) -> ChangePlan:
        """What `update` with the same arguments would do."""
        where, sets = (
            stated_or_none(condition, "plan.update()"),
            stated_sets(set, "plan.update()"),
        )
        caller = self._table._caller(mode)
        return changing.planned(
            changing.update_asked(self._table.handle.newest(), where, sets, caller), "UPDATE", caller
        )


def said(txn: tuple[str, int] | None, user_metadata: str | None) -> CommitOptions:
    """What a user says of a write beside its rows."""
    return CommitOptions(None if txn is None else AppVersion(*txn), user_metadata)
