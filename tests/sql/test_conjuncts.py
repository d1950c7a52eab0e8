"""What conditions say of a table: taken where certain, left alone elsewhere."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from holdfast.schema.ddl import parse_type
from holdfast.schema.types import Struct
from holdfast.sql.parameters import Parameters, literal
from holdfast.sql.query.conjuncts import Subject, condition_of, conditions, table_condition
from holdfast.sql.query.walk import query_of
from holdfast.sql.text import statement_of

_PARSED = parse_type("struct<id:bigint, name:string, day:date, x:double, s:struct<a:int>, date:string>")
assert isinstance(_PARSED, Struct)
COLUMNS = _PARSED


def said(text: str, args: Mapping[str, Any] | Sequence[Any] | None = None) -> list[str]:
    """What is understood of the first table called t."""
    statement = statement_of(text)
    assert statement is not None
    for block in query_of(statement).blocks:
        for at, relation in enumerate(block.relations):
            if relation.reference is None or relation.reference.parts[-1] != "t":
                continue
            others = {r.qualifier.lower() for r in block.relations if r is not relation and r.qualifier is not None}
            parts = () if relation.reference.alias else relation.reference.parts
            subject = Subject(relation.qualifier or "", COLUMNS, others, {"row_id": "__row_id"}, parts, at)
            found = (condition_of(statement, span, Parameters(args)) for span in conditions(statement, block, at))
            return [told for each in found if each is not None and (told := table_condition(each, subject))]
    raise AssertionError("no table called t")


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("id = 5", ["`id` = 5"]),
        ("t.id >= 5 AND T.NAME = 'x'", ["`id` >= 5", "`NAME` = 'x'"]),
        ("id BETWEEN 1 AND 3 AND x < 2", ["`id` BETWEEN 1 AND 3", "`x` < 2"]),
        ("(id = 1 AND (x = 2 AND name = 'a'))", ["`id` = 1", "`x` = 2", "`name` = 'a'"]),
        ("id = 1 OR id = 2", ["`id` = 1 OR `id` = 2"]),
        ("id = 1 AND x = 2 OR id = 3", ["`id` = 1 AND `x` = 2 OR `id` = 3"]),
        ("id IN (1, 2) AND NOT id = 3", ["`id` IN (1, 2)", "NOT `id` = 3"]),
        ("s.a = 1 AND t.s.a = 2", ["`s`.`a` = 1", "`s`.`a` = 2"]),
        ("day = DATE '2024-01-01' AND date = 'x'", ["`day` = DATE '2024-01-01'", "`date` = 'x'"]),
        ("name LIKE 'a%b'", ["startswith(`name`, 'a')"]),
        ("id = 1 AND upper(name) = 'A' OR id = 2 AND name = 'b'", ["(`id` = 1) OR ((`id` = 2) AND (`name` = 'b'))"]),
        ("id = /* five */ 5 -- yes\n", ["`id` = 5"]),
        ("CASE WHEN id = 1 AND x = 2 THEN true END AND id = 3", ["`id` = 3"]),
        ("upper(name) = 'A'", []),
        ("rand() < 0.5 AND id = uuid()", []),
        ("id = (SELECT max(i) FROM u) AND x IN (SELECT 1)", []),
        ("nobody = 1", []),
        ("id = other.id", []),
        ("_metadata.row_id = 7", ["`__row_id` = 7"]),
    ],
)
def test_conditions_of_where(where: str, told: list[str]) -> None:
    columns = Struct((*COLUMNS.fields, *_row_id().fields))
    statement = statement_of(f"SELECT * FROM t WHERE {where}")
    assert statement is not None
    block = query_of(statement).blocks[-1]
    subject = Subject("t", columns, (), {"row_id": "__row_id"})
    found = (condition_of(statement, span, Parameters()) for span in conditions(statement, block, 0))
    assert [text for each in found if each is not None and (text := table_condition(each, subject))] == told


def _row_id() -> Struct:
    parsed = parse_type("struct<__row_id:bigint>")
    assert isinstance(parsed, Struct)
    return parsed


@pytest.mark.parametrize(
    ("relations", "told"),
    [
        ("t, u WHERE t.id = 1 AND u.id = 2", ["`id` = 1"]),
        ("t JOIN u ON t.i = u.i AND t.x = 1 WHERE t.id = 1", ["`id` = 1", "`x` = 1"]),
        ("u JOIN t ON t.x = 1 WHERE t.id = 1", ["`id` = 1", "`x` = 1"]),
        ("t LEFT JOIN u ON t.x = 1 WHERE t.id = 1", ["`id` = 1"]),  # rows of t that fail ON stay
        ("u LEFT JOIN t ON t.x = 1 WHERE t.id = 1", ["`x` = 1"]),  # t is filled up with nulls
        ("u LEFT JOIN t ON t.x = 1 WHERE t.id IS NULL", ["`x` = 1"]),
        ("t RIGHT JOIN u ON t.x = 1 WHERE t.id = 1", ["`x` = 1"]),
        ("u RIGHT JOIN t ON t.x = 1 WHERE t.id = 1", ["`id` = 1"]),
        ("t FULL JOIN u ON t.x = 1 WHERE t.id = 1", []),
        ("u FULL OUTER JOIN t ON t.x = 1 WHERE t.id = 1", []),
        ("u LEFT SEMI JOIN t ON t.x = 1 WHERE id = 1", ["`x` = 1"]),  # id is u's: t is not to be seen
        ("t LEFT ANTI JOIN u ON t.x = 1 WHERE t.id = 1", ["`id` = 1"]),  # rows that fail ON stay
        ("t JOIN u ON t.x = 1 RIGHT JOIN v ON 1 = 1 WHERE t.id = 1", ["`x` = 1"]),
        ("u LEFT JOIN t ON t.i = u.i JOIN v ON t.x = 1", []),
        ("t, u RIGHT JOIN v ON 1 = 1 WHERE t.id = 1", ["`id` = 1"]),  # the comma binds last
        ("t TABLESAMPLE (5 ROWS) WHERE id = 1", []),  # the sample comes first
        ("t PIVOT (sum(x) FOR name IN ('a')) WHERE id = 1", []),
        ("t LATERAL VIEW explode(xs) e AS v WHERE id = 1", ["`id` = 1"]),
        ("db.t WHERE db.t.id = 1", ["`id` = 1"]),
        ("t AS o WHERE o.id = 1 AND t.id = 2", ["`id` = 1"]),
        ("t, s WHERE s.a = 1", []),  # s is the other table, not the struct
    ],
)
def test_joins_decide_which_conditions_count(relations: str, told: list[str]) -> None:
    assert said(f"SELECT * FROM {relations}") == told


def test_values_given_beside_the_text_count_as_literals() -> None:
    assert said("SELECT * FROM t WHERE id = :a AND day >= :b", {"a": 5, "b": datetime.date(2024, 1, 1)}) == [
        "`id` = 5",
        "`day` >= DATE '2024-01-01'",
    ]
    assert said("SELECT ? FROM t WHERE id = ? AND x < ?", ["no", 5, 1.5]) == ["`id` = 5", "`x` < 1.5D"]
    assert said("SELECT * FROM t WHERE id = :missing", {"a": 1}) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "true"),
        (7, "7"),
        (1.5, "1.5D"),
        (float("nan"), "double('nan')"),
        ("it's", r"'it\'s'"),
        (b"\x01", "X'01'"),
        ([1, "a"], "array(1, 'a')"),
        ({"k": 1}, "map('k', 1)"),
        (datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC), "TIMESTAMP '2024-01-02 03:04:05+00:00'"),
    ],
)
def test_values_become_literals(value: Any, text: str) -> None:
    assert literal(value) == text
