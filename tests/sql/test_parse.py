"""Statements as values: what is read of a text, without Spark and without a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from holdfast.errors import Invalid, TableError, Unsupported
from holdfast.sql.cursor import Cursor, NotUnderstood
from holdfast.sql.statements import alter, describe, insert, maintain, merge, view
from holdfast.sql.statements import create_parse as create
from holdfast.sql.statements import dml as change
from holdfast.sql.text import Statement, statement_of
from holdfast.verbs.define.builder import CreateMode, IdentityGenerator

_PARSERS: dict[str, Callable[[Cursor], Any]] = {
    "ALTER": alter.parse_alter,
    "CONVERT": maintain.parse_convert,
    "CREATE": create.parse_create,
    "DELETE": change.parse_delete,
    "DESC": describe.parse_describe,
    "DESCRIBE": describe.parse_describe,
    "DROP": create.parse_drop,
    "GENERATE": maintain.parse_generate,
    "INSERT": insert.parse_insert,
    "MERGE": merge.parse_merge,
    "OPTIMIZE": maintain.parse_optimize,
    "REORG": maintain.parse_reorg,
    "REPLACE": create.parse_create,
    "RESTORE": maintain.parse_restore,
    "SHOW": describe.parse_show,
    "TRUNCATE": change.parse_truncate,
    "UPDATE": change.parse_update,
    "VACUUM": maintain.parse_vacuum,
}


def parsed(text: str) -> tuple[Any, Cursor]:
    statement = statement_of(text)
    assert statement is not None
    cursor = Cursor(statement)
    head = statement.upper(0)
    parse = view.parse_view if head == "CREATE" and "VIEW" in text.upper().split(" AS ")[0] else _PARSERS[head]
    return parse(cursor), cursor


def told(text: str) -> Any:
    """A statement as plain values: what is a span of words becomes its text, what is not said is left out."""
    asked, cursor = parsed(text)
    return _plain(asked, cursor.statement)


def _plain(value: Any, statement: Statement) -> Any:
    if is_dataclass(value) and not isinstance(value, IdentityGenerator):
        found = {f.name: _plain(getattr(value, f.name), statement) for f in fields(value)}
        return {k: v for k, v in found.items() if v not in (None, False, (), {}, [])}
    if isinstance(value, tuple) and len(value) == 2 and all(type(part) is int for part in value):
        return statement.slice(*value)
    if isinstance(value, tuple) and value and all(isinstance(part, str) for part in value):
        return ".".join(value)
    if isinstance(value, tuple | list):
        return [_plain(part, statement) for part in value]
    if isinstance(value, dict):
        return {_plain(k, statement): _plain(v, statement) for k, v in value.items()}
    return value


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("DELETE FROM t", {"table": "t"}),
        ("delete from db.t where a = 1 and b", {"table": "db.t", "where": "a = 1 and b"}),
        ("DELETE FROM delta.`/p` AS x WHERE x.a = 1", {"table": "delta./p", "alias": "x", "where": "x.a = 1"}),
        ("DELETE FROM t x WHERE x.a IN (SELECT 1)", {"table": "t", "alias": "x", "where": "x.a IN (SELECT 1)"}),
        ("TRUNCATE TABLE t", {"table": "t"}),
        ("UPDATE t SET a = 1", {"table": "t", "sets": [["a", "1"]]}),
        (
            "UPDATE t AS x SET x.a = f(b, c), s.d = CASE WHEN q THEN 1 ELSE 2 END WHERE a > 1",
            {
                "table": "t",
                "alias": "x",
                "sets": [["x.a", "f(b, c)"], ["s.d", "CASE WHEN q THEN 1 ELSE 2 END"]],
                "where": "a > 1",
            },
        ),
        ("INSERT INTO t SELECT 1", {"table": "t", "query": "SELECT 1"}),
        ("INSERT INTO TABLE t VALUES (1, 2)", {"table": "t", "query": "VALUES (1, 2)"}),
        ("INSERT INTO t (a, b) SELECT 1, 2", {"table": "t", "query": "SELECT 1, 2", "columns": "a.b"}),
        ("INSERT INTO t (SELECT 1)", {"table": "t", "query": "(SELECT 1)"}),
        ("INSERT INTO t TABLE s", {"table": "t", "query": "TABLE s"}),
        ("INSERT INTO t BY NAME SELECT 1 AS a", {"table": "t", "query": "SELECT 1 AS a", "by_name": True}),
        ("INSERT OVERWRITE t SELECT 1", {"table": "t", "query": "SELECT 1", "overwrite": True}),
        (
            "INSERT OVERWRITE TABLE t PARTITION (p = 'x', q) SELECT 1",
            {"table": "t", "query": "SELECT 1", "overwrite": True, "partition": {"p": "'x'", "q": None}},
        ),
        (
            "INSERT INTO t REPLACE WHERE a = 1 AND b < 3 SELECT 1",
            {"table": "t", "query": "SELECT 1", "replace_where": "a = 1 AND b < 3"},
        ),
        (
            "INSERT INTO t REPLACE USING (a, `b c`) SELECT 1",
            {"table": "t", "query": "SELECT 1", "replace_using": "a.b c"},
        ),
        (
            "INSERT INTO t AS x REPLACE ON x.a = y.a AND x.b IN (SELECT 1) SELECT 1 AS a",
            {
                "table": "t",
                "query": "SELECT 1 AS a",
                "alias": "x",
                "replace_on": "x.a = y.a AND x.b IN (SELECT 1)",
            },
        ),
        (
            "INSERT INTO t x REPLACE ON (x.a <=> y.a) (SELECT 1 AS a) AS y",
            {"table": "t", "query": "SELECT 1 AS a", "alias": "x", "replace_on": "(x.a <=> y.a)"},
        ),
        ("INSERT WITH SCHEMA EVOLUTION INTO t SELECT 1", {"table": "t", "query": "SELECT 1", "evolves": True}),
    ],
)
def test_changes_of_rows(text: str, asked: dict[str, Any]) -> None:
    assert told(text) == asked


def test_merge_with_every_clause() -> None:
    asked = told(
        """MERGE WITH SCHEMA EVOLUTION INTO db.t AS t USING (SELECT * FROM s WHERE x) AS s ON t.id = s.id
        WHEN MATCHED AND s.gone = CASE WHEN a THEN 1 END THEN DELETE
        WHEN MATCHED THEN UPDATE SET t.a = s.a, b = coalesce(s.b, t.b)
        WHEN NOT MATCHED BY TARGET AND s.id > 0 THEN INSERT (id, a) VALUES (s.id, s.a)
        WHEN NOT MATCHED BY SOURCE AND t.old THEN UPDATE SET a = NULL
        WHEN NOT MATCHED BY SOURCE THEN DELETE"""
    )
    assert asked == {
        "table": "db.t",
        "alias": "t",
        "source": "(SELECT * FROM s WHERE x) AS s",
        "on": "t.id = s.id",
        "evolves": True,
        "clauses": [
            {"kind": "MATCHED", "condition": "s.gone = CASE WHEN a THEN 1 END", "deletes": True},
            {"kind": "MATCHED", "sets": [["t.a", "s.a"], ["b", "coalesce(s.b, t.b)"]]},
            {"kind": "NOT MATCHED", "condition": "s.id > 0", "sets": [["id", "s.id"], ["a", "s.a"]]},
            {"kind": "NOT MATCHED BY SOURCE", "condition": "t.old", "sets": [["a", "NULL"]]},
            {"kind": "NOT MATCHED BY SOURCE", "deletes": True},
        ],
    }


def test_merge_with_stars() -> None:
    asked = told(
        "MERGE INTO t USING s VERSION AS OF 1 ON t.i = s.i WHEN MATCHED THEN UPDATE SET * EXCEPT (a) "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert asked["source"] == "s VERSION AS OF 1"
    assert asked["clauses"] == [{"kind": "MATCHED", "left_out": "a"}, {"kind": "NOT MATCHED"}]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (
            "CREATE TABLE t (a INT)",
            {"mode": CreateMode.CREATE, "columns": [{"name": "a", "type": "INT", "nullable": True}]},
        ),
        ("CREATE TABLE IF NOT EXISTS t USING delta", {"mode": CreateMode.CREATE_IF_NOT_EXISTS, "provider": "delta"}),
        (
            "REPLACE TABLE t USING delta AS SELECT 1",
            {"mode": CreateMode.REPLACE, "provider": "delta", "query": "SELECT 1"},
        ),
        (
            "CREATE OR REPLACE TABLE t USING delta PARTITIONED BY (a, b) COMMENT 'c' LOCATION '/p' AS SELECT 1",
            {
                "mode": CreateMode.CREATE_OR_REPLACE,
                "provider": "delta",
                "partitions": "a.b",
                "comment": "c",
                "location": "/p",
                "query": "SELECT 1",
            },
        ),
        (
            "CREATE TABLE t (a INT) USING delta CLUSTER BY (a, s.b) TBLPROPERTIES ('x.y' = 'z', delta.b = true)",
            {
                "mode": CreateMode.CREATE,
                "columns": [{"name": "a", "type": "INT", "nullable": True}],
                "provider": "delta",
                "clustering": ["a", "s.b"],
                "properties": {"x.y": "z", "delta.b": "true"},
            },
        ),
        ("CREATE TABLE t LIKE db.s", {"mode": CreateMode.CREATE, "like": "db.s"}),
        ("CREATE TABLE t SHALLOW CLONE s", {"mode": CreateMode.CREATE, "clone": {"source": "s", "shallow": True}}),
        (
            "CREATE TABLE t DEEP CLONE s VERSION AS OF 3 LOCATION '/p'",
            {"mode": CreateMode.CREATE, "clone": {"source": "s", "version": "3"}, "location": "/p"},
        ),
        ("CREATE TABLE t (SELECT 1)", {"mode": CreateMode.CREATE, "query": "(SELECT 1)"}),
        (
            "CREATE TABLE t AS (WITH x AS (SELECT 1) SELECT * FROM x)",
            {"mode": CreateMode.CREATE, "query": "(WITH x AS (SELECT 1) SELECT * FROM x)"},
        ),
        (
            "CREATE TABLE t (a INT) PARTITIONED BY (p STRING)",
            {
                "mode": CreateMode.CREATE,
                "columns": [
                    {"name": "a", "type": "INT", "nullable": True},
                    {"name": "p", "type": "STRING", "nullable": True},
                ],
                "partitions": "p",
            },
        ),
    ],
)
def test_create_table(text: str, asked: dict[str, Any]) -> None:
    assert told(text) == {"table": "t", **asked}


def test_columns_say_all_that_can_be_said_of_them() -> None:
    asked = told(
        """CREATE TABLE t (
            id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 5 INCREMENT BY -2) COMMENT 'numbers',
            n BIGINT GENERATED BY DEFAULT AS IDENTITY,
            `odd name` DECIMAL(10, 2) NOT NULL DEFAULT f(1, 2) COMMENT 'it''s',
            m MAP<STRING, ARRAY<STRUCT<a: INT, b: MAP<INT, INT>>>>,
            day DATE GENERATED ALWAYS AS (CAST(ts AS DATE)),
            CONSTRAINT positive CHECK (n > 0 AND id < 5)
        ) USING DELTA"""
    )
    assert asked["columns"] == [
        {
            "name": "id",
            "type": "BIGINT",
            "nullable": True,
            "comment": "numbers",
            "identity": IdentityGenerator(5, -2),
        },
        {"name": "n", "type": "BIGINT", "nullable": True, "identity": IdentityGenerator(), "by_default": True},
        {"name": "odd name", "type": "DECIMAL ( 10 , 2 )", "comment": "it's", "default": "f(1, 2)"},
        {
            "name": "m",
            "type": "MAP < STRING , ARRAY < STRUCT < a : INT , b : MAP < INT , INT > > > >",
            "nullable": True,
        },
        {"name": "day", "type": "DATE", "nullable": True, "generated": "CAST(ts AS DATE)"},
    ]
    assert asked["checks"] == {"positive": "n > 0 AND id < 5"}


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        ("ADD COLUMN a INT", alter.AddColumns(((("a",), create.ColumnDef("a", "INT")),))),
        (
            "ADD COLUMNS (a INT COMMENT 'x' AFTER b, s.c ARRAY<INT> FIRST)",
            alter.AddColumns(
                (
                    (("a",), create.ColumnDef("a", "INT", comment="x")),
                    (("s", "c"), create.ColumnDef("c", "ARRAY < INT >")),
                ),
                {("a",): "b", ("s", "c"): None},
            ),
        ),
        ("DROP COLUMN a", alter.DropColumns((("a",),), False)),
        ("DROP COLUMNS IF EXISTS (a, s.b)", alter.DropColumns((("a",), ("s", "b")), True)),
        ("RENAME COLUMN s.a TO b", alter.RenameColumn(("s", "a"), "b")),
        ("RENAME TO db.u", alter.RenameTo(("db", "u"))),
        ("ALTER COLUMN a TYPE DECIMAL(20, 2)", alter.ChangeColumn(("a",), "DECIMAL ( 20 , 2 )")),
        ("ALTER a COMMENT 'x'", alter.ChangeColumn(("a",), comment="x")),
        ("CHANGE COLUMN a a BIGINT COMMENT 'x' AFTER b", alter.ChangeColumn(("a",), "BIGINT", "x", after="b")),
        ("CHANGE COLUMN a DROP NOT NULL", alter.ChangeColumn(("a",), nullable=True)),
        ("ALTER COLUMN a SET NOT NULL", alter.ChangeColumn(("a",), nullable=False)),
        ("ALTER COLUMN a DROP DEFAULT", alter.ChangeColumn(("a",), drops_default=True)),
        ("ALTER COLUMN a FIRST", alter.ChangeColumn(("a",), first=True)),
        ("SET TBLPROPERTIES (a.b = 1, 'c' = 'd')", alter.SetProperties({"a.b": "1", "c": "d"})),
        ("UNSET TBLPROPERTIES IF EXISTS (a.b, 'c')", alter.UnsetProperties(("a.b", "c"), True)),
        ("DROP CONSTRAINT IF EXISTS c", alter.DropConstraint("c", True)),
        ("CLUSTER BY (a, s.b)", alter.ClusterBy((("a",), ("s", "b")))),
        ("CLUSTER BY NONE", alter.ClusterBy(())),
        ("SET LOCATION '/p'", alter.SetLocation("/p")),
        ("DROP FEATURE deletionVectors", alter.DropFeature("deletionVectors", False)),
        ("DROP FEATURE 'typeWidening-preview' TRUNCATE HISTORY", alter.DropFeature("typeWidening-preview", True)),
        ("ALTER COLUMN a SYNC IDENTITY", alter.SyncIdentity(("a",))),
        (
            "REPLACE COLUMNS (a INT, b MAP<INT, INT> COMMENT 'x')",
            alter.ReplaceColumns(
                (create.ColumnDef("a", "INT"), create.ColumnDef("b", "MAP < INT , INT >", comment="x"))
            ),
        ),
    ],
)
def test_alter_table(change: str, asked: alter.Change) -> None:
    assert parsed(f"ALTER TABLE db.t {change}")[0] == alter.Alter(("db", "t"), asked)


def test_expressions_of_alter_are_slices() -> None:
    added = told("ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0 AND b IN (1, 2))")
    assert added == {"table": "t", "change": {"name": "c", "check": "a > 0 AND b IN (1, 2)"}}
    assert told("ALTER TABLE t ALTER COLUMN a SET DEFAULT now()")["change"]["default"] == "now()"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("OPTIMIZE t", {"table": "t"}),
        ("OPTIMIZE '/p' FULL", {"table": "delta./p", "full": True}),
        (
            "OPTIMIZE t WHERE d >= '2024' ZORDER BY (a, s.b)",
            {"table": "t", "where": "d >= '2024'", "z_order": ["a", "s.b"]},
        ),
        ("OPTIMIZE t ZORDER BY a", {"table": "t", "z_order": ["a"]}),
        ("VACUUM t", {"table": "t"}),
        (
            "VACUUM delta.`/p` LITE RETAIN 0.5 HOURS DRY RUN",
            {"table": "delta./p", "lite": True, "retain": 0.5, "dry_run": True},
        ),
        ("VACUUM t FULL", {"table": "t"}),
        ("RESTORE TABLE t TO VERSION AS OF 3", {"table": "t", "is_version": True, "point": "3"}),
        ("RESTORE t TIMESTAMP AS OF '2024-01-01'", {"table": "t", "point": "'2024-01-01'"}),
        ("REORG TABLE t APPLY (PURGE)", {"table": "t"}),
        ("GENERATE symlink_format_manifest FOR TABLE t", {"table": "t", "mode": "symlink_format_manifest"}),
        (
            "CONVERT TO DELTA parquet.`/p` NO STATISTICS PARTITIONED BY (a INT, b STRING)",
            {"source": "parquet./p", "partitions": "`a` INT, `b` STRING"},
        ),
        ("DESCRIBE HISTORY t LIMIT 3", {"table": "t", "limit": 3}),
        ("DESC DETAIL '/p'", {"table": "delta./p"}),
        ("DESCRIBE HISTORY '/p' LIMIT 2", {"table": "delta./p", "limit": 2}),
        ("DESCRIBE history", {"table": "history"}),
        ("DESCRIBE t", {"table": "t"}),
        ("DESCRIBE TABLE EXTENDED db.t", {"table": "db.t", "extended": True}),
        ("DESC FORMATTED t a", {"table": "t", "extended": True, "column": "a"}),
        ("SHOW TBLPROPERTIES t ('a.b')", {"table": "t", "key": "a.b"}),
        ("SHOW COLUMNS IN t FROM db", {"table": "db.t"}),
        ("SHOW PARTITIONS t", {"table": "t"}),
        ("SHOW CREATE TABLE t", {"table": "t"}),
        ("DROP TABLE IF EXISTS db.t PURGE", {"table": "db.t", "if_exists": True}),
        (
            "CREATE OR REPLACE TEMPORARY VIEW v (a, b) AS SELECT 1, 2",
            {"name": "v", "query": "SELECT 1, 2", "columns": "a.b", "temporary": True, "replaces": True},
        ),
        ("CREATE VIEW v COMMENT 'c' AS SELECT 1", {"name": "v", "query": "SELECT 1"}),
    ],
)
def test_statements_about_whole_tables(text: str, asked: dict[str, Any]) -> None:
    assert told(text) == asked


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE t SET",
        "UPDATE t WHERE a = 1",
        "MERGE INTO t USING s ON a = b",
        "MERGE INTO t USING s ON a = b WHEN NOT MATCHED THEN DELETE",
        "INSERT INTO t",
        "INSERT OVERWRITE DIRECTORY '/p' SELECT 1",
        "INSERT OVERWRITE t REPLACE USING (a) SELECT 1",
        "INSERT INTO t AS x SELECT 1",
        "OPTIMIZE t SOMEHOW",
        "VACUUM t RETAIN many HOURS",
        "ALTER TABLE t DANCE",
        "ALTER TABLE t ALTER COLUMN a",
        "DESCRIBE FUNCTION f",
        "SHOW TABLES",
        "DROP VIEW v",
        "CREATE TABLE t (a INT) STORED AS PARQUET",
    ],
)
def test_what_is_not_understood_is_said_with_its_place(text: str) -> None:
    with pytest.raises(NotUnderstood, match="not understood at"):
        parsed(text)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("ALTER TABLE t REPLACE COLUMNS (a INT NOT NULL)", "ALTER COLUMN"),
        ("ALTER TABLE t ADD PARTITION (p = 1)", "insert"),
        ("ALTER TABLE t CHANGE COLUMN a b INT", "RENAME COLUMN"),
        ("ALTER TABLE t ADD COLUMN a INT NOT NULL", "rows that are there"),
        ("TRUNCATE TABLE t PARTITION (p = 1)", "DELETE"),
        ("VACUUM t USING INVENTORY i", "LITE"),
        ("REORG TABLE t APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))", "publish"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a)) USING delta", "leave it out"),
        ("CREATE TABLE t (a TIMESTAMP) USING delta PARTITIONED BY (years(a))", "GENERATED"),
        ("CREATE TABLE t (a INT) USING delta CLUSTER BY AUTO", "name the columns"),
        ("CREATE TABLE t (a INT) USING delta OPTIONS (x 1)", "TBLPROPERTIES"),
    ],
)
def test_what_cannot_be_done_is_refused_with_what_to_do(text: str, word: str) -> None:
    with pytest.raises(Unsupported, match=word):
        parsed(text)


def test_columns_and_values_of_an_insert_clause_match() -> None:
    with pytest.raises(Invalid, match="2 columns and gives 1"):
        parsed("MERGE INTO t USING s ON a = b WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)")


def test_the_table_is_known_before_what_is_not_understood() -> None:
    statement = statement_of("ALTER TABLE db.t DANCE")
    assert statement is not None
    cursor = Cursor(statement)
    with pytest.raises(TableError):
        alter.parse_alter(cursor)
    assert cursor.table_name == ("db", "t")
