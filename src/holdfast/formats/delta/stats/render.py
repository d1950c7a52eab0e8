"""Statistics written: structs as JSON texts, texts as structs. Both for many files at once, a column at a time.

1. Reading what was rendered gives the bounds that reading the original gives.
2. A null field is left out of a text; a file that says nothing has no text and no struct.
3. A time is written in UTC, to the millisecond where that is all of it, else to the microsecond.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.formats.delta.stats.bounds import count, stored
from holdfast.formats.delta.stats.reader import DeferredStats, JsonStats, StructStats, child, shape
from holdfast.formats.delta.stats.text import read_texts
from holdfast.model.files import LeafPath, StatsSource
from holdfast.schema.types import DataType, Decimal, Primitive

_BOUNDED = frozenset(
    (
        *("byte", "short", "integer", "long", "float", "double"),
        *("string", "date", "timestamp", "timestamp_ntz", "boolean"),
    )
)
_NEEDS_ESCAPE = r'["\\\x00-\x1f]'
_ESCAPES = [("\\", "\\\\"), ('"', '\\"'), *((chr(n), f"\\u{n:04x}") for n in range(32))]


def texts_of(source: StatsSource) -> pa.Array:
    """The JSON text of each file; null where the log has no statistics."""
    match _opened(source):
        case JsonStats() as plain:
            return plain.texts()
        case StructStats() as structs:
            parsed, texts = structs.parts()
            rendered = render(parsed)
            return rendered if texts is None else pc.coalesce(texts, rendered)


def structs_of(source: StatsSource, leaves: Mapping[LeafPath, DataType]) -> pa.StructArray:
    """The statistics of each file as values of the leaves' types, with the type of `struct_type`."""
    match _opened(source):
        case JsonStats() as plain:
            return _from_texts(plain.texts(), leaves)
        case StructStats() as structs:
            parsed, texts = structs.parts()
            typed = _typed(parsed, leaves)
            return typed if texts is None else _filled(typed, _from_texts(texts, leaves))


def struct_type(leaves: Mapping[LeafPath, DataType]) -> pa.DataType:
    """The type of `stats_parsed` for these leaves."""
    return _typed(pa.nulls(0, pa.struct([])), leaves).type


def render(structs: pa.StructArray) -> pa.Array:
    """Structs as JSON objects; null where a struct is."""
    members = [
        pc.binary_join_element_wise(f",{_quoted(field.name)}:", text, "")
        for field in structs.type
        if (text := _text(pc.struct_field(structs, [structs.type.get_field_index(field.name)]))) is not None
    ]
    if not members:
        return pa.nulls(len(structs), pa.string())
    # Every member that is there begins with a comma, and the first comma is cut off again.
    inner = pc.binary_join_element_wise(*(pc.fill_null(member, "") for member in members), "")
    whole = _around("{", pc.utf8_slice_codeunits(inner, 1), "}")
    return pc.if_else(_any_valid(members), whole, pa.scalar(None, pa.string()))


def _opened(source: StatsSource) -> JsonStats | StructStats:
    opened = source.peek() if isinstance(source, DeferredStats) else source
    assert isinstance(opened, JsonStats | StructStats), "a log has statistics in two shapes"
    return opened


def _from_texts(texts: pa.Array, leaves: Mapping[LeafPath, DataType]) -> pa.StructArray:
    table = read_texts(pa.chunked_array([texts]), shape(leaves))
    columns = [_one(column) for column in table.columns]
    return _typed(pa.StructArray.from_arrays(columns, fields=list(table.schema)), leaves)


def _typed(parsed: pa.Array, leaves: Mapping[LeafPath, DataType]) -> pa.StructArray:
    """A struct of statistics with exactly these leaves, their values of their types."""
    bounded = {leaf: type_ for leaf, type_ in leaves.items() if _is_bounded(type_)}
    tight = child(parsed, ("tightBounds",))
    members = {"numRecords": count(child(parsed, ("numRecords",)))}
    if bounded:
        for kind in ("minValues", "maxValues"):
            members[kind] = _nested({leaf: stored(child(parsed, (kind, *leaf)), t) for leaf, t in bounded.items()})
    if leaves:
        members["nullCount"] = _nested({leaf: count(child(parsed, ("nullCount", *leaf))) for leaf in leaves})
    members["tightBounds"] = tight if pa.types.is_boolean(tight.type) else pa.nulls(len(parsed), pa.bool_())
    silent = pc.and_(pc.is_null(members["numRecords"]), pc.is_null(members["tightBounds"]))
    for kind in ("minValues", "maxValues", "nullCount"):
        if kind in members:
            silent = pc.and_(silent, pc.is_null(members[kind]))
    return pa.StructArray.from_arrays(list(members.values()), list(members), mask=silent)


def _is_bounded(type_: DataType) -> bool:
    return isinstance(type_, Decimal) or (isinstance(type_, Primitive) and type_.name in _BOUNDED)


def _nested(leaves: Mapping[LeafPath, pa.Array]) -> pa.StructArray:
    """Arrays of leaves as the struct that holds them, null where it holds nothing."""
    tree: dict[str, Any] = {}
    for (*parents, name), values in leaves.items():
        level = tree
        for parent in parents:
            level = level.setdefault(parent, {})
        level[name] = values
    return _struct(tree)


def _struct(tree: Mapping[str, Any]) -> pa.StructArray:
    members = [_struct(value) if isinstance(value, dict) else value for value in tree.values()]
    return pa.StructArray.from_arrays(members, list(tree), mask=pc.invert(_any_valid(members)))


def _filled(ours: pa.Array, theirs: pa.Array) -> pa.Array:
    """Values of one type, taken from the second where the first has none."""
    if not pa.types.is_struct(ours.type):
        return pc.coalesce(ours, theirs)
    members = [_filled(pc.struct_field(ours, [i]), pc.struct_field(theirs, [i])) for i in range(ours.type.num_fields)]
    neither = pc.and_(pc.is_null(ours), pc.is_null(theirs))
    return pa.StructArray.from_arrays(members, fields=list(ours.type), mask=neither)


def _text(values: pa.Array) -> pa.Array | None:
    """Values as JSON; None for a type that has no statistics."""
    kind = values.type
    if pa.types.is_struct(kind):
        return render(values)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return values.cast(pa.string())
    if pa.types.is_floating(kind):
        return _float_text(values)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _around('"', _escaped(values.cast(pa.string())), '"')
    if pa.types.is_date(kind):
        return _around('"', values.cast(pa.date32()).cast(pa.string()), '"')
    if pa.types.is_timestamp(kind):
        return _around('"', _moment_text(values), '"')
    return None


def _float_text(values: pa.Array) -> pa.Array:
    text = values.cast(pa.string())
    odd = pc.invert(pc.is_finite(values))
    if not pc.any(odd).as_py():
        return text
    named = pc.if_else(pc.is_nan(values), '"NaN"', pc.if_else(pc.greater(values, 0.0), '"Infinity"', '"-Infinity"'))
    return pc.if_else(odd, named, text)


def _moment_text(values: pa.Array) -> pa.Array:
    tail = "" if values.type.tz is None else "Z"
    clock = values.cast(pa.timestamp(values.type.unit)).cast(pa.timestamp("us"), safe=False)
    whole = clock.cast(pa.timestamp("ms"), safe=False)
    if whole.cast(pa.timestamp("us")).equals(clock):
        clock = whole
    return pc.strftime(clock, format=f"%Y-%m-%dT%H:%M:%S{tail}")


def _escaped(values: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(values, _NEEDS_ESCAPE)).as_py():
        return values
    for found, spelled in _ESCAPES:
        values = pc.replace_substring(values, found, spelled)
    return values


def _quoted(name: str) -> str:
    for found, spelled in _ESCAPES:
        name = name.replace(found, spelled)
    return f'"{name}"'


def _around(before: str, values: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, values, after, "")


def _any_valid(members: Sequence[pa.Array]) -> pa.Array:
    told = pc.is_valid(members[0])
    for member in members[1:]:
        told = pc.or_(told, pc.is_valid(member))
    return told


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays([pa.nulls(0, column.type), *column.chunks])
