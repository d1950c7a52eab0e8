"""Converts a column from the type that a file stores to the type that the table declares.

1. A field of a struct is found by physical name (exactly, else the only one without regard to case), or by field id; a
   missing one is null. Inside a struct whose fields have no ids, names decide.
2. A file may store the type itself, in any encoding, a narrower type that widening allows, or any integer type whose
   values fit. Anything else is refused with the names of file and column.
3. Julian dates and timestamps become Gregorian where the footer says that the file has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Damaged, Unsupported
from holdfast.parquet.calendar import Calendar, rebased_dates, rebased_micros
from holdfast.parquet.pages.footer import Node
from holdfast.parquet.variant import is_shredded, unshredded
from holdfast.schema.arrow import VARIANT, arrow_type, is_list
from holdfast.schema.types import Array, DataType, Decimal, Field, Map, Primitive, Struct
from holdfast.storage.arrays import list_span, null_mask, plain_array, truths

_INTEGERS = frozenset({"byte", "short", "integer", "long"})
_AS_STORED = _INTEGERS | {"float", "double", "boolean", "string", "binary"}  # types that no calendar changes
_BYTES = frozenset({pa.string(), pa.binary(), pa.large_string(), pa.large_binary(), pa.string_view(), pa.binary_view()})
_UUID_BYTES = 16
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_PER_MICRO = {"s": (1_000_000, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Facts about the whole file that a conversion needs."""

    uri: str
    by_id: bool
    calendar: Calendar
    int96: frozenset[int]  # leaves stored as 96-bit timestamps


def find(nodes: Sequence[Node], field: Field, facts: FileFacts, *, column: str) -> Node | None:
    """The node of a field; None where the file lacks it."""
    if facts.by_id and any(node.field_id is not None for node in nodes):
        same = [node for node in nodes if node.field_id is not None and node.field_id == field.field_id]
        return _only(same, facts, column)
    if facts.by_id and field.file_names is not None:
        return _only([node for node in nodes if node.name in field.file_names], facts, column)
    return find_name(nodes, field.physical_name, facts, column=column)


def find_name(nodes: Sequence[Node], name: str, facts: FileFacts, *, column: str) -> Node | None:
    """The node of this name: exactly, else the only one without regard to case."""
    exact = [node for node in nodes if node.name == name]
    return _only(exact or [node for node in nodes if node.name.lower() == name.lower()], facts, column)


def needs_nothing(stored: pa.DataType, type_: DataType) -> bool:
    """Whether values of a stored type need no conversion to `type_`."""
    element = type_.element if isinstance(type_, Array) else type_
    return isinstance(element, Primitive) and element.name in _AS_STORED and bool(stored == arrow_type(type_))


def convert(array: pa.Array, node: Node, type_: DataType, facts: FileFacts, *, column: str) -> pa.Array:
    """The values of a node as the Arrow type of `type_`; `column` names it in errors."""
    array = plain_array(array)
    if pa.types.is_null(array.type) or type_ == Primitive("void"):
        return pa.nulls(len(array), arrow_type(type_))
    try:
        match type_:
            case Struct():
                return _struct(array, node, type_, facts, column)
            case Array():
                return _list(array, node, type_, facts, column)
            case Map():
                return _map(array, node, type_, facts, column)
            case Decimal():
                return _decimal(array, type_, facts, column)
            case Primitive("variant"):
                return _variant(array, facts, column)
            case Primitive(name):
                return _primitive(array, node, name, facts, column)
    except pa.ArrowInvalid as error:
        raise Damaged(
            f"{facts.uri} holds values in its column {column} that are no {_shown(type_)}: {error}",
            path=facts.uri,
            expected=_shown(type_),
            found=str(array.type),
        ) from error


def _struct(array: pa.Array, node: Node, type_: Struct, facts: FileFacts, column: str) -> pa.Array:
    if not pa.types.is_struct(array.type):
        raise _refusal(array, type_, facts, column)
    children = []
    for field in type_.fields:
        inner = f"{column}.{field.name}"
        child = find(node.children, field, facts, column=inner)
        if child is None:
            children.append(_absent(field, len(array)))
        else:
            children.append(convert(array.field(node.children.index(child)), child, field.type, facts, column=inner))
    return _structs(children, arrow_type(type_), array)


def _absent(field: Field, count: int) -> pa.Array:
    """A field of a struct that the file does not have."""
    type_ = arrow_type(field.type)
    if field.initial_default is None:
        return pa.nulls(count, type_)
    return pa.repeat(pa.scalar(field.initial_default, type_), count)


def _list(array: pa.Array, node: Node, type_: Array, facts: FileFacts, column: str) -> pa.Array:
    if not is_list(array.type):
        raise _refusal(array, type_, facts, column)
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    offsets, start, length = list_span(array)
    values = array.values.slice(start, length)
    element = convert(values, node.children[0], type_.element, facts, column=f"{column}.element")
    return pa.ListArray.from_arrays(offsets, element, type=arrow_type(type_), mask=null_mask(array))


def _map(array: pa.Array, node: Node, type_: Map, facts: FileFacts, column: str) -> pa.Array:
    if not pa.types.is_map(array.type):
        raise _refusal(array, type_, facts, column)
    offsets, start, length = list_span(array)
    key = convert(array.keys.slice(start, length), node.children[0], type_.key, facts, column=f"{column}.key")
    value = convert(array.items.slice(start, length), node.children[1], type_.value, facts, column=f"{column}.value")
    return pa.MapArray.from_arrays(offsets, key, value, type=arrow_type(type_), mask=null_mask(array))


def _variant(array: pa.Array, facts: FileFacts, column: str) -> pa.Array:
    if not pa.types.is_struct(array.type) or array.type.get_field_index("metadata") < 0:
        raise _refusal(array, Primitive("variant"), facts, column)
    if is_shredded(array):
        parts = unshredded(array, where=f"{column} of {facts.uri}")
    elif array.type.get_field_index("value") < 0:
        raise _refusal(array, Primitive("variant"), facts, column)
    else:
        parts = (array.field("value").cast(pa.binary()), array.field("metadata").cast(pa.binary()))
    return _structs(list(parts), VARIANT, array)


def _decimal(array: pa.Array, type_: Decimal, facts: FileFacts, column: str) -> pa.Array:
    target = pa.decimal128(type_.precision, type_.scale)
    if pa.types.is_decimal(array.type):
        return array.cast(target)
    if pa.types.is_integer(array.type):
        # Arrow wants a precision for every integer of the width, but only these values must fit.
        roomy = pa.decimal256(min(76, 20 + type_.scale), type_.scale)
        return array.cast(roomy).cast(target)
    raise _refusal(array, type_, facts, column)


def _primitive(array: pa.Array, node: Node, name: str, facts: FileFacts, column: str) -> pa.Array:
    stored = array.type
    target = arrow_type(Primitive(name))
    if facts.by_id and name == "string" and pa.types.is_fixed_size_binary(stored) and stored.byte_width == _UUID_BYTES:
        return uuid_texts(array)
    if name in ("string", "binary") and _is_bytes(stored):
        return array if stored == target else array.cast(pa.binary()).cast(target)
    if name in _INTEGERS and pa.types.is_integer(stored):
        return array.cast(target)
    if name == "time" and (pa.types.is_time(stored) or stored == pa.int64()):
        micros = array.view(pa.time64("us")) if stored == pa.int64() else array
        return micros.cast(target)
    if name == "boolean" and pa.types.is_boolean(stored):
        return array
    if name == "float" and stored in (pa.float32(), pa.float16()):
        return array.cast(target)
    if name == "double" and (pa.types.is_floating(stored) or (pa.types.is_integer(stored) and stored.bit_width <= 32)):
        return array.cast(target)
    if name == "date" and pa.types.is_date(stored):
        return _dates(array, facts)
    if name == "timestamp_ntz" and pa.types.is_date(stored):
        return _dates(array, facts).cast(target)
    if name == "timestamp" and pa.types.is_timestamp(stored):
        micros = _micros(array)
        if facts.calendar.int96 if node.leaf in facts.int96 else facts.calendar.dates:
            micros = rebased_micros(micros, facts.calendar.zone, where=f"{facts.uri}, column {column},")
        return micros.view(target)
    if name == "timestamp_ntz" and pa.types.is_timestamp(stored) and stored.tz is None:
        return _micros(array).view(target)
    raise _refusal(array, Primitive(name), facts, column)


def uuid_texts(array: pa.Array) -> pa.Array:
    """UUIDs of 16 bytes as strings."""
    blobs = array.cast(pa.binary(_UUID_BYTES))
    data = np.frombuffer(blobs.buffers()[1] or b"", np.uint8)[blobs.offset * _UUID_BYTES :][: len(blobs) * _UUID_BYTES]
    digits = _HEX[np.stack([data >> 4, data & 15], axis=1)].reshape(len(blobs), 2 * _UUID_BYTES)
    texts = np.insert(digits, [8, 12, 16, 20], ord("-"), axis=1)
    ends = np.arange(len(blobs) + 1, dtype=np.int32) * texts.shape[1]
    valid = None if not array.null_count else array.is_valid().buffers()[1]
    return pa.Array.from_buffers(pa.string(), len(blobs), [valid, pa.py_buffer(ends), pa.py_buffer(texts.tobytes())])


def _dates(array: pa.Array, facts: FileFacts) -> pa.Array:
    days = array.cast(pa.date32())
    return rebased_dates(days) if facts.calendar.dates else days


def _micros(array: pa.Array) -> pa.Array:
    """Timestamps of any unit as 64-bit microseconds, rounded down."""
    times, over = _PER_MICRO[array.type.unit]
    ticks = array.view(pa.int64())
    if times != 1:
        return pc.multiply_checked(ticks, pa.scalar(times, pa.int64()))
    if over == 1:
        return ticks
    numbers = ticks.fill_null(0).to_numpy(zero_copy_only=False) // over
    return pa.array(numbers, mask=truths(array.is_null()))


def _structs(children: list[pa.Array], type_: pa.StructType, parent: pa.Array) -> pa.Array:
    if not children:
        return pa.Array.from_buffers(type_, len(parent), [parent.is_valid().buffers()[1]])
    return pa.StructArray.from_arrays(children, fields=list(type_.fields), mask=null_mask(parent))


def _is_bytes(type_: pa.DataType) -> bool:
    return pa.types.is_fixed_size_binary(type_) or type_ in _BYTES


def _only(candidates: list[Node], facts: FileFacts, column: str) -> Node | None:
    if len(candidates) > 1:
        names = ", ".join(node.name for node in candidates)
        raise Damaged(f"{facts.uri} has {names}, any of which could be the column {column}", path=facts.uri)
    return candidates[0] if candidates else None


def _refusal(array: pa.Array, type_: DataType, facts: FileFacts, column: str) -> Unsupported:
    return Unsupported(
        f"{facts.uri} stores its column {column} as {array.type}, which cannot be read as {_shown(type_)}; "
        "rewrite the file, or correct the table's schema"
    )


def _shown(type_: DataType) -> str:
    return str(arrow_type(type_)) if isinstance(type_, Array | Map | Struct) else type_.name
