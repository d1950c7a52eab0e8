"""The tables that queries name: found wherever they can stand, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.sql.query.references import ParsedQuery
from holdfast.sql.query.walk import query_of
from holdfast.sql.text import Edit, Statement, applied, statement_of
from tests.support.depth import examples


def walked(text: str) -> tuple[Statement, ParsedQuery]:
    statement = statement_of(text)
    assert statement is not None
    return statement, query_of(statement)


def named(text: str) -> list[str]:
    statement, query = walked(text)
    return [statement.slice(*reference.span) for reference in query.references]


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("SELECT * FROM t", ["t"]),
        ("select a from db.t where b = 1", ["db.t"]),
        ("SELECT * FROM delta.`/a/b`", ["delta.`/a/b`"]),
        ("SELECT * FROM a, b x, c AS y WHERE 1 = 1", ["a", "b", "c"]),
        ("SELECT * FROM a JOIN b ON a.x = b.x LEFT OUTER JOIN c USING (x) CROSS JOIN d", ["a", "b", "c", "d"]),
        ("SELECT * FROM a NATURAL JOIN b LEFT ANTI JOIN c ON a.i = c.i", ["a", "b", "c"]),
        ("SELECT * FROM t VERSION AS OF 3 WHERE a = 1", ["t VERSION AS OF 3"]),
        ("SELECT * FROM t FOR SYSTEM_TIME AS OF '2024-01-01' AS x", ["t FOR SYSTEM_TIME AS OF '2024-01-01'"]),
        (
            "SELECT * FROM t TIMESTAMP AS OF current_timestamp() - INTERVAL 2 HOURS WHERE a",
            ["t TIMESTAMP AS OF current_timestamp() - INTERVAL 2 HOURS"],
        ),
        ("SELECT * FROM t TIMESTAMP AS OF :when x", ["t TIMESTAMP AS OF :when"]),
        ("SELECT * FROM t@v12 z", ["t@v12"]),
        ("SELECT * FROM table_changes('t', 1, 2) c", ["table_changes('t', 1, 2)"]),
        ("SELECT * FROM range(10)", []),
        ("SELECT * FROM f(TABLE(t)), g(rows => TABLE u)", ["t", "u"]),
        ("SELECT * FROM (SELECT * FROM t) x", ["t"]),
        ("SELECT * FROM (a JOIN b ON a.i = b.i) JOIN c", ["a", "b", "c"]),
        ("SELECT (SELECT max(i) FROM u) FROM t WHERE i IN (SELECT i FROM v) AND EXISTS (SELECT 1 FROM w)", [*"utvw"]),
        ("SELECT * FROM a UNION ALL SELECT * FROM b EXCEPT SELECT * FROM c", ["a", "b", "c"]),
        ("SELECT * EXCEPT (x) FROM t", ["t"]),
        ("(SELECT * FROM a) INTERSECT (SELECT * FROM b) ORDER BY 1", ["a", "b"]),
        ("SELECT extract(YEAR FROM d), trim(BOTH ' ' FROM s), substring(s FROM 2) FROM t", ["t"]),
        ("SELECT a IS DISTINCT FROM b FROM t", ["t"]),
        ("SELECT a IS NOT DISTINCT FROM b, c FROM t", ["t"]),
        ("SELECT DISTINCT x FROM t", ["t"]),
        ("SELECT t.from, a AS from FROM t", ["t"]),
        ("FROM t SELECT a WHERE b", ["t"]),
        ("TABLE t", ["t"]),
        ("VALUES (1), ((SELECT max(i) FROM t))", ["t"]),
        ("SELECT * FROM VALUES (1, 2), (3, 4) AS v(a, b), t", ["t"]),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT) x JOIN u", ["t", "u"]),
        ("SELECT * FROM t LATERAL VIEW explode(a) e AS x, y WHERE x = 1", ["t"]),
        ("SELECT * FROM t PIVOT (sum(x) FOR k IN ('a', 'b')) p JOIN u ON 1 = 1", ["t", "u"]),
        ("SELECT * FROM t, LATERAL (SELECT * FROM u WHERE u.i = t.i) x", ["t", "u"]),
        ("SELECT * FROM t |> WHERE a = 1 |> JOIN u ON a = b |> SELECT c", ["t", "u"]),
        ("SELECT left(a, 1), right(b, 2) FROM t WHERE left(a, 1) = 'x'", ["t"]),
        ("SELECT a FROM t GROUP BY a HAVING count(*) > (SELECT 1 FROM u) ORDER BY a LIMIT 3", ["t", "u"]),
        ("SELECT sum(a) OVER w FROM t WINDOW w AS (PARTITION BY b)", ["t"]),
        ("SELECT * FROM IDENTIFIER('db.t')", ["IDENTIFIER('db.t')"]),
        ("SELECT 1", []),
        ("SELECT a FROM t -- FROM nothing\n WHERE x = 'FROM u'", ["t"]),
        ("SELECT /*+ BROADCAST(t) */ a FROM t", ["t"]),
        ("SELECT * FROM `select` s JOIN `weird``name`", ["`select`", "`weird``name`"]),
        ("EXPLAIN FORMATTED SELECT * FROM t", ["t"]),
        ("SELECT CASE WHEN a THEN b END FROM t WHERE CASE WHEN x THEN y ELSE z END", ["t"]),
        ("SELECT transform(xs, x -> x + 1) FROM t", ["t"]),
        ("SELECT map['from'], cast(a AS array<int>) FROM t", ["t"]),
    ],
)
def test_tables_are_found(text: str, tables: list[str]) -> None:
    assert named(text) == tables


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("WITH x AS (SELECT * FROM t) SELECT * FROM x", ["t"]),
        ("WITH x(a) AS (SELECT * FROM t), y AS (SELECT * FROM x) SELECT * FROM y JOIN u", ["t", "u"]),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", ["t"]),  # the inner one is the table
        ("WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT * FROM r) SELECT * FROM r", []),
        ("WITH x AS (SELECT 1) SELECT * FROM db.x", ["db.x"]),
        ("SELECT * FROM (WITH x AS (SELECT * FROM t) SELECT * FROM x) y JOIN x", ["t", "x"]),
        ("WITH x AS (SELECT 1) SELECT * FROM t WHERE a IN (SELECT * FROM x)", ["t"]),
    ],
)
def test_names_that_with_gives_hide_tables(text: str, tables: list[str]) -> None:
    assert named(text) == tables


def test_aliases_and_what_columns_are_qualified_by() -> None:
    _, query = walked("SELECT * FROM a, b x, db.c AS y JOIN db.d ON 1 = 1 TABLESAMPLE (1 ROWS)")
    assert [(r.parts, r.alias, r.qualifier) for r in query.references] == [
        (("a",), None, "a"),
        (("b",), "x", "x"),
        (("db", "c"), "y", "y"),
        (("db", "d"), None, "d"),
    ]


def test_an_alias_goes_behind_a_sample() -> None:
    statement, query = walked("SELECT * FROM t TABLESAMPLE (10 PERCENT) REPEATABLE (3) WHERE a")
    assert statement.upper(query.references[0].alias_at) == "WHERE"


HEADS = ("SELECT *", "SELECT a, b.c", "SELECT /*+ REPARTITION(3) */ DISTINCT x", "SELECT count(*), 'FROM x' AS `from`")
TABLES = ("t", "db.t", "delta.`/p/q r`", "t VERSION AS OF 3", "t@v1", "`o``r`")
ALIASES = ("", " x", " AS y", " -- note\n z")
TAILS = (
    "",
    " WHERE a = 1 AND b BETWEEN 2 AND 3",
    " WHERE x IN (SELECT y FROM {0})",
    " GROUP BY a HAVING max(b) > 1",
    " ORDER BY a /* FROM nothing */ LIMIT 5",
    " LATERAL VIEW explode(m) e AS k, v",
)


@st.composite
def queries(draw: st.DrawFn) -> tuple[str, int]:
    """A query of pieces, with numbered marks where tables stand; and how many."""
    count = 0

    def table() -> str:
        nonlocal count
        count += 1
        return "\x00"

    def block() -> str:
        head = draw(st.sampled_from(HEADS))
        relations = table() + draw(st.sampled_from(ALIASES))
        for _ in range(draw(st.integers(0, 2))):
            joint = draw(st.sampled_from((", ", " JOIN ", " LEFT JOIN ", "\nCROSS JOIN ")))
            inner = f"(SELECT * FROM {table()})" if draw(st.booleans()) else table()
            relations += joint + inner + draw(st.sampled_from(ALIASES))
            if "JOIN" in joint and draw(st.booleans()):
                relations += " ON l.i = r.i"
        tail = draw(st.sampled_from(TAILS))
        return f"{head} FROM {relations}{tail.format(table()) if '{0}' in tail else tail}"

    blocks = [block() for _ in range(draw(st.integers(1, 2)))]
    return draw(st.sampled_from((" UNION ALL ", "\nEXCEPT "))).join(blocks), count


@examples(300)
@given(queries(), st.data())
def test_replacing_tables_leaves_every_other_character(made: tuple[str, int], data: st.DataObject) -> None:
    template, count = made
    tables = [data.draw(st.sampled_from(TABLES)) for _ in range(count)]
    parts = template.split("\x00")
    text = parts[0] + "".join(table + part for table, part in zip(tables, parts[1:], strict=True))
    statement, query = walked(text)
    assert [statement.slice(*r.span) for r in query.references] == tables
    edits = [
        Edit(statement.words[r.span[0]].start, statement.words[r.span[1] - 1].end, "\x00") for r in query.references
    ]
    assert applied(text, edits) == template
