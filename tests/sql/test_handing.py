"""What is said of a table by the blocks around the one that reads it: handed on where certain, and nowhere else."""

from __future__ import annotations

import pytest

from holdfast.schema.ddl import parse_type
from holdfast.schema.types import Struct
from holdfast.sql.parameters import Parameters
from holdfast.sql.query.conjuncts import Subject, condition_of, table_condition
from holdfast.sql.query.pushdown import Pushdown
from holdfast.sql.query.references import Reference
from holdfast.sql.query.walk import query_of
from holdfast.sql.text import statement_of


def struct(text: str) -> Struct:
    parsed = parse_type(f"struct<{text}>")
    assert isinstance(parsed, Struct)
    return parsed


TABLES = {
    "t": struct("id:bigint, name:string, x:double, s:struct<a:int,b:int>, date:date"),
    "u": struct("i:bigint, k:string"),
    "v": struct("id:bigint, name:string, x:double, s:struct<a:int,b:int>, date:date"),
    "w": struct("id:string, z:int"),
}


def columns(reference: Reference) -> Struct | None:
    return TABLES.get(reference.parts[-1])


def told(text: str, table: str = "t", view: tuple[str, ...] = (), where: str = "") -> list[str]:
    """What is understood of the first table of a name; `where` is said of the rows of the query as a whole."""
    statement, around = statement_of(text), statement_of(where)
    assert statement is not None
    assert around is not None
    said = condition_of(around, (0, len(around.words)), Parameters())
    query = query_of(statement, columns=view)
    handing = Pushdown(statement, query, Parameters(), columns, [said] if said else [])
    for block in query.blocks:
        for at, relation in enumerate(block.relations):
            if relation.reference is None or relation.reference.parts[-1] != table:
                continue
            others = {r.qualifier.lower() for r in block.relations if r is not relation and r.qualifier is not None}
            subject = Subject(relation.qualifier or "", TABLES[table], others, at=at, aliases=relation.columns)
            return [one for each in handing.conditions(block, at) if (one := table_condition(each, subject))]
    raise AssertionError(f"no table called {table}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT * FROM (SELECT id, name FROM t) x WHERE x.id = 5", ["`id` = 5"]),
        ("SELECT * FROM (SELECT id, name FROM t) WHERE id = 5", ["`id` = 5"]),
        ("SELECT * FROM (SELECT id AS k, -id AS id FROM t) x WHERE k = 5 AND x.id = 6", ["`id` = 5"]),
        ("SELECT * FROM (SELECT id k FROM t) x WHERE k = 5 AND name = 'a'", ["`id` = 5"]),
        ("SELECT * FROM (SELECT * FROM t WHERE x > 1) x WHERE id BETWEEN 1 AND 5", ["`x` > 1", "`id` BETWEEN 1 AND 5"]),
        ("SELECT * FROM (SELECT a.* EXCEPT (id) FROM t a) b WHERE id = 1 AND name = 'a'", ["`name` = 'a'"]),
        ("SELECT * FROM (SELECT *, x AS y FROM t) b WHERE y = 1 AND id = 2", ["`x` = 1", "`id` = 2"]),
        ("SELECT * FROM (SELECT id, name FROM t) x(a, b) WHERE a = 5 AND x.b = 'q'", ["`id` = 5", "`name` = 'q'"]),
        (
            "SELECT * FROM (SELECT * FROM t) q(name, id, c, d, e) WHERE name = 5 AND id = 'z'",
            ["`id` = 5", "`name` = 'z'"],
        ),
        ("SELECT * FROM (SELECT s AS r FROM t) q WHERE r.a = 1 AND q.r.b = 2", ["`s`.`a` = 1", "`s`.`b` = 2"]),
        (
            "SELECT * FROM (SELECT s.a AS c, date FROM t) q WHERE c = 1 AND date = '2024-01-01'",
            ["`s`.`a` = 1", "`date` = '2024-01-01'"],
        ),
        ("SELECT * FROM ((SELECT id FROM t)) q WHERE id = 1", ["`id` = 1"]),
        (
            "SELECT * FROM (SELECT id FROM (SELECT id AS id, x FROM t) a WHERE x = 2) b WHERE id = 1",
            ["`x` = 2", "`id` = 1"],
        ),
        ("SELECT * FROM (SELECT DISTINCT id FROM t ORDER BY id) q WHERE id = 1", ["`id` = 1"]),
        ("SELECT * FROM (SELECT id, count(*) c FROM t GROUP BY id) q WHERE id = 1 AND c = 2", ["`id` = 1"]),
        ("SELECT * FROM (SELECT id AS k, max(x) m FROM t GROUP BY ALL HAVING m > 1) q WHERE k = 1", ["`id` = 1"]),
        ("SELECT * FROM (SELECT id, explode(array(1, 2)) AS e FROM t) q WHERE id = 1", ["`id` = 1"]),
        ("SELECT * FROM (SELECT t.id FROM t LEFT JOIN u ON t.id = u.i) q WHERE id = 1", ["`id` = 1"]),
        ("SELECT * FROM (SELECT * FROM t JOIN range(5) r ON r.id = t.x) q WHERE name = 'a'", ["`name` = 'a'"]),
        ("SELECT * FROM u LEFT JOIN (SELECT id FROM t) q ON q.id = u.i AND q.id > 3", ["`id` > 3"]),
        ("SELECT * FROM u LEFT SEMI JOIN (SELECT id FROM t) q ON q.id = u.i AND q.id > 3", ["`id` > 3"]),
        ("SELECT * FROM u WHERE i IN (SELECT id FROM (SELECT id FROM t) q WHERE id > 3)", ["`id` > 3"]),
        (
            "SELECT * FROM (t JOIN u ON t.x = 2) WHERE t.id = 1 AND u.k = 'b' AND name = 'a'",
            ["`x` = 2", "`id` = 1", "`name` = 'a'"],
        ),
        ("SELECT * FROM (t JOIN u) q WHERE q.id = 1 AND i = 2", ["`id` = 1"]),
        ("SELECT * FROM t AS q(a, id, c, d, e) WHERE a = 5 AND id = 'b' AND x = 1", ["`id` = 5", "`name` = 'b'"]),
    ],
)
def test_queries_between_brackets_take_conditions(text: str, said: list[str]) -> None:
    assert told(text) == said


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM (SELECT id FROM t LIMIT 5) q WHERE id = 1",
        "SELECT * FROM (SELECT id FROM t OFFSET 5) q WHERE id = 1",
        "SELECT * FROM (SELECT id FROM t UNION ALL SELECT id FROM v LIMIT 3) q WHERE id = 1",
        "SELECT * FROM ((SELECT id FROM t) UNION ALL (SELECT id FROM v) LIMIT 3) q WHERE id = 1",
        "SELECT * FROM (SELECT id, row_number() OVER (ORDER BY x) n FROM t) q WHERE id = 1",
        "SELECT * FROM (SELECT id, coalesce(sum(x) OVER w, 0) n FROM t WINDOW w AS (ORDER BY x)) q WHERE id = 1",
        "SELECT * FROM (SELECT id FROM t QUALIFY row_number() OVER (ORDER BY x) = 1) q WHERE id = 1",
        "SELECT * FROM (SELECT id, monotonically_increasing_id() m FROM t) q WHERE id = 1",
        "SELECT * FROM (SELECT id FROM t WHERE rand() < 0.5) q WHERE id = 1",
        "SELECT * FROM (SELECT id, count(*) FROM t GROUP BY id WITH ROLLUP) q WHERE id = 1",
        "SELECT * FROM (SELECT id, count(*) FROM t GROUP BY CUBE (id, name)) q WHERE id = 1",
        "SELECT * FROM (SELECT id, count(*) FROM t GROUP BY id GROUPING SETS ((id), ())) q WHERE id IS NULL",
        "SELECT * FROM (SELECT id FROM t TABLESAMPLE (5 ROWS)) q WHERE id = 1",
        "SELECT * FROM (SELECT id FROM t) TABLESAMPLE (5 ROWS) q WHERE id = 1",
        "FROM t SELECT id WHERE id = 1 SELECT id WHERE id = 2",
        "SELECT * FROM (SELECT id FROM t |> LIMIT 3) q WHERE id = 1",
        "SELECT * FROM (FROM t |> WHERE x = 1 |> SELECT id) q WHERE id = 1",
        "SELECT * FROM (SELECT max(id) AS id FROM t) q WHERE id = 1",
        "SELECT * FROM (SELECT id + 1 AS id FROM t) q WHERE id = 1",
        "SELECT * FROM (SELECT cast(id AS int) FROM t) q WHERE id = 1",
        "SELECT * FROM (SELECT t.id FROM u LEFT JOIN t ON t.id = u.i) q WHERE id = 1",
        "SELECT * FROM u LEFT JOIN (SELECT id FROM t) q ON q.id = u.i WHERE q.id = 1",
        "SELECT * FROM u FULL JOIN (SELECT id FROM t) q ON q.id = u.i AND q.id = 1",
        "SELECT * FROM u, LATERAL (SELECT id FROM t) q WHERE q.id = 1",
        "SELECT * FROM (SELECT id FROM t) q JOIN u ON true WHERE q.id = u.i AND u.id = 1",
        "SELECT * FROM (SELECT id FROM t) q WHERE 1 = 0",
        "SELECT * FROM (SELECT id FROM t) q WHERE id = 1 OR EXISTS (SELECT 1 FROM u WHERE i = id)",
        "SELECT * FROM (SELECT id FROM t UNION ALL SELECT 1) q WHERE id = 1",  # who knows the type
        "SELECT * FROM (SELECT id FROM t UNION ALL SELECT id FROM w) q WHERE id < '5'",  # numbers become strings
        "SELECT * FROM (SELECT id, x FROM t UNION ALL SELECT *, 1 FROM range(3)) q WHERE x = 1",
        "SELECT * FROM (SELECT * FROM t JOIN v) q WHERE id = 1",  # ambiguous
        "SELECT * FROM (SELECT id FROM t) q(a, b) WHERE a = 1",  # not as many
        "SELECT * FROM (SELECT * FROM t JOIN range(3)) q(a, b, c, d, e, f) WHERE a = 1",  # where is which
        "WITH RECURSIVE q AS (SELECT id FROM t UNION ALL SELECT id + 1 FROM q) SELECT * FROM q WHERE id = 1",
        "WITH q AS (SELECT id FROM t) SELECT * FROM q WHERE id = 1 UNION ALL SELECT * FROM q",
        "WITH q AS (SELECT id FROM t) SELECT * FROM q WHERE id = 1 UNION ALL TABLE q",
        "WITH q AS (SELECT id FROM t) SELECT * FROM q WHERE id = 1 UNION ALL SELECT * FROM IDENTIFIER(:x)",
        "WITH q AS (SELECT id FROM t) SELECT * FROM q WHERE id = 1 UNION ALL SELECT * FROM IDENTIFIER('q')",
        "WITH q AS (SELECT id FROM t) SELECT * FROM q, f(TABLE(q)) WHERE q.id = 1",
        "WITH q AS (SELECT id FROM t) SELECT * FROM (WITH q AS (SELECT 1 AS id) SELECT * FROM q) a, q WHERE q.id = 1",
        "WITH q AS (SELECT id FROM t) SELECT 1",
        "SELECT * FROM (w JOIN t USING (id)) WHERE id < '5'",  # a string of the one, a number of the other
    ],
)
def test_what_is_not_certain_is_left_alone(text: str) -> None:
    assert told(text) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("WITH q AS (SELECT * FROM t WHERE x = 1) SELECT * FROM q WHERE id > 9", ["`x` = 1", "`id` > 9"]),
        ("WITH q(a) AS (SELECT id FROM t) SELECT * FROM q y WHERE y.a > 9", ["`id` > 9"]),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t WHERE id > 9", ["`id` > 9"]),
        (
            "WITH a AS (SELECT id FROM t), b AS (SELECT id k FROM a WHERE id < 50) SELECT * FROM b WHERE k > 9",
            ["`id` < 50", "`id` > 9"],
        ),
        ("WITH q AS (SELECT id FROM t) SELECT * FROM u WHERE i IN (SELECT id FROM q WHERE id = 3)", ["`id` = 3"]),
        (
            "WITH q AS (SELECT id, x FROM t) "
            "SELECT * FROM q WHERE id = 1 AND x = 2 UNION ALL SELECT * FROM q WHERE id = 3",
            ["((`id` = 1) AND (`x` = 2)) OR ((`id` = 3))"],
        ),
        (
            "WITH q AS (SELECT * FROM t) "
            "SELECT * FROM q a JOIN q b ON a.id = b.x WHERE a.id = 1 AND b.id = 2 AND b.k = 3",
            ["((`id` = 1)) OR ((`id` = 2))"],
        ),
        (
            "WITH q AS (SELECT * FROM t), r AS (SELECT * FROM q UNION ALL SELECT * FROM q WHERE x = 1) "
            "SELECT * FROM r WHERE id = 2",
            ["((`id` = 2)) OR ((`x` = 1) AND (`id` = 2))"],
        ),
    ],
)
def test_names_of_with_take_what_their_readers_say(text: str, said: list[str]) -> None:
    assert told(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT id, name FROM t UNION ALL SELECT id, name FROM v", ["`id` = 1"]),
        ("SELECT * FROM v UNION SELECT id, name, x, s, date FROM t", ["`id` = 1"]),
        ("SELECT id FROM v INTERSECT (SELECT id AS k FROM t) ORDER BY 1", ["`id` = 1"]),
        ("(SELECT i AS id FROM u) UNION ALL (SELECT id FROM t WHERE x = 1)", ["`x` = 1", "`id` = 1"]),
        ("SELECT i AS id FROM u UNION ALL SELECT x FROM t", []),  # another type
        ("SELECT id FROM v UNION ALL (SELECT id FROM t LIMIT 1)", []),
        ("SELECT id FROM v EXCEPT SELECT id FROM t", ["`id` = 1"]),
    ],
)
def test_branches_of_set_operators_take_conditions_by_place(text: str, said: list[str]) -> None:
    assert told(f"SELECT * FROM ({text}) q WHERE id = 1") == said
    assert told(text, where="id = 1") == said  # as a view


def test_what_is_read_over_and_over_stays_short() -> None:
    twice = [
        f"q{n + 1} AS (SELECT * FROM q{n} WHERE id < 5 UNION ALL SELECT * FROM q{n} WHERE id > 7)" for n in range(20)
    ]
    said = told(f"WITH q0 AS (SELECT * FROM t), {', '.join(twice)} SELECT * FROM q20 WHERE x = 1")
    assert said
    assert sum(map(len, said)) < 5_000


def test_views_name_their_columns() -> None:
    assert told("SELECT id, x FROM t", view=("a", "id"), where="id = 1.5 AND a = 2") == ["`x` = 1.5 AND `id` = 2"]


def test_merged_columns_are_those_of_one_type() -> None:
    for kind in ("JOIN", "LEFT JOIN", "NATURAL JOIN"):
        using = "" if kind.startswith("NATURAL") else " USING (id)"
        text = f"SELECT * FROM (SELECT * FROM t {kind} v{using}) q WHERE id = 1"
        assert told(text) == ["`id` = 1"]
        assert told(text, "v") == ([] if kind == "LEFT JOIN" else ["`id` = 1"])
    assert told("SELECT * FROM t RIGHT JOIN v USING (id) WHERE id = 1", "v") == ["`id` = 1"]
    assert told("SELECT * FROM w JOIN t USING (id) WHERE id = '1'", "w") == ["`id` = '1'"]
