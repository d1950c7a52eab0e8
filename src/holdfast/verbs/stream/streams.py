"""Streams changes out of a table batch by batch, and merges batches of a stream into a table.

`readStream.format("holdfast")` reads in Spark's Python processes. `streamChanges` is for large batches: its stream
carries only the offsets of a batch, and Spark reads the changes, as `changes(...).toDF()` does. Both give one result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from holdfast.errors import Invalid
from holdfast.formats.delta.state import DeltaState
from holdfast.plan.changefeed.stream import STORAGE, parse_options
from holdfast.storage.location import Location
from holdfast.storage.open import allow_outside_option
from holdfast.storage.remote import RemoteStore
from holdfast.verbs.commit.retry import retry_of
from holdfast.verbs.dml.merge import Duplicates
from holdfast.verbs.open.delta_handle import DeltaHandle
from holdfast.verbs.open.engine import on_spark
from holdfast.verbs.open.spark_values import stated_in_text
from holdfast.verbs.stream.follow import StreamFollower

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from holdfast.verbs.stream.batches import Clauses, Foreach


def stream_changes(
    handle: DeltaHandle,
    kind: str,
    foreach: Foreach,
    options: Mapping[str, object],
    *,
    checkpoint: str,
    query_name: str | None,
    available_now: bool,
    processing_time: str | None,
) -> StreamingQuery:
    """Call `foreach(changes, batch)` with a DataFrame of changes, batch after batch; options of None are left out."""
    spark = on_spark(handle.engine, "a stream needs a Spark session: open the table with one").spark
    if available_now and processing_time is not None:
        raise Invalid("availableNow ends the query, processingTime keeps it going: choose one")
    location = handle.newest().snapshot.location
    texts = {name: str(value) for name, value in options.items() if value is not None}
    texts |= {"readChangeFeed": "true"} if kind == "feed" else {"kind": kind}
    if "startingTimestamp" in texts:
        texts["timeZone"] = handle.zone
    texts |= {"ranges": "true", "path": location.spark_path()}
    texts |= {f"{STORAGE}{name}": value for name, value in _storage(location).items()}
    parse_options(texts)  # refuses here what the query would refuse later
    from holdfast.verbs.stream.source import FORMAT, register

    register(spark)
    ranges = spark.readStream.format(FORMAT).options(**texts).load()
    writer = ranges.writeStream.foreachBatch(_giving_changes(texts, foreach))
    writer = writer.option("checkpointLocation", checkpoint)
    if query_name is not None:
        writer = writer.queryName(query_name)
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif processing_time is not None:
        writer = writer.trigger(processingTime=processing_time)
    return writer.start()


def merge_stream(
    handle: DeltaHandle,
    condition: str | Column,
    clauses: Clauses | None,
    *,
    app: str,
    alias: str | None,
    mode: str | None,
    duplicates: str,
    order_by: str | None,
    isolation: str | None,
    retry: int,
) -> Callable[[DataFrame, int], None]:
    """A function for `writeStream.foreachBatch` that merges each batch into the table, once."""
    on = stated_in_text(condition, "mergeStream()")
    Duplicates(duplicates, order_by)  # these refuse here what the first batch would refuse later
    retry_of(retry)
    location = handle.newest().snapshot.location
    handle.caller(alias, mode, None, isolation)
    from holdfast.verbs.stream.batches import Merging

    merging = Merging(
        location.spark_path(), _storage(location), on, app, alias, mode, duplicates, order_by, isolation, retry
    )
    return _merging(asdict(merging), clauses)


def _giving_changes(options: Mapping[str, str], foreach: Foreach) -> Callable[[DataFrame, int], None]:
    """A function for foreachBatch, which runs on Spark's driver, or on the server with Spark Connect."""
    followers: dict[str, StreamFollower] = {}  # kept from batch to batch

    def run(rows: DataFrame, batch: int) -> None:
        from holdfast.verbs.stream.source import needing_holdfast

        with needing_holdfast():
            from holdfast.verbs.stream.batches import give_changes
        give_changes(followers, options, foreach, rows, batch)

    return run


def _merging(merging: Mapping[str, Any], clauses: Clauses | None) -> Callable[[DataFrame, int], None]:
    """A function for foreachBatch that merges each batch."""
    states: dict[str, DeltaState] = {}  # kept from batch to batch

    def run(rows: DataFrame, batch: int) -> None:
        from holdfast.verbs.stream.source import needing_holdfast

        with needing_holdfast():
            from holdfast.verbs.stream.batches import merge_batch
        merge_batch(states, merging, clauses, rows, batch)

    return run


def _storage(location: Location) -> dict[str, str]:
    """The options that a table was opened with."""
    options = location.store.config.options if isinstance(location.store, RemoteStore) else {}
    return {**options, **allow_outside_option(location)}
