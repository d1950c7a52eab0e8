"""Appends, overwrites, deletes, updates, merges and compactions of a table of either format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.errors import Invalid, Unsupported
from holdfast.model.format import DmlMode
from holdfast.model.mutation import AppVersion
from holdfast.predicate.parse import parse
from holdfast.verbs.commit.retry import Retry, retried, retry_of
from holdfast.verbs.dml import delete_update as changing
from holdfast.verbs.dml.assignments import Sets, stated_sets
from holdfast.verbs.dml.delete_update import Changed, ChangePlan, ExecutionContext
from holdfast.verbs.dml.merge import DeltaMergeBuilder, Duplicates
from holdfast.verbs.dml.replace_matched import Met, replace_matched
from holdfast.verbs.dml.strategy import effect
from holdfast.verbs.dml.write import WriteOptions, Written
from holdfast.verbs.dml.write import write as write_rows
from holdfast.verbs.dml.write_mutation import CommitOptions, is_about_partitions
from holdfast.verbs.maintain.lease import Lease, lease_of
from holdfast.verbs.maintain.optimize import Compacted, DeltaOptimizeBuilder, limits_of
from holdfast.verbs.maintain.optimize import purge as purge_files
from holdfast.verbs.maintain.post_commit import after
from holdfast.verbs.open.engine import rows_of
from holdfast.verbs.open.handle import Handle
from holdfast.verbs.open.open_table import OpenTable
from holdfast.verbs.open.spark_values import stated, stated_in_text, stated_or_none

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def write(
    handle: Handle, rows: DataFrame | pa.Table, how: WriteOptions, caller: ExecutionContext, met: Met | None = None
) -> Written:
    """Append rows, or put them in the place of others; `met` replaces the rows that they match."""
    table = handle.open()
    if table.has_app_version(how.commit_options.app):
        return Written(None, {}, 0)
    incoming = rows_of(rows, caller.env, handle.zone)
    matching = None if met is None else met.matching(table.snapshot.schema, incoming.schema(), how)
    if matching is None:
        written = write_rows(table, incoming, _with_rows_to_replace(table, how, caller), caller.env)
    else:
        written = replace_matched(table, incoming, how, matching, caller)
    return after(table, written, caller)


def _with_rows_to_replace(table: OpenTable, how: WriteOptions, call: ExecutionContext) -> WriteOptions:
    """The options with the rows that `replaceWhere` names, where these are not whole partitions."""
    if how.replace_where is None:
        return how
    where = parse(how.replace_where, table.snapshot.schema, zone=call.zone)
    if is_about_partitions(table.snapshot, where):
        return how
    request = changing.delete_request(table, how.replace_where, call)
    if request.store.feed is not None and request.mode is DmlMode.COPY_ON_WRITE:
        raise Unsupported(
            f"the table at {table.snapshot.location.url} has a change data feed and no deletion vectors: set "
            "delta.enableDeletionVectors=true to replace rows by a condition on columns that are no partition columns"
        )
    return replace(how, taking=effect(request, call.engine, table.load_hidden, call.env.now_ms))


def overwrite(
    handle: Handle,
    rows: DataFrame | pa.Table,
    caller: ExecutionContext,
    *,
    replace_where: str | Column | None,
    replace_using: str | Sequence[str] | None,
    replace_on: str | Column | None,
    partition_overwrite_mode: str,
    add_columns: bool,
    widen_types: bool,
    replace_schema: bool,
) -> Written:
    """Put rows in the place of all rows, or of those that the arguments name."""
    where = None if replace_where is None else stated_in_text(replace_where, "overwrite(replaceWhere=)")
    on = None if replace_on is None else stated_in_text(replace_on, "overwrite(replaceOn=)")
    handle.refuse_overwrite(by_match=replace_using is not None or on is not None, replaces_schema=replace_schema)
    if caller.mode is not None and where is None:
        raise Invalid("all rows go with their files: mode is for overwrites with replaceWhere")
    partition_mode = partition_overwrite_mode.lower()
    if partition_mode not in ("static", "dynamic"):
        raise Invalid(f"partitionOverwriteMode is static or dynamic, not {partition_overwrite_mode!r}")
    dynamic = partition_mode == "dynamic"
    if where is not None and dynamic:
        raise Invalid("replaceWhere and dynamic partition overwrite exclude each other: choose one")
    if replace_schema and (where is not None or dynamic):
        raise Invalid("overwriteSchema replaces the whole table: leave replaceWhere and dynamic mode out")
    how = WriteOptions(
        replace=True,
        replace_where=where,
        zone=handle.zone,
        dynamic=dynamic,
        add_columns=add_columns,
        widen_types=widen_types,
        replace_schema=replace_schema,
        commit_options=caller.commit_options,
    )
    return write(handle, rows, how, caller, Met(replace_using, on, caller.alias))


def delete(
    handle: Handle, condition: str | Column | None, caller: ExecutionContext, retry: int | Retry | None
) -> Changed:
    """Delete the rows that satisfy a condition."""
    where = stated_or_none(condition, "delete()")
    return _changed(handle, lambda table: changing.delete(table, where, caller), caller, retry)


def update(
    handle: Handle,
    condition: str | Column | None,
    set: Sets | None,
    caller: ExecutionContext,
    retry: int | Retry | None,
) -> Changed:
    """Set columns of the rows that satisfy a condition."""
    where, sets = stated_or_none(condition, "update()"), stated_sets(set, "update()")
    return _changed(handle, lambda table: changing.update(table, where, sets, caller), caller, retry)


def _changed(
    handle: Handle, change: Callable[[OpenTable], Changed], caller: ExecutionContext, retry: int | Retry | None
) -> Changed:
    def run() -> Changed:
        table = handle.open()
        return after(table, change(table), caller)

    return retried(run, retry_of(retry), caller.env)


def merge(
    handle: Handle,
    source: DataFrame | pa.Table,
    condition: str | Column,
    caller: ExecutionContext,
    duplicates: Duplicates,
    retry: int | Retry | None,
) -> DeltaMergeBuilder:
    """Begin a merge of a source into the table."""
    on = stated(condition, "merge()")
    return DeltaMergeBuilder(handle.open, source, on, caller, duplicates, retry_of(retry))


def optimize(
    handle: Handle,
    caller: ExecutionContext,
    *,
    full: bool,
    target_rows: int,
    target_bytes: int | None,
    threshold: float,
    max_bytes: int | None,
    lease: bool | str | Lease,
) -> DeltaOptimizeBuilder:
    """Begin a compaction."""
    table = handle.open()
    limits = limits_of(
        table,
        target_rows=target_rows,
        target_bytes=target_bytes,
        threshold=threshold,
        most_bytes=max_bytes,
    )
    return DeltaOptimizeBuilder(table, caller, limits, full, lease=lease_of(lease, caller.env))


def purge(handle: Handle, caller: ExecutionContext) -> Compacted:
    """Write files that hide rows anew."""
    table = handle.open()
    return purge_files(table, caller, limits_of(table))


class Plans:
    """Plans of verbs: rows are read, nothing is written."""

    def __init__(self, handle: Handle, alias: str | None) -> None:
        self._handle, self._alias = handle, alias

    def delete(self, condition: str | Column | None = None, *, mode: str | None = None) -> ChangePlan:
        """What `delete` with the same arguments would do."""
        where = stated_or_none(condition, "plan.delete()")
        table, caller = self._handle.open(), self._handle.caller(self._alias, mode)
        return changing.planned(table, changing.delete_request(table, where, caller), "DELETE", caller)

    def update(
        self, condition: str | Column | None = None, set: Sets | None = None, *, mode: str | None = None
    ) -> ChangePlan:
        """What `update` with the same arguments would do."""
        where, sets = stated_or_none(condition, "plan.update()"), stated_sets(set, "plan.update()")
        table, caller = self._handle.open(), self._handle.caller(self._alias, mode)
        return changing.planned(table, changing.update_request(table, where, sets, caller), "UPDATE", caller)


def commit_options(txn: tuple[str, int] | None, user_metadata: str | None) -> CommitOptions:
    """The application version and the text that a user gives a commit."""
    return CommitOptions(None if txn is None else AppVersion(*txn), user_metadata)
