"""The statistics of a data file, as the JSON text that a Delta log stores with it.

Minima, maxima and null counts come from the Parquet footer; the writer collects only what a footer lacks: NaN, null
lists and maps, and strings too long for a footer.

1. Every value lies between minimum and maximum. A bound that is not known is left out: a maximum beside NaN (which
   sorts above all numbers), an infinite bound, or a date outside of the years 1 to 9999.
2. A string is cut to a prefix of UTF-16 units, never inside a surrogate pair; a cut maximum ends in a tie-breaker that
   sorts above whatever was cut off.
3. Timestamps are rounded down to milliseconds, in the maximum too: readers add one back.
4. Numbers are JSON numbers with all their digits; keys are physical names; nested structs are nested objects.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.parquet.calendar import calendar_of
from holdfast.parquet.pages.footer import Node, columns
from holdfast.schema.arrow import arrow_type
from holdfast.schema.stats_leaves import LeafPath
from holdfast.schema.types import Array, DataType, Decimal, Field, Map, Primitive, Struct

_FOOTER_LIMIT = 4096  # bytes; Arrow leaves a longer minimum or maximum out of the footer
_FLOATS = (Primitive("float"), Primitive("double"))
_STRING = Primitive("string")
_UNBOUNDED = Primitive("boolean")  # a type whose nulls are counted and whose values have no bounds
_BOUNDED = frozenset({"byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz"})
_DAYS = (-719_162, 2_932_896)  # 0001-01-01 to 9999-12-31
_DAY_MICROS = 86_400_000_000
_BELOW_ASCII_END, _HIGHEST = "\x7f", "\U0010ffff"
RawBound: TypeAlias = Any  # as a footer stores it: int, float or bytes


@dataclass(frozen=True, slots=True)
class StatsLeaf:
    """A leaf whose statistics are kept, and its place in files."""

    path: LeafPath
    type: DataType
    index: int  # of its first leaf in the footer
    top: int  # of its column in the stored rows
    inside: tuple[int, ...]  # from the column down to it

    @property
    def in_footer(self) -> bool:
        """Whether the footer counts this leaf's nulls; of lists and variants it counts those of their parts."""
        return not isinstance(self.type, Array | Map) and self.type != Primitive("variant")

    @property
    def is_bounded(self) -> bool:
        return isinstance(self.type, Decimal) or self.type == _STRING or getattr(self.type, "name", "") in _BOUNDED


def stats_of(leaves: Iterable[LeafPath], fields: Iterable[Field], schema: pa.Schema) -> tuple[StatsLeaf, ...]:
    """The places of leaves in files of a schema; the same for all files of a table."""
    by_path = _resolved(tuple(fields), columns(schema))
    return tuple(by_path[path] for path in leaves)


class StatsGatherer:
    """Collects the statistics of one file: from each row group that is written, then from the footer."""

    def __init__(self, leaves: Iterable[StatsLeaf]) -> None:
        self._leaves = tuple(leaves)
        self._groups = 0
        self._has_nan: set[LeafPath] = set()
        self._null_counts = {leaf.path: 0 for leaf in self._leaves if not leaf.in_footer}
        self._long: dict[tuple[int, LeafPath], tuple[bytes, bytes]] = {}

    @classmethod
    def of_footer(cls, leaves: Iterable[StatsLeaf], footer: pq.FileMetaData) -> StatsGatherer:
        """A gatherer for a file whose rows are not read: any column of floats may hold NaN."""
        gatherer = cls(leaves)
        gatherer._groups = footer.num_row_groups
        gatherer._has_nan = {leaf.path for leaf in gatherer._leaves if leaf.type in _FLOATS}
        return gatherer

    def add_row_group(self, rows: pa.Table) -> None:
        """Collect what the footer will lack of a row group."""
        for leaf in self._leaves:
            if leaf.type in _FLOATS:
                if leaf.path not in self._has_nan and pc.any(pc.is_nan(_column(rows, leaf))).as_py():
                    self._has_nan.add(leaf.path)
            elif leaf.type == _STRING:
                self._add_long_strings(leaf, _column(rows, leaf))
            elif not leaf.in_footer:
                self._null_counts[leaf.path] += _column(rows, leaf).null_count
        self._groups += 1

    def leaves(
        self, footer: pq.FileMetaData
    ) -> Iterator[tuple[StatsLeaf, int | None, tuple[RawBound, RawBound] | None, bool]]:
        """Each leaf with its null count and bounds, None where not known, and whether it holds NaN."""
        for leaf in self._leaves:
            yield leaf, *self._merged(leaf, footer), leaf.path in self._has_nan

    def text(self, footer: pq.FileMetaData, *, string_prefix: int, tight: bool | None) -> str:
        """The statistics as JSON."""
        assert footer.num_row_groups == self._groups, "every row group was added"
        low: dict[str, Any] = {}
        high: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        for leaf in self._leaves:
            null_count, bounds = self._merged(leaf, footer)
            if null_count is not None:
                _put(nulls, leaf.path, str(null_count))
            if bounds is None:
                continue
            if (text := _minimum(bounds[0], leaf.type, string_prefix)) is not None:
                _put(low, leaf.path, text)
            text = None if leaf.path in self._has_nan else _maximum(bounds[1], leaf.type, string_prefix)
            if text is not None:
                _put(high, leaf.path, text)
        whole = {"numRecords": str(footer.num_rows), "minValues": low, "maxValues": high, "nullCount": nulls}
        if tight is not None:
            whole["tightBounds"] = json.dumps(tight)
        return _rendered(whole)

    def _add_long_strings(self, leaf: StatsLeaf, values: pa.ChunkedArray) -> None:
        longest = pc.max(pc.binary_length(values)).as_py()
        if longest is not None and longest > _FOOTER_LIMIT:
            bounds = pc.min_max(values)
            self._long[self._groups, leaf.path] = tuple(bounds[end].as_py().encode() for end in ("min", "max"))

    def _merged(self, leaf: StatsLeaf, footer: pq.FileMetaData) -> tuple[int | None, tuple[RawBound, RawBound] | None]:
        """Null count and bounds over all row groups, None where one of them lacks it."""
        if not leaf.in_footer:
            return self._null_counts[leaf.path], None
        null_count: int | None = 0
        lows, highs = [], []
        is_bounded = leaf.is_bounded
        for group in range(footer.num_row_groups):
            statistics = footer.row_group(group).column(leaf.index).statistics
            if statistics is None:
                return None, None
            null_count = (
                null_count + statistics.null_count if null_count is not None and statistics.has_null_count else None
            )
            if statistics.num_values == 0 or not is_bounded:
                continue
            if (group, leaf.path) in self._long:
                bounds = self._long[group, leaf.path]
            elif statistics.has_min_max:
                bounds = _number(statistics.min_raw, leaf.type), _number(statistics.max_raw, leaf.type)
            elif leaf.path in self._has_nan:
                continue  # a group of nothing but NaN
            else:
                is_bounded = False
                continue
            lows.append(bounds[0])
            highs.append(bounds[1])
        return null_count, (min(lows), max(highs)) if is_bounded and lows else None


def footer_text(
    leaves: Iterable[LeafPath],
    fields: Iterable[Field],
    footer: pq.FileMetaData,
    *,
    string_prefix: int,
    tight: bool | None,
) -> str:
    """The statistics of a file that another engine wrote, from its footer alone."""
    schema = footer.schema.to_arrow_schema()
    by_path = _resolved(tuple(fields), columns(schema))
    old_calendar = calendar_of(footer.metadata).dates
    resolved = [by_path[path] for path in leaves if path in by_path and by_path[path].in_footer]
    usable = [leaf if _is_plain(leaf, schema, old_calendar) else replace(leaf, type=_UNBOUNDED) for leaf in resolved]
    for attempt in (usable, [replace(leaf, type=_UNBOUNDED) if leaf.type == _STRING else leaf for leaf in usable]):
        with suppress(UnicodeDecodeError):  # a bound that was cut inside a character
            return StatsGatherer.of_footer(attempt, footer).text(footer, string_prefix=string_prefix, tight=tight)
    raise AssertionError("only strings are decoded")


def _is_plain(leaf: StatsLeaf, schema: pa.Schema, old_calendar: bool) -> bool:
    """Whether a file stores a leaf as Holdfast does, so that its bounds mean the same."""
    stored = schema.field(leaf.top).type
    for at in leaf.inside:
        stored = stored.field(at).type
    return stored == arrow_type(leaf.type) and not (old_calendar and pa.types.is_temporal(stored))


def _resolved(fields: tuple[Field, ...], nodes: tuple[Node, ...]) -> dict[LeafPath, StatsLeaf]:
    """Every leaf of the stored columns, by its path."""
    stored = {node.name: (at, node) for at, node in enumerate(nodes)}
    leaves: dict[LeafPath, StatsLeaf] = {}

    def visit(f: Field, node: Node, path: LeafPath, top: int, inside: tuple[int, ...]) -> None:
        if not isinstance(f.type, Struct):
            leaves[path] = StatsLeaf(path, f.type, node.leaf, top, inside)
            return
        children = {child.name: (at, child) for at, child in enumerate(node.children)}
        for inner in f.type:
            if inner.physical_name in children:
                at, child = children[inner.physical_name]
                visit(inner, child, (*path, inner.physical_name), top, (*inside, at))

    for f in fields:
        if f.physical_name in stored:
            at, node = stored[f.physical_name]
            visit(f, node, (f.physical_name,), at, ())
    return leaves


def _column(rows: pa.Table, leaf: StatsLeaf) -> pa.ChunkedArray:
    column = rows.column(leaf.top)
    return pc.struct_field(column, list(leaf.inside)) if leaf.inside else column


def _number(raw: RawBound, type_: DataType) -> RawBound:
    """Decimals wider than an integer are stored as bytes."""
    return int.from_bytes(raw, "big", signed=True) if isinstance(type_, Decimal) and isinstance(raw, bytes) else raw


def _minimum(raw: RawBound, type_: DataType, prefix: int) -> str | None:
    return _quoted(truncated_minimum(raw.decode(), prefix)) if type_ == _STRING else _bound(raw, type_)


def _maximum(raw: RawBound, type_: DataType, prefix: int) -> str | None:
    if type_ != _STRING:
        return _bound(raw, type_)
    cut = truncated_maximum(raw.decode(), prefix)
    return None if cut is None else _quoted(cut)


def _bound(raw: RawBound, type_: DataType) -> str | None:
    match type_:
        case Primitive("float"):
            return str(np.float32(raw)) if math.isfinite(raw) else None
        case Primitive("double"):
            return repr(raw) if math.isfinite(raw) else None
        case Decimal(_, scale):
            return _decimal(raw, scale)
        case Primitive("date"):
            return _quoted(str(np.datetime64(raw, "D"))) if _DAYS[0] <= raw <= _DAYS[1] else None
        case Primitive("timestamp" | "timestamp_ntz" as name):
            if not _DAYS[0] <= raw // _DAY_MICROS <= _DAYS[1]:
                return None
            return _quoted(str(np.datetime64(raw // 1000, "ms")) + ("Z" if name == "timestamp" else ""))
        case _:
            return str(raw)


def _decimal(unscaled: int, scale: int) -> str:
    if scale <= 0:
        return str(unscaled * 10**-scale)
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    return f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def truncated_minimum(text: str, prefix: int) -> str:
    """The first `prefix` UTF-16 units, one more where the last would be half a character."""
    return text[: _points(text, prefix)]


def truncated_maximum(text: str, prefix: int) -> str | None:
    """A short text that sorts at or above this one; None where there is none."""
    at = _points(text, prefix)
    while at < len(text) and text[at] == _HIGHEST:
        at += 1
    if at == len(text):
        return text
    if _units(text[:at]) > 2 * prefix:
        return None
    return text[:at] + (_BELOW_ASCII_END if text[at] < _BELOW_ASCII_END else _HIGHEST)


def _points(text: str, units: int) -> int:
    """How many characters of a text have so many UTF-16 units; all where it has fewer."""
    if text[:units].isascii():
        return min(units, len(text))
    at = counted = 0
    while at < len(text) and counted < units:
        counted += 2 if text[at] > "\uffff" else 1
        at += 1
    return at


def _units(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)


def _put(tree: dict[str, Any], path: LeafPath, text: str) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _rendered(tree: Mapping[str, Any]) -> str:
    parts = (f"{_quoted(name)}:{_rendered(v) if isinstance(v, dict) else v}" for name, v in tree.items())
    return "{" + ",".join(parts) + "}"
