"""Processes a batch of a stream with a Spark session: reads changes, or merges rows.

`foreachBatch` calls them through functions of `streams`, on the driver or, with Spark Connect, on the server.

1. A repeated batch has the same offsets and the same rows.
2. A batch that a table has merged already is not merged again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from holdfast.env import system
from holdfast.formats.delta.state import DeltaState, load, refresh
from holdfast.model.mutation import AppVersion
from holdfast.plan.changefeed.stream import parse_options
from holdfast.schema.properties import isolation
from holdfast.storage.open import open_location
from holdfast.verbs.commit.retry import retry_of
from holdfast.verbs.dml.delete_update import ExecutionContext
from holdfast.verbs.dml.merge import DeltaMergeBuilder, Duplicates
from holdfast.verbs.dml.write_mutation import CommitOptions
from holdfast.verbs.open.delta import open_delta
from holdfast.verbs.open.engine import spark_engine, zone_of
from holdfast.verbs.open.open_table import OpenTable
from holdfast.verbs.stream.follow import StreamFollower

Foreach = Callable[[DataFrame, int], Any]
Clauses = Callable[[DeltaMergeBuilder], DeltaMergeBuilder]


@dataclass(frozen=True)
class Merging:
    """A merge to be done with every batch."""

    path: str
    storage: Mapping[str, str]
    condition: str
    app: str
    alias: str | None
    mode: str | None
    duplicates: str
    order_by: str | None
    level: str | None
    retry: int


def give_changes(
    kept: dict[str, StreamFollower], options: Mapping[str, str], foreach: Foreach, ranges: DataFrame, batch: int
) -> None:
    """Read the changes of a batch by Spark and hand them on; `ranges` has one row, or none."""
    if not kept:
        kept[options["path"]] = StreamFollower(parse_options(options))
    follower = kept[options["path"]]
    for row in ranges.collect():  # one: where the batch begins and ends
        start, end = (follower.offset(json.loads(text)) for text in (row["start"], row["end"]))
        foreach(spark_engine(ranges.sparkSession).changes(follower.plan(start, end)), batch)


def merge_batch(
    kept: dict[str, DeltaState], request: Mapping[str, Any], clauses: Clauses | None, rows: DataFrame, batch: int
) -> None:
    """Merge a batch, unless the table has it; without clauses, matched rows are updated and others inserted."""
    merging = Merging(**request)

    def newest() -> OpenTable:
        state = kept.get(merging.path)
        if state is None:
            state = load(open_location(merging.path, storage_options=dict(merging.storage) or None))
        kept[merging.path] = refresh(state)
        return open_delta(kept[merging.path])

    if newest().has_app_version(AppVersion(merging.app, batch)):
        return
    spark = rows.sparkSession
    caller = ExecutionContext(
        spark_engine(spark),
        system(),
        zone_of(spark),
        merging.alias,
        CommitOptions(AppVersion(merging.app, batch)),
        merging.mode,
        None if merging.level is None else isolation(merging.level),
    )
    settled = Duplicates(merging.duplicates, merging.order_by)
    builder = DeltaMergeBuilder(newest, rows, merging.condition, caller, settled, retry_of(merging.retry))
    if clauses is None:
        builder.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    else:
        clauses(builder).execute()
