"""Queries on Spark: the rows that Spark would give, from no more files than a scan with the same condition reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import NotATable, Unsupported
from holdfast.sql.resolver import TableResolver
from holdfast.sql.run import run
from holdfast.table.delta import DeltaTable

Ask = Callable[..., DataFrame]


@pytest.fixture(scope="module")
def orders(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DeltaTable:
    """Three files of ten orders each, one per commit; then the feed is turned on and an order is deleted."""
    table = (
        DeltaTable.create(spark)
        .location(tmp_path_factory.mktemp("sql") / "orders {1}")
        .addColumn("id", "bigint")
        .addColumn("name", "string")
        .addColumn("day", "date")
        .execute()
    )
    for start in (0, 10, 20):
        day = "date'2024-01-01' + cast(id div 10 as int)"
        table.append(spark.range(start, start + 10).selectExpr("id", "concat('n', id) name", f"{day} day").coalesce(1))
    table.setProperties({"delta.enableChangeDataFeed": "true"})
    table.delete("id = 29")
    return table


@pytest.fixture
def name(orders: DeltaTable) -> str:
    return f"delta.`{orders.handle.newest().snapshot.location.url.removeprefix('file://')}`".replace("%20", " ")


def ids(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.collect())


@pytest.mark.parametrize(
    ("where", "expected", "files"),
    [
        ("id = 15", [15], 1),
        ("t.id < 3 AND name <> 'n1'", [0, 2], 1),
        ("id IN (1, 25) -- {braces}", [1, 25], 2),
        ("day = '2024-01-02' AND id > 17", [18, 19], 1),
        ("length(name) = 2 AND id < 30", list(range(10)), 3),
    ],
)
def test_conditions_leave_out_files(
    ask: Ask, orders: DeltaTable, name: str, where: str, expected: list[int], files: int
) -> None:
    got = ask(f"SELECT /*+ COALESCE(1) */ id FROM {name} AS t WHERE {where}")
    assert ids(got) == expected
    scanned = orders.scan(where=where.replace("t.", "").split(" --")[0])
    assert len(got.inputFiles()) <= len(scanned.inputFiles())
    assert len(got.inputFiles()) == files


@pytest.mark.connect
def test_a_table_can_stand_anywhere(ask: Ask, spark: SparkSession, name: str) -> None:
    spark.range(5).selectExpr("id", "id * 10 AS tens").createOrReplaceTempView("tens")
    joined = ask(
        f"""WITH few AS (SELECT * FROM {name} WHERE id < :top)
        SELECT f.id FROM few f JOIN tens ON f.id = tens.id
        UNION ALL SELECT max(id) FROM {name} VERSION AS OF 1
        UNION ALL SELECT id FROM {{more}} WHERE id IN (SELECT id FROM {name} WHERE id = 21)""",
        {"top": 3},
        more=spark.range(20, 25),
    )
    assert ids(joined) == [0, 1, 2, 9, 21]
    spark.catalog.dropTempView("tens")


def test_versions(ask: Ask, orders: DeltaTable, name: str) -> None:
    path = name.removeprefix("delta.`").removesuffix("`")
    written = {row["version"]: row["timestamp"].isoformat() for row in orders.historyArrow().to_pylist()}
    for text, count in (
        (f"{name} VERSION AS OF 2", 20),
        (f"{name}@v1", 10),
        (f"delta.`{path}@v3`", 30),
        (f"{name} TIMESTAMP AS OF '{written[2]}' AS t", 20),
        (f"{name} TIMESTAMP AS OF CAST('{written[1]}' AS TIMESTAMP) + INTERVAL 0 SECONDS", 10),
    ):
        assert ask(f"SELECT count(*) FROM {text}").first() == (count,), text


def test_columns_are_qualified_as_before(ask: Ask, name: str) -> None:
    whole = name.split(".", 1)[1]
    got = ask(f"SELECT {name}.id, {whole}.name FROM {name} WHERE {name}.id = 4")
    assert got.collect() == [(4, "n4")]
    assert len(got.inputFiles()) == 1


@pytest.mark.connect
def test_metadata_is_given_where_it_is_named(ask: Ask, name: str) -> None:
    row = ask(f"SELECT *, _metadata.row_id, t._metadata.file_name FROM {name} t WHERE _metadata.row_id = 12").first()
    assert row is not None
    assert (row.id, row.row_id, row.file_name.endswith(".parquet")) == (12, 12, True)
    assert ask(f"SELECT t.* EXCEPT (day), _metadata.row_index FROM {name} t LIMIT 1").columns == [
        "id",
        "name",
        "row_index",
    ]
    with pytest.raises(Unsupported, match="file_owner"):
        ask(f"SELECT _metadata.file_owner FROM {name}")


def test_the_change_feed(ask: Ask, orders: DeltaTable, name: str) -> None:
    path, version = name.removeprefix("delta.`").removesuffix("`"), orders.version
    for call in (f"table_changes_by_path('{path}', {version})", f"table_changes('{name}', {version}, {version})"):
        assert ask(f"SELECT id, c._change_type FROM {call} c WHERE id > 1").collect() == [(29, "delete")]


def test_what_is_not_ours_is_left_alone(spark: SparkSession, known: TableResolver) -> None:
    for text in ("SELECT 1", "SHOW TABLES", "SELECT * FROM range(3)", "SET x = 1", "SELECT 'open", "", "DROP VIEW v"):
        assert run(spark, text, resolver=known) is None


def test_what_is_not_there_is_told(ask: Ask, tmp_path: Path) -> None:
    with pytest.raises(NotATable):
        ask(f"SELECT * FROM delta.`{tmp_path}/nothing`")
    with pytest.raises(NotATable, match="no Delta table"):
        ask("OPTIMIZE nobody")


def test_views_read_the_newest_rows_and_leave_out_files(
    ask: Ask, spark: SparkSession, name: str, known: TableResolver
) -> None:
    ask(f"CREATE OR REPLACE TEMP VIEW seen AS SELECT * FROM {name} AS t")
    got = ask("SELECT id FROM seen WHERE seen.id = 15")
    assert (ids(got), len(got.inputFiles())) == ([15], 1)
    ask(f"CREATE OR REPLACE TEMPORARY VIEW seen (n) AS SELECT count(*) FROM {name}")
    assert ask("SELECT n FROM seen").first() == (29,)
    assert run(spark, "CREATE OR REPLACE TEMP VIEW seen AS SELECT 1 AS one", resolver=known) is None
    assert known.view(spark, ("seen",)) is None
    spark.catalog.dropTempView("seen")
    with pytest.raises(Unsupported, match="TEMPORARY VIEW"):
        ask(f"CREATE VIEW lasting AS SELECT * FROM {name}")


def test_other_formats_are_made_of_ours(ask: Ask, spark: SparkSession, name: str) -> None:
    ask(f"CREATE TABLE copied USING parquet AS SELECT id FROM {name} WHERE id < 5")
    ask(f"WITH x AS (SELECT id FROM {name} WHERE id = 9) INSERT INTO copied SELECT * FROM x")
    assert ids(spark.table("copied")) == [0, 1, 2, 3, 4, 9]
