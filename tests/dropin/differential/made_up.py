"""Programs made up on the spot: some statements on two tables, from a small grammar.

1. Every statement is one that both engines parse. Whether it fits the tables is left to chance.
2. Nothing depends on the order of rows. Conditions of changes hold no queries, which delta-spark refuses there.
"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.dropin.differential.program import Program

_COLUMNS = ("id", "n", "v", "p")
_NUMBERS = st.sampled_from(["0", "1", "2", "3", "5", "-1", "NULL"])
_TEXTS = st.sampled_from(["'a'", "'b'", "''", "NULL", "'A'"])
_TABLES = st.sampled_from(["t", "u"])
_KINDS = st.sampled_from(
    [
        "",
        "PARTITIONED BY (p)",
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    ]
)


@st.composite
def _condition(draw: st.DrawFn, table: str, depth: int = 2, queries: bool = False) -> str:
    kinds = ["compare", "text", "null", "in", "between", *(["query"] if queries else [])]
    kinds += ["and", "or", "not"] if depth else []
    match draw(st.sampled_from(kinds)):
        case "compare":
            comparing = draw(st.sampled_from(["=", "<", ">=", "<>", "<=>"]))
            return f"{table}.{draw(st.sampled_from(['id', 'n']))} {comparing} {draw(_NUMBERS)}"
        case "text":
            comparing = draw(st.sampled_from(["=", "<", ">", "<=>"]))
            return f"{table}.{draw(st.sampled_from(['v', 'p']))} {comparing} {draw(_TEXTS)}"
        case "null":
            return f"{table}.{draw(st.sampled_from(_COLUMNS))} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
        case "in":
            values = ", ".join(draw(st.lists(_NUMBERS, min_size=1, max_size=3)))
            return f"{table}.id {draw(st.sampled_from(['', 'NOT ']))}IN ({values})"
        case "between":
            return f"{table}.n BETWEEN {draw(_NUMBERS)} AND {draw(_NUMBERS)}"
        case "query":
            query = draw(_TABLES.map(lambda other: f"SELECT {other}.n FROM {other} WHERE {other}.n > 0"))
            return f"{table}.id {draw(st.sampled_from(['', 'NOT ']))}IN ({query})"
        case "not":
            return f"NOT ({draw(_condition(table, depth - 1, queries))})"
        case word:
            left, right = (draw(_condition(table, depth - 1, queries)) for _ in range(2))
            return f"({left}) {word.upper()} ({right})"


@st.composite
def _rows(draw: st.DrawFn) -> str:
    row = st.tuples(_NUMBERS, _NUMBERS, _TEXTS, _TEXTS).map(lambda values: f"({', '.join(values)})")
    return "VALUES " + ", ".join(draw(st.lists(row, min_size=1, max_size=4)))


@st.composite
def _number(draw: st.DrawFn, table: str) -> str:
    return draw(st.sampled_from([f"{table}.n + 1", f"{table}.id", "7", "NULL", f"coalesce({table}.n, 0) * 2"]))


@st.composite
def _merge(draw: st.DrawFn) -> str:
    source = draw(
        st.sampled_from(["u", "(SELECT DISTINCT id, n, v, p FROM u)", "(SELECT id + 1 AS id, n, v, p FROM t)", "t"])
    )
    on = draw(st.sampled_from(["t.id = s.id", "t.id <=> s.id", "t.id = s.id AND t.p = s.p", "t.id = s.n", "false"]))
    clauses = []
    for _ in range(draw(st.integers(0, 2))):
        only = f" AND {draw(_condition(draw(st.sampled_from(['t', 's'])), 1))}" if draw(st.booleans()) else ""
        action = draw(
            st.sampled_from(["DELETE", "UPDATE SET *", "UPDATE SET n = s.n + t.n", "UPDATE SET p = s.v, v = s.p"])
        )
        clauses.append(f"WHEN MATCHED{only} THEN {action}")
    if draw(st.booleans()) or not clauses:
        only = f" AND {draw(_condition('s', 1))}" if draw(st.booleans()) else ""
        clauses.append(
            f"WHEN NOT MATCHED{only} THEN INSERT {draw(st.sampled_from(['*', '(id, p) VALUES (s.id, s.v)']))}"
        )
    if draw(st.booleans()):
        only = f" AND {draw(_condition('t', 1))}" if draw(st.booleans()) else ""
        clauses.append(
            f"WHEN NOT MATCHED BY SOURCE{only} THEN {draw(st.sampled_from(['DELETE', 'UPDATE SET n = -1']))}"
        )
    return f"MERGE INTO t USING {source} s ON {on} {' '.join(clauses)}"


@st.composite
def _statement(draw: st.DrawFn) -> str:
    table = draw(_TABLES)
    match draw(
        st.sampled_from(["insert", "insert", "delete", "update", "merge", "merge", "select", "overwrite", "more"])
    ):
        case "insert":
            return f"INSERT INTO {table} {draw(_rows())}"
        case "delete":
            return f"DELETE FROM {table} WHERE {draw(_condition(table))}"
        case "update":
            sets = draw(st.sampled_from([f"n = {draw(_number(table))}", "v = p, p = v", f"p = {draw(_TEXTS)}"]))
            return f"UPDATE {table} SET {sets} WHERE {draw(_condition(table))}"
        case "merge":
            return draw(_merge())
        case "select":
            join = draw(st.sampled_from(["JOIN", "LEFT JOIN", "FULL JOIN", "ANTI JOIN", "RIGHT JOIN"]))
            asked = "t.id, t.n, t.v" if join == "ANTI JOIN" else "t.id, u.id, t.v, u.p"
            side = "t" if join == "ANTI JOIN" else table
            on = f"t.id = u.id AND {draw(_condition(table, 1))}"
            return f"SELECT {asked} FROM t {join} u ON {on} WHERE {draw(_condition(side, queries=True))}"
        case "overwrite":
            other = draw(_TABLES)
            return f"INSERT OVERWRITE {table} SELECT * FROM {other} WHERE {draw(_condition(other, queries=True))}"
        case _:
            return draw(
                st.sampled_from(
                    [
                        f"OPTIMIZE {table}",
                        f"RESTORE {table} TO VERSION AS OF 1",
                        f"TRUNCATE TABLE {table}",
                        f"SELECT * FROM {table} VERSION AS OF 2",
                        f"ALTER TABLE {table} ADD CONSTRAINT c CHECK (id <> 3)",
                        f"INSERT INTO {table} REPLACE WHERE p = 'a' SELECT 9, 9, 'r', 'a'",
                        f"SELECT p, count(*), sum(n), min(v) FROM {table} GROUP BY p",
                    ]
                )
            )


@st.composite
def made_up(draw: st.DrawFn) -> Program:
    """A program of a few statements."""
    columns = "(id INT, n BIGINT, v STRING, p STRING)"
    first = [f"CREATE TABLE {name} {columns} USING delta {draw(_KINDS)}".strip() for name in ("t", "u")]
    filled = [f"INSERT INTO {name} {draw(_rows())}" for name in ("t", "u")]
    return Program("made up", (*first, *filled, *draw(st.lists(_statement(), min_size=2, max_size=6))))
