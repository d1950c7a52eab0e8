"""Reads tables and streams in Spark's own Python processes, for `spark.readStream.format("holdfast")` and `spark.read`.

The planning process follows the table and splits a plan into parts; tasks read their parts with Arrow. A part is
pickled by reference, so a process that reads it has Holdfast installed.

1. A reader does nothing before its first call, because Spark makes one just to send it to tasks.
2. In a task a reader has no options and no table, only the part it is given.
3. Rows have exactly the Arrow types that Spark expects of its schema.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from holdfast.engines.local.changefeed import changes
from holdfast.engines.spark.session.carry import carried
from holdfast.engines.spark.types import spark_struct
from holdfast.errors import Invalid, Unsupported
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.state import load
from holdfast.plan.changefeed.query import ChangesPlan, Times
from holdfast.plan.changefeed.stream import STORAGE, Offset, StreamOptions, parse_options
from holdfast.storage.open import open_location
from holdfast.verbs.open.moment import moment_ms
from holdfast.verbs.stream.batch_plan import parts, planned_rows
from holdfast.verbs.stream.follow import StreamFollower, nullable
from holdfast.verbs.stream.source import task_reader

_BATCH = ("path", "versionasof", "timestampasof")


def schema_of(options: Mapping[str, str]) -> StructType:
    """The columns that a stream or a table with these options has."""
    names = {name.lower() for name in options}
    if names & {"versionasof", "timestampasof"}:
        return _Table(options).schema()
    stream = parse_options(options)
    if stream.path.startswith("memory:"):
        raise Unsupported(f"{stream.path} is in the memory of one process, where Spark cannot follow it")
    return spark_struct(StreamFollower(stream).fields())


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of a table's rows or changes."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._up_to: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return task_reader, (self._schema,)

    @cached_property
    def _stream_options(self) -> StreamOptions:
        return parse_options(self._options)

    @cached_property
    def _follower(self) -> StreamFollower:
        follower = StreamFollower(self._stream_options)
        if spark_struct(follower.fields()) != self._schema:
            raise Invalid(
                f"the table at {self._stream_options.path} has other columns than the stream was made with: make the "
                "stream again, without a schema of its own"
            )
        return follower

    def initialOffset(self) -> dict[str, Any]:
        return _stored(self._follower.initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        limits = self._stream_options.limits
        if limits.files is not None:
            return ReadMaxFiles(limits.files)
        return ReadAllAvailable() if limits.bytes is None else ReadMaxBytes(limits.bytes)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        limits = None if isinstance(limit, ReadAllAvailable) else self._stream_options.limits
        return _stored(self._follower.latest(self._follower.offset(start), limits, up_to=self._up_to))

    def prepareForTriggerAvailableNow(self) -> None:
        self._up_to = self._follower.newest().version

    def reportLatestOffset(self) -> dict[str, Any]:
        return _stored(self._follower.end())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = self._follower.offset(start), self._follower.offset(end)
        if first == last:
            return []
        if self._stream_options.ranges:
            return [InputPartition((json.dumps(_stored(first)), json.dumps(_stored(last))))]
        return _parts(self._follower.plan(first, last))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return TaskReader(self._schema).read(partition)


class BatchReader(DataSourceReader):
    """A table as it is, or was at a version or a time."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def __reduce__(self) -> tuple[Any, ...]:
        return task_reader, (self._schema,)

    def partitions(self) -> Sequence[InputPartition]:
        parts = _parts(_Table(self._options).plan())
        return parts or [InputPartition(pickle.dumps(None))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return TaskReader(self._schema).read(partition)


class TaskReader(DataSourceStreamReader):
    """Reads the part it is given: what both readers are in a task."""

    def __init__(self, schema: StructType) -> None:
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition.value, tuple):  # a range: it is its own row
            yield partition.value
            return
        plan: ChangesPlan | None = pickle.loads(partition.value)
        if plan is None:
            return
        rows = changes(plan).select(self._schema.fieldNames())
        yield from rows.cast(to_arrow_schema(self._schema, timezone="UTC")).to_batches()


class _Table:
    """What `spark.read` asks for."""

    def __init__(self, options: Mapping[str, str]) -> None:
        given = {name.lower(): value for name, value in options.items()}
        storage = {name.removeprefix(STORAGE): given.pop(name) for name in list(given) if name.startswith(STORAGE)}
        unknown = sorted(given.keys() - set(_BATCH))
        if unknown:
            raise Invalid(
                f"spark.read.format('holdfast') has no option {unknown[0]!r}; it has path, versionAsOf, timestampAsOf. "
                "For changes use readStream, or DeltaTable.forPath(spark, path).changes(...)"
            )
        location = open_location(given.get("path", ""), storage_options=storage or None)
        version, moment = given.get("versionasof"), given.get("timestampasof")
        self._state = load(
            location,
            version=None if version is None else _version(version),
            timestamp_ms=None if moment is None else moment_ms(moment, zone="UTC"),
        )

    def schema(self) -> StructType:
        return spark_struct(nullable(self._state.snapshot.schema).fields)

    def plan(self) -> ChangesPlan:
        snapshot = self._state.snapshot
        versions = pa.repeat(pa.scalar(snapshot.version, pa.int64()), len(snapshot.files))
        files = snapshot.files.table.append_column("num_records", snapshot.files.num_records)
        times = Times(snapshot.version, (snapshot.timestamp_ms,))
        return planned_rows(snapshot, files.append_column("version", versions), times, load_hidden, with_ids=False)


def _version(text: str) -> int:
    if not text.strip().isdigit():
        raise Invalid(f"versionAsOf is a version, not {text!r}")
    return int(text)


def _parts(plan: ChangesPlan) -> list[InputPartition]:
    location = plan.snapshot.location
    portable = replace(location, store=carried(location.store))
    plan = replace(plan, snapshot=replace(plan.snapshot, location=portable))
    return [InputPartition(pickle.dumps(part)) for part in parts(plan)]


def _stored(offset: Offset) -> dict[str, Any]:
    stored: dict[str, Any] = msgspec.to_builtins(offset)
    return stored
