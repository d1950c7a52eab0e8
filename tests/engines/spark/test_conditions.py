"""A condition given to a scan selects what it would select after reading everything."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import DeltaTable, Invalid
from holdfast.engines.spark.column_text import UNREADABLE, sql_of
from holdfast.engines.spark.conditions import condition
from holdfast.predicate.records import has_opaque
from tests.support.depth import examples
from tests.support.tablesmith import Tablesmith

COLUMNS = {
    "i": ("integer", ["3", "3.5", "-1", "2147483648", "'4'", "null", "3L"]),
    "l": ("long", ["3", "9007199254740993", "-1.5", "9223372036854775807"]),
    "f": ("float", ["0.1", "0.1D", "cast('NaN' as float)", "-0.0", "0.0", "1e40", "cast('-Infinity' as double)"]),
    "d": ("double", ["0.1", "0.30000000000000004D", "cast('NaN' as double)", "2"]),
    "m": ("decimal(12,3)", ["1.5", "0.0005", "1.500BD", "2", "1000000000"]),
    "s": ("string", ["'a'", "'aé'", "''", "'a\\'b'", "'zz'"]),
    "b": ("boolean", ["true", "false"]),
    "day": ("date", ["date '2020-02-29'", "'2020-02-29'", "date '1600-01-01'", "timestamp '2020-02-29 00:00:00'"]),
    "t": ("timestamp", ["timestamp '2020-03-01 01:30:00'", "'2020-03-01 01:30:00.5Z'", "date '2020-03-01'"]),
    "n": ("timestamp_ntz", ["timestamp_ntz '2020-03-01 01:30:00'", "'2020-03-01 01:30:00'"]),
    "p": ("integer", ["0", "1", "5"]),
}
UTC = datetime.UTC


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DeltaTable:
    """Rows of every type with nulls and odd values, some hidden, in several files with good statistics."""
    smith = Tablesmith(
        tmp_path_factory.mktemp("conditions") / "t",
        schema=[(name, type_) for name, (type_, _) in COLUMNS.items()],
        partition_by=["p"],
    )
    rows = [
        {
            "i": None if k % 7 == 0 else k - 5,
            "l": 9007199254740990 + k if k % 2 else k,
            "f": [0.1, float("nan"), -0.0, 3.5, None, float("-inf")][k % 6],
            "d": [0.1, 0.30000000000000004, float("nan"), None, 2.0][k % 5],
            "m": None if k % 4 == 0 else Decimal(k) / 2,
            "s": ["a", "aé", "", "a'b", None, "zz", "z" * 40][k % 7],
            "b": [True, False, None][k % 3],
            "day": datetime.date(2020, 2, 27) + datetime.timedelta(days=k % 4),
            "t": datetime.datetime(2020, 3, 1, 0, 30, tzinfo=UTC) + datetime.timedelta(minutes=30 * (k % 5)),
            "n": datetime.datetime(2020, 3, 1, 0, 30) + datetime.timedelta(minutes=30 * (k % 5)),
            "p": k // 8,
        }
        for k in range(24)
    ]
    smith.append(rows, files=2)
    smith.hide(0, [0])
    smith.hide(3, [1, 2])
    return DeltaTable.forPath(spark, smith.url)


@st.composite
def conditions(draw: st.DrawFn) -> str:
    def leaf() -> str:
        name = draw(st.sampled_from(sorted(COLUMNS)))
        values = st.sampled_from(COLUMNS[name][1])
        match draw(st.sampled_from(["compare", "compare", "in", "null", "between"])):
            case "compare":
                operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]))
                return f"{name} {operator} {draw(values)}"
            case "in":
                return f"{name} in ({', '.join(draw(st.lists(values, min_size=1, max_size=3)))})"
            case "null":
                return f"{name} is {draw(st.sampled_from(['', 'not ']))}null"
            case _:
                return f"{name} between {draw(values)} and {draw(values)}"

    text = leaf()
    for _ in range(draw(st.integers(0, 2))):
        text = f"({text}) {draw(st.sampled_from(['and', 'or']))} ({leaf()})"
    return f"not ({text})" if draw(st.booleans()) else text


@given(where=conditions(), zone=st.sampled_from(["UTC", "Europe/Paris"]), ansi=st.sampled_from(["true", "false"]))
@examples(25)
def test_pruning_and_pushing_change_nothing(
    spark: SparkSession, table: DeltaTable, where: str, zone: str, ansi: str
) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        everything = table.toDF().where(F.spark_partition_id() >= 0)  # Spark pushes no condition below that
        assert _answer(table.scan(where=where)) == _answer(everything.where(where))
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
        spark.conf.unset("spark.sql.ansi.enabled")


def _answer(df: DataFrame) -> list[str] | str:
    """The rows, or the kind of error where Spark refuses the comparison itself."""
    try:
        return sorted(df.select(F.to_json(F.struct("*"))).toArrow()[0].to_pylist())
    except PySparkException as error:
        return str(error.getCondition())


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        *(("d = cast('NaN' as double)", 5), ("d > 1000", 5), ("f >= 1e30", 3), ("d <> 2", 14)),
        *(("f = 0", 3), ("f IN (float('0.0'), float('8.0'))", 3), ("NOT (f <> 0.0)", 3)),
    ],
)
def test_nan_and_both_zeros_are_found_by_a_reader_that_does_not_know_them(
    table: DeltaTable, where: str, rows: int
) -> None:
    assert table.scan(where=where).count() == rows


@pytest.mark.everywhere
@pytest.mark.parametrize(
    ("column", "text"),
    [
        (lambda: F.col("i") > 3, "i > 3"),
        (lambda: (F.col("s") == "aé") & ~F.col("i").isNull(), "s = 'aé' and not (i is null)"),
        (lambda: F.col("day").between(datetime.date(2020, 2, 28), datetime.date(2020, 2, 29)), None),
        (lambda: F.col("t") >= F.lit(datetime.datetime(2020, 3, 1, 1, tzinfo=UTC)), None),
        (lambda: F.col("p").isin(0, 2), "p in (0, 2)"),
        (lambda: F.expr("p > 1 or i < 0"), "p > 1 or i < 0"),
        (lambda: F.col("m") > Decimal("3.5"), None),
        (lambda: F.col("d") > 0.25, None),
        (lambda: F.col("s").startswith("a"), "s like 'a%'"),
        (lambda: F.col("l").eqNullSafe(3), "l <=> 3"),
    ],
)
def test_a_column_prunes_as_its_text_does(
    spark: SparkSession, table: DeltaTable, column: object, text: str | None
) -> None:
    made = column()
    schema = table.handle.state.snapshot.schema
    assert not has_opaque(condition(spark, made, schema).predicate), sql_of(made)
    assert table.scan(where=made).count() == table.toDF().where(made).count()
    if text is not None:
        assert table.explain(where=made).files_read == table.explain(where=text).files_read
        assert table.scan(where=text).count() == table.scan(where=made).count()


@pytest.mark.everywhere
def test_a_column_that_cannot_be_read_prunes_nothing(spark: SparkSession, table: DeltaTable) -> None:
    odd = (F.upper("s") == "A") & (F.col("p") == 1)
    explained = table.explain(where=odd)
    assert explained.files_read < explained.files_total  # the readable half still prunes
    assert table.scan(where=odd).count() == table.toDF().where(odd).count()
    assert UNREADABLE in sql_of(F.transform(F.array("i"), lambda i: i + 1)[0] > 3)
    counted = (F.col("i") + 1).cast("int") > F.when(F.col("i") > 2, 3).otherwise(2)
    assert UNREADABLE not in sql_of(counted)
    assert table.scan(where=counted).count() == table.toDF().where(counted).count() > 0
    quoted = F.col("s") == "a'b"  # whether a backslash escapes is up to the session, so this is left to Spark
    assert table.scan(where=quoted).count() == table.toDF().where(quoted).count() > 0


def test_columns_of_any_name(spark: SparkSession, tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path / "t", schema=[("we ird.name`", "long"), ("__hf_key", "long")], column_mapping="name")
    smith.append([{"we ird.name`": i, "__hf_key": i} for i in range(5)])
    smith.hide(0, [0])
    table = DeltaTable.forPath(spark, smith.url)
    assert table.scan(where="`we ird.name``` >= 3", metadata=["_row_id"]).count() == 2
    assert table.scan(where=F.col("`we ird.name```") >= 3).count() == 2


def test_nested_fields_are_renamed_though_their_column_is_not(spark: SparkSession, tmp_path: Path) -> None:
    """A table that was mapped after it was written: the column keeps its name in files, a field in it was renamed."""
    inner = {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": {}}]}
    smith = Tablesmith(tmp_path / "t", schema=[("s", inner)])
    smith.append([{"s": {"a": 1}}])
    ids = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "s"}
    nested = {"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": "a"}
    renamed = {"type": "struct", "fields": [{"name": "b", "type": "long", "nullable": True, "metadata": nested}]}
    schema = {"type": "struct", "fields": [{"name": "s", "type": renamed, "nullable": True, "metadata": ids}]}
    metadata = smith.metadata()
    metadata["configuration"] |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    features = ["columnMapping", "deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features}
    protocol["writerFeatures"] = [*features, "rowTracking", "domainMetadata"]
    smith.commit([{"protocol": protocol}, {"metaData": {**metadata, "schemaString": json.dumps(schema)}}])
    assert DeltaTable.forPath(spark, smith.url).toDF().toArrow().to_pylist() == [{"s": {"b": 1}}]


@pytest.mark.everywhere
def test_what_is_no_condition_is_refused(spark: SparkSession, table: DeltaTable) -> None:
    with pytest.raises(TypeError, match=r"SQL text .* or a Column .*, not int: 3"):
        table.scan(where=3)
    for wrong in (True, 1):
        with pytest.raises(TypeError, match="takes a condition"):
            table.delete(wrong)
        with pytest.raises(TypeError, match="takes a condition"):
            table.merge(table.toDF(), wrong)
    with pytest.raises(Invalid, match="empty"):
        table.scan(where=" ")
    with pytest.raises(Exception, match="nope"):
        table.scan(where="nope = 1").collect()
