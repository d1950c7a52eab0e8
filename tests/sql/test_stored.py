"""Permanent views over our tables, which Spark keeps and we read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast.engines.spark.session.unpatched import plain_sql
from holdfast.errors import Unsupported
from holdfast.sql.resolver import TableResolver
from holdfast.sql.run import run

Ask = Callable[..., DataFrame]


@pytest.fixture
def viewed(ask: Ask, spark: SparkSession) -> Iterator[Ask]:
    """A way to run statements, and no views left of them."""
    for first in (0, 5):
        verb = "CREATE OR REPLACE TABLE seen USING delta AS" if first == 0 else "INSERT INTO seen"
        ask(f"{verb} SELECT id, concat('v', id) AS v, id % 2 AS odd FROM range({first}, {first + 5})")
    yield ask
    for row in plain_sql(spark, "SHOW VIEWS").collect():
        if not row.isTemporary:
            plain_sql(spark, f"DROP VIEW {row.viewName}")


def ids(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.collect())


@pytest.mark.connect
def test_a_permanent_view_reads_the_newest_rows(
    viewed: Ask, spark: SparkSession, known: TableResolver, database: str
) -> None:
    viewed("CREATE VIEW evens (key, name COMMENT 'what') COMMENT 'c' AS SELECT id, v FROM seen WHERE odd = 0")
    viewed(f"CREATE OR REPLACE VIEW all_seen AS SELECT * FROM {database}.seen")
    viewed("CREATE VIEW above AS WITH e AS (SELECT * FROM evens) SELECT e.key, s.v FROM e JOIN seen s ON s.id = e.key")
    assert ids(viewed("SELECT * FROM evens")) == [0, 2, 4, 6, 8]
    viewed("DELETE FROM seen WHERE id = 4")
    assert ids(viewed("SELECT key FROM evens WHERE name <> 'v0'")) == [2, 6, 8]
    assert ids(viewed("SELECT x.key FROM above x, all_seen a WHERE x.key = a.id AND a.id > 2")) == [6, 8]
    viewed("ALTER TABLE seen ADD COLUMN more INT")
    assert viewed("SELECT * FROM all_seen").columns == ["id", "v", "odd"]
    spark.catalog.setCurrentDatabase("default")
    elsewhere = run(spark, f"SELECT * FROM {database}.above", resolver=known)
    assert elsewhere is not None
    assert ids(elsewhere) == [0, 2, 6, 8]
    spark.catalog.setCurrentDatabase(database)


def test_conditions_on_a_view_leave_out_files(viewed: Ask) -> None:
    viewed("CREATE VIEW whole AS SELECT id, v FROM seen")
    frame = viewed("SELECT * FROM whole WHERE id > 7")
    assert ids(frame) == [8, 9]
    assert len(frame.inputFiles()) == 1


def test_a_view_over_other_tables_is_sparks(viewed: Ask, spark: SparkSession, known: TableResolver) -> None:
    plain_sql(spark, "CREATE VIEW plain AS SELECT id FROM range(3)")
    assert run(spark, "SELECT * FROM plain", resolver=known) is None


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * FROM seen VERSION AS OF 0", "a path or a version"),
        ("SELECT id, _metadata.row_id FROM seen", "_metadata"),
    ],
)
def test_what_spark_would_not_keep_is_refused(viewed: Ask, query: str, said: str) -> None:
    with pytest.raises(Unsupported, match=said):
        viewed(f"CREATE VIEW no_view AS {query}")


def test_an_entry_with_older_columns_is_refused(viewed: Ask) -> None:
    viewed("ALTER TABLE seen ADD COLUMN more INT")
    with pytest.raises(Unsupported, match="other columns than its entry"):
        viewed("CREATE VIEW no_view AS SELECT * FROM seen")
