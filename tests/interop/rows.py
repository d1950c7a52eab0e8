"""The rows of a recipe's table, known in plain Python before anything is written.

1. `id` is the key: row n has the id n, and its other values follow from n and the recipe.
2. Numbers that Spark tasks give out for an identity column are not known beforehand, and left out.
3. A column of the second stretch is absent from the first: old rows are null in it.
4. A variant is known by its JSON text.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.interop.features import Recipe

FIRST, SECOND, THIRD, FOURTH = range(12), range(12, 24), range(24, 28), range(28, 30)
HIDDEN = frozenset((2, 7, 13))
CHANGED, CHANGED_TO = (4, 10, 14), 55
IDENTITY_START, IDENTITY_STEP = 100, 10

_EPOCH = dt.datetime(1970, 1, 1)
_PARTS = ["plain", "with space", "a/b=c%d", "ü'\"\\x", None, "{y}?#"]
_TEXTS = ["", "plain", None, 'quo"te', "line\nbreak", "ünï 😀", "x" * 40]
_DOUBLES = [0.5, -0.0, None, float("nan"), float("inf"), -1.5e300, 0.0]
_STRUCT = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
_POINT = pa.struct([("x", pa.float64()), ("y", pa.int64())])


@dataclass(frozen=True)
class Column:
    """A column: its SQL type, its Arrow type, and the value of row n."""

    name: str
    sql: str
    arrow: pa.DataType
    value: Callable[[int], Any]
    nullable: bool = True


def columns(recipe: Recipe, *, first: bool = False) -> tuple[Column, ...]:
    """The columns of the table, at the end or while the first stretch is written."""
    return tuple(_columns(recipe, first=first))


def partition_columns(recipe: Recipe) -> tuple[str, ...]:
    if "partitioned" not in recipe:
        return ()
    return ("part", "day", "moment") if "all_types" in recipe else ("part", "day")


def expected(recipe: Recipe, ids: Iterable[int] | None = None) -> pa.Table:
    """The rows with these ids as a reader must see them; by default all that the recipe's table has."""
    if ids is None:
        hidden = HIDDEN if "vectors" in recipe else frozenset()
        ids = [n for part in (FIRST, SECOND, THIRD, FOURTH) for n in part if n not in hidden]
    return table_of(known_columns(recipe), [row(recipe, n) for n in ids])


def known_columns(recipe: Recipe) -> tuple[Column, ...]:
    """The columns of the table whose values are known beforehand."""
    return tuple(c for c in columns(recipe) if c.name != "number" or "spark" not in recipe)


def row(recipe: Recipe, n: int) -> dict[str, Any]:
    """Row n as a reader must see it."""
    known = {column.name: column.value(n) for column in columns(recipe, first=n in FIRST)}
    if "widened" in recipe and n in FIRST:
        known["dd"] = known["dd"].quantize(Decimal("1.0000"))
    if "renamed" in recipe and n in FIRST:
        known = {"text" if name == "s" else name: value for name, value in known.items() if name != "gone"}
    if "changed" in recipe and n in CHANGED:
        known["v"] = CHANGED_TO
    if "variant" in recipe:
        known["var"] = canonical(known["var"])
    return {column.name: known.get(column.name) for column in columns(recipe)}


def table_of(made_of: Iterable[Column], rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows as an Arrow table."""
    listed = list(rows)
    return pa.table(
        {c.name: pa.array([row[c.name] for row in listed], c.arrow) for c in made_of},
        schema=pa.schema([pa.field(c.name, c.arrow, c.nullable) for c in made_of]),
    )


def written(recipe: Recipe, ids: Iterable[int], *, first: bool = False) -> pa.Table:
    """Rows as they are handed to a writer: without what the table computes itself."""
    given = [c for c in columns(recipe, first=first) if c.name not in ("twice", "number")]
    return table_of(given, [{c.name: c.value(n) for c in given} for n in ids])


def canonical(text: str | None) -> str | None:
    """JSON text in the one spelling that is compared."""
    return None if text is None else json.dumps(json.loads(text), sort_keys=True)


def _columns(recipe: Recipe, *, first: bool) -> Iterator[Column]:
    wide = "widened" in recipe and not first
    yield Column("id", "bigint", pa.int64(), lambda n: n, nullable=False)
    if wide:
        yield Column("v", "bigint", pa.int64(), lambda n: None if n % 5 == 4 else n - (1 << 40))
    else:
        yield Column("v", "int", pa.int32(), lambda n: None if n % 5 == 4 else n * (-1) ** n)
    yield Column("text" if "renamed" in recipe and not first else "s", "string", pa.string(), _turn(_TEXTS))
    yield Column("part", "string", pa.string(), lambda n: _PARTS[_few(n) % len(_PARTS)])
    yield Column("day", "date", pa.date32(), lambda n: None if _few(n) == 6 else dt.date(1969, 12, 31 - _few(n) % 2))
    if "widened" in recipe:
        yield Column("f", *(("double", pa.float64()) if wide else ("float", pa.float32())), lambda n: n / 4)
        digits, scale = (12, 4) if wide else (6, 2)
        yield Column(
            "dd", f"decimal({digits},{scale})", pa.decimal128(digits, scale), lambda n: Decimal(n).scaleb(-scale)
        )
    if "renamed" in recipe and first:
        yield Column("gone", "int", pa.int32(), lambda n: n)
    if "all_types" in recipe:
        yield from _primitives()
    if "nested" in recipe:
        yield from _nested()
    if "ntz" in recipe:
        yield Column("ntz", "timestamp_ntz", pa.timestamp("us"), _moment)
    if "variant" in recipe:
        yield Column("var", "variant", pa.string(), _variant)
    if "generated" in recipe:
        yield Column("twice", "bigint", pa.int64(), lambda n: 2 * n)
    if "identity" in recipe:
        yield Column("number", "bigint", pa.int64(), lambda n: IDENTITY_START + IDENTITY_STEP * n)
    if "added" in recipe and not first:
        yield Column("extra", "double", pa.float64(), _turn(_DOUBLES))
        yield Column("more", "array<int>", pa.list_(pa.int32()), lambda n: [None, n] if n % 2 else None)


def _primitives() -> Iterator[Column]:
    yield Column("b", "boolean", pa.bool_(), _turn([True, False, None]))
    yield Column("i8", "tinyint", pa.int8(), _turn([-128, 127, None, 0]))
    yield Column("i16", "smallint", pa.int16(), _turn([-32768, 32767, None, 0]))
    yield Column("i32", "int", pa.int32(), _turn([-(2**31), 2**31 - 1, None, 0]))
    yield Column("i64", "bigint", pa.int64(), _turn([-(2**63), 2**63 - 1, None, 0]))
    yield Column("f32", "float", pa.float32(), _turn([0.5, -0.0, None, float("nan"), float("-inf")]))
    yield Column("f64", "double", pa.float64(), _turn(_DOUBLES))
    yield Column("dec9", "decimal(9,2)", pa.decimal128(9, 2), _turn([Decimal("9999999.99"), Decimal("-0.01"), None]))
    yield Column("dec18", "decimal(18,0)", pa.decimal128(18, 0), _turn([Decimal("9" * 18), Decimal(-1), None]))
    yield Column("dec38", "decimal(38,10)", pa.decimal128(38, 10), _turn([Decimal("9" * 28 + "." + "9" * 10), None]))
    yield Column("bin", "binary", pa.binary(), _turn([b"", b"\x00\xff\x80", None]))
    yield Column(
        "date", "date", pa.date32(), _turn([dt.date(1, 1, 1), dt.date(9999, 12, 31), None, dt.date(1582, 10, 4)])
    )
    yield Column("ts", "timestamp", pa.timestamp("us", "UTC"), _moment)
    yield Column(
        "moment", "timestamp", pa.timestamp("us", "UTC"), lambda n: _EPOCH - dt.timedelta(microseconds=_few(n) % 2)
    )


def _nested() -> Iterator[Column]:
    def points(n: int) -> Any:
        return None if n % 4 == 3 else [{"x": n / 2, "y": None}, None, {"x": None, "y": n}][: n % 4]

    yield Column(
        "st",
        "struct<a: int, b: array<string>>",
        _STRUCT,
        lambda n: None if n % 3 == 2 else {"a": n if n % 2 else None, "b": ["", None, "z"][: n % 4]},
    )
    yield Column("points", "array<struct<x: double, y: bigint>>", pa.list_(_POINT), points)
    yield Column(
        "places",
        "map<string, struct<x: double, y: bigint>>",
        pa.map_(pa.string(), _POINT),
        lambda n: None if n % 5 == 0 else [("a b", {"x": 1.5, "y": n}), ("ü", None)][: n % 3],
    )
    yield Column(
        "grid", "array<array<int>>", pa.list_(pa.list_(pa.int32())), lambda n: [[n], None, [], [None, n]][: n % 5]
    )


def _few(n: int) -> int:
    """A number that stays the same for a few rows: partitions with a file each are slow to write."""
    return n // 4


def _turn(values: list[Any]) -> Callable[[int], Any]:
    return lambda n: values[n % len(values)]


def _moment(n: int) -> dt.datetime | None:
    known = [
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
        dt.datetime(2024, 2, 29, 12, 0, 0, 1),
        None,
        dt.datetime(1, 1, 1),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
    ]
    return known[n % len(known)]


def _variant(n: int) -> str | None:
    return ['{"a":[1,"x",null],"b":{"c":true}}', None, "7", '"text"', "1.25", "null"][n % 6]
