"""A table's columns as they are to be: new ones numbered, the schema in Iceberg's words, what the format allows.

1. A column keeps its id for ever; new ones, and what is inside them, get ids above every id the table ever gave out.
2. What the metadata says of a column that stays (its description, its defaults, a type only Iceberg has) is said again.
3. A type becomes one that every old file can be read as: int long, float double, a decimal one of more digits.
4. A column that some partition spec is made of, today's or an earlier one, does not go: files placed by it remain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.errors import Invalid, Unsupported
from holdfast.formats.iceberg.metadata.partition_spec import PartitionSpec
from holdfast.formats.iceberg.metadata.table_metadata import TableMetadata
from holdfast.formats.iceberg.metadata.types import parse_schema
from holdfast.parquet.fit import NESTED_IDS
from holdfast.schema.types import MAPPING_ID, Array, DataType, Decimal, Field, Map, Primitive, Struct

_SMALL = {"byte": Primitive("integer"), "short": Primitive("integer")}  # Iceberg has no smaller one
_WORDS = {
    "integer": "int",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    **{name: name for name in ("long", "float", "double", "string", "binary", "boolean", "date", "time")},
}
_PROMOTED = {("integer", "long"), ("float", "double")}


@dataclass
class _Numbers:
    """Ids that nobody has yet."""

    last: int
    anew: bool = False  # ids that fields have are another table's

    def next(self) -> int:
        self.last += 1
        return self.last


def with_field_ids(schema: Struct, last_id: int) -> Struct:
    """The columns, new ones with ids above `last_id`."""
    return _numbered(schema, _Numbers(last_id))


def new_table_schema(schema: Struct) -> dict[str, Any]:
    """The schema of a new table, as metadata says it."""
    made = _numbered(schema, _Numbers(0, anew=True))
    return {"type": "struct", "schema-id": 0, "fields": [_field(f, {}) for f in made.fields]}


def renamed(f: Field, name: str) -> Field:
    """A column under another name."""
    nested = {name + path.removeprefix(f.name): number for path, number in (f.metadata.get(NESTED_IDS) or {}).items()}
    return replace(f, name=name, metadata={**f.metadata, **({NESTED_IDS: nested} if nested else {})})


def schema_json(metadata: TableMetadata, schema: Struct, where: str) -> dict[str, Any]:
    """A schema as metadata says it, with the id it is to have; one the table had before is that one."""
    raw = metadata.schema_of(None, where)
    known = dict(_known(raw))
    made: dict[str, Any] = {"type": "struct", "fields": [_field(f, known) for f in schema.fields]}
    kept = {number for f in schema.fields for number in _ids(f)}
    if names := list(raw.get("identifier-field-ids", ())):
        made["identifier-field-ids"] = names
    if lost := [known[number]["name"] for number in names if number not in kept]:
        raise Invalid(f"the column {lost[0]} cannot be dropped: rows of {metadata.location} are identified by it")
    for one in metadata.schemas:
        if {name: value for name, value in one.items() if name != "schema-id" and value != []} == made:
            return {**one, "schema-id": int(one.get("schema-id", 0))}
    newest = max((int(one.get("schema-id", 0)) for one in metadata.schemas), default=-1)
    return {**made, "schema-id": newest + 1}


def check_evolution(old: Struct, new: Struct, specs: Mapping[int, PartitionSpec], *, where: str) -> None:
    """Say what the format does not let a table become."""
    was, is_ = dict(_by_id(old, "")), dict(_by_id(new, ""))
    used = {f.source_id: f.name for spec in specs.values() for f in spec.fields if f.transform.kind != "void"}
    for number, (name, before) in was.items():
        if number not in is_ and number in used:
            raise Invalid(
                f"the column {name} cannot be dropped: files of {where} are placed by it (partition field "
                f"{used[number]}), today or before"
            )
        if number in is_ and not _may_become(before.type, is_[number][1].type):
            raise Invalid(
                f"the column {name} is {_text(before.type)} and cannot become {_text(is_[number][1].type)}: an Iceberg "
                "column becomes long if it was int, double if it was float, or a decimal of more digits"
            )
    for number, (name, f) in is_.items():
        if number not in was and not f.nullable:
            raise Invalid(f"the new column {name} must take nulls, because rows that are there lack it")
    folded = [f.name.lower() for f in new.fields]
    if len(set(folded)) < len(folded) and len({f.name.lower() for f in old.fields}) == len(old.fields):
        twice = next(name for name in folded if folded.count(name) > 1)
        raise Invalid(f"{where} would have two columns called {twice}: choose another name")
    if not new.fields:
        raise Invalid(f"a table has at least one column, and this would take the last one of {where}")


def as_read(raw: Mapping[str, Any], *, where: str) -> Struct:
    """The columns that a schema says, as they will be read."""
    return parse_schema(raw, None, where=where)


def _numbered(schema: Struct, numbers: _Numbers) -> Struct:
    # All fields of a struct are numbered before what is inside them, as other writers do.
    known = [f.field_id is not None and not numbers.anew for f in schema.fields]
    given = [f if has else _with(f, {MAPPING_ID: numbers.next()}) for f, has in zip(schema.fields, known, strict=True)]
    return Struct(tuple(_inside(f, numbers) for f in given))


def _inside(f: Field, numbers: _Numbers) -> Field:
    nested = {} if numbers.anew else dict(f.metadata.get(NESTED_IDS) or {})
    before = len(nested)
    type_ = _typed(f.type, f.name, nested, numbers)
    made = replace(f, type=type_)
    return _with(made, {NESTED_IDS: nested}) if len(nested) > before else made


def _typed(type_: DataType, path: str, nested: dict[str, int], numbers: _Numbers) -> DataType:
    match type_:
        case Struct():
            return _numbered(type_, numbers)
        case Array(element, nulls):
            _number(f"{path}.element", nested, numbers)
            return Array(_typed(element, f"{path}.element", nested, numbers), nulls)
        case Map(key, value, nulls):
            _number(f"{path}.key", nested, numbers)
            _number(f"{path}.value", nested, numbers)
            inner = _typed(key, f"{path}.key", nested, numbers)
            return Map(inner, _typed(value, f"{path}.value", nested, numbers), nulls)
        case Primitive(name) if name in _SMALL:
            return _SMALL[name]
        case _:
            return type_


def _number(path: str, nested: dict[str, int], numbers: _Numbers) -> None:
    if path not in nested:
        nested[path] = numbers.next()


def _with(f: Field, more: Mapping[str, Any]) -> Field:
    return replace(f, metadata={**f.metadata, **more})


def _known(raw: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Every field of a schema as it is said, by id, at every depth."""
    match raw.get("type", "struct"):
        case "struct":
            for f in raw["fields"]:
                yield int(f["id"]), f
                yield from _below(f["type"])
        case "list":
            yield from _below(raw["element"])
        case "map":
            yield from _below(raw["key"])
            yield from _below(raw["value"])


def _below(type_: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if isinstance(type_, Mapping):
        yield from _known(type_)


def _field(f: Field, known: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    assert f.field_id is not None, "a column is numbered before it is said"
    old = known.get(f.field_id, {})
    made: dict[str, Any] = {**old, "id": f.field_id, "name": f.name, "required": not f.nullable}
    made["type"] = _type(f.type, old.get("type"), f.name, f.metadata.get(NESTED_IDS) or {}, known)
    if comment := f.metadata.get("comment"):
        return {**made, "doc": str(comment)}
    return {name: value for name, value in made.items() if name != "doc"}


def _type(
    type_: DataType, old: Any, path: str, nested: Mapping[str, int], known: Mapping[int, Mapping[str, Any]]
) -> Any:
    match type_:
        case Struct(fields):
            return {"type": "struct", "fields": [_field(f, known) for f in fields]}
        case Array(element, nulls):
            below = f"{path}.element"
            was = old.get("element") if isinstance(old, Mapping) else None
            inner = _type(element, was, below, nested, known)
            return {"type": "list", "element-id": nested[below], "element": inner, "element-required": not nulls}
        case Map(key, value, nulls):
            parts = {}
            for name, part in (("key", key), ("value", value)):
                was = old.get(name) if isinstance(old, Mapping) else None
                parts[f"{name}-id"] = nested[f"{path}.{name}"]
                parts[name] = _type(part, was, f"{path}.{name}", nested, known)
            return {"type": "map", **parts, "value-required": not nulls}
        case _:
            # A word that stands for the same values stays: uuid and fixed are read as others.
            return old if isinstance(old, str) and _stands_for(old, type_) else _word(type_, path)


def _word(type_: DataType, column: str) -> str:
    """A type that is one word, in Iceberg's."""
    match type_:
        case Decimal(precision, scale):
            return f"decimal({precision}, {scale})"
        case Primitive(name) if name in _WORDS:
            return _WORDS[name]
        case _:
            raise Unsupported(f"the column {column} is {_text(type_)}, which no Iceberg table of ours can have")


def _stands_for(word: str, type_: DataType) -> bool:
    try:
        (f,) = as_read({"fields": [{"id": 1, "name": "x", "type": word}]}, where="the schema").fields
    except Unsupported:
        return False
    return f.type == type_


def _ids(f: Field) -> Iterator[int]:
    if f.field_id is not None:
        yield f.field_id
    if isinstance(f.type, Struct):
        for inner in f.type.fields:
            yield from _ids(inner)


def _by_id(schema: Struct, above: str) -> Iterator[tuple[int, tuple[str, Field]]]:
    for f in schema.fields:
        if f.field_id is not None:
            yield f.field_id, (above + f.name, f)
        yield from _by_id_inside(f.type, f"{above}{f.name}.")


def _by_id_inside(type_: DataType, above: str) -> Iterator[tuple[int, tuple[str, Field]]]:
    match type_:
        case Struct():
            yield from _by_id(type_, above)
        case Array(element, _):
            yield from _by_id_inside(element, f"{above}element.")
        case Map(key, value, _):
            yield from _by_id_inside(key, f"{above}key.")
            yield from _by_id_inside(value, f"{above}value.")


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
