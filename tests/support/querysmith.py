"""Random queries over two small tables, as deep as one likes: every one is valid and has one answer.

The tables are t (id, k, v) and u (id, k, w): numbers and strings, with nulls. Queries nest derived tables, WITH, joins,
set operators, groups, windows and limits; columns change their names on the way, and take each other's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from hypothesis import strategies as st

NUMBER, STRING = "n", "s"
Columns = tuple[tuple[str, str], ...]  # names and types
TABLES: dict[str, Columns] = {
    "t": (("id", NUMBER), ("k", NUMBER), ("v", STRING)),
    "u": (("id", NUMBER), ("k", NUMBER), ("w", STRING)),
}
ROWS: dict[str, list[tuple[int, int | None, str | None]]] = {
    "t": [(i, None if i % 7 == 3 else i % 5, None if i % 11 == 5 else "abcd"[i % 4]) for i in range(20)],
    "u": [(2 * i, None if i % 5 == 2 else i % 4, None if i % 6 == 1 else "bcde"[i % 4]) for i in range(12)],
}
_POOL = ("id", "k", "v", "w", "z")
_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
_HALF_JOINS = ("LEFT SEMI JOIN", "LEFT ANTI JOIN")


class Dialect(Enum):
    """Who is to understand a query."""

    SQLITE = "sqlite"
    SPARK = "spark"


@dataclass
class _Smith:
    draw: st.DrawFn
    dialect: Dialect
    given: list[tuple[str, str, Columns]] = field(default_factory=list)  # by WITH: name, text, columns
    count: int = 0

    def one(self, *values: str) -> str:
        return self.draw(st.sampled_from(values))

    def chance(self, of: int) -> bool:
        return self.draw(st.integers(1, of)) == of

    def alias(self) -> str:
        self.count += 1
        return f"r{self.count}"

    def query(self, depth: int) -> tuple[str, Columns]:
        if depth and self.chance(4):
            return self.union(depth)
        text, columns = self.block(depth)
        if self.chance(6):
            text += f" ORDER BY {', '.join(map(str, range(1, len(columns) + 1)))} LIMIT {self.draw(st.integers(0, 9))}"
        return text, columns

    def union(self, depth: int) -> tuple[str, Columns]:
        first, columns = self.block(depth - 1)
        second, others = self.block(depth - 1)
        if sorted(kind for _, kind in columns) != sorted(kind for _, kind in others):
            return first, columns
        left, listed = [name for name, _ in others], []
        for _, kind in columns:
            taken = next(name for name in left if dict(others)[name] == kind)
            left.remove(taken)
            listed.append(taken)
        alias = self.alias()
        second = f"SELECT {', '.join(f'{alias}.{name}' for name in listed)} FROM ({second}) {alias}"
        return f"{first} {self.one('UNION ALL', 'UNION', 'INTERSECT', 'EXCEPT')} {second}", columns

    def relation(self, depth: int) -> tuple[str, str, Columns]:
        """What can stand in a FROM clause, how it is called, and what it has."""
        kind = self.one("table", "derived", "derived", "given", "given") if depth else "table"
        alias = self.alias()
        if kind == "given" and self.given:
            name, _, columns = self.draw(st.sampled_from(self.given))
            return f"{name} {alias}", alias, columns
        if kind == "table" or kind == "given":
            name = self.one(*TABLES)
            return f"{name} AS {alias}", alias, TABLES[name]
        text, columns = self.query(depth - 1)
        if self.dialect is Dialect.SPARK and self.chance(3):
            names = self.draw(st.permutations(_POOL))[: len(columns)]
            renamed = tuple((name, kind) for name, (_, kind) in zip(names, columns, strict=True))
            return f"({text}) AS {alias}({', '.join(names)})", alias, renamed
        return f"({text}) {alias}", alias, columns

    def block(self, depth: int) -> tuple[str, Columns]:
        text, called, columns = self.relation(depth)
        here = [(called, columns)]
        for _ in range(self.draw(st.sampled_from((0, 0, 0, 1, 1, 2)))):
            joined, called, columns = self.relation(max(depth - 1, 0))
            kind = self.one(*_JOINS, *(_HALF_JOINS if self.dialect is Dialect.SPARK else ()))
            shared = [c for c in columns if c in here[0][1] and sum(c[0] in dict(has) for _, has in here) == 1]
            # Spark cannot resolve every qualified column of one of its views that USING joins with itself.
            using = self.dialect is Dialect.SQLITE and bool(shared) and self.chance(3)
            merged = self.draw(st.sampled_from(shared)) if using else None
            text += f" {kind} {joined} "
            text += f"ON {self.on(here, called, columns)}" if merged is None else f"USING ({merged[0]})"
            if kind in _HALF_JOINS:
                continue
            here.append((called, columns))
            if merged is not None:
                here.append(("", (merged,)))
                break  # another that has it too would make it ambiguous
        wheres = [self.condition(here, depth) for _ in range(self.draw(st.sampled_from((0, 1, 1, 2))))]
        where = f" WHERE {' AND '.join(wheres)}" if wheres else ""
        return self.select(here, f"FROM {text}{where}")

    def select(self, here: Sequence[tuple[str, Columns]], rest: str) -> tuple[str, Columns]:
        everything = [(_path(called, name), name, kind) for called, columns in here for name, kind in columns]
        names = [name for _, name, _ in everything]
        if self.chance(3) and len(set(names)) == len(names):
            return f"SELECT * {rest}", tuple((name, kind) for _, name, kind in everything)
        picked = self.draw(st.lists(st.sampled_from(everything), min_size=1, max_size=3, unique=True))
        given = self.draw(st.permutations(_POOL))
        kept = [
            name if self.chance(2) and name not in given[: len(picked)] else given[i]
            for i, (_, name, _) in enumerate(picked)
        ]
        if len(set(kept)) < len(kept):
            kept = list(given[: len(picked)])
        items = [
            path if name == new and self.chance(2) else f"{path} AS {new}"
            for (path, name, _), new in zip(picked, kept, strict=True)
        ]
        out = [(new, kind) for (_, _, kind), new in zip(picked, kept, strict=True)]
        free = next(name for name in (*given, "extra") if name not in kept)
        first = picked[0][0]
        match self.one("plain", "plain", "distinct", "group", "window", "window", "computed"):
            case "distinct":
                return f"SELECT DISTINCT {', '.join(items)} {rest}", tuple(out)
            case "group":
                keys = ", ".join(path for path, _, _ in picked)
                total = f"count(*) AS {free}"
                return f"SELECT {', '.join((*items, total))} {rest} GROUP BY {keys}", (*out, (free, NUMBER))
            case "window":
                over = f"count(*) OVER ({self.one(f'PARTITION BY {first}', '')}) AS {free}"
                return f"SELECT {', '.join((*items, over))} {rest}", (*out, (free, NUMBER))
            case "computed" if picked[0][2] == NUMBER:
                return f"SELECT {', '.join((*items, f'{first} + 1 AS {free}'))} {rest}", (*out, (free, NUMBER))
            case _:
                return f"SELECT {', '.join(items)} {rest}", tuple(out)

    def on(self, here: Sequence[tuple[str, Columns]], called: str, columns: Columns) -> str:
        left = [f"{name}.{column}" for name, has in here for column, kind in has if kind == NUMBER]
        right = [f"{called}.{column}" for column, kind in columns if kind == NUMBER]
        equal = f"{self.one(*left)} = {self.one(*right)}" if left and right else "1 = 1"
        more = self.condition([*here, (called, columns)], 0, qualified=True) if self.chance(2) else "1 = 1"
        return f"{equal} AND {more}"

    def condition(self, here: Sequence[tuple[str, Columns]], depth: int, *, qualified: bool = False) -> str:
        every = [(called, name, kind) for called, columns in here for name, kind in columns]
        called, name, kind = self.draw(st.sampled_from(every))
        alone = sum(other == name for _, other, _ in every) == 1
        path = name if alone and not qualified and self.chance(2) else _path(called, name)
        value = self.literal(kind)
        match self.one(
            "compare", "compare", "compare", "null", "null", "in", "between", "or", "not", "query", "exists"
        ):
            case "in":
                return f"{path} IN ({value}, {self.literal(kind)})"
            case "between":
                return f"{path} BETWEEN {value} AND {self.literal(kind)}"
            case "null":
                return f"{path} IS {self.one('NULL', 'NOT NULL')}"
            case "or":
                return f"({path} = {value} OR {self.condition(here, 0, qualified=qualified)})"
            case "not":
                return f"NOT ({path} < {value})"
            case "query" if depth:
                text, columns = self.query(depth - 1)
                inner = [column for column, other in columns if other == kind]
                if inner:
                    return f"{path} {self.one('IN', 'NOT IN')} (SELECT {inner[0]} FROM ({text}) {self.alias()})"
            case "exists" if depth and kind == NUMBER and path != name:
                joined, alias, columns = self.relation(depth - 1)
                inner = [column for column, other in columns if other == kind]
                if inner:
                    more = self.condition([(alias, columns)], 0)
                    no = self.one("", "NOT ")
                    return f"{no}EXISTS (SELECT 1 FROM {joined} WHERE {alias}.{inner[0]} = {path} AND {more})"
        return f"{path} {self.one('=', '<', '>', '<=', '>=', '<>')} {value}"

    def literal(self, kind: str) -> str:
        return str(self.draw(st.integers(0, 12))) if kind == NUMBER else f"'{self.one(*'abcde')}'"


def _path(called: str, name: str) -> str:
    return f"{called}.{name}" if called else name


@st.composite
def queries(draw: st.DrawFn, dialect: Dialect, depth: int = 2) -> str:
    """A query over t and u."""
    smith = _Smith(draw, dialect)
    for number in range(draw(st.integers(0, 2))):
        text, columns = smith.query(depth - 1)
        smith.given.append((f"c{number}", text, columns))
    text, _ = smith.query(depth)
    given = ", ".join(f"{name} AS ({inner})" for name, inner, _ in smith.given)
    return f"WITH {given} {text}" if given else text
