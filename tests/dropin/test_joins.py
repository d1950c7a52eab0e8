"""Two frames of one table are told apart by columns taken from them; texts go on naming the table."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast._dropin.qualifier import Qualifier

pytestmark = pytest.mark.connect


@pytest.fixture(scope="module")
def named(spark: SparkSession) -> Iterator[str]:
    """A table of ten sailors, each of whom has a mate."""
    name = "holdfast_crew"
    with holdfast.enable(spark):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        rows = spark.range(10).select("id", (9 - F.col("id")).alias("mate"), F.concat(F.lit("n"), "id").alias("name"))
        rows.write.format("delta").saveAsTable(name)
        yield name
        spark.sql(f"DROP TABLE {name}")


def by_delta_table(spark: SparkSession, name: str) -> DataFrame:
    from delta.tables import DeltaTable  # type: ignore[import-not-found]

    found: DataFrame = DeltaTable.forName(spark, name).toDF()
    return found


def by_view(spark: SparkSession, name: str) -> DataFrame:
    spark.table(name).createOrReplaceTempView("crew_view")
    return spark.table("crew_view")


def by_path(spark: SparkSession, name: str) -> DataFrame:
    place = spark.sql(f"DESCRIBE DETAIL {name}").collect()[0].location
    return spark.read.format("delta").load(place)


READ: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "table": lambda spark, name: spark.table(name),
    "read.table": lambda spark, name: spark.read.table(name),
    "DeltaTable": by_delta_table,
    "a view": by_view,
    "path": by_path,
}


@pytest.mark.parametrize("how", READ)
def test_a_table_joined_with_itself(enabled: SparkSession, named: str, how: str) -> None:
    a, b = READ[how](enabled, named), READ[how](enabled, named)
    pairs = a.join(b, a.mate == b.id).where(a.id < 3).select(a.name, b.name, b["id"])
    assert sorted(tuple(row) for row in pairs.collect()) == [("n0", "n9", 9), ("n1", "n8", 8), ("n2", "n7", 7)]
    assert a.join(b, (a.id == b.id) & (b.mate > 6)).count() == 3
    enabled.catalog.dropTempView("crew_view")


def test_frames_that_were_used_and_narrowed_before(enabled: SparkSession, named: str) -> None:
    a, b = enabled.table(named), enabled.table(named)
    assert a.count() == b.count() == 10
    few = b.where(f"{named}.id > 6").select("id", f"{named}.name").where(F.col("id") < 9)
    met = a.join(few, a.mate == few.id).select(a.id, few.name)
    assert sorted(tuple(row) for row in met.collect()) == [(1, "n8"), (2, "n7")]
    again = few.where(few.id == 8).where(F.expr(f"{named}.name = 'n8'")).where(f"{named}.id = 8")
    assert [row.name for row in again.collect()] == ["n8"]
    more = few.withColumn("up", F.upper(few.name))
    third = enabled.table(named)
    assert third.join(more, (third.id == more.id) & (F.upper(third.name) == more.up)).select(more.up).count() == 2
    shown = b.limit(3)
    fresh = enabled.table(named)
    assert fresh.join(shown, fresh.id == shown.id).count() == 3


def test_texts_name_the_table(enabled: SparkSession, named: str) -> None:
    crew, ships = enabled.table(named), enabled.range(4, 6).withColumn("ship", F.lit("s")).alias("ships")
    met = crew.join(ships, F.expr(f"{named}.id = ships.id")).select(f"{named}.name")
    assert sorted(row.name for row in met.collect()) == ["n4", "n5"]
    mixed = crew.join(ships, crew.id == F.col("ships.id")).where(f"{named}.id = 5").select(f"{named}.name", crew.mate)
    assert [tuple(row) for row in mixed.collect()] == [("n5", 4)]


def test_columns_taken_before_an_alias(enabled: SparkSession, named: str) -> None:
    df = enabled.table(named)
    other = df.alias("o")
    assert [r.name for r in other.where(df.id == 3).where("o.mate = 6").select("o.name").collect()] == ["n3"]
    assert other.join(df, F.col("o.id") == df.mate).count() == 10
    with pytest.raises(AnalysisException):
        other.where("p.id = 3").collect()


def test_what_is_gone_is_not_minded(spark: SparkSession) -> None:
    first = Qualifier("t", spark)
    assert first.take() == "t"
    second = Qualifier("T", spark)
    assert second.current == "T"
    own = second.take()
    assert own.startswith("delta_")
    assert second.take() == own != Qualifier("t", spark).take()
    assert Qualifier("u", spark).take() == "u"
    del first, second
    gc.collect()
    assert Qualifier("t", spark).take() == "t"
