"""Indexes as users meet them: options, refusals, fail-closed reading, upkeep and races."""

from __future__ import annotations

import datetime
import itertools
import json
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from holdfast import Damaged, DeltaTable, Invalid, NoRowIdentity, UnknownColumn, between
from holdfast.delta.checkpoint_write import write_checkpoint
from holdfast.delta.state import load
from holdfast.env import system
from holdfast.errors import ConcurrentAppend, ConcurrentTransaction
from holdfast.index.registry import registered
from holdfast.index.search import Indexes
from holdfast.ops import reindex as ops
from holdfast.storage.open import open_location
from holdfast.table import changing, reindexing
from holdfast.table.writing import land

fresh = itertools.count()


def made(rows: pa.Table, *, files: int = 2, path: str | None = None, **properties: str) -> DeltaTable:
    builder = DeltaTable.create(None).location(path or f"memory://indexing/{next(fresh)}").addColumns(rows.schema)
    for name, value in properties.items():
        builder = builder.property(f"delta.{name}", value)
    table = builder.execute()
    step = max(1, -(-rows.num_rows // files))
    for start in range(0, rows.num_rows, step):
        table.append(rows.slice(start, step))
    return table


def numbers(count: int = 40, *, files: int = 4, path: str | None = None, **properties: str) -> DeltaTable:
    ids = range(count)
    columns = {"id": ids, "s": [f"n{i % 7}" for i in ids], "v": [float(i) for i in ids]}
    rows = pa.table(columns, pa.schema([("id", pa.int64()), ("s", pa.string()), ("v", pa.float64())]))
    return made(rows, files=files, path=path, **properties)


def found(table: DeltaTable, **by: Any) -> list[int]:
    return list(table.lookup(by, columns=["id"]).column("id").to_pylist())


def step(table: DeltaTable, where: str) -> str:
    steps = {s.name: s.detail for s in table.explain(where=where).steps}
    return steps.get("by_index", "")


def moment(year: int, day: int = 1, zone: datetime.tzinfo | None = datetime.UTC) -> datetime.datetime:
    return datetime.datetime(year, 5, day, tzinfo=zone)


KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "byte": (pa.int8(), [3, -1, None, 7]),
    "long": (pa.int64(), [2**62, -5, None, 0]),
    "double": (pa.float64(), [0.0, -1.5, None, float("inf")]),
    "float": (pa.float32(), [0.5, -1.5, None, 2.0]),
    "boolean": (pa.bool_(), [True, False, None, True]),
    "string": (pa.string(), ["b", "", None, "ä\0c"]),
    "binary": (pa.binary(), [b"b", b"", None, b"\0"]),
    "date": (pa.date32(), [datetime.date(2024, 5, 1), datetime.date(1960, 1, 1), None, datetime.date(2024, 5, 2)]),
    "timestamp": (pa.timestamp("us", "UTC"), [moment(2024, 1), moment(1950), None, moment(2024, 2)]),
    "timestamp_ntz": (pa.timestamp("us"), [moment(2024, 1, None), moment(1950, 1, None), None]),
    "decimal": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-3.25"), None, Decimal("0.00")]),
    "wide decimal": (pa.decimal128(38, 2), [Decimal("1.50"), Decimal("-3.25"), None, Decimal(10**30)]),
}


@pytest.mark.parametrize("kind", ["btree", "bitmap"])
@pytest.mark.parametrize("name", KEYS)
def test_every_type_of_key(name: str, kind: str) -> None:
    type_, values = KEYS[name]
    rows = pa.table({"id": list(range(3 * len(values))), "k": pa.array(values * 3, type_)})
    table = made(rows, enableRowTracking="true")
    table.createIndex("k", kind=kind)
    assert "1 entries" not in step(table, "k IS NULL")
    for value in values:
        assert found(table, k=value) == [n for n in range(rows.num_rows) if values[n % len(values)] == value]
    some = [value for value in values if value is not None]
    assert found(table, k=between()) == [n for n in range(rows.num_rows) if values[n % len(values)] is not None]
    low = sorted(some)[0]
    above = found(table, k=between(low, includeLow=False))
    assert above == [n for n in range(rows.num_rows) if (v := values[n % len(values)]) is not None and v > low]
    assert table.verifyIndex("k").is_right


def test_several_columns_and_parts_of_them() -> None:
    table = numbers()
    table.createIndex(["s", "id"])
    assert [info.columns for info in table.indexes()] == [("s", "id")]
    assert found(table, s="n1", id=8) == [8]
    assert found(table, s="n1") == list(range(1, 40, 7))
    assert found(table, s="n1", id=between(8, 22)) == [8, 15, 22]
    assert found(table, id=8, s=["n1", "n2"]) == [8]
    assert found(table, s="n1", v=8.0) == [8]
    assert "not used" in step(table, "id > 8")


def test_names_options_and_what_is_refused() -> None:
    table = numbers()
    info = table.createIndex("id", name="pk")
    assert (info.name, info.kind, info.entries, info.unusable) == ("pk", "btree", 40, None)
    assert "40 entries" in str(info)
    for wrong in ({"columns": "id", "name": "a/b"}, {"columns": "id", "name": ""}, {"columns": []}):
        with pytest.raises(Invalid):
            table.createIndex(**wrong)
    with pytest.raises(Invalid, match="there is an index 'pk' already"):
        table.createIndex("s", name="pk")
    with pytest.raises(UnknownColumn, match="did you mean id"):
        table.createIndex("idd")
    with pytest.raises(Invalid, match="there are b"):
        table.createIndex("s", kind="hash")
    with pytest.raises(Invalid, match="no option fill"):
        table.createIndex("s", fill=3)
    with pytest.raises(Invalid, match="True or False"):
        table.createIndex("s", synchronous="yes")
    with pytest.raises(Invalid, match="names one twice"):
        table.createIndex(["s", "s"])
    with pytest.raises(Invalid, match="no index 'nope'"):
        table.refreshIndex("nope")
    assert table.dropIndex("nope", ifExists=True) is False
    with pytest.raises(Invalid, match="no index 'nope'"):
        table.dropIndex("nope")
    nested = made(pa.table({"id": [1], "a": [[1, 2]]}))
    with pytest.raises(Invalid, match="a cannot be indexed"):
        nested.createIndex("a")


def test_tables_that_cannot_have_indexes_say_what_to_do() -> None:
    plain = (
        DeltaTable.create(None).location(f"memory://indexing/{next(fresh)}").addColumns(pa.schema([("id", pa.int64())]))
    )
    table = plain.property("holdfast.plain", "true").execute()
    table.append(pa.table({"id": [1, 2]}))
    with pytest.raises(NoRowIdentity, match="enableRowTracking"):
        table.createIndex("id")
    table.enableRowTracking()
    table.createIndex("id")
    assert found(table, id=2) == [2]


def test_rows_of_an_engine_that_tracks_none_are_indexed_once_they_have_ids(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"id": [1, 2, 3]}))
    deltalake.write_deltalake(path, pa.table({"id": [4, 2]}), mode="append")
    table = DeltaTable.forPath(None, path)
    assert found(table, id=2) == [2, 2], "without any index, by a scan"
    table.enableRowTracking()
    table.createIndex("id")
    table.delete("id = 3")
    assert found(table, id=[2, 3]) == [2, 2]
    assert table.verifyIndex("id").is_right
    with pytest.raises(Exception, match="RowTracking"):  # and so it cannot write past the index
        deltalake.write_deltalake(path, pa.table({"id": [9]}), mode="append")


def test_lookup_says_what_it_can_be_asked() -> None:
    table = numbers()
    with pytest.raises(Invalid, match="names columns"):
        table.lookup()
    with pytest.raises(UnknownColumn):
        table.lookup(nope=1)
    with pytest.raises(Invalid, match="cannot be 'x'"):
        table.lookup(id="x")
    dated = made(pa.table({"id": [1], "day": [datetime.date(2024, 5, 1)]}))
    with pytest.raises(Invalid, match="is a moment"):
        dated.lookup(day=datetime.datetime(2024, 5, 1))
    assert table.lookup({"id": 3}, columns=["v"], metadata=["_row_id"]).to_pylist() == [{"v": 3.0, "_row_id": 3}]


def test_rename_rebuild_and_drop_are_one_commit_each() -> None:
    table = numbers()
    table.createIndex("id")
    version = table.version
    table.renameIndex("id", "pk")
    assert [info.name for info in table.indexes()] == ["pk"]
    assert found(table, id=5) == [5]
    with pytest.raises(Invalid, match="no index 'id'"):
        table.renameIndex("id", "x")
    table.update("id < 3", {"v": "0"})
    table.rebuildIndex("pk")
    assert table.indexStats("pk").tail_rows == 0
    assert table.dropIndex("pk")
    assert table.indexes() == []
    assert table.version == version + 4
    assert [c for c in table.historyArrow().column("operation").to_pylist() if "INDEX" in c] == [
        "DROP INDEX",
        "REBUILD INDEX",
        "RENAME INDEX",
        "CREATE INDEX",
    ]


def test_a_refresh_costs_the_tail_and_nothing_where_there_is_none() -> None:
    table = numbers()
    table.createIndex("id")
    version = table.version
    table.refreshIndex("id")
    assert table.version == version, "nothing to index, nothing to commit"
    table.append(pa.table({"id": [100], "s": ["x"], "v": [1.0]}))
    stats = table.indexStats("id")
    assert (stats.tail_files, stats.tail_rows) == (1, 1)
    info = table.refreshIndex("id")
    assert (info.segments, info.entries) == (2, 41)
    assert table.indexStats("id").tail_rows == 0
    table.delete("id = 7")
    assert table.indexStats("id").tail_rows == 0, "a delete leaves no tail"
    assert sorted(found(table, id=[7, 8, 100])) == [8, 100]


def test_segments_of_one_size_are_put_together_without_their_dead_entries() -> None:
    table = numbers(4, files=1)
    table.createIndex("id")
    for number in range(12):
        table.append(pa.table({"id": [100 + number, 200 + number], "s": ["x", "y"], "v": [0.0, 0.0]}))
        table.refreshIndex("id")
        table.delete(f"id = {100 + number}")
        assert found(table, id=between(100)) == [200 + n for n in range(number + 1)]
    stats = table.indexStats("id")
    assert stats.info.segments <= 6
    assert stats.info.entries < 28, "some of the dead ones are gone"
    assert table.verifyIndex("id").is_right


def test_compaction_writes_no_byte_of_an_index(tmp_path: Path) -> None:
    table = numbers(path=str(tmp_path / "t"))
    table.createIndex("id")
    before = sorted((tmp_path / "t/_holdfast/index").rglob("*"))
    table.optimize().executeCompaction()
    assert sorted((tmp_path / "t/_holdfast/index").rglob("*")) == before
    assert table.indexStats("id").tail_files == 0, "rows that only moved are answered for"
    assert found(table, id=[3, 30]) == [3, 30]


def test_time_travel_to_before_and_after_an_index() -> None:
    table = numbers()
    table.delete("id = 3")
    table.createIndex("id")
    table.append(pa.table({"id": [3], "s": ["again"], "v": [0.5]}))
    table.refreshIndex("id")
    newest = table.version
    assert [found_at(table, 3, version) for version in range(newest - 4, newest + 1)] == [
        ["n3"],
        [],
        [],
        ["again"],
        ["again"],
    ]
    table.dropIndex("id")
    assert found_at(table, 3, newest) == ["again"]


def found_at(table: DeltaTable, key: int, version: int) -> list[str]:
    return list(table.lookup(id=key, version=version).column("s").to_pylist())


def test_a_restore_brings_rows_back_that_have_no_entry() -> None:
    table = numbers(8, files=1)
    before = table.version
    table.delete("id = 3")
    table.createIndex("id")
    table.restoreToVersion(before)
    table.optimize(materializeDeletionsThreshold=0).executeCompaction()
    table.append(pa.table({"id": [9], "s": ["x"], "v": [0.0]}))
    table.optimize().executeCompaction()
    assert found(table, id=3) == [3]
    assert "may have brought rows back" in step(table, "id = 3") or "nothing to leave out" in step(table, "id = 3")
    table.refreshIndex("id")
    assert found(table, id=between(2, 4)) == [2, 3, 4]
    assert table.indexStats("id").tail_rows == 0


def test_a_log_that_was_cleaned_up_proves_nothing() -> None:
    table = numbers(8, files=2)
    table.createIndex("id")
    table.update("id = 3", {"v": "0"})
    table.append(pa.table({"id": [3], "s": ["x"], "v": [0.0]}))
    state = table._state()
    write_checkpoint(state, system())
    location = state.snapshot.location
    for version in range(state.version):
        location.store.delete(location.key("_delta_log", f"{version:020}.json"))
    again = DeltaTable.forPath(None, location.url)
    assert "no longer has the commit" in step(again, "id >= 3")
    assert found(again, id=3) == [3, 3]
    assert again.indexStats("id").tail_files == 2, "files that were there before are answered for"
    again.refreshIndex("id")
    assert again.indexStats("id").tail_files == 0
    assert found(again, id=3) == [3, 3]


def test_an_empty_table_has_an_index_without_segments() -> None:
    table = numbers(0, files=1)
    assert table.createIndex("id").segments == 0
    assert found(table, id=1) == []
    table.append(pa.table({"id": [1], "s": ["x"], "v": [0.0]}))
    assert found(table, id=1) == [1]
    assert table.refreshIndex("id").entries == 1
    table.delete()
    assert found(table, id=[1, None]) == []
    assert table.verifyIndex("id").is_right


def test_a_changed_type_retires_an_index() -> None:
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32())})
    table = made(rows, files=1, enableTypeWidening="true")
    table.createIndex("id")
    table.changeColumnType("id", "long")
    table.append(pa.table({"id": pa.array([2**40], pa.int64())}))
    assert "type or collation" in (table.indexes()[0].unusable or "")
    assert found(table, id=[2, 2**40]) == [2, 2**40]
    assert "type or collation" in step(table, "id >= 2")
    with pytest.raises(Invalid, match="rebuildIndex"):
        table.refreshIndex("id")
    assert not table.verifyIndex("id").is_right
    table.rebuildIndex("id")
    assert table.indexes()[0].unusable is None
    assert found(table, id=[2, 2**40]) == [2, 2**40]


def test_a_renamed_column_keeps_its_index_and_a_dropped_one_retires_it() -> None:
    table = made(pa.table({"id": [1, 2], "s": ["a", "b"]}), **{"columnMapping.mode": "name"})
    table.createIndex("id")
    table.renameColumn("id", "key")
    assert table.lookup(key=2).column("s").to_pylist() == ["b"]
    assert table.indexes()[0].columns == ("key",)
    assert "2 entries" in step(table, "key > 0")
    table.dropColumn("key")
    assert "is gone" in (table.indexes()[0].unusable or "")
    assert table.toArrow(where="s = 'a'").num_rows == 1


def test_a_table_that_was_replaced_has_none_of_the_old_entries() -> None:
    table = numbers()
    table.createIndex("id")
    table.overwrite(pa.table({"id": [5], "s": ["new"], "v": [0.0]}))
    assert table.lookup(id=5).column("s").to_pylist() == ["new"]
    table.refreshIndex("id")
    assert found(table, id=[5, 6]) == [5]


def test_row_tracking_that_was_off_for_a_while_is_not_built_upon() -> None:
    table = numbers(8, files=2)
    table.createIndex("id")
    table.setProperties({"delta.enableRowTracking": "false"})
    assert found(table, id=3) == [3]
    table.append(pa.table({"id": [3], "s": ["off"], "v": [0.0]}))
    table.enableRowTracking()
    assert found(table, id=3) == [3, 3]
    said = table.indexes()[0].unusable or step(table, "id = 3")
    assert "not tracked" in said or "enabled anew" in said


DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda data: None,
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "first bytes": lambda data: bytes(b ^ 0xFF for b in data[:20]) + data[20:],
    "middle": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :],
    "end": lambda data: data[:-6] + bytes([data[-6] ^ 1]) + data[-5:],
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_index_is_scanned_around(how: str) -> None:
    template = numbers()
    template.createIndex("id")
    location = load(open_location(template._state().snapshot.location.url)).snapshot.location
    files = [meta.key for meta in location.store.list_all(location.key("_holdfast/index"))]
    assert len(files) == 4
    for file in files:
        table = numbers()
        table.createIndex("id")
        there = table._state().snapshot.location
        mine = [m.key for m in there.store.list_all(there.key("_holdfast/index")) if m.name == file.rpartition("/")[2]]
        assert len(mine) == 1
        damaged = DAMAGE[how](there.store.get(mine[0]))
        if damaged is None:
            there.store.delete(mine[0])
        else:
            there.store.put(mine[0], damaged)
        url = there.url
        assert found(DeltaTable.forPath(None, url), id=[3, 30]) == [3, 30]
        assert not DeltaTable.forPath(None, url).verifyIndex("id").is_right
        assert DeltaTable.forPath(None, url).toArrow(where="id = 3").num_rows == 1
        assert "not used" in step(DeltaTable.forPath(None, url), "id >= 3 AND id < 21")
        assert DeltaTable.forPath(None, url).indexStats("id").info.unusable is not None
        DeltaTable.forPath(None, url).rebuildIndex("id")
        assert DeltaTable.forPath(None, url).verifyIndex("id").is_right


def test_a_domain_that_nobody_understands_is_scanned_around() -> None:
    table = numbers()
    table.createIndex("id")
    state = table._state()
    told = json.loads(state.domains["holdfast.index.id"].configuration or "")
    for wrong in ("{}", json.dumps({**told, "format": 99}), json.dumps({**told, "segments": 3}), "no json"):
        assert registered({"holdfast.index.id": wrong}).troubles.keys() == {"id"}
        said = ops.Mutation("X", domains={"holdfast.index.id": wrong}, data_change=False)
        land(table._state(), state.snapshot.location, said, system())
        assert found(table, id=3) == [3]
        assert "not used" in step(table, "id >= 3 AND id < 21")
        with pytest.raises(Invalid, match="cannot be read"):
            table.refreshIndex("id")
    assert table.dropIndex("id")


def test_entries_that_lie_are_found_out() -> None:
    table = numbers()
    table.createIndex("id")
    table.createIndex("v", name="other")
    state = table._state()
    told = json.loads(state.domains["holdfast.index.other"].configuration or "")
    mine = json.loads(state.domains["holdfast.index.id"].configuration or "")
    said = ops.Mutation("X", domains={"holdfast.index.id": json.dumps({**mine, "segments": []})}, data_change=False)
    land(state, state.snapshot.location, said, system())
    assert "have no entry" in str(table.verifyIndex("id"))
    crossed = json.dumps({**mine, "segments": told["segments"]})
    said = ops.Mutation("X", domains={"holdfast.index.id": crossed}, data_change=False)
    land(table._state(), state.snapshot.location, said, system())
    assert not DeltaTable.forPath(None, state.snapshot.location.url).verifyIndex("id").is_right


def test_changes_read_only_files_with_hits() -> None:
    rows = pa.table({"id": [n * 7 % 40 for n in range(40)], "v": [float(n) for n in range(40)]})
    table = made(rows, files=8)
    table.createIndex("id")
    plan = table.plan.update("id = 21", {"v": "0"})
    assert plan.files == 1
    assert "by index: id: 1 entries in 1 files" in str(plan)
    assert table.plan.delete("id = 21 OR id = 22").files == 2
    assert table.plan.update("id >= 3", {"v": "0"}).files == 8
    done = table.update("id = 21", {"v": "0"})
    assert done.metrics["numScannedFiles"] == 1
    assert done.metrics["numUpdatedRows"] == 1
    source = pa.table({"id": [22, 23, 99], "v": [-1.0, -1.0, -1.0]})
    merge = table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    assert "by index: id: 2 entries" in str(merge.plan())
    merged = merge.execute()
    assert merged.metrics["numTargetFilesScanned"] <= 3
    assert (merged.metrics["numTargetRowsUpdated"], merged.metrics["numTargetRowsInserted"]) == (2, 1)
    deleted = table.delete("id = 22 AND v = -1.0")
    assert deleted.metrics["numDeletedRows"] == 1
    assert sorted(table.lookup(id=[21, 22, 23, 99]).column("v").to_pylist()) == [-1.0, -1.0, 0.0]


def test_a_change_that_an_index_pruned_is_still_judged_by_its_condition() -> None:
    """A row that another writer brings into the condition's reach is in the way, though no index knew of it."""
    table = made(pa.table({"id": list(range(16)), "v": [0] * 16}), files=4)
    table.createIndex("id")
    state, caller = table._state(), table._caller(level="Serializable")
    begun = changing.deleted(state, "id = 3", caller)
    DeltaTable.forPath(None, state.snapshot.location.url).append(pa.table({"id": [3], "v": [1]}))
    with pytest.raises(ConcurrentAppend):
        changing.commit(state, begun, caller, started=0)
    state = table._state()
    begun = changing.deleted(state, "id = 3", table._caller())
    DeltaTable.forPath(None, state.snapshot.location.url).optimize().executeCompaction()
    changing.commit(state, begun, table._caller(), started=0)
    assert found(table, id=[3, 4]) == [4], "rows that only moved are followed"


def test_an_index_is_used_for_few_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.index.search.FEW_HITS", 3)
    table = numbers(40, files=4)
    table.createIndex("id")
    asked: list[int] = []
    monkeypatch.setattr(Indexes, "places", lambda self, choice: asked.append(choice.hits))
    assert "costs more than a scan" in step(table, "id >= 3 AND id < 21")
    assert found(table, id=between(3, 20)) == list(range(3, 21))
    assert asked == []


def test_a_tail_that_is_too_large_to_keep_is_looked_at_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    table = numbers(40, files=4)
    table.createIndex("id")
    table.update("id < 20", {"v": "-1"})
    table.append(pa.table({"id": [3], "s": ["new"], "v": [0.0]}))
    table.optimize().executeCompaction()
    kept = table.lookup(id=[3, 30], metadata=["_row_id"])
    monkeypatch.setattr("holdfast.index.search.KEPT_ROWS", -1)
    assert table.lookup(id=[3, 30], metadata=["_row_id"]).equals(kept)
    assert kept.sort_by("id").column("v").to_pylist()[-1] == 30.0
    assert kept.num_rows == 3


def test_an_index_that_writes_keep_up_to_date() -> None:
    table = numbers(files=1)
    table.createIndex("id", synchronous=True)
    assert table.indexes()[0].synchronous
    table.append(pa.table({"id": [100], "s": ["x"], "v": [1.0]}))
    assert table.indexStats("id").tail_rows == 0
    table.update("id = 3", {"v": "9"})
    source = pa.table({"id": [200], "s": ["y"], "v": [2.0]})
    table.alias("t").merge(source, "t.id = s.id").whenNotMatchedInsertAll().execute()
    assert table.indexStats("id").tail_rows == 0
    assert sorted(found(table, id=[3, 100, 200])) == [3, 100, 200]


def test_index_commits_stand_beside_writers_and_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    table = numbers()
    url = table._state().snapshot.location.url
    build = ops.made

    def meanwhile(*args: Any, **named: Any) -> Any:
        index = build(*args, **named)
        other = DeltaTable.forPath(None, url)
        other.append(pa.table({"id": [100], "s": ["x"], "v": [1.0]}))
        other.optimize().executeCompaction()
        other.setProperties({"delta.checkpointInterval": "7"})
        other.createIndex("v") if "v" not in {i.name for i in other.indexes()} else None
        return index

    monkeypatch.setattr(ops, "made", meanwhile)
    monkeypatch.setattr(
        reindexing.ops, "made", lambda *a, **n: build(*a, **n) if a[2].name == "v" else meanwhile(*a, **n)
    )
    table.createIndex("id")
    assert {info.name for info in table.indexes()} == {"id", "v"}
    assert found(table, id=[3, 100]) == [3, 100] or found(table, id=[3, 100]) == [100, 3]
    assert table.verifyIndex("id").is_right


def test_writers_and_compaction_stand_beside_index_commits() -> None:
    table = numbers()
    url = table._state().snapshot.location.url
    table.createIndex("id")
    errors: list[BaseException] = []

    def run(work: Callable[[DeltaTable, int], object]) -> None:
        try:
            for n in range(6):
                work(DeltaTable.forPath(None, url), n)
        except BaseException as error:
            errors.append(error)

    jobs: list[Callable[[DeltaTable, int], object]] = [
        lambda t, n: t.append(pa.table({"id": [1000 + n], "s": ["w"], "v": [0.0]})),
        lambda t, n: t.update(f"id = {n}", {"v": "v + 1"}),
        lambda t, n: t.refreshIndex("id"),
        lambda t, n: t.refreshIndex("id") if n % 2 else t.optimize().executeCompaction(),
    ]
    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    table.refresh()
    assert sorted(found(table, id=between(1000))) == [1000 + n for n in range(6)]
    assert table.verifyIndex("id").is_right


def test_an_index_that_was_dropped_is_not_brought_back(monkeypatch: pytest.MonkeyPatch) -> None:
    table = numbers()
    url = table._state().snapshot.location.url
    table.createIndex("id")
    table.append(pa.table({"id": [100], "s": ["x"], "v": [1.0]}))
    build = ops.refreshed

    def meanwhile(again: bool) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            made = build(*args)
            other = DeltaTable.forPath(None, url)
            other.dropIndex("id")
            if again:
                other.createIndex("id")
            return made

        return run

    monkeypatch.setattr(ops, "refreshed", meanwhile(again=False))
    with pytest.raises(Invalid, match="no index 'id'"):
        table.refreshIndex("id")
    assert table.indexes() == []
    monkeypatch.setattr(ops, "refreshed", build)
    table.createIndex("id")
    table.append(pa.table({"id": [101], "s": ["x"], "v": [1.0]}))
    monkeypatch.setattr(ops, "refreshed", meanwhile(again=True))
    with pytest.raises(Invalid, match="made anew meanwhile"):
        table.refreshIndex("id")
    state = table._state()
    stale = reindexing.indexes_of(state).named("id")
    DeltaTable.forPath(None, url).dropIndex("id")
    with pytest.raises(ConcurrentTransaction):
        reindexing._land(state, ops.saying("REFRESH INDEX", stale), system(), {"id": stale})


def test_vacuum_keeps_what_versions_need_and_takes_the_rest(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = numbers(path=path)
    table.createIndex("id")
    pinned = table.pin(None, "old")
    table.rebuildIndex("id")
    table.rebuildIndex("id")
    root = Path(path) / "_holdfast/index/id"
    assert len(list(root.iterdir())) == 6, "a segment and a list of files each"
    done = table.vacuum(0, enforceRetention=False)
    assert len(list(root.iterdir())) == 4, "those of the pin and those of the newest"
    assert all("_holdfast/index/" in key for key in done.paths)
    assert found(table, id=3) == [3]
    assert table.verifyIndex("id").is_right
    assert table.lookup(id=3, version=pinned).num_rows == 1
    table.unpin("old")
    table.dropIndex("id")
    table.vacuum(0, enforceRetention=False)
    assert not root.exists() or not list(root.iterdir())
    assert table.check().is_sound if hasattr(table.check(), "is_sound") else True


def test_vacuum_keeps_indexes_within_the_retention(tmp_path: Path) -> None:
    table = numbers(path=str(tmp_path / "t"))
    table.createIndex("id")
    table.dropIndex("id")
    assert not [key for key in table.vacuum(dryRun=True).paths if "_holdfast/index" in key]
    assert [f for f in table.check().findings if "_holdfast" in str(f)] == []


def test_an_erasure_names_index_entries_that_are_left(tmp_path: Path) -> None:
    table = numbers(path=str(tmp_path / "t"))
    table.createIndex("id")
    table.createIndex("s", kind="bitmap")
    report = table.erase("id = 3")
    assert {held.file.split("/")[2]: held.rows for held in report.indexes} == {"id": 1, "s": 1}
    assert any("rebuildIndex('id')" in step for step in report.steps)
    for name in ("id", "s"):
        table.rebuildIndex(name)
    assert table.erasureStatus(report).indexes, "old files are there still"
    table.vacuum(0, enforceRetention=False)
    assert table.erasureStatus(report).is_clean


def test_a_table_whose_rows_cannot_be_located_is_scanned() -> None:
    table = numbers()
    table.createIndex("id")
    state = table._state()
    location = state.snapshot.location
    one = state.snapshot.files.table.slice(0, 1).to_pylist()[0]
    add = {
        "path": one["path"],
        "partitionValues": {},
        "size": one["size"],
        "modificationTime": 0,
        "dataChange": False,
        "baseRowId": one["base_row_id"],
        "defaultRowCommitVersion": one["default_row_commit_version"],
    }
    lines = [{"commitInfo": {"operation": "ANALYZE"}}, {"add": add}]
    body = "\n".join(map(json.dumps, lines)).encode()
    location.store.put(location.key("_delta_log", f"{state.version + 1:020}.json"), body)
    again = DeltaTable.forPath(None, location.url)
    assert again.toArrow(where="id = 3").num_rows == 1
    with pytest.raises(Damaged):
        again.take([3])
