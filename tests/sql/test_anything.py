"""Whatever is written: nothing but a refusal comes of it, and no table is found outside of the text."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.errors import TableError
from holdfast.schema.types import Field, Primitive, Struct
from holdfast.sql.cursor import Cursor
from holdfast.sql.parameters import Parameters
from holdfast.sql.query.conjuncts import Subject, conditions, table_condition
from holdfast.sql.query.pushdown import Pushdown
from holdfast.sql.query.walk import expression_of, query_of, relation_of
from holdfast.sql.statements import alter, describe, insert, maintain, merge, view
from holdfast.sql.statements import create_parse as create
from holdfast.sql.statements import dml as change
from holdfast.sql.text import statement_of
from tests.support.depth import examples

VOCABULARY = """
    SELECT FROM WHERE JOIN LEFT ON USING WITH AS OF VERSION TIMESTAMP FOR UNION EXCEPT GROUP ORDER BY LIMIT VALUES TABLE
    LATERAL VIEW TABLESAMPLE PIVOT INTERVAL DELETE UPDATE SET INSERT INTO OVERWRITE MERGE WHEN MATCHED NOT THEN CREATE
    REPLACE ALTER COLUMN COLUMNS ADD DROP RENAME TO PARTITION PARTITIONED CLUSTER TBLPROPERTIES LOCATION COMMENT DEFAULT
    GENERATED ALWAYS IDENTITY OPTIMIZE VACUUM RETAIN HOURS RESTORE DESCRIBE HISTORY SHOW CASE END BETWEEN AND OR IN
    EXISTS IF LIKE CLONE SHALLOW CHECK CONSTRAINT FIRST AFTER APPLY ZORDER OPTIONS t a db.t delta.`/p` x.y.z 's' 1 1.5
    , , = < > * . @ v1 :p ? |> :: - + INT STRUCT table_changes IDENTIFIER _metadata
"""
PHRASES = st.recursive(
    st.sampled_from(VOCABULARY.split()),
    lambda inner: st.lists(inner, max_size=5).map(lambda parts: f"( {' '.join(parts)} )"),
    max_leaves=20,
)
PARSERS = (
    *(alter.parse_alter, change.parse_delete, change.parse_update, change.parse_truncate, create.parse_create),
    *(create.parse_drop, describe.parse_describe, describe.parse_show, insert.parse_insert, maintain.parse_optimize),
    *(maintain.parse_vacuum, maintain.parse_restore, maintain.parse_convert, maintain.parse_generate),
    *(merge.parse_merge, view.parse_view),
)
HEADS = (
    *("ALTER TABLE t", "DELETE FROM t", "UPDATE t SET", "CREATE TABLE t", "CREATE OR REPLACE TEMP VIEW v", "SHOW"),
    *("INSERT INTO t", "OPTIMIZE t", "VACUUM t", "RESTORE t", "MERGE INTO t USING s ON a WHEN", "DESCRIBE", "SELECT"),
    *("CONVERT TO DELTA", "SELECT * FROM t WHERE", "WITH x AS (SELECT 1)", "DROP TABLE"),
)
COLUMNS = Struct((Field("a", Primitive("long")), Field("t", Primitive("string"))))
SUBJECT = Subject("t", COLUMNS, ("a",))


@examples(300)
@given(st.sampled_from(HEADS), st.lists(PHRASES, max_size=14))
@example("WITH x AS ( )", ["SELECT", "*", "FROM", "x"])  # queries of nothing
@example("SELECT * FROM t WHERE", ["a", "IN", "( ( WITH x AS ( ) TABLE x ) UNION ( ) )"])
def test_whatever_is_written_is_read_or_refused(head: str, words: list[str]) -> None:
    statement = statement_of(" ".join((head, *words)))
    assert statement is not None
    size = len(statement.words)
    for query in (query_of(statement), relation_of(statement, (0, size)), expression_of(statement, (0, size))):
        for reference in query.references:
            assert 0 <= reference.span[0] < reference.span[1] <= size
            assert reference.parts
        handing = Pushdown(statement, query, Parameters({"p": 1}), lambda _: COLUMNS)
        for block in query.blocks:
            for at in range(len(block.relations)):
                assert all(first <= last <= size for first, last in conditions(statement, block, at))
                for said in handing.conditions(block, at):
                    table_condition(said, SUBJECT)
    for parse in PARSERS:
        try:
            parse(Cursor(statement))
        except TableError:
            continue
