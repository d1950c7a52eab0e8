"""Adds, renames, drops, widens and comments columns of a table's definition; data files stay as they are.

Each function makes a mutation without files from a definition; the commit derives the least protocol that it needs.

1. Every file reads the same under the new definition: a column is renamed or dropped only where data files have
   another name for it, and a type only becomes one that holds every old value.
2. A column that another part of the table depends on does not change; the refusal names that part.
3. A change that is true already returns the same definition.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from holdfast.errors import Invalid, SchemaMismatch, UnknownColumn
from holdfast.model.definition import with_schema
from holdfast.model.mutation import Mutation, TableDefinition
from holdfast.schema.constraints import DemandKind, pinned, references, stated
from holdfast.schema.enforce import GENERATION
from holdfast.schema.evolve import TYPE_CHANGES, evolve, overwrite
from holdfast.schema.identity import identity_of
from holdfast.schema.mapping import all_fields, fields_along, physical_path
from holdfast.schema.properties import COLUMN_MAPPING_MODE, truth
from holdfast.schema.show import Path, path_text, type_text
from holdfast.schema.stats_leaves import STATS_COLUMNS, stats_leaves
from holdfast.schema.storable import refuse_partition_columns, refuse_unstorable
from holdfast.schema.types import DataType, Field, Struct, to_json
from holdfast.verbs.define.defaults import with_default

_PART = re.compile(r"`(?:[^`]|``)*`|[^`.]+")
_NOBODY = "\0"  # a name that no list of columns has


def add_columns(
    old: TableDefinition, columns: Sequence[tuple[str, DataType, str | None]], new_uuid: Callable[[], uuid.UUID]
) -> Mutation:
    """Add columns, last in the table or in the struct that their path leads to; old rows are null in them."""
    schema, new = with_columns(old.schema, columns)
    added = [{"column": _described(path, f)} for path, f in new]
    refuse_schema(replace(old, schema=schema))
    return Mutation("ADD COLUMNS", {"columns": json.dumps(added)}, shape=with_schema(old, schema, new_uuid))


def with_columns(
    schema: Struct, columns: Sequence[tuple[str, DataType, str | None]]
) -> tuple[Struct, list[tuple[Path, Field]]]:
    """A schema with more columns; and these, each with the path that leads to it."""
    added: list[tuple[Path, Field]] = []
    for name, type_, comment in columns:
        *above, last = split(name)
        f = overwrite(Struct((Field(last, type_, True, {} if comment is None else {"comment": comment}),))).fields[0]
        if f.type != type_:
            raise Invalid(f"the new column {name} must take nulls at every depth, because rows that are there lack it")
        schema = _with_column(schema, tuple(above), f)
        added.append(((*above, last), f))
    if not added:
        raise Invalid("there is no column to add: name one")
    return schema, added


def rename_column(old: TableDefinition, name: str, new: str) -> Mutation:
    """Give a column another name; for one in a struct, `new` is the last part alone.

    Files keep the name they know it by, and so do the values that partition the table and the columns that cluster it.
    """
    path = path_of(old.schema, name)
    _refuse_unmapped(old, f"renaming {path_text(path)}", "DELTA_UNSUPPORTED_RENAME_COLUMN")
    if len(parts := split(new)) != 1:
        raise Invalid(f"the new name of {path_text(path)} is one name, not the path {new}: put it in backticks")
    _refuse_held(old, path, "be renamed")
    shape = _renamed(old, path, parts[0])
    refuse_schema(shape)
    parameters = {"oldColumnPath": path_text(path), "newColumnPath": path_text((*path[:-1], parts[0]))}
    return Mutation("RENAME COLUMN", parameters, shape=shape)


def drop_columns(old: TableDefinition, names: Sequence[str]) -> Mutation:
    """Take columns away, all or none; data files keep their values, which nobody sees."""
    paths = paths_of(old.schema, names)
    for path in paths:
        refuse_drop(old, path)
    shape = replace(old, schema=without_columns(old.schema, paths))
    refuse_schema(shape)
    return Mutation("DROP COLUMNS", {"columns": json.dumps([path_text(path) for path in paths])}, shape=shape)


def paths_of(schema: Struct, names: Sequence[str]) -> list[Path]:
    """The columns that names mean, none of them within another."""
    paths = [path_of(schema, name) for name in names]
    for n, path in enumerate(paths):
        if any(path[: len(other)] == other for at, other in enumerate(paths) if at != n):
            raise Invalid(f"the column {path_text(path)} is named twice, by itself or with what it is in: name it once")
    return paths


def without_columns(schema: Struct, paths: Sequence[Path]) -> Struct:
    """A schema without some columns."""
    for path in paths:
        schema = changed(schema, path, lambda f: None)
    return schema


def has_column(schema: Struct, name: str) -> bool:
    """Whether a name means a column."""
    try:
        path_of(schema, name)
    except UnknownColumn:
        return False
    return True


def redefine_column(
    old: TableDefinition, name: str, wishes: Sequence[Callable[[TableDefinition, str], Mutation]]
) -> Mutation:
    """Several changes of one column as one."""
    mutation = Mutation("CHANGE COLUMN", shape=old)
    for wish in wishes:
        assert mutation.shape is not None, "a change of a column is one of shape"
        mutation = wish(mutation.shape, name)
    return mutation


def refuse_drop(old: TableDefinition, path: Path) -> None:
    """Refuse to take away a column that data files know by its name, or that something else is made of."""
    _refuse_unmapped(old, f"dropping {path_text(path)}", "DELTA_UNSUPPORTED_DROP_COLUMN")
    _refuse_layout(old, path, "be dropped")
    _refuse_held(old, path, "be dropped")


def change_type(old: TableDefinition, name: str, type_: DataType) -> Mutation:
    """Widen the type of a column."""
    path = path_of(old.schema, name)
    before = fields_along(old.schema, path)[-1]
    if type_text(type_) == type_text(before.type):
        return _column_changed(old, path, before)
    _refuse_layout(old, path, "change its type")
    reason = pinned(old.schema, old.properties).get(path[0])
    if reason is not None or identity_of(before) is not None:
        raise Invalid(f"the column {path_text(path)} cannot change its type: {reason or 'it is an identity column'}")
    after = _widened(before, type_, path)
    if _notes(after) != _notes(before) and not truth(old.properties.get("delta.enableTypeWidening")):
        raise Invalid(
            f"changing the type of {path_text(path)} needs the property delta.enableTypeWidening=true, which shuts out "
            "readers that do not know it: set it first with setProperties"
        )
    return _column_changed(old, path, after)


def comment_column(old: TableDefinition, name: str, text: str | None) -> Mutation:
    """Say what a column is for; None takes the comment away."""
    path = path_of(old.schema, name)
    f = fields_along(old.schema, path)[-1]
    metadata = {k: v for k, v in f.metadata.items() if k != "comment"}
    return _column_changed(old, path, replace(f, metadata=metadata if text is None else {**metadata, "comment": text}))


def default_column(old: TableDefinition, name: str, expression: str | None) -> Mutation:
    """Say what a column is where rows bring nothing for it; None takes its default away. Rows that are there stay."""
    path = path_of(old.schema, name)
    if len(path) > 1:
        raise Invalid(f"the field {path_text(path)} cannot have a default: only columns of the table do")
    return _column_changed(old, path, with_default(fields_along(old.schema, path)[-1], expression))


def path_of(schema: Struct, name: str, alias: str | None = None) -> Path:
    """The column a name means, as the schema spells it, found in Spark's order.

    A column behind the table's alias comes first, then a path from a column down, its parts in backticks where they
    need them. Where neither is there, it is a column whose own name has dots.
    """
    try:
        parts = split(name)
        qualified = alias is not None and len(parts) > 1 and parts[0].lower() == alias.lower()
        if qualified and schema.find(parts[1]) is not None:
            parts = parts[1:]
        return tuple(f.name for f in fields_along(schema, parts))
    except Invalid:
        if (whole := schema.find(name)) is None:
            raise
        return (whole.name,)


def split(name: str) -> Path:
    """The parts of a path: separated by dots, each in backticks where it needs them."""
    if not name:
        raise Invalid("a column has an empty name: name it")
    parts = _PART.findall(name)
    if ".".join(parts) != name:
        raise Invalid(f"the column name {name!r} cannot be read: put each of its parts in backticks")
    return tuple(p[1:-1].replace("``", "`") if p.startswith("`") else p for p in parts)


def _refuse_unmapped(shape: TableDefinition, what: str, condition: str) -> None:
    if mapping_mode(shape) == "none":
        raise Invalid(
            f"{what} needs column mapping, because data files know columns by their names: turn it on with "
            f"setProperties({{{COLUMN_MAPPING_MODE!r}: 'name'}}), which shuts out readers that do not know it"
        ).named(condition)


def refuse_schema(shape: TableDefinition) -> None:
    """Refuse columns that no data file, or no partition, can hold."""
    refuse_unstorable(shape.schema, mapped=mapping_mode(shape) != "none")
    refuse_partition_columns(shape.schema, shape.partition_columns)


def _refuse_held(shape: TableDefinition, path: Path, what: str) -> None:
    """Refuse to touch a column that something else of the table names."""
    if reason := next(_holds(shape, path), None):
        raise Invalid(f"the column {path_text(path)} cannot {what}: {reason}")


def _refuse_layout(shape: TableDefinition, path: Path, what: str) -> None:
    """Refuse to touch a column that decides in which file a row lies."""
    if path[0] in shape.partition_columns:
        raise Invalid(f"the column {path_text(path)} cannot {what}: the table is partitioned by it")
    physical = physical_path(shape.schema, path)
    if any(column[: len(physical)] == physical for column in shape.clustering_columns or ()):
        raise Invalid(
            f"the column {path_text(path)} cannot {what}: the table is clustered by it; cluster it by others first, "
            "with clusterBy"
        )


def _holds(shape: TableDefinition, path: Path) -> Iterator[str]:
    for f in shape.schema.fields:
        if GENERATION in f.metadata and f.name != path[0]:
            expression = str(f.metadata[GENERATION])
            if path[0] in references(expression, shape.schema):
                yield f"the generated column {f.name} ({expression}) is made of it"
    for kind, name, text in stated(shape.schema, shape.properties):
        if kind is not DemandKind.GENERATED and path[0] in references(text, shape.schema):
            advice = "; drop the constraint first, with dropConstraint" if kind is DemandKind.CHECK else ""
            yield f"the {kind.value} {name} ({text}) depends on it{advice}"
    listed = [
        stats_leaves(s.schema, s.partition_columns, s.properties) for s in (shape, _renamed(shape, path, _NOBODY))
    ]
    if listed[0] != listed[1]:
        yield f"the property {STATS_COLUMNS} names it; change that first"


def _renamed(shape: TableDefinition, path: Path, new: str) -> TableDefinition:
    schema = changed(shape.schema, path, lambda f: replace(f, name=new))
    partitions = tuple(new if (name,) == path else name for name in shape.partition_columns)
    return replace(shape, schema=schema, partition_columns=partitions)


def _widened(f: Field, type_: DataType, path: Path) -> Field:
    incoming = Field(f.name, type_, f.nullable)
    try:
        (after,) = evolve(Struct((f,)), Struct((incoming,)), add_columns=False, widen_types=True).fields
    except SchemaMismatch as error:
        raise _not_wider(f, type_, path) from error
    if type_text(after.type) != type_text(type_):
        raise _not_wider(f, type_, path)
    return after


def _notes(f: Field) -> list[Any]:
    """What is noted of widened types, at every depth."""
    return [each.metadata.get(TYPE_CHANGES) for each in all_fields(Struct((f,)))]


def _not_wider(f: Field, type_: DataType, path: Path) -> Invalid:
    return Invalid(
        f"the column {path_text(path)} is {type_text(f.type)} and cannot become {type_text(type_)}: without writing "
        "files again a type only becomes a wider one"
    )


def _column_changed(old: TableDefinition, path: Path, after: Field) -> Mutation:
    schema = changed(old.schema, path, lambda _: after)
    parameters = {"column": json.dumps(_described(path, after))}
    return Mutation("CHANGE COLUMN", parameters, shape=replace(old, schema=schema))


def _described(path: Path, f: Field) -> dict[str, Any]:
    return {"name": path_text(path), "type": to_json(f.type), "nullable": f.nullable, "metadata": dict(f.metadata)}


def _with_column(schema: Struct, above: Path, f: Field) -> Struct:
    if not above:
        return Struct((*schema.fields, f))
    along = fields_along(schema, above)
    path, outer = tuple(o.name for o in along), along[-1].type
    if not isinstance(outer, Struct):
        raise Invalid(f"{path_text(path)} is {type_text(outer)}: only a struct takes the column {f.name}")
    wider = Struct((*outer.fields, f))
    return changed(schema, path, lambda o: replace(o, type=wider))


def changed(schema: Struct, path: Path, change: Callable[[Field], Field | None]) -> Struct:
    """The schema with one field changed, or without it."""
    head, *rest = path
    fields = []
    for f in schema.fields:
        new: Field | None = f
        if f.name == head and not rest:
            new = change(f)
        elif f.name == head:
            assert isinstance(f.type, Struct), "a path leads through structs"
            new = replace(f, type=changed(f.type, tuple(rest), change))
        fields += [new] if new is not None else []
    return Struct(tuple(fields))


def mapping_mode(shape: TableDefinition) -> str:
    """How a table maps its columns: none, name or id."""
    return shape.properties.get(COLUMN_MAPPING_MODE, "none").lower()
