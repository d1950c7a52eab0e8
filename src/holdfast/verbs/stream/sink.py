"""Writes streams in Spark's own Python processes, for `df.writeStream.format("holdfast")`: one commit per batch.

    planning: requirements of the table  ->  tasks: rows fitted, checked, stored  ->  commit with the id of the batch

1. A batch is in the table once. The commit names the query and the batch. Where the table has both already, because a
   query died between this commit and Spark's own, nothing is committed and the files written again are removed.
2. The id in its checkpoint, or `txnAppId`, identifies a query; a stream without either is refused.
3. Tasks read no log: they get the requirements. A change of the table's columns meanwhile stops the query.
4. In complete mode every batch replaces all rows.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from holdfast.engines.local.constraints import prepare
from holdfast.engines.local.write import write_table
from holdfast.engines.spark.session.carry import carried
from holdfast.engines.spark.types import spark_to_struct
from holdfast.env import system
from holdfast.errors import Damaged, Invalid, Unsupported
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.protocol.features import check_writable
from holdfast.formats.delta.state import DeltaState, is_table, load
from holdfast.model.mutation import STAGED, AppVersion, TableDefinition
from holdfast.parquet.write import WriteSpec
from holdfast.plan.changefeed.stream import STORAGE
from holdfast.schema.arrow import arrow_schema
from holdfast.schema.constraints import Demand, demands
from holdfast.schema.enforce import Fit, Numbered, fit
from holdfast.schema.types import Struct
from holdfast.storage.base import NotFound
from holdfast.storage.error_mapping import json_record
from holdfast.storage.leftovers import delete_one
from holdfast.storage.location import Location
from holdfast.storage.open import open_location
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.write import make, refuse_append_only
from holdfast.verbs.dml.write_mutation import CommitOptions, appended, overwritten
from holdfast.verbs.open.delta import open_delta
from holdfast.verbs.stream.source import task_writer

_KNOWN = ("path", "checkpointLocation", "txnAppId", "userMetadata")
_ROWS = 1 << 18  # that a task holds before it stores them


@dataclass(frozen=True)
class StreamSink:
    """A stream into a table, as its options say."""

    location: Location
    app: str
    user_metadata: str | None
    replaces: bool


@dataclass(frozen=True)
class Task:
    """What a task must know to store rows of a table."""

    location: Location
    fitted: Fit
    wanted: tuple[Demand, ...]
    spec: WriteSpec
    demanded: str  # of rows, when the task was made


class TaskOutput(WriterCommitMessage):
    """What a task wrote, and what the table demanded of it."""

    def __init__(self, files: bytes, demanded: str) -> None:
        self.files = files
        self.demanded = demanded


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """A writer of a stream's batches; a table that is not there is made."""
    sink = sink_of(options, replaces=overwrite)
    incoming = spark_to_struct(schema, where="the stream")
    if not is_table(sink.location):
        make(sink.location, TableDefinition(incoming), system(), mode=CreateMode.CREATE_IF_NOT_EXISTS, plain=False)
    return StreamWriter(sink, task_of(load(sink.location), incoming))


def sink_of(options: Mapping[str, str], *, replaces: bool) -> StreamSink:
    """Understand the options of a sink; names count whatever their case."""
    given = {name.lower(): value for name, value in options.items()}
    storage = {name.removeprefix(STORAGE): given.pop(name) for name in list(given) if name.startswith(STORAGE)}
    unknown = sorted(given.keys() - {name.lower() for name in _KNOWN})
    if unknown:
        raise Invalid(f"a stream into a table has no option {unknown[0]!r}; it has {', '.join(_KNOWN)}")
    location = open_location(given.get("path", ""), storage_options=storage or None)
    if location.url.startswith("memory:"):
        raise Unsupported(f"{location.url} is in the memory of one process, where Spark cannot write")
    app = given.get("txnappid") or _query_id(given.get("checkpointlocation"), location)
    return StreamSink(location, app, given.get("usermetadata"), replaces)


def task_of(state: DeltaState, incoming: Struct) -> Task:
    """What tasks must know; refused where rows cannot be stored by tasks that do not know each other."""
    location = state.snapshot.location
    check_writable(state.protocol, table=location.url)
    shape = DeltaFormat.definition_of(state)
    fitted = fit(incoming, shape.schema)
    numbered = [p.field.name for p in fitted.parts if isinstance(p.how, Numbered)]
    if numbered:
        raise Unsupported(
            f"the column {numbered[0]} of {location.url} is numbered by the table, which tasks of a stream cannot do "
            "side by side: write with foreachBatch(lambda rows, batch: table.append(rows, txn=(name, batch)))"
        )
    wanted = demands(shape.schema, shape.properties, fitted)
    prepare(
        arrow_schema(incoming).empty_table(), fitted, wanted
    )  # refuses what only Spark can check before a query runs
    carried_to = replace(location, store=carried(location.store))
    return Task(
        carried_to, fitted, wanted, DeltaFormat.storing(state, shape, carried=False, feeds=False).data, _demanded(state)
    )


def store(task: Task, batches: Iterator[pa.RecordBatch]) -> TaskOutput:
    """Fit, check and store rows."""
    written = [
        write_table(task.location, prepare(rows, task.fitted, task.wanted).table, task.spec, system())
        for rows in _gathered(batches)
    ]
    return TaskOutput(_packed(pa.concat_tables([STAGED.empty_table(), *written])), task.demanded)


def commit(sink: StreamSink, messages: Sequence[TaskOutput], batch: int) -> int | None:
    """Make what tasks stored one version; None where the table has the batch already."""
    staged = pa.concat_tables([STAGED.empty_table(), *(_unpacked(m.files) for m in messages)])
    state = DeltaFormat(sink.location).newest(None)
    if state is None:
        raise Invalid(f"the table at {sink.location.url} is gone: start the query again to make another")
    if open_delta(state).has_app_version(AppVersion(sink.app, batch)):
        discard(sink, messages)
        return None
    if any(m.demanded != _demanded(state) for m in messages):
        discard(sink, messages)
        raise Invalid(
            f"the columns or constraints of {sink.location.url} changed while batch {batch} was written, and nothing "
            "of it was committed: start the query again from its checkpoint"
        )
    options = CommitOptions(AppVersion(sink.app, batch), sink.user_metadata)
    if sink.replaces:
        refuse_append_only(DeltaFormat.definition_of(state), sink.location)
        mutation = overwritten(state.snapshot, staged, options)
    else:
        mutation = appended(state.snapshot, staged, options)
    mode = "Complete" if sink.replaces else "Append"
    parameters = {"outputMode": mode, "queryId": sink.app, "epochId": str(batch)}
    mutation = replace(mutation, operation="STREAMING UPDATE", parameters=parameters)
    return open_delta(state).commit(mutation, system()).version


def discard(sink: StreamSink, messages: Sequence[TaskOutput | None]) -> None:
    """Remove what tasks stored and nobody will refer to."""
    for message in messages:
        for key in _unpacked(message.files).column("key").to_pylist() if message is not None else ():
            delete_one(sink.location, sink.location.store_key(key))


class StreamWriter(DataSourceStreamArrowWriter):
    """Batches of a stream, each a version of a table."""

    def __init__(self, sink: StreamSink, task: Task) -> None:
        self._sink = sink
        self._task = task

    def __reduce__(self) -> tuple[Any, ...]:
        return task_writer, (pickle.dumps(self._task),)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return store(self._task, iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:
        commit(self._sink, messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:
        # Where every task is done a commit was begun, and may have landed although it failed: a vacuum knows.
        if None in messages:
            discard(self._sink, messages)


class TaskWriter(DataSourceStreamArrowWriter):
    """A writer as tasks have it."""

    def __init__(self, task: bytes) -> None:
        self._task = task

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return store(pickle.loads(self._task), iterator)


def _demanded(state: DeltaState) -> str:
    """What tells whether rows made for a table still fit it."""
    constraints = {k: v for k, v in state.metadata.properties.items() if k.startswith("delta.constraints.")}
    return json.dumps([state.metadata.schema_string, constraints], sort_keys=True)


def _query_id(checkpoint: str | None, table: Location) -> str:
    """The id that Spark gave a query when it was first started."""
    if checkpoint is None:
        raise Invalid(
            "a stream into a table must be known by a name, so that no batch is written twice: set "
            "option('checkpointLocation', ...) on the writer, or option('txnAppId', ...)"
        )
    where = open_location(checkpoint)
    if where.store.url == table.store.url:
        where = replace(where, store=table.store)  # reached as the table is
    try:
        data = where.store.get(where.key("metadata"))
        return str(json_record(data, dict[str, Any], path=f"{checkpoint}/metadata")["id"])
    except (NotFound, Damaged, KeyError) as error:
        raise Invalid(
            f"the checkpoint {checkpoint} does not say which query it is of ({error}): name the stream with "
            "option('txnAppId', ...)"
        ) from error


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together, so that files are not small."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(b.num_rows for b in held) >= _ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if any(b.num_rows for b in held):
        yield pa.Table.from_batches(held)


def _packed(files: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, STAGED) as stream:
        stream.write_table(files)
    packed: bytes = out.getvalue().to_pybytes()
    return packed


def _unpacked(files: bytes) -> pa.Table:
    return pa.ipc.open_stream(files).read_all()
