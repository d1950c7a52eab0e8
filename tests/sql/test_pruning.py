"""Whatever is left out of the tables of a query by what is said of them, the answer is the same.

SQLite answers for depth: there each single row is left out that what is said of a table denies. Spark answers for the
tables as they are, with few rows to a file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given
from pyspark.sql import DataFrame, SparkSession

from holdfast.engines.spark.session.unpatched import plain_sql
from holdfast.schema.types import Field, Primitive, Struct
from holdfast.sql.parameters import Parameters
from holdfast.sql.query.conjuncts import Subject, all_of, table_condition
from holdfast.sql.query.pushdown import Pushdown
from holdfast.sql.query.references import Reference
from holdfast.sql.query.walk import query_of
from holdfast.sql.text import Edit, applied, statement_of
from holdfast.table.delta import DeltaTable
from tests.support.depth import examples
from tests.support.querysmith import NUMBER, ROWS, TABLES, Dialect, queries

Ask = Callable[..., DataFrame]
SCHEMAS = {
    name: Struct(tuple(Field(n, Primitive("long" if kind == NUMBER else "string")) for n, kind in columns))
    for name, columns in TABLES.items()
}


@pytest.fixture(scope="module")
def sqlite() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    for name, rows in ROWS.items():
        connection.execute(f"CREATE TABLE {name} ({', '.join(column for column, _ in TABLES[name])})")
        connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)
    yield connection
    connection.close()


def pruned(text: str) -> str:
    """The query with each table in it cut down to the rows that what is said of it leaves."""
    statement = statement_of(text)
    assert statement is not None
    query = query_of(statement)
    handing = Pushdown(statement, query, Parameters(), lambda reference: SCHEMAS[reference.parts[0]])
    edits = []
    for block in query.blocks:
        for at, relation in enumerate(block.relations):
            if (reference := relation.reference) is None:
                continue
            others = {r.qualifier.lower() for r in block.relations if r is not relation and r.qualifier is not None}
            subject = Subject(relation.qualifier or "", SCHEMAS[reference.parts[0]], others, at=at)
            where = all_of(filter(None, (table_condition(said, subject) for said in handing.conditions(block, at))))
            edits.append(_cut(reference, statement.words[reference.span[0]].start, where or "true"))
    return applied(text, edits)


def _cut(reference: Reference, start: int, where: str) -> Edit:
    (name,) = reference.parts
    return Edit(start, start + len(name), f"(SELECT * FROM {name} WHERE {where})")


@examples(150)
@given(queries(Dialect.SQLITE))
@example("SELECT * FROM (SELECT r1.id, r2.k FROM t AS r1 LEFT JOIN u AS r2 ON r1.id = r2.id) q WHERE q.k IS NULL")
@example("SELECT * FROM (SELECT id, k FROM t AS r1 ORDER BY 1, 2 LIMIT 5) q WHERE k = 3")
@example("SELECT * FROM (SELECT id, count(*) OVER () AS k FROM t AS r1) q WHERE id = 3")
@example("WITH c AS (SELECT * FROM t AS r1) SELECT r2.id FROM c r2 JOIN c r3 ON r2.k = r3.k WHERE r2.id = 3")
@example("SELECT * FROM (SELECT k AS id, id AS k FROM t AS r1) q WHERE k = 3 AND id IS NOT NULL")
def test_rows_that_are_left_out_change_no_answer(sqlite: sqlite3.Connection, text: str) -> None:
    less = pruned(text)
    before, after = (sorted(map(repr, sqlite.execute(each))) for each in (text, less))
    assert before == after, less


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, DeltaTable]]:
    """The tables of these queries in files of two rows each, and views of the same rows that are none of ours."""
    made = {}
    for name, rows in ROWS.items():
        schema = ", ".join(f"{column} {'bigint' if kind == NUMBER else 'string'}" for column, kind in TABLES[name])
        plain = spark.createDataFrame(rows, schema)
        plain.createOrReplaceTempView(f"plain_{name}")
        made[name] = (
            DeltaTable.create(spark)
            .location(tmp_path_factory.mktemp("pruning") / name)
            .addColumns(plain.schema)
            .execute()
        )
        made[name].append(plain.repartitionByRange(len(rows) // 2, "id"))
    yield made
    for name in ROWS:
        spark.catalog.dropTempView(f"plain_{name}")


def places(text: str, tables: dict[str, str]) -> str:
    """The query over other tables."""
    statement = statement_of(text)
    assert statement is not None
    edits = [
        Edit(statement.words[r.span[0]].start, statement.words[r.span[1] - 1].end, tables[r.parts[0]])
        for r in query_of(statement).references
    ]
    return applied(text, edits)


@examples(8)
@given(text=queries(Dialect.SPARK))
@example(text="SELECT * FROM (SELECT r1.id, r2.k FROM t AS r1 LEFT JOIN u AS r2 ON r1.id = r2.id) q WHERE q.k IS NULL")
@example(
    text="SELECT r1.id FROM t AS r1 LEFT ANTI JOIN (SELECT * FROM u AS r2) r3 ON r1.id = r3.id AND r3.k > 1 WHERE k = 2"
)
def test_files_that_are_left_out_change_no_answer(
    ask: Ask, spark: SparkSession, tables: dict[str, DeltaTable], text: str
) -> None:
    ours = ask(places(text, {name: path(table) for name, table in tables.items()}))
    plain = plain_sql(spark, places(text, {name: f"plain_{name}" for name in tables}))
    assert sorted(map(repr, ours.collect())) == sorted(map(repr, plain.collect()))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("SELECT v FROM (SELECT id, v FROM t) x WHERE x.id = 5", "id = 5"),
        ("WITH x AS (SELECT * FROM t WHERE k = 1) SELECT * FROM x WHERE id > 9", "k = 1 AND id > 9"),
        ("SELECT k, count(*) FROM (SELECT id AS k FROM t) GROUP BY k HAVING k > 0", None),
        ("SELECT * FROM (SELECT id, count(*) c FROM t GROUP BY id) WHERE id < 4", "id < 4"),
        ("SELECT * FROM (SELECT id, k FROM t UNION ALL SELECT id, k FROM t WHERE k = 2) WHERE id = 7", "id = 7"),
        (
            "SELECT a.v FROM (SELECT * FROM t) a JOIN (SELECT id AS i FROM t) b ON a.id = b.i WHERE a.id = 3 AND i = 3",
            "id = 3",
        ),
        ("SELECT * FROM (t r JOIN range(30) n ON r.id = n.id) WHERE r.id IN (4, 5)", "id IN (4, 5)"),
        ("SELECT v FROM t AS x(a, b, v) WHERE a = 5", "id = 5"),
        ("SELECT * FROM range(9) WHERE id IN (SELECT i FROM (SELECT id AS i FROM t) WHERE i < 3)", "id < 3"),
        ("SELECT rid FROM (SELECT _metadata.row_id AS rid FROM t) WHERE rid = 5", "id = 5"),
        (
            "WITH x AS (SELECT * FROM t) SELECT * FROM x WHERE id = 1 UNION ALL SELECT * FROM x WHERE id > 18",
            "id = 1 OR id > 18",
        ),
    ],
)
def test_no_more_files_are_read_than_by_a_scan(
    ask: Ask, tables: dict[str, DeltaTable], text: str, where: str | None
) -> None:
    got = ask(places(text, {"t": path(tables["t"])}))
    scanned = tables["t"].scan(where=where) if where else tables["t"].scan()
    assert files(got) == files(scanned)


def test_conditions_on_views_leave_out_files(ask: Ask, spark: SparkSession, tables: dict[str, DeltaTable]) -> None:
    ask(f"CREATE OR REPLACE TEMP VIEW some AS SELECT id AS i, k FROM {path(tables['t'])} WHERE id < 12")
    ask("CREATE OR REPLACE TEMP VIEW fewer (a, b) AS SELECT k, i FROM some WHERE k IS NOT NULL")
    got = ask("SELECT b FROM (SELECT * FROM fewer) x WHERE x.b > 5 AND a > 0")
    assert sorted(row.b for row in got.collect()) == [6, 7, 8, 9, 11]
    assert files(got) == files(tables["t"].scan(where="id < 12 AND id > 5 AND k > 0"))
    ask(f"CREATE OR REPLACE TEMP VIEW some AS SELECT id, INTERVAL '1' DAY AS d FROM {path(tables['t'])}")
    assert ask("SELECT id FROM some WHERE id = 5").collect() == [(5,)]
    for view in ("some", "fewer"):
        spark.catalog.dropTempView(view)


def files(frame: DataFrame) -> set[str]:
    return {file.rsplit("/", 1)[1] for file in frame.inputFiles()}


def path(table: DeltaTable) -> str:
    return f"delta.`{table.handle.newest().snapshot.location.url.removeprefix('file://')}`"
