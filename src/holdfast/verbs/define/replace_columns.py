"""Replaces all columns of a table's definition: reorders, adds or drops them; data files stay as they are.

1. A column of the same name, whatever the case, is the same column: it keeps its type, its name in data files and its
   metadata. It becomes nullable, and gets the new comment where one is given.
2. Within one struct columns are either added or dropped: both at once might as well be a renamed column.
3. A column is dropped only where data files have another name for it, and never one that another part of the table
   depends on, nor a part of the element of a list or a map.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from holdfast.errors import Invalid
from holdfast.model.definition import with_schema
from holdfast.model.mutation import Mutation, TableDefinition
from holdfast.schema.enforce import refuse_doubles
from holdfast.schema.evolve import overwrite
from holdfast.schema.identity import identity_of
from holdfast.schema.show import Path, path_text, type_text
from holdfast.schema.types import Array, DataType, Field, Map, Struct, to_json
from holdfast.verbs.define.columns import refuse_drop, refuse_schema


def replace_columns(
    old: TableDefinition, columns: Sequence[tuple[str, DataType, str | None]], new_uuid: Callable[[], uuid.UUID]
) -> Mutation:
    """Let a table have these columns and no others."""
    if numbered := [f.name for f in old.schema.fields if identity_of(f) is not None]:
        raise Invalid(
            f"the table numbers {', '.join(numbered)} itself, so its columns are not replaced: add, drop and rename "
            "them one by one"
        )
    new = Struct(tuple(Field(name, type_, True, _said(comment)) for name, type_, comment in columns))
    if not new.fields:
        raise Invalid("a table has at least one column: name those it is to have")
    refuse_doubles(new)
    schema = _struct(old.schema, new, (), inside=False)
    for path in _gone(old.schema, new, ()):
        refuse_drop(old, path)
    refuse_schema(replace(old, schema=schema))
    columns_json = [
        {"name": f.name, "type": to_json(f.type), "nullable": True, "metadata": dict(f.metadata)} for f in new.fields
    ]
    return Mutation("REPLACE COLUMNS", {"columns": json.dumps(columns_json)}, shape=with_schema(old, schema, new_uuid))


def _said(comment: str | None) -> dict[str, str]:
    return {} if comment is None else {"comment": comment}


def _struct(old: Struct, new: Struct, path: Path, *, inside: bool) -> Struct:
    added = [f.name for f in new.fields if old.find(f.name) is None]
    gone = [f.name for f in old.fields if new.find(f.name) is None]
    if added and gone:
        within = f" of {path_text(path)}" if path else ""
        raise Invalid(
            f"among the columns{within} {', '.join(added)} would be new and {', '.join(gone)} gone, which may as well "
            "mean new names: add, drop and rename them one by one"
        )
    if inside and gone:
        raise Invalid(f"{', '.join(gone)} of {path_text(path)} is in a list or a map and stays: name it")
    return Struct(tuple(_field(old.find(f.name), f, path, inside=inside) for f in new.fields))


def _field(old: Field | None, new: Field, path: Path, *, inside: bool) -> Field:
    if old is None:
        return overwrite(Struct((new,))).fields[0]
    comment = {"comment": new.metadata["comment"]} if "comment" in new.metadata else {}
    type_ = _type(old.type, new.type, (*path, old.name), inside=inside)
    return replace(old, type=type_, nullable=True, metadata={**old.metadata, **comment})


def _type(old: DataType, new: DataType, path: Path, *, inside: bool) -> DataType:
    match old, new:
        case Struct(), Struct():
            return _struct(old, new, path, inside=inside)
        case Array(), Array():
            return replace(old, element=_type(old.element, new.element, (*path, "element"), inside=True))
        case Map(), Map():
            key = _type(old.key, new.key, (*path, "key"), inside=True)
            return replace(old, key=key, value=_type(old.value, new.value, (*path, "value"), inside=True))
        case _ if type_text(old) == type_text(new):
            return old
        case _:
            raise Invalid(
                f"the column {path_text(path)} is {type_text(old)} and would become {type_text(new)}: a type is "
                "widened by ALTER COLUMN ... TYPE, and otherwise changes with all rows, by an overwrite"
            )


def _gone(old: DataType, new: DataType, path: Path) -> Iterator[Path]:
    """The paths of columns that go."""
    match old, new:
        case Struct(), Struct():
            for f in old.fields:
                kept = new.find(f.name)
                if kept is None:
                    yield (*path, f.name)
                else:
                    yield from _gone(f.type, kept.type, (*path, f.name))
        case _:
            return
