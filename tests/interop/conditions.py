"""Conditions that engines prune files by, and what each must leave: a wrong bound loses rows without an error."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.interop.features import Recipe


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition in SQL that every engine understands, and in Python."""

    sql: str
    holds: Callable[[Mapping[str, Any]], bool]


def conditions(recipe: Recipe) -> tuple[Condition, ...]:
    """Conditions on the columns a recipe's table has."""
    return tuple(_conditions(recipe))


def _conditions(recipe: Recipe) -> Iterator[Condition]:
    just_after = dt.datetime(2024, 2, 29, 12)  # bounds in milliseconds do not reach what comes a microsecond later
    text = "text" if "renamed" in recipe else "s"
    yield Condition("id >= 20 AND id < 26", lambda row: 20 <= row["id"] < 26)
    yield Condition("v < 0", lambda row: row["v"] is not None and row["v"] < 0)
    yield Condition(f"{text} = 'plain'", lambda row: row[text] == "plain")
    yield Condition(f"{text} >= '{'x' * 33}'", lambda row: (row[text] or "") >= "x" * 33)
    yield Condition("part = 'a/b=c%d'", lambda row: row["part"] == "a/b=c%d")
    yield Condition("part IS NULL", lambda row: row["part"] is None)
    yield Condition("day = DATE '1969-12-31'", lambda row: row["day"] == dt.date(1969, 12, 31))
    if "all_types" in recipe:
        yield Condition("dec9 < 0", lambda row: row["dec9"] is not None and row["dec9"] < 0)
        yield Condition("i64 = 9223372036854775807", lambda row: row["i64"] == 2**63 - 1)
        yield Condition(
            "ts > TIMESTAMP '2024-02-29 12:00:00'", lambda row: row["ts"] is not None and row["ts"] > just_after
        )
        yield Condition("ts < TIMESTAMP '1970-01-01 00:00:00'", lambda row: _before(row["ts"], dt.datetime(1970, 1, 1)))
    if "ntz" in recipe:
        yield Condition(
            "ntz < TIMESTAMP '1970-01-01 00:00:00'", lambda row: _before(row["ntz"], dt.datetime(1970, 1, 1))
        )
    if "widened" in recipe:
        yield Condition("dd >= 0.05", lambda row: row["dd"] >= Decimal("0.05"))
    if "added" in recipe:
        yield Condition("extra IS NULL", lambda row: row["extra"] is None)
    if "generated" in recipe:
        yield Condition("twice = 34", lambda row: row["twice"] == 34)


def _before(moment: dt.datetime | None, than: dt.datetime) -> bool:
    return moment is not None and moment < than
