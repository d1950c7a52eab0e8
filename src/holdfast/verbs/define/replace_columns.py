"""All columns of a table said anew: in another order, with more of them, or without some. Data files stay as they are.

1. A column of the same name is the same column, whatever the case: its type, its name in data files and what is said of
   it stay, but it takes nulls from here on, and a new comment where one is given.
2. Within one struct columns come or go, not both: nobody could tell that from a new name for an old column.
3. Columns go only where data files know them by another name, and never one that something else of the table is made
   of, nor a part of what a list or a map holds.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from holdfast.errors import Invalid
from holdfast.model.mutation import Mutation, TableDefinition
from holdfast.schema.enforce import refuse_doubles
from holdfast.schema.evolve import overwrite
from holdfast.schema.identity import identity_of
from holdfast.schema.show import Path, path_text, type_text
from holdfast.schema.types import Array, DataType, Field, Map, Struct, to_json
from holdfast.verbs.define.columns import refuse_drop, refuse_schema
from holdfast.verbs.define.shape import grown


def replace_columns(
    old: TableDefinition, columns: Sequence[tuple[str, DataType, str | None]], new_uuid: Callable[[], uuid.UUID]
) -> Mutation:
    """Let a table have these columns and no others."""
    if numbered := [f.name for f in old.schema.fields if identity_of(f) is not None]:
        raise Invalid(
            f"the table numbers {', '.join(numbered)} itself, so its columns are not replaced: add, drop and rename "
            "them one by one"
        )
    asked = Struct(tuple(Field(name, type_, True, _said(comment)) for name, type_, comment in columns))
    if not asked.fields:
        raise Invalid("a table has at least one column: name those it is to have")
    refuse_doubles(asked)
    schema = _struct(old.schema, asked, (), inside=False)
    for path in _gone(old.schema, asked, ()):
        refuse_drop(old, path)
    refuse_schema(replace(old, schema=schema))
    told = [
        {"name": f.name, "type": to_json(f.type), "nullable": True, "metadata": dict(f.metadata)} for f in asked.fields
    ]
    return Mutation("REPLACE COLUMNS", {"columns": json.dumps(told)}, shape=grown(old, schema, new_uuid))


def _said(comment: str | None) -> dict[str, str]:
    return {} if comment is None else {"comment": comment}


def _struct(old: Struct, asked: Struct, path: Path, *, inside: bool) -> Struct:
    new = [f.name for f in asked.fields if old.find(f.name) is None]
    gone = [f.name for f in old.fields if asked.find(f.name) is None]
    if new and gone:
        within = f" of {path_text(path)}" if path else ""
        raise Invalid(
            f"among the columns{within} {', '.join(new)} would be new and {', '.join(gone)} gone, which may as well "
            "mean new names: add, drop and rename them one by one"
        )
    if inside and gone:
        raise Invalid(f"{', '.join(gone)} of {path_text(path)} is in a list or a map and stays: name it")
    return Struct(tuple(_field(old.find(f.name), f, path, inside=inside) for f in asked.fields))


def _field(old: Field | None, asked: Field, path: Path, *, inside: bool) -> Field:
    if old is None:
        return overwrite(Struct((asked,))).fields[0]
    comment = {"comment": asked.metadata["comment"]} if "comment" in asked.metadata else {}
    type_ = _type(old.type, asked.type, (*path, old.name), inside=inside)
    return replace(old, type=type_, nullable=True, metadata={**old.metadata, **comment})


def _type(old: DataType, asked: DataType, path: Path, *, inside: bool) -> DataType:
    match old, asked:
        case Struct(), Struct():
            return _struct(old, asked, path, inside=inside)
        case Array(), Array():
            return replace(old, element=_type(old.element, asked.element, (*path, "element"), inside=True))
        case Map(), Map():
            key = _type(old.key, asked.key, (*path, "key"), inside=True)
            return replace(old, key=key, value=_type(old.value, asked.value, (*path, "value"), inside=True))
        case _ if type_text(old) == type_text(asked):
            return old
        case _:
            raise Invalid(
                f"the column {path_text(path)} is {type_text(old)} and would become {type_text(asked)}: a type is "
                "widened by ALTER COLUMN ... TYPE, and otherwise changes with all rows, by an overwrite"
            )


def _gone(old: DataType, asked: DataType, path: Path) -> Iterator[Path]:
    """The paths of columns that go."""
    match old, asked:
        case Struct(), Struct():
            for f in old.fields:
                found = asked.find(f.name)
                if found is None:
                    yield (*path, f.name)
                else:
                    yield from _gone(f.type, found.type, (*path, f.name))
        case _:
            return
