"""Erasure: rows go, whoever still holds their bytes is named, and at last nobody does."""

from __future__ import annotations

import json
import re
from functools import cache
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast import DeltaTable
from holdfast.env import Env, system
from holdfast.errors import Invalid, NoRowIdentity, Unsupported
from holdfast.formats.delta.log.file_names import commit_name
from holdfast.formats.delta.state import load
from holdfast.model.mutation import TableDefinition
from holdfast.schema.types import LONG, STRING, Field, Struct
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.storage.open import open_location
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.write import make
from holdfast.verbs.maintain.erasure import Erased, spans_of
from holdfast.verbs.maintain.optimize import Compacted
from holdfast.verbs.maintain.vacuum import vacuum
from holdfast.verbs.open.delta_handle import DeltaHandle
from tests.support.depth import examples
from tests.support.faulty import every_fault

COLUMNS = Struct((Field("id", LONG), Field("email", STRING), Field("p", LONG)))
DAY_MS = 86_400_000


def _open(store: ObjectStore) -> DeltaTable:
    return DeltaTable(DeltaHandle(None, load(Location(store, "t"))))


def _made(store: ObjectStore, *, partitioned: bool = False, **properties: str) -> DeltaTable:
    settings = {"delta.enableChangeDataFeed": "true"} | {k.replace("__", "."): v for k, v in properties.items()}
    shape = TableDefinition(COLUMNS, ("p",) if partitioned else (), settings)
    make(Location(store, "t"), shape, system(), mode=CreateMode.CREATE, plain=False)
    table = _open(store)
    table.append(_rows(range(6)))
    return table


def _rows(ids: range) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "email": [f"{i}@x" for i in ids], "p": [i % 2 for i in ids]})


def _vacuumed(store: ObjectStore, days: int = 8) -> None:
    later = Env(now_ms=lambda: system().now_ms() + days * DAY_MS, new_uuid=system().new_uuid)
    vacuum(load(Location(store, "t")), later)


def _bytes_with(store: ObjectStore, text: str) -> set[str]:
    """Parquet files in the table's directory that have this value in any row, hidden or not."""
    found = set()
    for meta in store.list_all("t"):
        if meta.key.endswith(".parquet") and "_delta_log" not in meta.key:
            table = pq.read_table(BytesIO(store.get(meta.key)), partitioning=None)
            if "email" in table.column_names and text in table.column("email").to_pylist():
                found.add(meta.key.removeprefix("t/"))
    return found


@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("partitioned", [True, False])
def test_from_erasing_to_proof(vectors: str, partitioned: bool) -> None:
    store = MemoryStore()
    table = _made(store, partitioned=partitioned, delta__enableDeletionVectors=vectors)
    table.update("id = 3", {"email": "'new@x'"})
    before = {row["id"]: row for row in table.toArrow(metadata=["_row_id", "_row_commit_version"]).to_pylist()}
    report = table.erase("email = 'new@x'")
    row_id = before[3]["_row_id"]
    assert report.row_ids == ((row_id, row_id),)
    after = {row["id"]: row for row in table.toArrow(metadata=["_row_id", "_row_commit_version"]).to_pylist()}
    assert after == {i: row for i, row in before.items() if i != 3}
    # By id an older copy with another value is found too.
    held = {each.file for each in report.files}
    assert held == {
        f for text in ("3@x", "new@x") for f in _bytes_with(store, text) if not f.startswith("_change_data")
    }
    assert {each.file for each in report.changes} == {
        f for f in _bytes_with(store, "new@x") if f.startswith("_change_data")
    }
    live = set(load(Location(store, "t")).snapshot.files.column("key").to_pylist())
    assert not held & live
    assert not table.erasureStatus(report).is_clean
    assert set(table.erasureStatus(report).files) == set(report.files)
    assert any("vacuum() after" in step for step in report.steps)
    _vacuumed(store)
    status = table.erasureStatus(report.id)
    assert status.is_clean
    assert "no such row is in any of the" in str(status)
    assert _bytes_with(store, "3@x") == _bytes_with(store, "new@x") == set()
    (kept,) = table.erasures()
    assert kept.proof == status.scan
    assert kept.steps == ()
    assert table.erasureStatus(report, "email = 'new@x'").is_clean


def test_rows_deleted_before_are_purged_and_found_too() -> None:
    store = MemoryStore()
    table = _made(store)
    table.delete("id = 2")
    assert _bytes_with(store, "2@x")
    report = table.erase("email = '2@x'")
    assert (report.rows, report.version, len(report.purged)) == (1, None, 1)
    live = set(load(Location(store, "t")).snapshot.files.column("key").to_pylist())
    assert {each.file for each in report.files} == _bytes_with(store, "2@x")
    assert not live & _bytes_with(store, "2@x")
    assert not table.erasureStatus(report).is_clean
    _vacuumed(store)
    assert table.erasureStatus(report).is_clean


def test_of_rows_deleted_before_older_copies_and_index_entries_are_found_too() -> None:
    store = MemoryStore()
    table = _made(store)
    table.createIndex("email")
    table.update("id = 2", {"email": "'new@x'"})
    table.update("id = 3", {"email": "'2@x'"})
    table.update("id = 3", {"email": "'3@x'"})  # satisfied the condition for a while, and is live
    table.delete("id = 2")
    report = table.erase("email IN ('2@x', 'new@x')")
    assert list(report.ids) == [2]
    assert {each.file for each in (*report.files, *report.changes)} >= _bytes_with(store, "new@x")
    assert any("rebuildIndex('email')" in step for step in report.steps)
    _vacuumed(store)
    status = table.erasureStatus(report)
    assert not status.is_clean
    assert status.indexes
    table.rebuildIndex("email")
    _vacuumed(store)
    assert table.erasureStatus(report).is_clean
    assert table.toArrow(where="id = 3").num_rows == 1


def test_only_files_that_hold_the_rows_are_written_anew() -> None:
    store = MemoryStore()
    table = _made(store)
    for first in (10, 20):
        table.append(_rows(range(first, first + 5)))
    table.delete("id in (11, 21)")
    before = set(load(Location(store, "t")).snapshot.files.column("key").to_pylist())
    table.erase("id = 12")
    after = load(Location(store, "t")).snapshot.files.table.to_pylist()
    assert len(before & {row["key"] for row in after}) == 2
    assert [row["dv"] is None for row in after].count(False) == 1  # the vector of an untouched file stays


def test_neither_log_nor_report_is_told_what_was_erased() -> None:
    store = MemoryStore()
    table = _made(store, delta__dataSkippingNumIndexedCols="0")
    first = table.version + 1
    report = table.erase("email = '3@x'")
    told = store.get(f"t/_holdfast/erasures/{report.id}.json")
    told += b"".join(store.get(f"t/_delta_log/{commit_name(v)}") for v in range(first, table.version + 1))
    assert b"3@x" not in told
    assert report.id.encode() in told
    assert json.loads(store.get(f"t/_holdfast/erasures/{report.id}.json"))["row_ids"] == [[3, 3]]


def test_pins_and_loose_files_stand_in_the_way() -> None:
    store = MemoryStore()
    table = _made(store)
    table.pin(1, "audit")
    store.put("t/part-orphan.parquet", b"who knows")
    table.append(_rows(range(10, 12)))
    report = table.erase("id = 1")
    assert report.pins == {"audit": 1}
    assert report.loose == ("part-orphan.parquet",)
    assert report.steps[0] == "unpin('audit'), which keeps version 1"
    _vacuumed(store)
    status = table.erasureStatus(report)
    assert not status.is_clean
    assert status.loose == ()
    table.unpin("audit")
    _vacuumed(store, days=9)
    assert table.erasureStatus(report).is_clean


def test_files_of_a_rewrite_that_failed_later_are_found() -> None:
    store = MemoryStore()
    table = _made(store)
    table.update("id = 1", {"p": "7"}, mode="copy-on-write")
    inserted, carrying = (
        store.get(f"t/{load(Location(store, 't'), version=v).snapshot.files.column('key')[0]}") for v in (1, 2)
    )
    report = table.erase("id = 1")
    store.put("t/part-rewrite.parquet", carrying)
    store.put("t/part-torn.parquet", carrying[:20])
    store.put("t/part-insert.parquet", inserted)  # carries no ids, as fresh rows do
    assert set(table.erasureStatus(report).loose) == {"part-rewrite.parquet", "part-torn.parquet"}
    _vacuumed(store)
    assert table.erasureStatus(report).is_clean


def test_what_other_writers_kept_from_being_purged_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    table = _made(store)
    monkeypatch.setattr("holdfast.verbs.maintain.erase.run_bins", lambda *_, **__: Compacted((), {}, ("somebody",)))
    report = table.erase("id = 1")
    assert [each.rows for each in report.unpurged] == [1]
    assert "purge(), because" in report.steps[0]
    monkeypatch.undo()
    table.purge()
    _vacuumed(store)
    assert table.erasureStatus(report).is_clean


def test_rows_that_are_brought_back_are_found() -> None:
    store = MemoryStore()
    table = _made(store)
    report = table.erase("id = 1")
    table.restoreToVersion(1)
    _vacuumed(store)
    assert [each.rows for each in table.erasureStatus(report).files] == [1]


def test_what_cannot_be_erased_is_refused_before_anything_happens() -> None:
    store = MemoryStore()
    table = _made(store)
    nothing: Any = None
    with pytest.raises(Invalid, match="needs a condition"):
        table.erase(nothing)
    with pytest.raises(Unsupported, match="without Spark"):
        table.erase("length(email) = 3")
    with pytest.raises(Invalid, match=r"there is no erasure 'x'.*there are none"):
        table.erasureStatus("x")
    assert table.version == 1
    plain = DeltaTable.create(None).location("memory://erasing/plain").addColumn("id", "long")
    with pytest.raises(NoRowIdentity, match=r"enableRowTracking\(\) first"):
        plain.property("holdfast.plain", "true").execute().erase("id = 1")


@cache
def _template() -> MemoryStore:
    store = MemoryStore()
    table = _made(store)
    table.update("id = 3", {"email": "'new@x'"})
    return store


def _copied() -> ObjectStore:
    store = MemoryStore()
    for found in _template().list_all("t"):
        store.put(found.key, _template().get(found.key))
    return store


def test_a_fault_anywhere_loses_no_row_and_no_report() -> None:
    seen: set[tuple[str, ...]] = set()

    def check(store: ObjectStore) -> None:
        names = tuple(sorted(re.sub(r"[0-9a-f-]{36}", "U", meta.key) for meta in store.list_all("t")))
        if names in seen:  # most faults leave what others left
            return
        seen.add(names)
        table = _open(store)
        ids = sorted(table.toArrow().column("id").to_pylist())
        assert ids in ([0, 1, 2, 3, 4, 5], [0, 1, 2, 4, 5])
        kept = table.erasures()
        assert all(report.row_ids == ((3, 3),) for report in kept)
        if 3 not in ids:
            assert len(kept) == 1  # rows are never gone without word of it

    assert every_fault(lambda store: _open(store).erase("id = 3"), check, make=_copied) > 60
    assert len(seen) > 4


def test_an_erasure_cut_short_says_so() -> None:
    store = MemoryStore()
    table = _made(store)
    store.put("t/_holdfast/erasures/a.json", b'{"id":"a","moment_ms":1,"row_ids":[[3,3]]}')
    (report,) = table.erasures()
    assert "erase(...) again" in report.steps[0]
    with pytest.raises(Invalid, match="cut short"):
        table.erasureStatus(report)


@examples(50)
@given(st.sets(st.integers(0, 60)))
def test_spans_tell_all_ids(ids: set[int]) -> None:
    report = Erased("x", 0, spans_of(BitMap64(ids)))
    assert set(report.ids) == ids
    assert report.rows == len(ids)


def test_erasing_on_spark(spark: SparkSession, tmp_path: Any) -> None:
    builder = DeltaTable.create(None).location(str(tmp_path)).addColumn("id", "long").addColumn("email", "string")
    local = builder.property("delta.enableChangeDataFeed", "true").execute()
    local.append(_rows(range(20)).drop_columns(["p"]))
    local.update("id = 3", {"email": "'new@x'"}, mode="copy-on-write")
    local.delete("id = 4")
    table = DeltaTable.forPath(spark, tmp_path)
    report = table.erase(F.col("email").isin("new@x", "4@x"))
    assert list(report.ids) == [3, 4]  # 4 was deleted before
    assert sorted(row.id for row in table.toDF().collect()) == [i for i in range(20) if i not in (3, 4)]
    assert sum(each.rows for each in report.files) == 4  # 3 in two versions, 4 in two files
    assert [each.rows for each in report.changes] == [1]
    later = Env(now_ms=lambda: system().now_ms() + 8 * DAY_MS, new_uuid=system().new_uuid)
    vacuum(load(open_location(str(tmp_path))), later)
    assert table.erasureStatus(report).is_clean
