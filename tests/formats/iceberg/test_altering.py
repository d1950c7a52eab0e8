"""Altering Iceberg tables: schema evolution, dynamic partition overwrite and restore."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from holdfast import IcebergTable
from holdfast.errors import Invalid, MetadataChanged, MissingFile, SchemaMismatch, UnknownColumn, UnknownVersion
from tests.formats.iceberg.equality_deletes import commit_equality_delete
from tests.formats.iceberg.test_write import duck

ROWS = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("s", pa.struct([("a", pa.string())]))])


def rows(*ids: int, **more: Any) -> pa.Table:
    made = pa.table({"id": list(ids), "n": list(ids), "s": [{"a": f"x{i}"} for i in ids]}, ROWS)
    for name, values in more.items():
        made = made.append_column(name, values)
    return made


def made(path: Path, version: int = 3, **how: Any) -> IcebergTable:
    table = IcebergTable.create(None, path / "c.db", "db.t", ROWS, formatVersion=version, **how)
    table.append(rows(1, 2))
    return table


def theirs(path: Path) -> Table:
    return load_catalog("holdfast", type="sql", uri=f"sqlite:///{path}/c.db").load_table("db.t")


def field_ids(table: IcebergTable) -> dict[str, int | None]:
    return {f.name: f.field_id for f in table.handle.newest().snapshot.schema.fields}


@pytest.mark.parametrize("version", [2, 3])
def test_columns_come_with_the_rows_that_bring_them(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version)
    lists = pa.array([[{"u": 1.5}], None], pa.list_(pa.struct([("u", pa.float64())])))
    with pytest.raises(SchemaMismatch):
        table.append(rows(3, 4, tags=lists))
    before = table.version
    table.append(rows(3, 4, tags=lists), mergeSchema=True)
    assert table.historyArrow()["version"][1].as_py() == before, "one commit"
    assert field_ids(table) == {"id": 1, "n": 2, "s": 3, "tags": 5}
    table.append(
        pa.table({"id": [5], "s": pa.array([{"a": "q", "b": 7}], pa.struct([("a", pa.string()), ("b", pa.int64())]))}),
        mergeSchema=True,
    )
    found = table.toArrow().sort_by("id").to_pylist()
    assert found[0] == {"id": 1, "n": 1, "s": {"a": "x1", "b": None}, "tags": None}
    assert found[2]["tags"] == [{"u": 1.5}]
    assert found[4]["s"] == {"a": "q", "b": 7}
    assert duck(table) == found
    assert len(table.toArrow(version=before).schema) == 3, "as it was then"
    table.overwrite(rows(9, k=pa.array([True])), mergeSchema=True, replaceWhere="id > 2")
    assert [(row["id"], row["k"]) for row in duck(table)] == [(1, None), (2, None), (9, True)]
    assert table.check().clean


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_a_merge_adds_columns(tmp_path: Path, mode: str) -> None:
    table = made(tmp_path)
    source = pa.table({"id": [2, 3], "note": ["two", "three"]})
    merge = table.alias("t").merge(source, "t.id = s.id", mode=mode).withSchemaEvolution()
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert [(row["id"], row["n"], row["note"]) for row in duck(table)] == [
        (1, 1, None),
        (2, 2, "two"),
        (3, None, "three"),
    ]
    found = table.toArrow(metadata=["_row_id", "_last_updated_sequence_number"]).sort_by("id")
    assert found["_row_id"].to_pylist()[:2] == [0, 1]
    assert found["_last_updated_sequence_number"].to_pylist() == [1, 2, 2]


def test_types_widen_where_the_format_lets_them(tmp_path: Path) -> None:
    table = made(tmp_path, 2)
    big = pa.table({"id": [7], "n": pa.array([2**40], pa.int64())})
    with pytest.raises(SchemaMismatch):
        table.append(big, mergeSchema=True)
    table.append(big, widenTypes=True)
    assert [row["n"] for row in duck(table)] == [1, 2, 2**40]
    with pytest.raises(SchemaMismatch):
        table.append(pa.table({"id": [8], "n": [1.5]}), widenTypes=True)
    table.addColumns({"small": "int"})
    with pytest.raises(Invalid, match="cannot become"):  # as other formats let it
        table.append(pa.table({"id": [8], "small": [1.5]}), widenTypes=True)
    table.addColumns({"d": "decimal(5, 2)", "f": "float"})
    table.append(pa.table({"id": [9], "d": [decimal.Decimal("1.25")], "f": pa.array([0.5], pa.float32())}))
    table.changeColumnType("d", "decimal(9, 2)")
    table.changeColumnType("f", "double")
    assert table.toArrow(where="d = 1.25 AND f = 0.5")["id"].to_pylist() == [9]
    assert duck(table)[-1]["d"] == decimal.Decimal("1.25")
    for name, type_ in (("d", "decimal(9, 3)"), ("id", "int"), ("n", "string")):
        with pytest.raises(Invalid, match="cannot become"):
            table.changeColumnType(name, type_)


@pytest.mark.parametrize("version", [2, 3])
def test_columns_change_without_a_snapshot(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version, partitionedBy=["bucket(4, id)"])
    before = table.version
    table.addColumns([("note", "string", "for people"), ("s.b", "array<struct<c: int>>")])
    table.renameColumn("n", "count")
    table.renameColumn("s.a", "text")
    assert (table.version, field_ids(table)) == (before, {"id": 1, "count": 2, "s": 3, "note": 5})
    fresh = pa.table({"id": [3], "count": pa.array([3], pa.int32()), "note": ["hi"]})
    table.append(fresh)
    table.update("count = 1", {"note": "s.text"})
    inner = pa.struct([("text", pa.string()), ("b", pa.list_(pa.struct([("c", pa.int32())])))])
    table.append(pa.table({"id": [4], "s": pa.array([{"text": "y", "b": [{"c": 5}]}], inner)}))
    table.renameColumn("s.b", "list")
    found = {row["id"]: row for row in table.toArrow().to_pylist()}
    assert found[1] == {"id": 1, "count": 1, "s": {"text": "x1", "list": None}, "note": "x1"}
    assert found[4]["s"] == {"text": "y", "list": [{"c": 5}]}
    assert {row["id"]: row for row in duck(table)} == found
    table.dropColumn("note")
    table.addColumns({"note": "string"})
    assert table.toArrow()["note"].null_count == 4, "another column, of the same name"
    assert field_ids(table)["note"] == 9
    table.commentColumn("count", "how many")
    assert table.handle.newest().snapshot.schema.fields[1].metadata["comment"] == "how many"
    assert theirs(tmp_path).schema().find_field("count").doc == "how many"
    with pytest.raises(Invalid, match="placed by it"):
        table.dropColumn("id")
    with pytest.raises(Invalid, match="two columns"):
        table.addColumns({"NOTE": "int"})
    with pytest.raises(Invalid, match="one name"):
        table.renameColumn("note", "a.b")
    same = table.handle.newest().metadata_path
    table.commentColumn("count", "how many")
    assert table.handle.newest().metadata_path == same, "true already"
    assert table.check().clean


def test_a_change_of_the_table_is_one_commit_or_none(tmp_path: Path) -> None:
    table = made(tmp_path, 2)
    before = table.handle.newest().metadata_path
    for names, text in ((["n", "nope"], "nope"), (["n", "N"], "named twice"), (["s.a", "s"], "named twice")):
        with pytest.raises((Invalid, UnknownColumn), match=text):
            table.handle.alter.drop_columns(names)
    with pytest.raises(Invalid, match="format version 2 and cannot become 1"):
        table.setProperties({"a": "b", "format-version": "1"})
    assert table.handle.newest().metadata_path == before
    log = len(theirs(tmp_path).metadata.metadata_log)
    table.handle.alter.drop_columns(["n", "s"])
    assert (list(field_ids(table)), len(theirs(tmp_path).metadata.metadata_log)) == (["id"], log + 1)
    table.setProperties({"a": "b", "format-version": "2"})
    assert (table.handle.newest().metadata.properties["a"], len(theirs(tmp_path).metadata.metadata_log)) == (
        "b",
        log + 2,
    )
    table.setProperties({"a": "c", "format-version": "3"})
    versions = [IcebergTable.load(None, tmp_path / "c.db", "db.t").handle.newest().metadata, theirs(tmp_path).metadata]
    assert [(found.format_version, found.properties["a"]) for found in versions] == [(3, "c")] * 2
    assert len(theirs(tmp_path).metadata.metadata_log) == log + 4, "and one that numbers the rows"


def test_a_column_that_was_dropped_comes_back_as_the_schema_it_was(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.addColumns({"x": "int"})
    assert table.handle.newest().metadata.current_schema_id == 1
    table.dropColumn("x")
    assert table.handle.newest().metadata.current_schema_id == 0
    assert len(table.handle.newest().metadata.schemas) == 2


@pytest.mark.parametrize("by", ["n", "truncate(10, n)", "bucket(4, n)"])
def test_a_column_that_files_are_placed_by_widens(tmp_path: Path, by: str) -> None:
    table = made(tmp_path, partitionedBy=[by])
    table.changeColumnType("n", "long")
    table.append(pa.table({"id": [3], "n": [2**40]}))
    table.update("id = 1", {"n": "n + 2"}, mode="merge-on-read")
    table.delete("n = 2", mode="merge-on-read")
    assert [(row["id"], row["n"]) for row in duck(table)] == [(1, 3), (3, 2**40)]
    fresh = IcebergTable.load(None, tmp_path / "c.db", "db.t")
    assert fresh.toArrow(where="n = 3")["id"].to_pylist() == [1]
    assert fresh.toArrow(where=f"n = {2**40}")["id"].to_pylist() == [3]
    table.optimize().executeCompaction()
    assert table.check().clean


def test_a_column_that_identifies_rows_stays(tmp_path: Path) -> None:
    table = made(tmp_path, 2)
    with theirs(tmp_path).update_schema(allow_incompatible_changes=True) as update:
        update.update_column("id", required=True)
        update.set_identifier_fields("id")
    with pytest.raises(Invalid, match="identified by it"):
        table.dropColumn("id")
    table.addColumns({"x": "int"})
    assert theirs(tmp_path).schema().identifier_field_ids == [1]


def test_a_change_of_columns_in_between(tmp_path: Path) -> None:
    table = made(tmp_path)
    stale = IcebergTable.load(None, tmp_path / "c.db", "db.t")
    state = stale.handle.newest()
    stale.handle.newest = lambda: state  # type: ignore[method-assign]
    table.addColumns({"x": "int"})
    with pytest.raises(MetadataChanged):
        stale.append(rows(5, y=pa.array([1])), mergeSchema=True)
    stale.addColumns({"y": "int"})
    assert field_ids(IcebergTable.load(None, tmp_path / "c.db", "db.t")) == {"id": 1, "n": 2, "s": 3, "x": 5, "y": 6}


@pytest.mark.parametrize("by", ["p", "day(t)", "truncate(1, p)", "bucket(3, t)", "d"])
def test_partitions_are_replaced(tmp_path: Path, by: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string()), ("t", pa.timestamp("us")), ("d", pa.decimal128(5, 2))])

    def of(*ids: int) -> pa.Table:
        day = [datetime.datetime(2026, 1, 1 + i % 3) for i in ids]
        value = [None if i % 3 == 0 else decimal.Decimal(i % 3) for i in ids]
        return pa.table({"id": ids, "p": [[None, "a", "b"][i % 3] for i in ids], "t": day, "d": value}, schema)

    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", schema, partitionedBy=[by])
    table.append(of(*range(9)))
    before = {row["id"]: str(row["_partition"]) for row in table.toArrow(metadata=["_partition"]).to_pylist()}
    table.overwrite(of(30, 31), partitionOverwriteMode="dynamic")
    after = {row["id"]: str(row["_partition"]) for row in table.toArrow(metadata=["_partition"]).to_pylist()}
    new = {after[30], after[31]}
    assert new & set(before.values()) == new, "partitions that were there"
    assert sorted(after) == [*(i for i, placed in before.items() if placed not in new), 30, 31]
    assert [row["id"] for row in duck(table)] == sorted(after)
    with pytest.raises(Invalid, match="exclude each other"):
        table.overwrite(of(1), partitionOverwriteMode="dynamic", replaceWhere="id = 1")


def test_partitions_that_cannot_be_told(tmp_path: Path) -> None:
    table = made(tmp_path, 2)
    with pytest.raises(Invalid, match="needs a partitioned table"):
        table.overwrite(rows(1), partitionOverwriteMode="dynamic")
    with theirs(tmp_path).update_spec() as update:
        update.add_identity("n")
    with pytest.raises(Invalid, match="older partition spec"):
        table.overwrite(rows(1), partitionOverwriteMode="dynamic")


@pytest.mark.parametrize("version", [2, 3])
def test_a_snapshot_comes_back(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version)
    columns = ["id", *(["_row_id", "_last_updated_sequence_number"] if version == 3 else [])]

    def told() -> list[dict[str, Any]]:
        return duck(table, ", ".join(columns))

    seen = {table.version: told()}
    table.delete("id = 1", mode="merge-on-read")
    seen[table.version] = told()
    table.update("id = 2", {"n": "5"}, mode="merge-on-read")
    commit_equality_delete(table, pa.table({"id": [2]}))
    seen[table.version] = told()
    table.append(rows(3, 4))
    table.purge()
    seen[table.version] = told()
    mark = table.handle.newest().metadata.next_row_id or 0
    for snapshot, expected in list(seen.items()):
        done = table.restoreToVersion(snapshot)
        assert (told(), done.version) == (expected, table.version)
        assert table.historyArrow(1)["operation"].to_pylist() == ["overwrite"]
        assert table.check().findings == ()
        assert table.toArrow(columns=["id"]).num_rows == len(expected)
    assert table.restoreToVersion(table.version).version is None, "it is there"
    table.append(rows(9))
    if version == 3:
        assert told()[-1]["_row_id"] >= mark
    state = table.handle.newest()
    moment = state.metadata.snapshot_log[0].timestamp_ms
    table.restoreToTimestamp(datetime.datetime.fromtimestamp(moment / 1000, datetime.UTC))
    assert told() == seen[state.metadata.snapshots[0].snapshot_id]


def test_a_restore_is_a_change_like_any_other(tmp_path: Path) -> None:
    table = made(tmp_path)
    first = table.version
    table.delete("id = 1", mode="merge-on-read")
    table.update("id = 2", {"n": "5"}, mode="copy-on-write")
    table.restoreToVersion(first)
    told = table.changes(table.version).toArrow().select(["_change_type", "id", "n"]).to_pylist()
    assert sorted((row["_change_type"], row["id"], row["n"]) for row in told) == [
        ("insert", 1, 1),
        ("update_postimage", 2, 2),
        ("update_preimage", 2, 5),
    ]
    assert [event.what.value for event in table.biography(0).events] == ["born", "deleted", "restored"]


def test_what_cannot_come_back(tmp_path: Path) -> None:
    table = made(tmp_path)
    first = table.version
    (old,) = table.handle.newest().snapshot.files.column("path").to_pylist()
    table.overwrite(rows(7))
    Path(old.removeprefix("file://")).unlink()
    with pytest.raises(MissingFile, match="cannot be restored"):
        table.restoreToVersion(first)
    with pytest.raises(UnknownVersion):
        table.restoreToVersion(77)


def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    made(tmp_path)
    table = IcebergTable.load(spark, tmp_path / "c.db", "db.t")
    more = spark.createDataFrame([(3, 3, "x", [1.5])], "id long, n int, note string, list array<double>")
    table.append(more, mergeSchema=True)
    source = spark.createDataFrame([(1, True)], "id long, seen boolean").alias("s")
    table.alias("t").merge(source, "t.id = s.id").withSchemaEvolution().whenMatchedUpdateAll().execute()
    assert [(row["id"], row["note"], row["list"], row["seen"]) for row in duck(table)] == [
        (1, None, None, True),
        (2, None, None, None),
        (3, "x", [1.5], None),
    ]
    table.restoreToVersion(table.handle.newest().metadata.snapshots[0].snapshot_id)
    assert table.toDF().count() == 2
