"""Overwrite where a condition on any columns holds: the rows it names go, by either strategy, and others come.

A condition on partition columns alone needs none of this: whole partitions are replaced, unread.
"""

from __future__ import annotations

from dataclasses import replace

from holdfast.errors import Unsupported
from holdfast.model.format import DmlMode
from holdfast.predicate.parse import parse
from holdfast.verbs.dml.delete_update import ExecutionContext, delete_asked
from holdfast.verbs.dml.strategy import effect
from holdfast.verbs.dml.write import WriteOptions
from holdfast.verbs.dml.write_mutation import is_about_partitions
from holdfast.verbs.open.open_table import OpenTable


def with_rows_to_replace(table: OpenTable, how: WriteOptions, call: ExecutionContext) -> WriteOptions:
    """How to write, with the rows to be replaced found where they are not whole partitions."""
    if how.replace_where is None:
        return how
    where = parse(how.replace_where, table.snapshot.schema, zone=call.zone)
    if is_about_partitions(table.snapshot, where):
        return how
    asked = delete_asked(table, how.replace_where, call)
    if asked.store.feed is not None and asked.mode is DmlMode.COPY_ON_WRITE:
        raise Unsupported(
            f"the table at {table.snapshot.location.url} has a change data feed and no deletion vectors: set "
            "delta.enableDeletionVectors=true to replace rows by a condition on columns that are no partition columns"
        )
    return replace(how, taking=effect(asked, call.engine, table.load_hidden, call.env.now_ms))
