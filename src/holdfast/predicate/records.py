"""Predicates: conditions on rows as a closed set of records.

A predicate is true, false or null on a row, as in SQL; a row satisfies it only where it is true.

1. A column is the path of names from the top of the schema down, spelled as in the schema.
2. A value has its column's type: int, float, Decimal, str, bytes, bool, date, and datetime (aware and in UTC for a
   timestamp, naive for one without zone). A value compared with a float column is a double, as in Spark.
3. Values are never null: a comparison with null is a Constant or an IsNull.
4. Opaque is a part that only Spark can evaluate; it may be true, false or null on any row.
5. `negate` and `conjuncts` never change the truth value on any row.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

Column: TypeAlias = tuple[str, ...]
Value: TypeAlias = int | float | decimal.Decimal | str | bytes | bool | datetime.date | datetime.datetime


class Op(Enum):
    """A comparison; the value is the SQL operator."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    SAME = "<=>"  # equal, or both null; never null itself


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Predicate


@dataclass(frozen=True, slots=True)
class Compare:
    op: Op
    column: Column
    value: Value


@dataclass(frozen=True, slots=True)
class In:
    column: Column
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    column: Column


@dataclass(frozen=True, slots=True)
class StartsWith:
    column: Column
    prefix: str


@dataclass(frozen=True, slots=True)
class Constant:
    value: bool | None


@dataclass(frozen=True, slots=True)
class Opaque:
    text: str
    columns: tuple[Column, ...] = ()


Leaf: TypeAlias = Compare | In | IsNull | StartsWith
Term: TypeAlias = Leaf | Constant | Opaque
Predicate: TypeAlias = And | Or | Not | Term

ALWAYS = Constant(True)

_OPPOSITE = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.GT: Op.LE, Op.LE: Op.GT}


def terms(predicate: Predicate) -> Iterator[Term]:
    """The parts of a predicate below every AND, OR and NOT."""
    match predicate:
        case And(parts) | Or(parts):
            for part in parts:
                yield from terms(part)
        case Not(part):
            yield from terms(part)
        case _:
            yield predicate


def columns_of(predicate: Predicate) -> frozenset[Column]:
    """Every column the predicate mentions, those of opaque parts included."""
    opaque = (column for term in terms(predicate) if isinstance(term, Opaque) for column in term.columns)
    return tested_columns(predicate).union(opaque)


def tested_columns(predicate: Predicate) -> frozenset[Column]:
    """The columns of all parts that are not opaque; bounds of other columns decide nothing."""
    return frozenset(term.column for term in terms(predicate) if not isinstance(term, Opaque | Constant))


def has_opaque(predicate: Predicate) -> bool:
    """Whether only Spark can evaluate some part."""
    return any(isinstance(term, Opaque) for term in terms(predicate))


def is_of_ranges(predicate: Predicate) -> bool:
    """Whether every part compares by order or tests for null, so that bounds decide as much as single values do."""
    return all(
        term.op in (Op.LT, Op.LE, Op.GT, Op.GE) if isinstance(term, Compare) else isinstance(term, IsNull | Constant)
        for term in terms(predicate)
    )


def is_safe_below(predicate: Predicate) -> bool:
    """Whether it only compares top-level columns with literals, which raises on no row, not on hidden ones either."""
    return not has_opaque(predicate) and all(len(column) == 1 for column in tested_columns(predicate))


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """The parts of a conjunction; none for a predicate that is always true."""
    return tuple(_conjuncts(pushed(predicate)))


def conjunction(parts: tuple[Predicate, ...]) -> Predicate:
    """The predicate that is true where all the parts are."""
    match parts:
        case ():
            return ALWAYS
        case (only,):
            return only
        case _:
            return And(parts)


def negate(predicate: Predicate) -> Predicate:
    """NOT of a predicate, with every NOT pushed down to a leaf that has no opposite."""
    match predicate:
        case And(parts):
            return Or(tuple(map(negate, parts)))
        case Or(parts):
            return And(tuple(map(negate, parts)))
        case Not(part):
            return pushed(part)
        case Compare(op, column, value) if op in _OPPOSITE:
            return Compare(_OPPOSITE[op], column, value)
        case Constant(value):
            return Constant(None if value is None else not value)
        case Opaque(text, columns):
            return Opaque(f"NOT ({text})", columns)
        case _:
            return Not(predicate)


def pushed(predicate: Predicate) -> Predicate:
    """The same predicate, with NOT only directly above leaves that have no opposite."""
    match predicate:
        case And(parts):
            return And(tuple(map(pushed, parts)))
        case Or(parts):
            return Or(tuple(map(pushed, parts)))
        case Not(part):
            return negate(part)
        case _:
            return predicate


def untrue(predicate: Predicate) -> Predicate:
    """The predicate that is true where this one is false or null, and false elsewhere; no part may be opaque."""
    return _untrue(pushed(predicate))


def _untrue(predicate: Predicate) -> Predicate:
    match predicate:
        case And(parts):
            return Or(tuple(map(_untrue, parts)))
        case Or(parts):
            return And(tuple(map(_untrue, parts)))
        case Constant(value):
            return Constant(value is not True)
        case IsNull() | Not(IsNull()) | Compare(Op.SAME) | Not(Compare(Op.SAME)):
            return negate(predicate)
        case Not(Compare() | In() | StartsWith() as leaf):
            return Or((leaf, IsNull(leaf.column)))
        case Compare() | In() | StartsWith():
            return Or((negate(predicate), IsNull(predicate.column)))
        case _:
            raise AssertionError(f"{predicate} is no leaf that can be evaluated")


def _conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    match predicate:
        case And(parts):
            for part in parts:
                yield from _conjuncts(part)
        case Constant(True):
            return
        case _:
            yield predicate
