"""Converts statistics between JSON texts and structs, for many files at once.

1. A converted text or struct gives the same bounds as the original.
2. A null field is left out of a text; a file without statistics has no text and no struct.
3. A time is written in UTC, in milliseconds where that is exact, else in microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.formats.delta.stats.bounds import count, stored
from holdfast.formats.delta.stats.reader import DeferredStats, JsonStats, StructStats, child, nested, parse_texts
from holdfast.model.files import LeafPath, StatsSource
from holdfast.schema.types import DataType, Decimal, Primitive
from holdfast.storage.error_mapping import MALFORMED_JSON

_BOUNDED = frozenset(
    ["byte", "short", "integer", "long", "float", "double", "string", "date", "timestamp", "timestamp_ntz", "boolean"]
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


def decode_stats(text: str | None) -> dict[str, Any]:
    """The JSON object of a statistics text; empty where there is none that can be read."""
    try:
        decoded = msgspec.json.decode(text or "{}")
    except MALFORMED_JSON:
        return {}
    return decoded if isinstance(decoded, dict) else {}


def structs_of(source: StatsSource, leaves: Mapping[LeafPath, DataType]) -> pa.StructArray:
    """The statistics of each file as values of the leaves' types, with the type of `struct_type`."""
    match _opened(source):
        case JsonStats() as plain:
            return _typed(parse_texts(pa.chunked_array([plain.texts()]), leaves), leaves)
        case StructStats() as structs:
            parsed, texts = structs.parts()
            typed = _typed(parsed, leaves)
            if texts is None:
                return typed
            return _filled(typed, _typed(parse_texts(pa.chunked_array([texts]), leaves), leaves))


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
    # Every member begins with a comma, and the first comma is cut off.
    inner = pc.binary_join_element_wise(*(pc.fill_null(member, "") for member in members), "")
    whole = _around("{", pc.utf8_slice_codeunits(inner, 1), "}")
    return pc.if_else(_any_valid(members), whole, pa.scalar(None, pa.string()))


def _opened(source: StatsSource) -> JsonStats | StructStats:
    opened = source.peek() if isinstance(source, DeferredStats) else source
    assert isinstance(opened, JsonStats | StructStats), "a log has statistics as texts or structs"
    return opened


def _typed(parsed: pa.Array, leaves: Mapping[LeafPath, DataType]) -> pa.StructArray:
    """A struct of statistics with exactly these leaves, as values of their types."""
    bounded = {leaf: type_ for leaf, type_ in leaves.items() if _is_bounded(type_)}
    tight = child(parsed, ("tightBounds",))
    members = {"numRecords": count(child(parsed, ("numRecords",)))}
    if bounded:
        for kind in ("minValues", "maxValues"):
            arrays = {leaf: stored(child(parsed, (kind, *leaf)), type_) for leaf, type_ in bounded.items()}
            members[kind] = _struct(nested(arrays))
    if leaves:
        counts = {leaf: count(child(parsed, ("nullCount", *leaf))) for leaf in leaves}
        members["nullCount"] = _struct(nested(counts))
    members["tightBounds"] = tight if pa.types.is_boolean(tight.type) else pa.nulls(len(parsed), pa.bool_())
    return _struct(members)


def _is_bounded(type_: DataType) -> bool:
    return isinstance(type_, Decimal) or (isinstance(type_, Primitive) and type_.name in _BOUNDED)


def _struct(tree: Mapping[str, Any]) -> pa.StructArray:
    """A tree of arrays as a struct, null where all its members are null."""
    members = [_struct(value) if isinstance(value, dict) else value for value in tree.values()]
    return pa.StructArray.from_arrays(members, list(tree), mask=pc.invert(_any_valid(members)))


def _filled(ours: pa.Array, theirs: pa.Array) -> pa.Array:
    """The first values, with nulls filled from the second ones of the same type."""
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
    special = pc.invert(pc.is_finite(values))
    if not pc.any(special).as_py():
        return text
    names = pc.if_else(pc.is_nan(values), '"NaN"', pc.if_else(pc.greater(values, 0.0), '"Infinity"', '"-Infinity"'))
    return pc.if_else(special, names, text)


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
    for char, escape in _ESCAPES:
        values = pc.replace_substring(values, char, escape)
    return values


def _quoted(name: str) -> str:
    for char, escape in _ESCAPES:
        name = name.replace(char, escape)
    return f'"{name}"'


def _around(before: str, values: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, values, after, "")


def _any_valid(members: Sequence[pa.Array]) -> pa.Array:
    valid = pc.is_valid(members[0])
    for member in members[1:]:
        valid = pc.or_(valid, pc.is_valid(member))
    return valid
