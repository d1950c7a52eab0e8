"""The sink of a stream without Spark: a batch is in the table once, whatever fails."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.engines.local.engine import LocalEngine
from holdfast.env import system
from holdfast.errors import Invalid, SchemaMismatch, Unsupported
from holdfast.formats.delta.state import load
from holdfast.model.mutation import TableDefinition
from holdfast.plan.scan.request import Request
from holdfast.schema.from_arrow import struct_of
from holdfast.schema.types import LONG, Field, Struct
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.verbs.define.alter import DeltaAlteration
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.write import make
from holdfast.verbs.open.delta import open_delta
from holdfast.verbs.stream.sink import StreamSink, StreamWriter, commit, sink_of, store, task_of
from tests.support.faulty import every_fault

COLUMNS = Struct((Field("n", LONG),))


def sink_in(store: ObjectStore, *, replaces: bool = False) -> StreamSink:
    return StreamSink(Location(store, "t"), "query", None, replaces)


def write(sink: StreamSink, batch: int, *tasks: list[int]) -> int | None:
    """A batch, as its tasks and then its commit write it."""
    rows = [pa.table({"n": pa.array(each, pa.int64())}) for each in tasks]
    task = task_of(load(sink.location), struct_of(rows[0].schema))
    return commit(sink, [store(task, iter(each.to_batches())) for each in rows], batch)


def rows(sink: StreamSink) -> list[int]:
    found = open_delta(load(sink.location)).scan(Request(None, None, ()), LocalEngine())
    return sorted(found.column("n").to_pylist())


def made() -> MemoryStore:
    inner = MemoryStore()
    make(Location(inner, "t"), TableDefinition(COLUMNS), system(), mode=CreateMode.CREATE, plain=False)
    return inner


@pytest.mark.parametrize("replaces", [False, True])
def test_a_batch_is_there_once_whatever_fails(replaces: bool) -> None:
    def run(inner: ObjectStore) -> None:
        write(sink_in(inner, replaces=replaces), 0, [1], [2, 3])

    def check(inner: ObjectStore) -> None:
        sink = sink_in(inner, replaces=replaces)
        assert rows(sink) in ([], [1, 2, 3])
        write(sink, 0, [1], [2, 3])
        assert rows(sink) == [1, 2, 3]
        write(sink, 1, [4])
        assert rows(sink) == ([4] if replaces else [1, 2, 3, 4])

    assert every_fault(run, check, make=made) > 10


def test_what_a_repeated_batch_wrote_is_removed() -> None:
    sink = sink_in(made())
    assert write(sink, 0, [1]) == 1
    before = {m.key for m in sink.location.store.list_all("t")}
    assert write(sink, 0, [1]) is None
    assert {m.key for m in sink.location.store.list_all("t")} == before


def test_what_failed_tasks_leave_is_removed_and_what_may_be_committed_is_not() -> None:
    sink = sink_in(made())
    task = task_of(load(sink.location), COLUMNS)
    writer = StreamWriter(sink, task)
    batch = pa.table({"n": [1]}).to_batches()
    message = writer.write(iter(batch))
    writer.commit([message], 0)
    writer.abort([message], 0)  # as Spark does where the answer to the commit was lost
    assert rows(sink) == [1]
    before = {m.key for m in sink.location.store.list_all("t")}
    writer.abort([writer.write(iter(batch)), None], 1)
    assert {m.key for m in sink.location.store.list_all("t")} == before


def test_a_batch_without_rows_is_noted() -> None:
    sink = sink_in(made())
    assert write(sink, 0, []) == 1
    assert load(sink.location).txns["query"].version == 0
    info = json.loads(sink.location.store.get("t/_delta_log/00000000000000000001.json").splitlines()[0])["commitInfo"]
    assert info["operation"] == "STREAMING UPDATE"
    assert info["operationParameters"] == {"outputMode": "Append", "queryId": "query", "epochId": "0"}


def test_columns_that_change_meanwhile_stop_the_query() -> None:
    sink = sink_in(made())
    state = load(sink.location)
    message = store(task_of(state, COLUMNS), iter(pa.table({"n": [1]}).to_batches()))
    DeltaAlteration(state, system()).add_columns({"more": "long"})
    with pytest.raises(Invalid, match="start the query again"):
        commit(sink, [message], 0)
    assert rows(sink) == []


def test_rows_that_do_not_fit_are_refused_before_a_query_runs() -> None:
    with pytest.raises(SchemaMismatch):
        task_of(load(sink_in(made()).location), Struct((Field("other", LONG),)))


def test_a_stream_is_known_by_its_checkpoint_or_by_name(tmp_path: Path) -> None:
    target = {"path": str(tmp_path / "t")}
    with pytest.raises(Invalid, match=r"checkpointLocation.*txnAppId"):
        sink_of(target, replaces=False)
    with pytest.raises(Invalid, match="does not say which query"):
        sink_of({**target, "checkpointLocation": str(tmp_path / "none")}, replaces=False)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "metadata").write_text('{"id":"5d3f"}')
    assert sink_of({**target, "checkpointLocation": str(tmp_path / "c")}, replaces=True).app == "5d3f"
    assert sink_of({**target, "TXNAPPID": "mine"}, replaces=True).app == "mine"
    with pytest.raises(Invalid, match="no option 'mergeschema'"):
        sink_of({**target, "mergeSchema": "true"}, replaces=False)
    with pytest.raises(Unsupported, match="memory"):
        sink_of({"path": "memory://x/t", "txnAppId": "mine"}, replaces=False)
