"""Column defaults: said when a table is made or later, and used by both engines."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from holdfast import DeltaTable, Invalid
from holdfast.errors import ConstraintViolated, SchemaMismatch, UnknownColumn, Unsupported
from holdfast.formats.delta.protocol.features import writer_features
from holdfast.schema.ddl import parse_type
from holdfast.schema.types import Field
from holdfast.verbs.define.defaults import with_default

DEFAULTS = {
    "n": ("int", "-7", -7),
    "s": ("string", "'new'", "new"),
    "b": ("boolean", "true", True),
    "d": ("date", "date '2024-05-01'", datetime.date(2024, 5, 1)),
    "x": ("decimal(10,2)", "1.5", None),
    "none": ("bigint", "null", None),
}


def made(path: Path, spark: SparkSession | None = None) -> DeltaTable:
    builder = DeltaTable.create(spark).location(path).addColumn("id", "bigint")
    for name, (type_, default, _) in DEFAULTS.items():
        builder = builder.addColumn(name, type_, default=default)
    return builder.execute()


def wanted(id_: int) -> dict[str, Any]:
    return {"id": id_, **{name: value for name, (_, _, value) in DEFAULTS.items() if name != "x"}}


def without_x(table: DeltaTable) -> list[dict[str, Any]]:
    rows = table.toArrow().to_pylist()
    assert {str(row.pop("x")) for row in rows} == {"1.50"}
    return sorted(rows, key=lambda row: row["id"])


@pytest.mark.everywhere
def test_both_engines_fill_in_the_same(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path, spark)
    table.append(spark.sql("select 1L as id"))
    table.append(pa.table({"id": pa.array([2], pa.int64())}))
    assert without_x(table) == [wanted(1), wanted(2)]
    assert "allowColumnDefaults" in writer_features(table.handle.newest().protocol)


def test_a_given_value_counts_and_a_given_null_too(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.append(pa.table({"id": pa.array([1], pa.int64()), "s": ["own"], "n": pa.array([None], pa.int32())}))
    row = table.toArrow().to_pylist()[0]
    assert (row["s"], row["n"], row["b"]) == ("own", None, True)
    theirs = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(tmp_path)))
    assert pa.table(theirs.execute("select * from t").read_all()).to_pylist() == [row]


def test_what_only_spark_can_compute(spark: SparkSession, tmp_path: Path) -> None:
    builder = DeltaTable.create(spark).location(tmp_path).addColumn("id", "bigint")
    table = builder.addColumn("at", "timestamp", nullable=False, default="current_timestamp()").execute()
    table.append(spark.range(2))
    assert table.toArrow()["at"].null_count == 0
    with pytest.raises(Unsupported, match=r"default of the column at \(current_timestamp\(\)\): give it a value"):
        table.append(pa.table({"id": pa.array([2], pa.int64())}))


def test_a_computed_default_that_does_not_fit_stops_the_write(spark: SparkSession, tmp_path: Path) -> None:
    builder = DeltaTable.create(spark).location(tmp_path).addColumn("id", "bigint")
    table = builder.addColumn("n", "tinyint", default="100 + 100").execute()
    ansi = str(spark.conf.get("spark.sql.ansi.enabled"))
    try:
        for mode in ("true", "false"):
            spark.conf.set("spark.sql.ansi.enabled", mode)
            with pytest.raises(Invalid, match="n does not fit byte"):
                table.append(spark.range(1))
    finally:
        spark.conf.set("spark.sql.ansi.enabled", ansi)


def test_set_and_dropped_later_without_touching_rows(tmp_path: Path) -> None:
    table = DeltaTable.create().location(tmp_path).addColumn("id", "bigint").addColumn("S", "string").execute()
    one = pa.table({"id": pa.array([1], pa.int64())})
    table.append(one)
    assert table.setColumnDefault("s", "'later'").version == 2
    assert table.setColumnDefault("S", "'later'").version is None
    table.append(one)
    assert table.dropColumnDefault("s").version == 4
    assert table.dropColumnDefault("s").version is None
    table.append(one)
    assert sorted(table.toArrow()["S"].to_pylist(), key=str) == [None, None, "later"]
    assert table.historyArrow(2)["operation"].to_pylist() == ["WRITE", "CHANGE COLUMN"]
    with pytest.raises(UnknownColumn):
        table.setColumnDefault("t", "1")


def test_a_column_that_must_not_be_null_may_be_left_out_where_it_has_a_default(tmp_path: Path) -> None:
    builder = DeltaTable.create().location(tmp_path).addColumn("id", "bigint")
    table = builder.addColumn("n", "int", nullable=False, default="3").execute()
    one = pa.table({"id": pa.array([1], pa.int64())})
    table.append(one)
    table.dropColumnDefault("n")
    with pytest.raises(SchemaMismatch, match="n"):
        table.append(one)
    table.setColumnDefault("n", "4")
    table.append(one)
    with pytest.raises(ConstraintViolated):
        table.append(one.append_column("n", pa.array([None], pa.int32())))
    assert sorted(table.toArrow()["n"].to_pylist()) == [3, 4]


def test_schemas_bring_defaults_in_their_metadata(tmp_path: Path) -> None:
    notes = {"CURRENT_DEFAULT": "5", "EXISTS_DEFAULT": "5", "comment": "five"}
    from_spark = spark_types.StructType(
        [
            spark_types.StructField("id", spark_types.LongType()),
            spark_types.StructField("n", spark_types.IntegerType(), True, notes),
        ]
    )
    from_arrow = pa.schema([("id", pa.int64()), pa.field("n", pa.int32(), metadata=notes)])
    schemas = []
    for name, columns in (("spark", from_spark), ("arrow", from_arrow)):
        table = DeltaTable.create().location(tmp_path / name).addColumns(columns).execute()
        table.append(pa.table({"id": pa.array([1], pa.int64())}))
        assert table.toArrow().to_pylist() == [{"id": 1, "n": 5}]
        schemas.append(table.handle.newest().snapshot.schema)
    assert schemas[0] == schemas[1]
    assert schemas[0].fields[1].metadata == {"CURRENT_DEFAULT": "5", "comment": "five"}


@pytest.mark.parametrize(
    ("type_", "default", "reason"),
    [
        ("int", "id + 1", "names id"),
        ("int", "new", "names new"),
        ("int", "(select 1)", "asks for rows"),
        ("bigint", "count(1)", "aggregates rows"),
        ("tinyint", "300", "no byte is that"),
        ("int", "5.5", "no integer is that"),
        ("string", "it's", "cannot be read as SQL"),
        ("variant", "5", "that of a variant is null"),
    ],
)
def test_what_cannot_be_a_default(type_: str, default: str, reason: str) -> None:
    with pytest.raises(Invalid, match=f"the column c cannot have the default.*{reason}"):
        with_default(Field("c", parse_type(type_)), default)


def test_columns_that_cannot_have_one(tmp_path: Path) -> None:
    builder = DeltaTable.create().location(tmp_path)
    with pytest.raises(Invalid, match="makes its values itself"):
        builder.addColumn("g", "int", generatedAlwaysAs="1", default="2")
    with pytest.raises(Invalid, match="must not be null"):
        builder.addColumn("n", "int", nullable=False, default="null")
    with pytest.raises(Invalid, match="SQL text, not int"):
        builder.addColumn("n", "int", default=5)  # type: ignore[arg-type]
    table = builder.addColumn("s", "struct<a: int>").execute()
    with pytest.raises(Invalid, match=r"s\.a cannot have a default"):
        table.setColumnDefault("s.a", "1")
    inner = spark_types.StructField("a", spark_types.IntegerType(), True, {"CURRENT_DEFAULT": "1"})
    outer = spark_types.StructType([spark_types.StructField("s", spark_types.StructType([inner]))])
    with pytest.raises(Invalid, match="field a inside of s"):
        DeltaTable.create().location(tmp_path / "other").addColumns(outer).execute()
