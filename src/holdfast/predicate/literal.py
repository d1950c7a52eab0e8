"""Turns comparisons of columns with SQL literals into predicates with values of the column's type.

Spark widens a column and a literal to a common type before it compares them, by rules that differ between ANSI and
non-ANSI mode and between `=` and `IN`. A literal is accepted only where all of those rules give the same result.

1. `compare` and `one_of` return a predicate with Spark's truth value on every row, or None where that is not certain.
2. No literal makes this module raise.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from holdfast.predicate.records import Column, Compare, Constant, In, IsNull, Op, Or, Predicate, Value
from holdfast.schema.types import DataType, Decimal, Primitive


class LiteralKind(Enum):
    """Types a literal can have."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    EXPONENT = "exponent"  # 1e3: a double, or a decimal under a legacy setting
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    BOOLEAN = "boolean"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"  # with its zone where the text has one
    TIMESTAMP_NTZ = "timestamp_ntz"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal: exact numbers as Decimal, timestamps as (possibly naive) datetimes.

    `declared` is the precision and scale of a decimal that a cast gave it; without one they are those of its digits.
    """

    kind: LiteralKind
    value: decimal.Decimal | Value | None = None
    declared: tuple[int, int] | None = None


NUMBERS = frozenset(
    {LiteralKind.INTEGER, LiteralKind.DECIMAL, LiteralKind.EXPONENT, LiteralKind.FLOAT, LiteralKind.DOUBLE}
)
INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
LARGEST_PRECISION = 38
SMALLEST_NORMAL_FLOAT = 2.0**-126
_EXACT = decimal.Context(prec=2000)
_UTC = frozenset({"utc", "gmt", "z", "etc/utc", "etc/gmt", "+00:00"})
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_TIMESTAMP = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)(Z|[+-]\d{2}:\d{2})?)?")
# Spark widens a list to one type; these mixes of kinds keep every member's exact value.
_MIXES: dict[str, frozenset[LiteralKind]] = {
    **dict.fromkeys([*INTEGER_BITS, "decimal", "double"], frozenset({LiteralKind.INTEGER, LiteralKind.DECIMAL})),
}


def compare(op: Op, column: Column, type_: DataType, literal: Literal, zone: str) -> Predicate | None:
    """The comparison of a column with a literal, where Spark's meaning of it is certain."""
    if literal.kind is LiteralKind.NULL:
        return IsNull(column) if op is Op.SAME else Constant(None)
    if isinstance(type_, Decimal) or (isinstance(type_, Primitive) and type_.name in INTEGER_BITS):
        exact = _exact(type_, literal)
        if exact is None or _folded(op, type_, exact):
            return None
        return _compare_exactly(op, column, type_, exact)
    value = _value(type_, literal, zone)
    return None if value is None else Compare(op, column, value)


def one_of(column: Column, type_: DataType, literals: Sequence[Literal], zone: str) -> Predicate | None:
    """The membership of a column in a list of literals, where Spark's meaning of it is certain."""
    members = [x for x in literals if x.kind is not LiteralKind.NULL]
    kinds = {x.kind for x in members}
    family = "decimal" if isinstance(type_, Decimal) else type_.name if isinstance(type_, Primitive) else ""
    if len(kinds) > 1 and not kinds <= _MIXES.get(family, frozenset()):
        return None
    if LiteralKind.STRING in kinds and family in ("timestamp", "timestamp_ntz"):
        return None  # outside ANSI mode such a list is compared as text
    if kinds & {LiteralKind.DATE, LiteralKind.TIMESTAMP, LiteralKind.TIMESTAMP_NTZ} and {family} != {
        k.value for k in kinds
    }:
        return None
    if isinstance(type_, Primitive | Decimal) and LiteralKind.DECIMAL in kinds and not _common_decimal(type_, members):
        return None
    values: list[Value] = []
    for literal in members:
        match compare(Op.EQ, column, type_, literal, zone):
            case Compare(Op.EQ, _, value):
                values.append(value)
            case Compare():  # equal to no value the column can hold
                continue
            case _:
                return None
    if family in ("float", "double") and len(members) > 10 and 0 in values:
        return None  # Spark hashes long lists, and -0.0 then differs from 0.0
    unique = tuple(dict.fromkeys(values))
    membership = In(column, unique)
    return membership if len(members) == len(literals) else Or((membership, Constant(None)))


def double_of(text: str) -> float | None:
    """The double nearest to a number in text; None beyond the range of doubles, which Spark refuses."""
    double = float(text)
    return None if math.isinf(double) else double


def float_of(text: str) -> float | None:
    """The single-precision number nearest to a number in text, as a double; None where two roundings may differ."""
    double = float(text)
    try:
        single = float(struct.unpack("<f", struct.pack("<f", double))[0])
    except OverflowError:
        return None
    if decimal.Decimal(text) == decimal.Decimal(double):
        return single
    halfway = struct.unpack("<q", struct.pack("<d", double))[0] & (2**29 - 1) == 2**28
    return None if halfway or abs(double) < SMALLEST_NORMAL_FLOAT else single


def date_of(text: str) -> datetime.date | None:
    """A date in the form yyyy-mm-dd; None for any other text."""
    if not text.isascii() or not (match := _DATE.fullmatch(text)):
        return None
    try:
        return datetime.date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return None


def timestamp_of(text: str) -> datetime.datetime | None:
    """An instant or, without a zone in the text, a local time."""
    if not text.isascii() or not (match := _TIMESTAMP.fullmatch(text)):
        return None
    day, clock, offset = match.groups()
    if offset and not (offset == "Z" or (int(offset[1:3]) <= 18 and int(offset[4:6]) <= 59)):
        return None
    if clock and "." in clock:
        clock = clock.ljust(len("00:00:00.000000"), "0")
    try:
        parsed = datetime.datetime.fromisoformat(f"{day}T{clock or '00:00:00'}{offset or ''}")
        return parsed.astimezone(datetime.UTC) if offset else parsed
    except (ValueError, OverflowError):
        return None


def _exact(type_: Primitive | Decimal, literal: Literal) -> decimal.Decimal | None:
    """The number that an integer or decimal column is compared with, where Spark compares without rounding."""
    match literal:
        case Literal(LiteralKind.INTEGER | LiteralKind.DECIMAL, decimal.Decimal() as value):
            return value if _common_decimal(type_, [literal]) else None
        case Literal(LiteralKind.STRING, str() as text) if isinstance(type_, Primitive):
            # Integers as text, spelled as Spark spells them, are the same number compared as number or as text.
            if not re.fullmatch(r"0|-?[1-9][0-9]{0,18}", text):
                return None
            low, high = _limits(type_)
            value = decimal.Decimal(text)
            return value if low <= value <= high else None
        case Literal(LiteralKind.EXPONENT | LiteralKind.DOUBLE | LiteralKind.FLOAT as kind, value) if isinstance(
            type_, Primitive
        ):
            # Below these limits every integer has its own double (or float), so rounding the column keeps order.
            limit = 2**24 if kind is LiteralKind.FLOAT else 2**53
            if kind is LiteralKind.EXPONENT:
                assert isinstance(value, decimal.Decimal), "an exponent literal keeps its text's value"
                if decimal.Decimal(float(value)) != value:
                    return None
            number = decimal.Decimal(value) if isinstance(value, float) else value
            if not isinstance(number, decimal.Decimal) or not number.is_finite() or number.copy_abs() >= limit:
                return None
            return number
        case _:
            return None


def _folded(op: Op, type_: Primitive | Decimal, exact: decimal.Decimal) -> bool:
    """Whether Spark replaces the comparison by true or false, even on null: an order beyond the range of long."""
    beyond = not -(2**63) <= exact <= 2**63 - 1
    return beyond and isinstance(type_, Primitive) and op in (Op.LT, Op.LE, Op.GT, Op.GE)


def _common_decimal(type_: Primitive | Decimal, literals: Sequence[Literal]) -> bool:
    """Whether a column and its literals have a common decimal type without loss."""
    if isinstance(type_, Primitive):
        if all(x.kind is LiteralKind.INTEGER for x in literals):
            return True
        sizes = [(20, 0)]
    else:
        sizes = [(type_.precision, type_.scale)]
    sizes += [decimal_size(x) for x in literals]
    return max(p - s for p, s in sizes) + max(s for _, s in sizes) <= LARGEST_PRECISION


def decimal_size(literal: Literal) -> tuple[int, int]:
    """Precision and scale of the decimal type that Spark gives a literal."""
    if literal.declared is not None:
        return literal.declared
    assert isinstance(literal.value, decimal.Decimal), "an integer or decimal literal is exact"
    _, digits, exponent = literal.value.as_tuple()
    assert isinstance(exponent, int), "a literal is a finite number"
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale)
    if literal.kind is LiteralKind.INTEGER:
        return (10, 0) if -(2**31) <= literal.value < 2**31 else (20, 0)
    return precision, scale


def _limits(type_: Primitive | Decimal) -> tuple[decimal.Decimal, decimal.Decimal]:
    """The least and the greatest value of an integer or decimal type."""
    if isinstance(type_, Decimal):
        most = decimal.Decimal(10**type_.precision - 1).scaleb(-type_.scale, _EXACT)
        return most.copy_negate(), most
    half = 2 ** (INTEGER_BITS[type_.name] - 1)
    return decimal.Decimal(-half), decimal.Decimal(half - 1)


def _compare_exactly(op: Op, column: Column, type_: Primitive | Decimal, exact: decimal.Decimal) -> Predicate:
    """A comparison with any number, as one with a value that the column can have.

    A number between two values of the column, or beyond its range, divides the values into those up to `below` and the
    others; no value equals it.
    """
    low, high = _limits(type_)
    scale = type_.scale if isinstance(type_, Decimal) else 0
    step = decimal.Decimal(1).scaleb(-scale, _EXACT)
    below = exact.quantize(step, decimal.ROUND_FLOOR, _EXACT) if exact.copy_abs() <= high + 1 else exact
    if below == exact and low <= exact <= high:
        return Compare(op, column, _typed(type_, below))
    if op is Op.SAME:
        return Constant(False)
    most, least = _typed(type_, high), _typed(type_, low)
    if op is Op.EQ:
        return Compare(Op.GT, column, most)
    if op is Op.NE:
        return Compare(Op.LE, column, most)
    upward = op in (Op.GT, Op.GE)
    if exact > high:
        return Compare(Op.GT if upward else Op.LE, column, most)
    if exact < low:
        return Compare(Op.GE if upward else Op.LT, column, least)
    return Compare(Op.GT if upward else Op.LE, column, _typed(type_, below))


def _typed(type_: Primitive | Decimal, value: decimal.Decimal) -> Value:
    if isinstance(type_, Primitive):
        return int(value)
    return value.quantize(decimal.Decimal(1).scaleb(-type_.scale, _EXACT), context=_EXACT)


def _value(type_: DataType, literal: Literal, zone: str) -> Value | None:
    """The literal as a value of a column's type, for types that are neither integer nor decimal."""
    if not isinstance(type_, Primitive):
        return None
    match type_.name, literal:
        case ("string", Literal(LiteralKind.STRING, str() as text)):
            return text
        case ("binary", Literal(LiteralKind.BINARY, bytes() as data)):
            return data
        case ("boolean", Literal(LiteralKind.BOOLEAN, bool() as flag)):
            return flag
        case ("float" | "double", Literal(kind)) if kind in NUMBERS:
            return _double(type_.name, literal)
        case ("date", _):
            return _as_date(literal, zone)
        case ("timestamp", _):
            return _as_instant(literal, zone)
        case ("timestamp_ntz", _):
            return _as_local(literal, zone)
        case _:
            return None


def _double(name: str, literal: Literal) -> float | None:
    """The double a float or double column is compared with."""
    if isinstance(literal.value, float):
        return literal.value
    assert isinstance(literal.value, decimal.Decimal), "a number that is no double is exact"
    double = double_of(str(literal.value))
    if double is not None and name == "float" and literal.kind is LiteralKind.INTEGER:
        # Next to an integer a float column is compared as float or as double, depending on the mode.
        return double if decimal.Decimal(double) == literal.value and float_of(str(double)) == double else None
    return double


def _as_date(literal: Literal, zone: str) -> datetime.date | None:
    match literal:
        case Literal(LiteralKind.DATE, datetime.date() as day):
            return day
        case Literal(LiteralKind.STRING, str() as text):
            return date_of(text)
        case Literal(LiteralKind.TIMESTAMP | LiteralKind.TIMESTAMP_NTZ, datetime.datetime() as moment):
            midnight = moment.time() == datetime.time(0)
            return moment.date() if midnight and zone.lower() in _UTC else None
        case _:
            return None


def _as_instant(literal: Literal, zone: str) -> datetime.datetime | None:
    match literal:
        case Literal(LiteralKind.STRING, str() as text):
            moment = timestamp_of(text)
            return None if moment is None else instant_of(moment, zone)
        case Literal(LiteralKind.TIMESTAMP | LiteralKind.TIMESTAMP_NTZ, datetime.datetime() as moment):
            return instant_of(moment, zone)
        case Literal(LiteralKind.DATE, datetime.date() as day):
            return instant_of(datetime.datetime.combine(day, datetime.time(0)), zone)
        case _:
            return None


def _as_local(literal: Literal, zone: str) -> datetime.datetime | None:
    match literal:
        case Literal(LiteralKind.STRING, str() as text):
            moment = timestamp_of(text)
            return moment if moment is not None and moment.tzinfo is None else None
        case Literal(LiteralKind.TIMESTAMP_NTZ, datetime.datetime() as moment):
            return moment if moment.tzinfo is None else None
        case Literal(LiteralKind.TIMESTAMP, datetime.datetime() as moment):
            # Spark moves the column into the session's zone here, which keeps order only in a zone without changes.
            return moment if moment.tzinfo is None and zone.lower() in _UTC else None
        case Literal(LiteralKind.DATE, datetime.date() as day):
            return datetime.datetime.combine(day, datetime.time(0))
        case _:
            return None


def instant_of(moment: datetime.datetime, zone: str) -> datetime.datetime | None:
    """A local time in the session's zone as an instant, where every zone database agrees on it."""
    if moment.tzinfo is not None:
        return moment
    if zone.lower() in _UTC:
        return moment.replace(tzinfo=datetime.UTC)
    if "/" not in zone or not 1970 <= moment.year <= 2037:
        return None
    try:
        local = moment.replace(tzinfo=ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
    if local.utcoffset() != local.replace(fold=1).utcoffset():
        return None  # skipped or repeated by a change of clocks
    return local.astimezone(datetime.UTC)
