"""Runs what a table asks for after a write: a refresh of indexes and a bounded compaction.

1. The write is committed before any of this begins, and stands whatever happens.
2. The result of the write holds what was done, and what went wrong.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from pyarrow import ArrowException

from holdfast.errors import TableError
from holdfast.plan.maintain.auto import Auto, auto_compaction_bins, budget_of
from holdfast.plan.scan.request import partition_fields
from holdfast.verbs.dml.delete_update import Changed, ExecutionContext
from holdfast.verbs.dml.write import Written
from holdfast.verbs.maintain.clustering import clustered_by
from holdfast.verbs.maintain.optimize import limits_of, run_bins
from holdfast.verbs.open.open_table import OpenTable

Done = TypeVar("Done", Written, Changed)


def after(table: OpenTable, done: Done, caller: ExecutionContext) -> Done:
    """The result of a write, with what followed it; `table` is the version that the write read."""
    if done.version is None:
        return done
    if caller.reindex is not None:
        caller.reindex()
    try:
        followed = _followed(table, caller)
    except (TableError, *caller.engine.failures, ArrowException, OSError) as error:
        followed = Auto(trouble=str(error))
    return done if followed is None else replace(done, auto=followed)


def _followed(before: OpenTable, caller: ExecutionContext) -> Auto | None:
    budget = budget_of(before.snapshot.properties)
    if budget is None:
        return None
    table = before.newest()
    partitions = [f.physical_name for f in partition_fields(table.snapshot)]
    bins = auto_compaction_bins(table.snapshot.files, partitions, clustered_by(table), limits_of(table), budget)
    ends = caller.env.now_ms() + 1000 * budget.max_seconds
    done = run_bins(table, bins, caller, is_over=lambda: caller.env.now_ms() >= ends, auto=True)
    trouble = [*done.lost, *([f"{done.left} bins would have begun too late"] if done.left else [])]
    return Auto(done.versions, done.metrics, done.left + len(done.lost), "; ".join(trouble) or None)
