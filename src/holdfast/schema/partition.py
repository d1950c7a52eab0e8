"""Parses partition values, which a Delta log stores as text, into values of the column's type.

The log stores a file's partition values as a map from physical column name to text. Each distinct text is converted
once, because a table has far fewer of them than files; Arrow converts texts in their usual form, and Python a column
with any unusual one (a sign, a far year, mixed zones).

1. An absent key, a null and the empty text are all null, for every type.
2. A text that is no value of its column's type is Damaged, with text, column type and location.
3. A timestamp without a zone in its text is in `zone`.
4. Years outside 0001 to 9999 are supported.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Damaged, Unsupported
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import DataType, Decimal, Primitive
from holdfast.storage.error_mapping import MALFORMED

_INTEGER = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,5})?", re.ASCII)
_DAY = r"([+-]?\d{4,6})-(\d{1,2})-(\d{1,2})"
_DATE = re.compile(_DAY, re.ASCII)
_TIMESTAMP = re.compile(
    _DAY + r"(?:[ T](\d{1,2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?)?\s?(Z|UTC|[+-]\d{2}:?\d{2})?",
    re.ASCII,
)
_DOUBLES = {"nan": "NaN", "infinity": "inf", "+infinity": "inf", "-infinity": "-inf", "inf": "inf", "-inf": "-inf"}
# The form of nearly all texts, which Arrow parses correctly.
_USUAL = {
    "byte": r"^-?[0-9]{1,19}$",
    "short": r"^-?[0-9]{1,19}$",
    "integer": r"^-?[0-9]{1,19}$",
    "long": r"^-?[0-9]{1,19}$",
    "date": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "timestamp": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$",
    "timestamp_ntz": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$",
}
# Days from 0000-03-01 to 1970-01-01 in the proleptic Gregorian calendar.
_EPOCH_DAYS = 719_468
_DAY_MICROS = 86_400_000_000


def column(partition_values: pa.MapArray | pa.ChunkedArray, physical_name: str) -> pa.Array:
    """The texts of one partition column in a file table's `partition_values`."""
    texts = pc.map_lookup(partition_values, physical_name, "first")
    return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts


def typed(texts: pa.Array, type_: DataType, *, where: str, zone: str = "UTC") -> pa.Array:
    """Partition texts as values of a column's type; `where` names column and table in errors."""
    encoded = pc.dictionary_encode(pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts))
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    values = _distinct(encoded.dictionary, type_, where, zone)
    return values.take(encoded.indices)


def _distinct(texts: pa.Array, type_: DataType, where: str, zone: str) -> pa.Array:
    target = arrow_type(type_)
    if (usual := _by_arrow(texts, type_)) is not None:
        return usual
    match type_:
        case Primitive("string" | "binary"):
            return texts.cast(target)
        case Primitive("byte" | "short" | "integer" | "long"):
            return _each(texts, target, _integer, type_, where)
        case Primitive("float" | "double"):
            return _each(texts, target, _double, type_, where)
        case Primitive("boolean"):
            return _each(texts, target, _boolean, type_, where)
        case Decimal(_, scale):
            return _each(texts, target, lambda text: _decimal(text, scale), type_, where)
        case Primitive("date"):
            return _each(texts, pa.int32(), _date, type_, where).cast(target)
        case Primitive("timestamp_ntz"):
            return _each(texts, pa.int64(), lambda text: _moment(text)[0], type_, where).cast(target)
        case Primitive("timestamp"):
            return _instants(texts, type_, where, zone)
        case _:
            name = type_.name if isinstance(type_, Primitive) else type(type_).__name__.lower()
            raise Unsupported(f"{where} is a partition column of type {name}, which has no partition values")


def _by_arrow(texts: pa.Array, type_: DataType) -> pa.Array | None:
    """The values, where every text has its type's usual form."""
    usual = _USUAL.get(type_.name) if isinstance(type_, Primitive) else None
    if usual is None or not pc.all(pc.match_substring_regex(texts, usual), min_count=0).as_py():
        return None
    try:
        return texts.cast(arrow_type(type_))
    except pa.ArrowInvalid:
        return None


def _each(texts: pa.Array, target: pa.DataType, convert: Callable[[str], Any], type_: DataType, where: str) -> pa.Array:
    assert isinstance(type_, Primitive | Decimal), "nested types hold no partition values"
    text = ""
    try:
        values = []
        for text in texts.to_pylist():
            values.append(pa.scalar(convert(text), target))
        return pa.array(values, target)
    except MALFORMED as error:
        raise Damaged(
            f"the partition value {text!r} of {where} is not a {type_.name}",
            path=where,
            expected=type_.name,
            found=text,
        ) from error


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _double(text: str) -> float:
    special = _DOUBLES.get(text.lower())
    if special is None and not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return float(special or text)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _decimal(text: str, scale: int) -> decimal.Decimal:
    """The exact value at the column's scale; digits beyond it must be zeros."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    exact = decimal.Context(prec=100, traps=[decimal.InvalidOperation, decimal.Inexact])
    return decimal.Decimal(text).quantize(decimal.Decimal(1).scaleb(-scale, exact), context=exact)


def _date(text: str) -> int:
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return _days(int(match[1]), int(match[2]), int(match[3]))


def _moment(text: str) -> tuple[int, int | None]:
    """Microseconds of the wall clock since the epoch, and the zone's offset from UTC, where the text has one."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    clock = datetime.timedelta(hours=int(hour or 0), minutes=int(minute or 0), seconds=int(second or 0))
    if int(hour or 0) > 23 or int(minute or 0) > 59 or int(second or 0) > 59 or (fraction or "")[6:].strip("0"):
        raise ValueError(text)
    micros = _days(int(year), int(month), int(day)) * _DAY_MICROS + clock // datetime.timedelta(microseconds=1)
    micros += int((fraction or "")[:6].ljust(6, "0"))
    if offset is None or offset in ("Z", "UTC"):
        return micros, None if offset is None else 0
    digits = offset[1:].replace(":", "")
    ahead = (int(digits[:2]) * 60 + int(digits[2:])) * 60_000_000
    return micros, -ahead if offset[0] == "-" else ahead


def _instants(texts: pa.Array, type_: DataType, where: str, zone: str) -> pa.Array:
    def utc(text: str) -> int | None:
        micros, ahead = _moment(text)
        return None if ahead is None else micros - ahead

    def local(text: str) -> int | None:
        micros, ahead = _moment(text)
        return micros if ahead is None else None

    instants = _each(texts, pa.int64(), utc, type_, where).cast(arrow_type(type_))
    if instants.null_count == 0:
        return instants
    clocks = _each(texts, pa.int64(), local, type_, where).cast(pa.timestamp("us"))
    # A wall clock that a zone skips or repeats is ambiguous: the earlier instant is as good as the other.
    placed = pc.assume_timezone(clocks, zone, ambiguous="earliest", nonexistent="earliest")
    return pc.coalesce(instants, placed.cast(arrow_type(type_)))


def _days(year: int, month: int, day: int) -> int:
    """Days since the epoch in the proleptic Gregorian calendar, for any year."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if not (1 <= month <= 12 and 1 <= day <= lengths[month - 1]):
        raise ValueError(f"{year}-{month}-{day}")
    # Counted in years that start in March, so that the leap day comes last.
    march_year = year - (month <= 2)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return march_year * 365 + march_year // 4 - march_year // 100 + march_year // 400 + day_of_year - _EPOCH_DAYS
