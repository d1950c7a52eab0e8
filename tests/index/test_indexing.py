"""Indexes as users meet them: keys, options, refusals, upkeep, and the changes they make cheaper."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from holdfast import DeltaTable, Invalid, NoRowIdentity, UnknownColumn, between
from holdfast.index.search import Indexes
from tests.index.tables import found, fresh, made, numbers, step


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


def test_an_index_is_used_for_few_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.index.search.FEW_HITS", 3)
    table = numbers(40, files=4)
    table.createIndex("id")
    opened_blocks: list[int] = []
    monkeypatch.setattr(Indexes, "places", lambda self, choice: opened_blocks.append(choice.hits))
    assert "costs more than a scan" in step(table, "id >= 3 AND id < 21")
    assert found(table, id=between(3, 20)) == list(range(3, 21))
    assert opened_blocks == []


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
