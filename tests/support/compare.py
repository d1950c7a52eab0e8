"""Two Arrow tables as multisets of typed rows.

1. Order of rows, of columns and of map entries does not count; multiplicity does.
2. Types must agree after unifying what only differs in storage: dictionaries, large and view types, the unit and zone
   spelling of timestamps, the width of decimals. A timestamp with a zone never equals one without.
3. NaN equals NaN and differs from every number; 0.0 and -0.0 differ.
4. A variant (a struct of the binaries `value` and `metadata`) is compared by meaning, not by encoding.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from functools import lru_cache
from typing import Any

import pyarrow as pa

from tests.support.variant import decoded


def assert_same_rows(actual: pa.Table, expected: pa.Table) -> None:
    """Fail, with what is different, unless both tables hold the same rows."""
    difference = describe_difference(actual, expected)
    assert difference is None, difference


def describe_difference(actual: pa.Table, expected: pa.Table) -> str | None:
    """What differs, for people to read; None when nothing does."""
    names = {name.lower(): name for name in actual.column_names}
    if sorted(names) != sorted(name.lower() for name in expected.column_names):
        return f"columns differ: {actual.column_names} where {expected.column_names} was expected"
    ordered = [names[name.lower()] for name in expected.column_names]
    actual = actual.select(ordered)
    for name, mine, theirs in zip(ordered, actual.schema.types, expected.schema.types, strict=True):
        if (a := kind(mine)) != (e := kind(theirs)):
            return f"types of {name} differ: {a} where {e} was expected (stored as {mine} and {theirs})"
    if _plainly_equal(actual, expected):
        return None
    mine, theirs = Counter(typed_rows(actual)), Counter(typed_rows(expected))
    if mine == theirs:
        return None
    extra, missing = mine - theirs, theirs - mine
    lines = [f"{actual.num_rows} rows where {expected.num_rows} were expected; columns {ordered}"]
    for label, side in (("only found", extra), ("only expected", missing)):
        lines.append(f"{sum(side.values())} rows {label}:")
        lines += [f"  {count} x {row}" for row, count in list(side.items())[:5]]
    return "\n".join(lines)


def _plainly_equal(actual: pa.Table, expected: pa.Table) -> bool:
    """A shortcut for large tables in the same order; Arrow takes 0.0 for -0.0, so not where there are floats."""
    floats = any(mark in str(type_) for type_ in actual.schema.types for mark in ("float", "double"))
    same_types = actual.schema.types == expected.schema.types
    return same_types and not floats and actual.equals(expected.rename_columns(actual.column_names))


def typed_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Each row as a hashable value."""
    if not table.num_columns:
        return [()] * table.num_rows
    columns = [[value for chunk in column.chunks for value in values(chunk)] for column in table.columns]
    return list(zip(*columns, strict=True))


def kind(type_: pa.DataType) -> Any:
    """The type without what only storage decides."""
    if isinstance(type_, pa.BaseExtensionType):
        return kind(type_.storage_type)
    if pa.types.is_dictionary(type_):
        return kind(type_.value_type)
    if is_variant(type_):
        return "variant"
    if pa.types.is_struct(type_):
        return ("struct", tuple(sorted((f.name.lower(), kind(f.type)) for f in type_.fields)))
    if pa.types.is_map(type_):
        return ("map", kind(type_.key_type), kind(type_.item_type))
    if _is_list(type_):
        return ("list", kind(type_.value_type))
    if pa.types.is_timestamp(type_):
        return "timestamp" if type_.tz is not None else "timestamp_ntz"
    if pa.types.is_decimal(type_):
        return ("decimal", type_.precision, type_.scale)
    for name, same in _UNIFIED.items():
        if type_ in same:
            return name
    return str(type_)


_UNIFIED: dict[str, tuple[pa.DataType, ...]] = {
    "string": (pa.string(), pa.large_string(), pa.string_view()),
    "binary": (pa.binary(), pa.large_binary(), pa.binary_view()),
    "date": (pa.date32(), pa.date64()),
    "time": (pa.time64("us"), pa.time64("ns")),
}


def values(array: pa.Array) -> list[Any]:
    """Each value as something hashable whose equality is the equality of this module."""
    type_ = array.type
    if isinstance(type_, pa.BaseExtensionType):
        return values(array.storage)
    if pa.types.is_dictionary(type_):
        return values(array.dictionary_decode())
    if is_variant(type_):
        pairs = zip(array.field("value").to_pylist(), array.field("metadata").to_pylist(), strict=True)
        return _with_nulls(array, [_variant(v, m) for v, m in pairs])
    if pa.types.is_struct(type_):
        ordered = sorted(range(type_.num_fields), key=lambda i: type_.field(i).name.lower())
        parts = [values(array.field(i)) for i in ordered]
        names = [type_.field(i).name.lower() for i in ordered]
        rows = zip(*parts, strict=True) if parts else [()] * len(array)
        return _with_nulls(array, [tuple(zip(names, row, strict=True)) for row in rows])
    if pa.types.is_map(type_):
        entries = list(zip(values(array.keys), values(array.items), strict=True))
        return [None if v is None else frozenset(Counter(v).items()) for v in _split(array, entries)]
    if _is_list(type_):
        plain = array.cast(pa.list_(type_.value_field))
        return [None if v is None else tuple(v) for v in _split(plain, values(plain.values))]
    if pa.types.is_floating(type_):
        doubles = array.cast(pa.float64()).to_pylist()
        return [None if v is None else "NaN" if math.isnan(v) else _float(v) for v in doubles]
    if pa.types.is_timestamp(type_):
        return _micros(array)
    if pa.types.is_date(type_):
        return [_day(v) for v in array.cast(pa.date32()).cast(pa.int32()).to_pylist()]
    return list(array.to_pylist())


def is_variant(type_: pa.DataType) -> bool:
    """Whether a type is the struct of a variant's two binaries."""
    if not pa.types.is_struct(type_) or sorted(f.name for f in type_.fields) != ["metadata", "value"]:
        return False
    return all(kind(f.type) == "binary" for f in type_.fields)


def _variant(value: bytes | None, metadata: bytes | None) -> Any:
    if not value or metadata is None:
        return ("no variant", value, metadata)
    return ("variant", _decoded(value, metadata))


_decoded = lru_cache(maxsize=100_000)(decoded)


def _split(array: pa.Array, inside: list[Any]) -> list[Any]:
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [inside[offsets[i] : offsets[i + 1]] if valid[i] else None for i in range(len(array))]


def _with_nulls(array: pa.Array, made: list[Any]) -> list[Any]:
    return [v if valid else None for v, valid in zip(made, array.is_valid().to_pylist(), strict=True)]


def _micros(array: pa.Array) -> list[Any]:
    scale = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 1}[array.type.unit]
    ticks = array.cast(pa.int64()).to_pylist()
    if array.type.unit == "ns":
        assert all(t is None or t % 1000 == 0 for t in ticks), "an expected timestamp is finer than a microsecond"
        ticks = [None if t is None else t // 1000 for t in ticks]
    return [None if t is None else _moment(t * scale) for t in ticks]


def _moment(micros: int) -> Any:
    """Readable where Python can show it."""
    try:
        return str(dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros))
    except OverflowError:
        return micros


def _day(days: int | None) -> Any:
    if days is None:
        return None
    try:
        return str(dt.date(1970, 1, 1) + dt.timedelta(days=days))
    except OverflowError:
        return days


def _float(value: float) -> Any:
    """The number, told apart from an integer and, for zero, by its sign."""
    return ("float", value, math.copysign(1.0, value))


def _is_list(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_fixed_size_list(type_)
        or pa.types.is_list_view(type_)
    )
