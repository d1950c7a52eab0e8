"""Which types convert to which others, by four rules.

`is_lossless`: every value survives. `widens`: the format allows the change of a column's type without rewriting files.
`is_assignable`: Spark's ANSI store assignment converts, and raises for values that do not fit. `is_castable`: a cast
converts, from strings and booleans too.

1. All four are about types that are not nested; callers take nested types apart.
2. A widening is lossless, so a widened column keeps its values.
3. `wider(a, b)` is a widening of `a` that holds every value of `b`, or None.
"""

from __future__ import annotations

from holdfast.schema.types import DataType, Decimal, Primitive

LARGEST_PRECISION = 38

_INTEGERS = ("byte", "short", "integer", "long")
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_WIDENED_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}  # the format's least precisions
_FLOATS = {"byte": ("float", "double"), "short": ("float", "double"), "integer": ("double",), "float": ("double",)}
_MOMENTS = frozenset(("date", "timestamp", "timestamp_ntz"))
_NUMBERS = frozenset((*_INTEGERS, "float", "double"))
_TEXTABLE = _NUMBERS | _MOMENTS | {"boolean", "binary"}


def is_lossless(source: DataType, target: DataType) -> bool:
    """Whether every value of one type is a value of the other, with any session settings."""
    match source, target:
        case (Primitive("void"), _):
            return True
        case (Primitive(a), Primitive(b)):
            return a == b or _is_wider_integer(a, b) or b in _FLOATS.get(a, ()) or (a, b) == ("date", "timestamp_ntz")
        case (Primitive(a), Decimal(precision, scale)) if a in _DIGITS:
            return precision - scale >= _DIGITS[a]
        case (Decimal(), Decimal()):
            return target.scale >= source.scale and _whole(target) >= _whole(source)
        case _:
            return False


def is_assignable(source: DataType, target: DataType) -> bool:
    """Whether Spark's ANSI store assignment converts the one into the other."""
    if is_lossless(source, target):
        return True
    match source, target:
        case (Primitive(a), Primitive(b)) if a in _MOMENTS and b in _MOMENTS:
            return True
        case (_, Primitive("string")):
            return isinstance(source, Decimal) or (isinstance(source, Primitive) and source.name in _TEXTABLE)
        case _:
            return _is_number(source) and _is_number(target)


def is_castable(source: DataType, target: DataType) -> bool:
    """Whether a cast converts the one into the other, where the value allows it."""
    if is_assignable(source, target):
        return True
    match source, target:
        case (Primitive("string"), Primitive(name)):
            return name in _TEXTABLE
        case (Primitive("string" | "boolean"), _) if _is_number(target):
            return True
        case (_, Primitive("boolean")):
            return _is_number(source)
        case _:
            return False


def widens(source: DataType, target: DataType) -> bool:
    """Whether the format lets a column of one type become the other."""
    match source, target:
        case (Primitive(a), Primitive(b)):
            to_double = b == "double" and a in ("byte", "short", "integer", "float")
            return _is_wider_integer(a, b) or to_double or (a, b) == ("date", "timestamp_ntz")
        case (Primitive(a), Decimal(precision, scale)) if a in _WIDENED_DIGITS:
            return precision - scale >= _WIDENED_DIGITS[a]
        case (Decimal(), Decimal()):
            return source != target and is_lossless(source, target)
        case _:
            return False


def wider(source: DataType, other: DataType) -> DataType | None:
    """The smallest widening of a column's type that also holds the other type's values; None where there is none."""
    return next((t for t in _candidates(source, other) if widens(source, t) and is_lossless(other, t)), None)


def _candidates(source: DataType, other: DataType) -> tuple[DataType, ...]:
    common = _decimals_together(_as_decimal(source, _WIDENED_DIGITS), _as_decimal(other, _DIGITS))
    return (other, *((common,) if common else ()), Primitive("double"))


def _decimals_together(a: Decimal | None, b: Decimal | None) -> Decimal | None:
    if a is None or b is None:
        return None
    scale = max(a.scale, b.scale)
    precision = max(_whole(a), _whole(b)) + scale
    return Decimal(precision, scale) if precision <= LARGEST_PRECISION else None


def _as_decimal(type_: DataType, digits: dict[str, int]) -> Decimal | None:
    match type_:
        case Decimal():
            return type_
        case Primitive(name) if name in digits:
            return Decimal(digits[name], 0)
        case _:
            return None


def _is_wider_integer(a: str, b: str) -> bool:
    return a in _INTEGERS and b in _INTEGERS and _INTEGERS.index(a) < _INTEGERS.index(b)


def _is_number(type_: DataType) -> bool:
    return isinstance(type_, Decimal) or (isinstance(type_, Primitive) and type_.name in _NUMBERS)


def _whole(type_: Decimal) -> int:
    """Digits before the point."""
    return type_.precision - type_.scale
