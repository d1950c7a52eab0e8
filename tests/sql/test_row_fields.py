"""`_metadata` in what changes rows, and EXPLAIN of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.errors import Invalid, Unsupported
from holdfast.schema.types import Field, Primitive, Struct
from holdfast.sql.query.metadata import with_metadata_columns
from holdfast.sql.resolver import TableResolver
from holdfast.sql.run import run
from holdfast.table.delta import DeltaTable

Ask = Callable[..., DataFrame]
PLAIN = Struct((Field("id", Primitive("long")),))


@pytest.mark.parametrize(
    ("text", "native"),
    [
        ("_metadata.row_id = 5", "_row_id = 5"),
        ("id = 1 AND T._METADATA.`row_commit_version` > 2 -- yes", "id = 1 AND T._row_commit_version > 2 -- yes"),
        ("t._metadata.file_path IN ('_metadata.row_id')", "t._file IN ('_metadata.row_id')"),
        ("t._metadata.file_name = 'a'", "element_at(split(t._file, '/'), -1) = 'a'"),
        ("s._metadata.row_id = t._metadata.row_index", "s._metadata.row_id = t._row_index"),  # s is somebody else
        ("id IN (SELECT _metadata.row_id FROM u)", "id IN (SELECT _metadata.row_id FROM u)"),
        ("my_metadata = 1", "my_metadata = 1"),
    ],
)
def test_fields_become_columns(text: str, native: str) -> None:
    assert with_metadata_columns(text, lambda: PLAIN, "t") == native


def test_what_is_no_field_is_refused() -> None:
    for text in ("_metadata.nothing = 1", "_metadata IS NULL", "t._metadata.row_id.x = 1"):
        with pytest.raises(Invalid, match="row_commit_version"):
            with_metadata_columns(text, lambda: PLAIN, "t")
    own = Struct((*PLAIN.fields, Field("_row_id", Primitive("long"))))
    with pytest.raises(Unsupported, match="rename"):
        with_metadata_columns("_metadata.row_id = 1", lambda: own)
    taken = Struct((*PLAIN.fields, Field("_metadata", Primitive("string"))))
    assert with_metadata_columns("_metadata.row_id = 1", lambda: taken) == "_metadata.row_id = 1"


@pytest.fixture
def boats(ask: Ask, spark: SparkSession, known: TableResolver) -> str:
    """Two files of three boats each."""
    run(spark, "DROP TABLE IF EXISTS boats", resolver=known)
    ask("CREATE TABLE boats (id BIGINT, crew INT) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    for first in (0, 3):
        ask(f"INSERT INTO boats SELECT id, 1 FROM range({first}, {first + 3}, 1, 1)")
    return "boats"


def crews(ask: Ask) -> dict[int, int]:
    return {row.id: row.crew for row in ask("SELECT id, crew FROM boats").collect()}


def test_rows_are_changed_by_their_ids(ask: Ask, boats: str) -> None:
    done = ask(
        "UPDATE boats SET crew = _metadata.row_commit_version + 10 WHERE boats._metadata.row_id = :id", {"id": 4}
    )
    assert done.collect() == [(1,)]
    ask("DELETE FROM sqltests.boats WHERE sqltests.boats._metadata.row_id IN (0, 5)")
    ask(
        """MERGE INTO boats b USING (SELECT explode(array(1, 2)) AS rid) s ON b._metadata.row_id = s.rid
        WHEN MATCHED AND b._metadata.row_id = 1 THEN UPDATE SET crew = 7
        WHEN MATCHED THEN DELETE"""
    )
    assert crews(ask) == {1: 7, 3: 1, 4: 12}


def test_rows_are_changed_by_their_file(ask: Ask, boats: str) -> None:
    file = ask("SELECT _metadata.file_name AS f FROM boats WHERE id = 4").collect()[0].f
    ask("UPDATE boats SET crew = 2 WHERE _metadata.file_name = :file", {"file": file})
    assert crews(ask) == {0: 1, 1: 1, 2: 1, 3: 2, 4: 2, 5: 2}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("DELETE FROM boats WHERE id = 4", ["DELETE: 1 deleted", "files searched: 1"]),
        ("UPDATE boats b SET b.crew = 3 WHERE b._metadata.row_id < 2", ["UPDATE: 2 updated", "files searched: 1"]),
        (
            "WITH s AS (SELECT id FROM range(4, 8)) MERGE INTO boats USING s ON boats.id = s.id "
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
            ["MERGE: 2 deleted, 2 inserted"],
        ),
    ],
)
def test_changes_are_explained_and_not_made(ask: Ask, boats: str, text: str, lines: list[str]) -> None:
    answer = ask(f"EXPLAIN {text}")
    assert answer.columns == ["plan"]
    ((plan,),) = answer.collect()
    assert all(line in plan for line in lines), plan
    assert len(crews(ask)) == 6
    assert ask("DESCRIBE HISTORY boats").count() == 3


def test_queries_are_explained_by_spark(ask: Ask, spark: SparkSession, boats: str) -> None:
    ((plan,),) = ask("EXPLAIN FORMATTED WITH b AS (SELECT id FROM boats) SELECT * FROM b WHERE id = 4").collect()
    assert "Scan parquet" in plan
    with pytest.raises(Unsupported, match="explain the query"):
        ask("EXPLAIN INSERT INTO boats SELECT 1, 2")


def test_columns_of_dataframes_are_read(ask: Ask, boats: str) -> None:
    table = DeltaTable.forName(ask("SELECT 1 FROM boats").sparkSession, "sqltests.boats")
    condition = with_metadata_columns(F.col("_metadata.row_id") == 3, lambda: table.handle.newest().snapshot.schema)
    table.delete(condition)
    assert sorted(crews(ask)) == [0, 1, 2, 4, 5]
