"""Rows made and checked inside a Spark job, and what a failed job says."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.engines.spark.dml.constraints import PreparedFrame, prepare, violation_of
from holdfast.engines.spark.types import spark_struct, spark_to_struct
from holdfast.errors import ConstraintViolated, Invalid, LimitReached, TableError
from holdfast.schema.constraints import demands
from holdfast.schema.enforce import Assignment, fit
from holdfast.schema.identity import identity_metadata
from holdfast.schema.types import LONG, STRING, Field, Primitive, Struct
from tests.support.demanding import BROKEN, DEMANDING, FINE, GOOD, SMALL, schema

TYPES = (
    "v long, d string, s struct<a: long, b: string, c: array<struct<x: long, y: int>>>, "
    "l array<struct<p: int>>, m map<string, struct<q: long>>"
)


def frame(spark: SparkSession, *changes: dict[str, object]) -> DataFrame:
    made = [{**GOOD, **c} for c in changes]
    for row in made:
        entries = row["m"]
        row["m"] = dict(entries) if isinstance(entries, list) else None
    return spark.createDataFrame([tuple(row.values()) for row in made], TYPES)


def prepared(
    df: DataFrame, table: Struct = DEMANDING, properties: dict[str, str] = SMALL, **options: int
) -> PreparedFrame:
    made = fit(spark_to_struct(df.schema), table)
    return prepare(df, made, demands(table, properties, made), **options)


def written(made: PreparedFrame) -> pa.Table:
    """The rows after a pass through Python, as the writer makes one."""

    def through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return made.frame.mapInArrow(through, made.frame.schema).toArrow()


def refusal(made: PreparedFrame) -> TableError:
    with pytest.raises(PySparkException) as caught:
        made.frame.toArrow()
    found = violation_of(caught.value)
    assert found is not None, str(caught.value)
    return found


@pytest.mark.everywhere
def test_good_rows_pass_and_numbers_are_counted(spark: SparkSession) -> None:
    df = frame(spark, *FINE).coalesce(1)
    made = prepared(df, tasks=1)
    got = written(made)
    assert got.column_names == list(DEMANDING.names)
    assert made.frame.schema.simpleString() == spark_struct(DEMANDING.fields).simpleString()
    assert got.column("n").to_pylist() == [10, 15, 20, 25]
    assert got.column("v").to_pylist() == [1, 1, 1, -(2**40)]
    assert made.marks() == {"n": 25}


@pytest.mark.parametrize(("change", "name"), BROKEN)
def test_a_bad_row_stops_the_job_and_is_shown(spark: SparkSession, change: dict[str, object], name: str) -> None:
    found = refusal(prepared(frame(spark, {}, change)))
    assert isinstance(found, ConstraintViolated)
    assert found.constraint == name
    (column,) = change
    assert f"{column}=" in found.row
    assert found.row in str(found)


def test_everything_missing_is_filled(spark: SparkSession) -> None:
    table = Struct(
        (
            Field("day", Primitive("date"), True, {"delta.generationExpression": "cast(AT as date)"}),
            Field("at", Primitive("timestamp_ntz")),
            Field("d", STRING, False, {"CURRENT_DEFAULT": "concat('h', 'i')"}),
            Field("s", schema("a long, b struct<c: int, `d e`: string>")),
            Field("l", schema("x array<struct<p: long, q: int>>").fields[0].type),
            Field("m", schema("x map<long, double>").fields[0].type),
            Field("z", Primitive("double")),
        )
    )
    df = spark.sql(
        "SELECT date '2024-05-01' AS At, named_struct('B', named_struct('D E', 'x'), 'a', 1) AS S, "
        "array(named_struct('P', 1), null) AS l, map(1, 2) AS m"
    )
    got = written(prepared(df, table, {})).to_pylist()
    assert len(got) == 1
    assert str(got[0].pop("day")) == "2024-05-01"
    assert str(got[0].pop("at")) == "2024-05-01 00:00:00"
    assert got[0] == {
        "d": "hi",
        "s": {"a": 1, "b": {"c": None, "d e": "x"}},
        "l": [{"p": 1, "q": None}, None],
        "m": [(1, 2.0)],
        "z": None,
    }


@pytest.mark.everywhere
def test_a_bad_row_stops_the_writers_job(spark: SparkSession) -> None:
    with pytest.raises(PySparkException) as caught:
        written(prepared(frame(spark, {}, {"v": 7})))
    found = violation_of(caught.value)
    assert isinstance(found, ConstraintViolated)
    assert (found.constraint, found.row.split(", ")[1]) == ("small", "v=7")


@pytest.mark.everywhere
def test_a_generated_column_that_rows_bring_is_checked(spark: SparkSession) -> None:
    table = Struct((Field("v", LONG), Field("g", LONG, True, {"delta.generationExpression": "v * 2"})))
    assert written(prepared(spark.sql("SELECT 2L AS v, 4L AS g"), table, {})).to_pylist() == [{"v": 2, "g": 4}]
    assert written(prepared(spark.sql("SELECT null AS v, null AS g"), table, {})).num_rows == 1
    found = refusal(prepared(spark.sql("SELECT 2L AS v, 5L AS g"), table, {}))
    assert isinstance(found, ConstraintViolated)
    assert (found.constraint, found.row) == ("g", "v=2, g=5")


@pytest.mark.everywhere
def test_only_rows_that_are_written_are_checked(spark: SparkSession) -> None:
    table = schema("v long not null, w long")
    rows = spark.range(10).select(F.col("id").alias("v"), (F.col("id") * 2).alias("w"))
    wanted = spark.createDataFrame([(1,), (2,)], "v long")
    limits = {"delta.constraints.small": "w < 6"}
    joined = rows.join(wanted, "v").where("v > 0")
    assert sorted(written(prepared(joined, table, limits)).column("v").to_pylist()) == [1, 2]
    found = refusal(prepared(rows.where("v < 4"), table, limits))
    assert isinstance(found, ConstraintViolated)
    assert found.row == "v=3, w=6"


@pytest.mark.everywhere
def test_numbers_of_many_tasks_are_distinct_and_beyond_the_mark(spark: SparkSession) -> None:
    metadata = {**identity_metadata(start=0, step=-3, explicit=False), "delta.identity.highWaterMark": -10}
    table = Struct((Field("n", LONG, False, metadata), Field("id", LONG)))
    for options in ({"tasks": 3}, {}):
        made = prepared(spark.range(0, 100, 1, 3), table, {}, **options)
        numbers = written(made).column("n").to_pylist()
        assert len(set(numbers)) == 100
        assert max(numbers) == -12
        assert all(n % 3 == 0 for n in numbers)
        assert made.marks() == {"n": min(numbers)}
    assert min(written(prepared(spark.range(0, 99, 1, 3), table, {}, tasks=3)).column("n").to_pylist()) == -12 - 98 * 3
    found = refusal(prepared(spark.range(0, 100, 1, 3), table, {}, tasks=2))
    assert isinstance(found, Invalid)
    assert "coalesce the DataFrame" in str(found)


@pytest.mark.everywhere
def test_no_rows_hand_out_no_numbers(spark: SparkSession) -> None:
    table = Struct((Field("n", LONG, False, identity_metadata(start=1, step=1, explicit=False)), Field("id", LONG)))
    for none in (spark.createDataFrame([], "id long"), spark.range(5).where("id > 7"), spark.range(5).where("false")):
        made = prepared(none, table, {})
        assert written(made).num_rows == 0
        assert made.marks() == {}


@pytest.mark.everywhere
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_values_and_numbers_that_do_not_fit_raise_in_any_mode(spark: SparkSession, ansi: str) -> None:
    before = spark.conf.get("spark.sql.ansi.enabled") or "true"
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        df = spark.range(2).select(F.array(F.col("id") * 2**40).alias("a"))
        made = fit(spark_to_struct(df.schema), schema("a array<int>"), assignment=Assignment.ANSI)
        found = refusal(prepare(df, made))
        assert str(found) == "a value of the column a.element does not fit integer: cast it before writing"
        fine = written(prepare(df.where("a[0] = 0"), made))
        assert fine.to_pylist() == [{"a": [0]}]
        numbers = identity_metadata(start=2**63 - 2, step=1, explicit=False)
        table = Struct((Field("n", LONG, True, numbers), Field("id", LONG)))
        over = refusal(prepared(spark.range(0, 3, 1, 1), table, {}, tasks=1))
        assert isinstance(over, LimitReached)
        assert "no numbers left" in str(over)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def test_other_failures_are_not_ours(spark: SparkSession) -> None:
    with pytest.raises(PySparkException) as caught:
        spark.range(1).select(F.raise_error(F.lit("something else")).cast("int").alias("x")).collect()
    assert violation_of(caught.value) is None
    assert violation_of(ValueError("holdfast refused a row: not json")) is None


def test_long_values_are_cut_short(spark: SparkSession) -> None:
    table = schema("a string not null, b string, c binary, v variant, e array<int>")
    df = spark.sql("SELECT null AS a, repeat('x', 100000) AS b, X'00ff' AS c, parse_json('[1]') AS v, array(1) AS e")
    found = refusal(prepared(df, table, {}))
    assert isinstance(found, ConstraintViolated)
    assert found.row == f"a=null, b={'x' * 100}, c=00FF, v=[1], e=[1]"
