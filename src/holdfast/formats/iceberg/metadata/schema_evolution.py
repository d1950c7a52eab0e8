"""Schema evolution: assigns field ids, writes a schema as metadata JSON, and checks which changes the format allows.

1. A field keeps its id for ever; new fields, and those inside them, get ids above every id the table ever assigned.
2. A field that stays keeps its metadata: its description, its defaults, and a type that only Iceberg has.
3. A type changes only to one that old files can be read as: int to long, float to double, a decimal to more digits.
4. A column that is the source of a partition field, in any spec, cannot be dropped: old files keep their partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from holdfast.errors import Invalid, Unsupported
from holdfast.formats.iceberg.metadata.partition_spec import PartitionSpec
from holdfast.formats.iceberg.metadata.single_values import JsonType
from holdfast.formats.iceberg.metadata.table_metadata import TableMetadata
from holdfast.formats.iceberg.metadata.types import WRITABLE, parse_primitive
from holdfast.parquet.fit import NESTED_IDS
from holdfast.schema.types import MAPPING_ID, Array, DataType, Decimal, Field, Map, Primitive, Struct

_SMALL = {"byte": Primitive("integer"), "short": Primitive("integer")}  # Iceberg has no smaller integer
_ICEBERG_NAMES = {ours: name for name, ours in WRITABLE.items()}
_PROMOTED = {("integer", "long"), ("float", "double")}


class _FieldIds:
    """Hands out new field ids; `replace_all` also replaces the ids that fields have, which are another table's."""

    def __init__(self, last: int, *, replace_all: bool = False) -> None:
        self._ids = count(last + 1)
        self.replace_all = replace_all

    def next(self) -> int:
        return next(self._ids)


def with_field_ids(schema: Struct, last_id: int) -> Struct:
    """The schema, with ids above `last_id` for new fields."""
    return _assign_ids(schema, _FieldIds(last_id))


def new_table_schema(schema: Struct) -> dict[str, Any]:
    """The schema of a new table, as metadata JSON."""
    fields = _assign_ids(schema, _FieldIds(0, replace_all=True)).fields
    return {"type": "struct", "schema-id": 0, "fields": [_field_json(f, {}) for f in fields]}


def renamed(f: Field, name: str) -> Field:
    """A column under another name."""
    nested = {name + path.removeprefix(f.name): number for path, number in (f.metadata.get(NESTED_IDS) or {}).items()}
    return replace(f, name=name, metadata={**f.metadata, **({NESTED_IDS: nested} if nested else {})})


def schema_json(metadata: TableMetadata, schema: Struct, where: str) -> dict[str, Any]:
    """A schema as metadata JSON, with its schema id; a schema that the table had before keeps its id."""
    current = metadata.schema_of(None, where)
    old = dict(_fields_by_id(current))
    raw: dict[str, Any] = {"type": "struct", "fields": [_field_json(f, old) for f in schema.fields]}
    kept = {field_id for f in schema.fields for field_id in _ids(f)}
    if identifiers := list(current.get("identifier-field-ids", ())):
        raw["identifier-field-ids"] = identifiers
    if dropped := [old[field_id]["name"] for field_id in identifiers if field_id not in kept]:
        raise Invalid(f"the column {dropped[0]} cannot be dropped: rows of {metadata.location} are identified by it")
    for one in metadata.schemas:
        if {name: value for name, value in one.items() if name != "schema-id" and value != []} == raw:
            return {**one, "schema-id": int(one.get("schema-id", 0))}
    newest = max((int(one.get("schema-id", 0)) for one in metadata.schemas), default=-1)
    return {**raw, "schema-id": newest + 1}


def check_evolution(old: Struct, new: Struct, specs: Mapping[int, PartitionSpec], *, where: str) -> None:
    """Refuses a change of the schema that the format does not allow."""
    before, after = dict(_paths_by_id(old, "")), dict(_paths_by_id(new, ""))
    sources = {f.source_id: f.name for spec in specs.values() for f in spec.fields if f.transform.kind != "void"}
    for field_id, (name, f) in before.items():
        if field_id not in after and field_id in sources:
            raise Invalid(
                f"the column {name} cannot be dropped: files of {where} are placed by it (partition field "
                f"{sources[field_id]}), today or before"
            )
        if field_id in after and not _may_become(f.type, after[field_id][1].type):
            raise Invalid(
                f"the column {name} is {_text(f.type)} and cannot become {_text(after[field_id][1].type)}: an Iceberg "
                "column becomes long if it was int, double if it was float, or a decimal of more digits"
            )
    for field_id, (name, f) in after.items():
        if field_id not in before and not f.nullable:
            raise Invalid(f"the new column {name} must take nulls, because rows that are there lack it")
    folded = [f.name.lower() for f in new.fields]
    if len(set(folded)) < len(folded) and len({f.name.lower() for f in old.fields}) == len(old.fields):
        twice = next(name for name in folded if folded.count(name) > 1)
        raise Invalid(f"{where} would have two columns called {twice}: choose another name")
    if not new.fields:
        raise Invalid(f"a table has at least one column, and this would take the last one of {where}")


def _assign_ids(schema: Struct, ids: _FieldIds) -> Struct:
    # All fields of a struct get their ids before the fields inside them, as other writers do.
    keeps = [f.field_id is not None and not ids.replace_all for f in schema.fields]
    fields = [f if has else _with(f, {MAPPING_ID: ids.next()}) for f, has in zip(schema.fields, keeps, strict=True)]
    return Struct(tuple(_assign_inside(f, ids) for f in fields))


def _assign_inside(f: Field, ids: _FieldIds) -> Field:
    nested = {} if ids.replace_all else dict(f.metadata.get(NESTED_IDS) or {})
    before = len(nested)
    f = replace(f, type=_assign_type(f.type, f.name, nested, ids))
    return _with(f, {NESTED_IDS: nested}) if len(nested) > before else f


def _assign_type(type_: DataType, path: str, nested: dict[str, int], ids: _FieldIds) -> DataType:
    """A type with ids in its structs; `nested` takes those of list elements, map keys and map values, by path."""

    def assign(*parts: str) -> None:
        for part in parts:
            if f"{path}.{part}" not in nested:
                nested[f"{path}.{part}"] = ids.next()

    match type_:
        case Struct():
            return _assign_ids(type_, ids)
        case Array(element, nulls):
            assign("element")
            return Array(_assign_type(element, f"{path}.element", nested, ids), nulls)
        case Map(key, value, nulls):
            assign("key", "value")
            inner = _assign_type(key, f"{path}.key", nested, ids)
            return Map(inner, _assign_type(value, f"{path}.value", nested, ids), nulls)
        case Primitive(name) if name in _SMALL:
            return _SMALL[name]
        case _:
            return type_


def _with(f: Field, more: Mapping[str, object]) -> Field:
    return replace(f, metadata={**f.metadata, **more})


def _fields_by_id(raw: JsonType) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The fields of a schema or type as metadata JSON, by id, at every depth."""
    if isinstance(raw, str):
        return
    match raw.get("type", "struct"):
        case "struct":
            for f in raw["fields"]:
                yield int(f["id"]), f
                yield from _fields_by_id(f["type"])
        case "list":
            yield from _fields_by_id(raw["element"])
        case "map":
            yield from _fields_by_id(raw["key"])
            yield from _fields_by_id(raw["value"])


def _field_json(f: Field, old: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """A field as metadata JSON, with what `old` fields of the same id have beyond name, type and description."""
    assert f.field_id is not None, "a field has an id before it is written"
    before = old.get(f.field_id, {})
    raw: dict[str, Any] = {**before, "id": f.field_id, "name": f.name, "required": not f.nullable}
    raw["type"] = _type_json(f.type, before.get("type"), f.name, f.metadata.get(NESTED_IDS) or {}, old)
    if comment := f.metadata.get("comment"):
        return {**raw, "doc": str(comment)}
    return {name: value for name, value in raw.items() if name != "doc"}


def _type_json(
    type_: DataType,
    before: JsonType | None,
    path: str,
    nested: Mapping[str, int],
    old: Mapping[int, Mapping[str, Any]],
) -> JsonType:
    def inside(name: str, inner: DataType) -> dict[str, Any]:
        was = before.get(name) if isinstance(before, Mapping) else None
        place = f"{path}.{name}"
        return {f"{name}-id": nested[place], name: _type_json(inner, was, place, nested, old)}

    match type_:
        case Struct(fields):
            return {"type": "struct", "fields": [_field_json(f, old) for f in fields]}
        case Array(element, nulls):
            return {"type": "list", **inside("element", element), "element-required": not nulls}
        case Map(key, value, nulls):
            return {"type": "map", **inside("key", key), **inside("value", value), "value-required": not nulls}
        case _:
            # A type that is read as another one stays, such as uuid and fixed.
            return before if isinstance(before, str) and _is_read_as(before, type_) else _iceberg_name(type_, path)


def _iceberg_name(type_: DataType, column: str) -> str:
    match type_:
        case Decimal(precision, scale):
            return f"decimal({precision}, {scale})"
        case Primitive(name) if name in _ICEBERG_NAMES:
            return _ICEBERG_NAMES[name]
        case _:
            raise Unsupported(f"the column {column} is {_text(type_)}, which no Iceberg table of ours can have")


def _is_read_as(name: str, type_: DataType) -> bool:
    try:
        return parse_primitive(name, column="", where="") == type_
    except Unsupported:
        return False


def _ids(f: Field) -> Iterator[int]:
    if f.field_id is not None:
        yield f.field_id
    if isinstance(f.type, Struct):
        for inner in f.type.fields:
            yield from _ids(inner)


def _paths_by_id(schema: Struct, above: str) -> Iterator[tuple[int, tuple[str, Field]]]:
    for f in schema.fields:
        if f.field_id is not None:
            yield f.field_id, (above + f.name, f)
        yield from _paths_inside(f.type, f"{above}{f.name}.")


def _paths_inside(type_: DataType, above: str) -> Iterator[tuple[int, tuple[str, Field]]]:
    match type_:
        case Struct():
            yield from _paths_by_id(type_, above)
        case Array(element, _):
            yield from _paths_inside(element, f"{above}element.")
        case Map(key, value, _):
            yield from _paths_inside(key, f"{above}key.")
            yield from _paths_inside(value, f"{above}value.")


def _may_become(before: DataType, after: DataType) -> bool:
    match before, after:
        case (Struct(), Struct()):
            return True  # field by field
        case (Array(), Array()):
            return _may_become(before.element, after.element)
        case (Map(), Map()):
            return before.key == after.key and _may_become(before.value, after.value)
        case (Decimal(), Decimal()):
            return before.scale == after.scale and before.precision <= after.precision
        case (Primitive(a), Primitive(b)):
            return a == b or (a, b) in _PROMOTED
        case _:
            return False


def _text(type_: DataType) -> str:
    return type_.name if isinstance(type_, Primitive | Decimal) else type(type_).__name__.lower()
