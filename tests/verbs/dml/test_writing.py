"""Tables written here, by Spark and without it, and read back with their ids."""

from __future__ import annotations

import datetime
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast import DeltaTable, Invalid, NotATable
from holdfast.engines.local.incoming import LocalRows
from holdfast.env import system
from holdfast.errors import ConstraintViolated, SchemaMismatch, TableError
from holdfast.formats.delta.state import load
from holdfast.model.mutation import TableDefinition
from holdfast.schema.types import LONG, STRING, Field, Struct
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.open import open_location
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.write import WriteOptions, make, write
from holdfast.verbs.dml.write_mutation import CommitOptions
from holdfast.verbs.open.delta import open_delta
from holdfast.verbs.open.delta_handle import DeltaHandle
from tests.support.faulty import every_fault

DAY = datetime.date(2024, 5, 1)


def people(*names: str, start: int = 1) -> pa.Table:
    return pa.table({"id": pa.array(range(start, start + len(names)), pa.int64()), "name": list(names)})


def simple(path: Path, spark: SparkSession | None = None) -> DeltaTable:
    return DeltaTable.create(spark).location(path).addColumn("id", "bigint").addColumn("name", "string").execute()


def others_read(path: Path) -> list[dict[str, object]]:
    table = deltalake.DeltaTable(str(path))
    found = deltalake.QueryBuilder().register("t", table).execute("select * from t").read_all()
    return sorted(pa.table(found).to_pylist(), key=str)


@pytest.mark.everywhere
def test_create_append_and_read_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    table = simple(tmp_path / "t", spark)
    rows = spark.range(1, 1001).select("id", F.concat(F.lit("n"), F.col("id")).alias("name"))
    written = table.append(rows, userMetadata="first")
    assert written.version == 1
    assert written.metrics["numOutputRows"] == 1000
    ids = sorted(row["_row_id"] for row in table.scan(metadata=["_row_id"]).collect())
    assert ids == list(range(1000))
    assert table.history(1).collect()[0]["userMetadata"] == "first"
    assert table.toArrow(where="id = 7").to_pylist() == [{"id": 7, "name": "n7"}]


def test_what_others_read_is_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = (
        DeltaTable.create()
        .location(path)
        .addColumn("id", "bigint")
        .addColumn("name", "string")
        .addColumn("day", "date")
        .partitionedBy("day")
        .execute()
    )
    for i in range(12):  # across a checkpoint
        rows = people(f"n{i}", start=i).append_column("day", pa.array([DAY + datetime.timedelta(days=i % 3)]))
        assert table.append(rows).version == i + 1
    assert (path / "_delta_log" / f"{10:020}.checkpoint.parquet").exists()
    assert others_read(path) == sorted(table.toArrow().to_pylist(), key=str)
    ids = table.toArrow(metadata=["_row_id", "_row_commit_version"]).to_pylist()
    assert sorted((row["_row_id"], row["_row_commit_version"]) for row in ids) == [(i, i + 1) for i in range(12)]
    assert table.detailArrow()["numFiles"].to_pylist() == [12]


def test_overwrite_whole_where_and_dynamic(tmp_path: Path) -> None:
    table = (
        DeltaTable.create()
        .location(tmp_path / "t")
        .addColumn("id", "bigint")
        .addColumn("p", "string")
        .partitionedBy("p")
        .execute()
    )
    table.append(pa.table({"id": [1, 2, 3], "p": ["a", "b", "c"]}))
    table.overwrite(pa.table({"id": [20], "p": ["b"]}), replaceWhere="p = 'b'")
    assert sorted(table.toArrow()["id"].to_pylist()) == [1, 3, 20]
    table.overwrite(pa.table({"id": [30], "p": ["c"]}), partitionOverwriteMode="dynamic")
    assert sorted(table.toArrow()["id"].to_pylist()) == [1, 20, 30]
    with pytest.raises(Invalid, match="replaceWhere is p = 'b'"):
        table.overwrite(pa.table({"id": [1], "p": ["a"]}), replaceWhere="p = 'b'")
    table.overwrite(pa.table({"id": [7], "p": ["z"]}))
    rows = table.toArrow(metadata=["_row_id"]).to_pylist()
    assert rows == [{"id": 7, "p": "z", "_row_id": 5}]  # the write that was refused took no id
    assert table.toArrow(version=1).num_rows == 3


@pytest.mark.everywhere
def test_schema_is_enforced_and_evolves_on_request(spark: SparkSession, tmp_path: Path) -> None:
    table = simple(tmp_path / "t", spark)
    wrong = spark.sql("select 'x' as id, 1.5D as extra")
    with pytest.raises(SchemaMismatch, match=r"! id long\s+id string") as caught:
        table.append(wrong)
    assert "extra" in str(caught.value)
    table.append(spark.sql("select 1L as id, 'a' as name"))
    table.append(spark.sql("select 2L as id, 'b' as name, 1.5D as extra"), mergeSchema=True)
    rows = sorted(table.toDF().collect())
    assert [tuple(row) for row in rows] == [(1, "a", None), (2, "b", 1.5)]
    table.overwrite(spark.sql("select 'only' as word"), overwriteSchema=True)
    assert [row.asDict() for row in table.toDF().collect()] == [{"word": "only"}]


@pytest.mark.everywhere
def test_demands_on_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = (
        DeltaTable.create(spark)
        .location(tmp_path / "t")
        .addColumn("id", "bigint", nullable=False)
        .addColumn("day", "date")
        .addColumn("year", "int", generatedAlwaysAs="year(day)")
        .property("delta.constraints.positive", "id > 0")
        .execute()
    )
    table.append(spark.sql("select 1L as id, date'2024-05-01' as day"))
    assert table.toDF().collect()[0]["year"] == 2024
    for bad, message in {
        "select -1L as id, date'2024-05-01' as day": r"positive \(id > 0\).*id=-1",
        "select cast(null as bigint) as id, date'2024-05-01' as day": "NOT NULL",
        "select 2L as id, date'2024-05-01' as day, 1999 as year": "year",
    }.items():
        with pytest.raises(ConstraintViolated, match=message):
            table.append(spark.sql(bad))
    assert table.version == 1


def test_demands_on_rows_without_spark(tmp_path: Path) -> None:
    table = (
        DeltaTable.create()
        .location(tmp_path / "t")
        .addColumn("id", "bigint", nullable=False)
        .property("delta.constraints.positive", "id > 0")
        .execute()
    )
    with pytest.raises(ConstraintViolated, match="positive"):
        table.append(pa.table({"id": [1, -1]}))
    with pytest.raises(ConstraintViolated, match="NOT NULL"):
        table.append(pa.table({"id": pa.array([None], pa.int64())}))
    table.append(pa.table({"id": [1]}))
    assert table.version == 1


def test_the_four_ways_to_make_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with pytest.raises(NotATable, match="to replace"):
        DeltaTable.replace().location(path).addColumn("id", "bigint").execute()
    table = simple(path)
    table.append(people("a", "b"))
    with pytest.raises(Invalid, match="already"):
        simple(path)
    same = DeltaTable.createIfNotExists().location(path).addColumn("other", "int").execute()
    assert same.toArrow().num_rows == 2
    new = DeltaTable.createOrReplace().location(path).addColumn("id", "bigint").execute()
    assert new.toArrow().num_rows == 0
    new.append(pa.table({"id": [9]}))
    assert new.toArrow(metadata=["_row_id"]).to_pylist() == [{"id": 9, "_row_id": 2}]  # ids go on


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "t"
    table = (
        DeltaTable.create()
        .location(path)
        .addColumn("an id", "bigint")
        .addColumn("s", "struct<a: int, b: array<struct<c: string>>>")
        .property("delta.columnMapping.mode", mode)
        .execute()
    )
    rows = [{"an id": 1, "s": {"a": 1, "b": [{"c": "x"}]}}, {"an id": 2, "s": None}]
    table.append(pa.Table.from_pylist(rows, schema=_nested()))
    assert table.toArrow().to_pylist() == rows
    assert others_read(path) == sorted(rows, key=str)


def _nested() -> pa.Schema:
    inner = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.string())])))])
    return pa.schema([("an id", pa.int64()), ("s", inner)])


def test_types_widen_only_where_the_table_allows_it(tmp_path: Path) -> None:
    narrow = pa.table({"n": pa.array([1], pa.int32())})
    wide = pa.table({"n": pa.array([2**40], pa.int64())})
    closed = DeltaTable.create().location(tmp_path / "closed").addColumn("n", "int").execute()
    closed.append(narrow)
    with pytest.raises(SchemaMismatch, match="long does not fit integer"):
        closed.append(wide)
    with pytest.raises(Invalid, match=r"delta\.enableTypeWidening=true"):
        closed.append(wide, widenTypes=True)
    table = (
        DeltaTable.create()
        .location(tmp_path / "open")
        .addColumn("n", "int")
        .property("delta.enableTypeWidening", "true")
        .execute()
    )
    table.append(narrow)
    table.append(wide, widenTypes=True)
    assert sorted(table.toArrow()["n"].to_pylist()) == [1, 2**40]


def test_plain_tables_for_old_readers(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = DeltaTable.create().location(path).addColumn("id", "bigint").property("holdfast.plain", "true").execute()
    table.append(pa.table({"id": [1]}))
    state = load(open_location(str(path)))
    assert (state.protocol.min_reader_version, state.protocol.min_writer_version) == (1, 2)
    assert "holdfast.plain" not in state.metadata.properties
    assert deltalake.DeltaTable(str(path)).to_pyarrow_table().num_rows == 1


def test_a_fault_anywhere_leaves_the_old_or_the_new_rows() -> None:
    """The real verbs on the local engine, over a checkpoint; every storage operation fails once, in three ways."""
    shape = TableDefinition(Struct((Field("id", LONG), Field("name", STRING))), (), {"delta.checkpointInterval": "2"})

    def at(store: ObjectStore) -> Location:
        return Location(store, "t")

    def run(store: ObjectStore) -> None:
        env = system()
        state = make(at(store), shape, env, mode=CreateMode.CREATE, plain=False)
        write(open_delta(state), LocalRows(people("a", "b"), env), WriteOptions(), env)
        write(
            open_delta(load(at(store))), LocalRows(people("c"), env), WriteOptions(commit_options=CommitOptions()), env
        )
        write(open_delta(load(at(store))), LocalRows(people("z"), env), WriteOptions(replace=True), env)

    def check(store: ObjectStore) -> None:
        try:
            location = at(store)
            state = load(location)
        except TableError:
            assert not list(store.list_from("t/_delta_log"))
            return
        names = DeltaTable(DeltaHandle(None, state)).toArrow(metadata=["_row_id"]).to_pylist()
        found = [row["name"] for row in names]
        assert sorted(found) in ([], ["a", "b"], ["a", "b", "c"], ["z"])
        ids = [row["_row_id"] for row in names]
        assert len(set(ids)) == len(ids)

    assert every_fault(run, check) > 40


def test_what_an_application_wrote_already_is_not_written_to_be_thrown_away(tmp_path: Path) -> None:
    table = simple(tmp_path / "t")
    table.append(people("a", "b"), txn=("job", 7))
    before = sorted(file.name for file in (tmp_path / "t").rglob("*"))
    rows = people("x", start=9)
    done = [
        table.append(rows, txn=("job", 7)),
        table.append(rows, txn=("job", 6)),
        table.overwrite(rows, txn=("job", 7)),
        table.overwrite(rows, replaceWhere="id > 1", txn=("job", 7)),
        table.delete("id = 1", txn=("job", 7)),
        table.update("id = 1", {"name": "'z'"}, txn=("job", 7)),
        table.merge(rows, "target.id = source.id", txn=("job", 7)).whenNotMatchedInsertAll().execute(),
    ]
    assert [(each.version, dict(each.metrics)) for each in done] == [(None, {})] * 7
    assert done[4].rowIds().num_rows == 0
    assert sorted(file.name for file in (tmp_path / "t").rglob("*")) == before
    assert table.append(rows, txn=("job", 8)).version == 2


def test_a_new_schema_keeps_the_columns_that_partition_the_table(tmp_path: Path) -> None:
    made = DeltaTable.create().location(str(tmp_path / "t")).addColumn("a", "long").addColumn("p", "long")
    table = made.partitionedBy("p").execute()
    with pytest.raises(Invalid, match="partitioned by p"):
        table.overwrite(pa.table({"a": [1]}), overwriteSchema=True)
    table.overwrite(pa.table({"p": ["x"], "b": [1]}), overwriteSchema=True)
    assert table.toArrow().to_pylist() == [{"p": "x", "b": 1}]
