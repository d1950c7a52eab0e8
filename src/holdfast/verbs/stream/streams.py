"""Streams from and into a table, for users: changes batch by batch, and merges of batches.

`readStream.format("holdfast")` reads inside of Spark's Python processes. `streamChanges` is for large batches: its
stream carries only from where to where a batch goes, and Spark itself reads the changes, as `changes(...).toDF()` does.
Both follow the table in one way and give the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.engines.spark.conditions import stated_in_text
from holdfast.errors import Invalid
from holdfast.plan.changefeed.stream import STORAGE, parse_options
from holdfast.storage.location import Location
from holdfast.storage.open import allow_outside_option
from holdfast.storage.remote import RemoteStore
from holdfast.verbs.commit.retry import retry_of
from holdfast.verbs.dml.merge import Duplicates
from holdfast.verbs.open.delta_handle import DeltaHandle
from holdfast.verbs.open.handle import TableBase
from holdfast.verbs.stream.batches import Clauses, Foreach
from holdfast.verbs.stream.source import FORMAT, at_batch, register

_BATCHES = "holdfast.verbs.stream.batches"


class StreamVerbs(TableBase):
    """Verbs that go on from batch to batch."""

    handle: DeltaHandle

    def streamChanges(
        self,
        kind: str,
        foreach: Foreach,
        *,
        checkpointLocation: str,
        startingVersion: int | str | None = None,
        startingTimestamp: str | None = None,
        maxFilesPerTrigger: int | None = None,
        maxBytesPerTrigger: int | None = None,
        keys: Sequence[str] = (),
        includeDeleted: bool = False,
        dropUnchanged: bool = False,
        queryName: str | None = None,
        availableNow: bool = False,
        processingTime: str | None = None,
    ) -> StreamingQuery:
        """Call `foreach(changes, batch)` with a DataFrame of what happened, batch after batch, and give the query.

        `kind` is one of `changes()`, or `feed`. Without a start the rows that are there come first, as inserts. A batch
        that was given and not noted in the checkpoint is given again, with the same id and the same changes: a write
        with `txn=(name, batch)` makes that once. `availableNow` ends the query with what is there now.
        """
        caller = self._caller()
        if caller.spark is None:
            raise Invalid("a stream needs a Spark session: open the table with one")
        if availableNow and processingTime is not None:
            raise Invalid("availableNow ends the query, processingTime keeps it going: choose one")
        location = self.handle.newest().snapshot.location
        given: dict[str, Any] = {
            **({"readChangeFeed": "true"} if kind == "feed" else {"kind": kind}),
            "startingVersion": startingVersion,
            "startingTimestamp": startingTimestamp,
            "timeZone": None if startingTimestamp is None else caller.zone,
            "maxFilesPerTrigger": maxFilesPerTrigger,
            "maxBytesPerTrigger": maxBytesPerTrigger,
            "keys": ",".join(keys) or None,
            "includeDeleted": "true" if includeDeleted else None,
            "dropUnchanged": "true" if dropUnchanged else None,
            "ranges": "true",
        }
        options = {name: str(value) for name, value in given.items() if value is not None}
        options |= {"path": location.spark_path(), **{f"{STORAGE}{k}": v for k, v in _storage(location).items()}}
        parse_options(options)  # refuses here what the query would refuse later
        register(caller.spark)
        ranges = caller.spark.readStream.format(FORMAT).options(**options).load()
        writer = ranges.writeStream.foreachBatch(at_batch(_BATCHES, "give_changes", options, foreach))
        writer = writer.option("checkpointLocation", checkpointLocation)
        if queryName is not None:
            writer = writer.queryName(queryName)
        if availableNow:
            writer = writer.trigger(availableNow=True)
        elif processingTime is not None:
            writer = writer.trigger(processingTime=processingTime)
        return writer.start()

    def mergeStream(
        self,
        condition: str | Column,
        clauses: Clauses | None = None,
        *,
        appId: str,
        mode: str | None = None,
        duplicates: str = "error",
        orderBy: str | None = None,
        isolation: str | None = None,
        retry: int = 3,
    ) -> Callable[[DataFrame, int], None]:
        """A function for `writeStream.foreachBatch` that merges each batch into the table, once.

        `clauses` takes the merge and adds what is to be done; without it, matched rows are updated and others inserted.
        `appId` names the stream: the table notes it with the id of the last batch, so keep it as long as the
        checkpoint, and take another with a new one.
        """
        on = stated_in_text(condition, "mergeStream()")
        Duplicates(duplicates, orderBy)  # these refuse here what the first batch would refuse later
        retry_of(retry)
        location, alias = self.handle.newest().snapshot.location, self._caller(mode, None, isolation).alias
        merging = {
            "path": location.spark_path(),
            "storage": _storage(location),
            "condition": on,
            "app": appId,
            "alias": alias,
            "mode": mode,
            "duplicates": duplicates,
            "order_by": orderBy,
            "level": isolation,
            "retry": retry,
        }
        return at_batch(_BATCHES, "merge_batch", merging, clauses)


def _storage(location: Location) -> dict[str, str]:
    """The options that a table was opened with."""
    options = location.store.config.options if isinstance(location.store, RemoteStore) else {}
    return {**options, **allow_outside_option(location)}
