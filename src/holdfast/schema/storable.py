"""Refuses schemas that no table or data file can have.

1. A struct has at least one field that is not void, because files cannot store a struct without fields.
2. Without column mapping, names have none of the characters that Parquet writers refuse.
3. A table with a change data feed has no column named like one of the feed's.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.errors import Invalid
from holdfast.schema.enforce import refuse_doubles
from holdfast.schema.properties import CHANGE_FEED, truth
from holdfast.schema.show import Path, path_text, type_text
from holdfast.schema.types import Array, DataType, Decimal, Map, Primitive, Struct

FEED_COLUMNS = frozenset(("_change_type", "_commit_version", "_commit_timestamp"))
_UNSUITED = " ,;{}()\n\t="
_NO_PARTITION = frozenset(("void", "variant"))
_NO_BOUNDS = frozenset(("void", "variant", "boolean", "binary"))


def refuse_unstorable(schema: Struct, *, mapped: bool) -> None:
    """Refuse a schema that no table can have; `mapped`: files use physical names."""
    if not schema.fields:
        raise Invalid("a table needs at least one column: add one")
    refuse_doubles(schema)
    _refuse(schema, (), mapped)


def refuse_feed_columns(schema: Struct, properties: Mapping[str, str | None], *, recorded: bool = False) -> None:
    """Refuse columns named like the change data feed's, where the table has a feed; `recorded`: it had one before."""
    conflicting = [f.name for f in schema.fields if f.name.lower() in FEED_COLUMNS]
    if not conflicting or not truth(properties.get(CHANGE_FEED)):
        return
    raise Invalid(
        f"the change data feed has columns of its own named {', '.join(sorted(FEED_COLUMNS))}, so a table with "
        f"{CHANGE_FEED}=true cannot have {', '.join(conflicting)}: rename it, drop it, or leave the feed off"
    ).named("RESERVED_CDC_COLUMNS_ON_WRITE" if recorded else "DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS")


def refuse_partition_columns(schema: Struct, names: tuple[str, ...]) -> tuple[str, ...]:
    """The partition columns as the schema spells them; Invalid where the table cannot be partitioned by them."""
    spelled = []
    for name in names:
        f = schema.find(name)
        if f is None:
            raise Invalid(f"the table cannot be partitioned by {name}: it has {', '.join(schema.names)}")
        if isinstance(f.type, Struct | Array | Map) or (isinstance(f.type, Primitive) and f.type.name in _NO_PARTITION):
            raise Invalid(f"the table cannot be partitioned by {f.name}, because it is {type_text(f.type)}")
        if f.name in spelled:
            raise Invalid(f"the table is partitioned by {f.name} twice: name it once")
        spelled.append(f.name)
    if spelled and len(spelled) == len(schema):
        raise Invalid("the table is partitioned by all its columns: data files need one of their own")
    return tuple(spelled)


def is_bounded(type_: DataType) -> bool:
    """Whether statistics have bounds of the type, as clustering needs."""
    return isinstance(type_, Decimal) or (isinstance(type_, Primitive) and type_.name not in _NO_BOUNDS)


def _refuse(schema: Struct, path: Path, mapped: bool) -> None:
    if all(f.type == Primitive("void") for f in schema.fields):
        where = f"the struct {path_text(path)}" if path else "the table"
        raise Invalid(f"{where} has no column with a type that data files hold: give it one")
    for f in schema.fields:
        below = (*path, f.name)
        if not f.name:
            raise Invalid(f"a column {f'of {path_text(path)} ' if path else ''}has an empty name: name it")
        if not mapped and (unsuited := [c for c in f.name if c in _UNSUITED]):
            raise Invalid(
                f"the name {path_text(below)!r} has {unsuited[0]!r} in it, which data files do not take: rename it, "
                "or set the property delta.columnMapping.mode to name"
            ).named("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES")
        _refuse_type(f.type, below, mapped)


def _refuse_type(type_: DataType, path: Path, mapped: bool) -> None:
    match type_:
        case Struct():
            _refuse(type_, path, mapped)
        case Array(element, _):
            _refuse_item(element, (*path, "element"), mapped)
        case Map(key, value, _):
            _refuse_item(key, (*path, "key"), mapped)
            _refuse_item(value, (*path, "value"), mapped)
        case _:
            return


def _refuse_item(type_: DataType, path: Path, mapped: bool) -> None:
    if type_ == Primitive("void"):
        raise Invalid(f"{path_text(path)} is void, which data files do not hold: give it a type")
    _refuse_type(type_, path, mapped)
