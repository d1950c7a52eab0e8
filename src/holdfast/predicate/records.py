"""What a condition on rows says, as values.

A closed set of records. A condition has three truth values, as in SQL, and a row satisfies it only when it is true.

1. A column is the path of names from the top of the schema down, spelled as the schema spells them.
2. A value has its column's type: int, float, Decimal, str, bytes, bool, date, and datetime (aware and in UTC for a
   timestamp, naive for one without zone). A value compared with a float column is a double, as Spark compares them.
3. Values are never null: a comparison with null is a Constant or an IsNull.
4. Opaque stands for what only Spark understands; it may have any truth value on any row.
5. `negate` and `conjuncts` change the shape and never the truth value on any row.
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
    """How a column is compared; the value is the SQL operator."""

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
Predicate: TypeAlias = And | Or | Not | Leaf | Constant | Opaque

ALWAYS = Constant(True)

_OPPOSITE = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.GT: Op.LE, Op.LE: Op.GT}


def columns_of(predicate: Predicate) -> frozenset[Column]:
    """Every column the predicate mentions, those inside opaque parts included."""
    match predicate:
        case And(parts) | Or(parts):
            return frozenset[Column]().union(*map(columns_of, parts))
        case Not(part):
            return columns_of(part)
        case Opaque(_, columns):
            return frozenset(columns)
        case Constant():
            return frozenset()
        case _:
            return frozenset((predicate.column,))


def has_opaque(predicate: Predicate) -> bool:
    """Whether some part of it only Spark understands."""
    match predicate:
        case And(parts) | Or(parts):
            return any(map(has_opaque, parts))
        case Not(part):
            return has_opaque(part)
        case _:
            return isinstance(predicate, Opaque)


def is_of_ranges(predicate: Predicate) -> bool:
    """Whether bounds alone say all that can be known of it without reading values: nothing of it asks for one value."""
    match predicate:
        case And(parts) | Or(parts):
            return all(map(is_of_ranges, parts))
        case Not(part):
            return is_of_ranges(part)
        case Compare(op, _, _):
            return op in (Op.LT, Op.LE, Op.GT, Op.GE)
        case _:
            return isinstance(predicate, (IsNull, Constant))


def tested_columns(predicate: Predicate) -> frozenset[Column]:
    """The columns that understood parts test: what is known of others decides nothing."""
    match predicate:
        case And(parts) | Or(parts):
            return frozenset[Column]().union(*map(tested_columns, parts))
        case Not(part):
            return tested_columns(part)
        case Opaque() | Constant():
            return frozenset()
        case _:
            return frozenset((predicate.column,))


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """Parts that must all be true for the predicate to be; none for one that is always true."""
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
    """The same predicate with NOT only directly above leaves that have no opposite."""
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
    """True where a predicate is false or null, and false elsewhere; nothing of it may be opaque."""
    return _untrue(pushed(predicate))


def is_safe_below(predicate: Predicate) -> bool:
    """Whether it only compares top-level columns with literals, which raises on no row, hidden ones included."""
    match predicate:
        case And(parts) | Or(parts):
            return all(map(is_safe_below, parts))
        case Not(part):
            return is_safe_below(part)
        case Constant():
            return True
        case Opaque():
            return False
        case _:
            return len(predicate.column) == 1


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
