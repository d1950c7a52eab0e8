"""Statements within statements: inserts that share a FROM, and text that is executed."""

from __future__ import annotations

import pytest

from holdfast.errors import Unsupported
from holdfast.sql.cursor import Cursor, NotUnderstood
from holdfast.sql.statements.immediate import parse_immediate
from holdfast.sql.statements.insert import split_inserts
from holdfast.sql.text import Statement, statement_of


def statement(text: str) -> Statement:
    found = statement_of(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM x INSERT INTO t SELECT id", [("t", "INSERT INTO t FROM x SELECT id")]),
        (
            "FROM x, y -- both\nINSERT INTO a.t (id) SELECT id WHERE id > 1 INSERT OVERWRITE u SELECT *",
            [
                ("a.t", "INSERT INTO a.t (id) FROM x, y SELECT id WHERE id > 1"),
                ("u", "INSERT OVERWRITE u FROM x, y SELECT *"),
            ],
        ),
        (
            "WITH c AS (SELECT 1 FROM z) FROM c INSERT INTO t SELECT :a",
            [("t", "WITH c AS (SELECT 1 FROM z) INSERT INTO t FROM c SELECT :a")],
        ),
        ("FROM x INSERT INTO t SELECT ?", [("t", "INSERT INTO t FROM x SELECT ?")]),
        ("FROM x SELECT insert(a, 1, 1, 'INSERT INTO')", []),
        ("FROM x |> WHERE id = 1", []),
        ("WITH c AS (SELECT 1) SELECT * FROM c", []),
        ("INSERT INTO t SELECT 1", []),
    ],
)
def test_each_insert_gets_what_all_share(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(".".join(table), made) for table, made in split_inserts(statement(text))] == expected


@pytest.mark.parametrize(
    "text", ["FROM x INSERT INTO t SELECT ? INSERT INTO u SELECT 1", "FROM (SELECT ?) INSERT INTO t SELECT 1"]
)
def test_parameters_by_place_are_refused_where_places_move(text: str) -> None:
    with pytest.raises(Unsupported, match="by name"):
        split_inserts(statement(text))


def test_what_is_executed_is_text_with_values() -> None:
    def read(text: str) -> tuple[str, bool, list[tuple[str, str | None]]]:
        found = statement(text)
        asked = parse_immediate(Cursor(found))
        return (
            found.slice(*asked.text),
            asked.has_into,
            [(found.slice(*value), name) for value, name in asked.values],
        )

    assert read("EXECUTE IMMEDIATE 'SELECT 1'") == ("'SELECT 1'", False, [])
    assert read("EXECUTE IMMEDIATE a || 'b' USING 1, f(2, 3)") == ("a || 'b'", False, [("1", None), ("f(2, 3)", None)])
    assert read("execute immediate s using (1 AS x, 'y' AS z)") == ("s", False, [("1", "x"), ("'y'", "z")])
    assert read("EXECUTE IMMEDIATE s INTO a, b USING 1 AS x") == ("s", True, [("1", "x")])
    with pytest.raises(NotUnderstood):
        read("EXECUTE IMMEDIATE")
