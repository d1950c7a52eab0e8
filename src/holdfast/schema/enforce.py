"""Schema enforcement: decides how each column of a table is computed from incoming rows, or refuses them.

Columns are matched by name, at every depth and without regard to case. Engines turn the result into expressions.

1. The result has all columns of the table, in its order.
2. No incoming column is dropped: one that the table does not have is refused.
3. An incoming type is the table's own, or is converted; by default only where every value survives.
4. That a value is not null is checked by `schema.constraints`; here only a missing column is refused that is neither
   nullable nor has a value of its own.
5. The error names all differences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from holdfast.errors import Invalid, SchemaMismatch, TypeMismatch
from holdfast.schema.casts import is_assignable, is_castable, is_lossless, widens
from holdfast.schema.expressions import StoredExpression, stored
from holdfast.schema.identity import IdentityColumn, identity_of
from holdfast.schema.show import Path, path_text, schema_text, side_by_side, type_text
from holdfast.schema.types import Array, ColumnValue, DataType, Field, Map, Primitive, Struct

GENERATION = "delta.generationExpression"
DEFAULT = "CURRENT_DEFAULT"


class Assignment(Enum):
    """Which values may be converted to a column's type."""

    LOSSLESS = "every value survives as it is"
    ANSI = "as an INSERT in SQL: a value that does not fit raises"
    CAST = "as an UPDATE or MERGE in SQL: texts are read too, and a value that does not fit raises"


@dataclass(frozen=True, slots=True)
class Same:
    """The incoming value."""


@dataclass(frozen=True, slots=True)
class Cast:
    """The incoming value, converted."""

    to: DataType
    lossless: bool


@dataclass(frozen=True, slots=True)
class Fields:
    """A struct, converted field by field; null stays null."""

    parts: tuple[FittedField, ...]


@dataclass(frozen=True, slots=True)
class Elements:
    """A list, converted element by element."""

    each: How


@dataclass(frozen=True, slots=True)
class MapEntries:
    """A map, converted entry by entry."""

    key: How
    value: How


@dataclass(frozen=True, slots=True)
class Null:
    """Null, because the column is not incoming."""


@dataclass(frozen=True, slots=True)
class Default:
    """The column's default, because the column is not incoming."""

    expression: StoredExpression


@dataclass(frozen=True, slots=True)
class GivenValue:
    """Iceberg's write default of a column or field, because it is not incoming."""

    value: ColumnValue = field(hash=False)


@dataclass(frozen=True, slots=True)
class Generated:
    """A generated column, which is not incoming."""

    expression: StoredExpression


@dataclass(frozen=True, slots=True)
class Numbered:
    """The next numbers of an identity column."""

    identity: IdentityColumn


How: TypeAlias = Same | Cast | Fields | Elements | MapEntries | Null | Default | GivenValue | Generated | Numbered


@dataclass(frozen=True, slots=True)
class FittedField:
    """A column or field of the table: the incoming column it is computed from, and how."""

    field: Field
    source: str | None  # the incoming name; None where there is none
    how: How


@dataclass(frozen=True, slots=True)
class Fit:
    """How each column of the table is computed."""

    parts: tuple[FittedField, ...]


def fit(incoming: Struct, table: Struct, *, assignment: Assignment = Assignment.LOSSLESS) -> Fit:
    """Decides how incoming rows become rows of the table; raises SchemaMismatch where they cannot."""
    refuse_doubles(incoming)
    fitter = _Fitter(assignment, {})
    parts = fitter.parts(incoming, table, ())
    if fitter.wrong:
        raise mismatch(incoming, table, fitter.wrong)
    return Fit(parts)


def refuse_incomplete(value_type: DataType, target: DataType, path: Path) -> None:
    """Refuse a value for a column or field whose structs lack fields, which would silently become null."""
    if lacking := [path_text(missing) for missing in missing_fields(value_type, target, path)]:
        raise SchemaMismatch(
            f"the value for {path_text(path)} has no {', '.join(lacking[:5])}, which would become null: set the fields "
            "that it has one by one, or give it all of them",
            table=type_text(target),
            incoming=type_text(value_type),
            columns=tuple(lacking),
        ).named("DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION")


def missing_fields(value_type: DataType, target: DataType, path: Path = ()) -> Iterator[Path]:
    """The fields of a type that a value of another type lacks, without void ones, which are null anyway."""
    match value_type, target:
        case (Struct(), Struct()):
            for f in target.fields:
                value_field = value_type.find(f.name)
                if value_field is not None:
                    yield from missing_fields(value_field.type, f.type, (*path, f.name))
                elif f.type != Primitive("void"):
                    yield (*path, f.name)
        case (Array(), Array()):
            yield from missing_fields(value_type.element, target.element, (*path, "element"))
        case (Map(), Map()):
            yield from missing_fields(value_type.key, target.key, (*path, "key"))
            yield from missing_fields(value_type.value, target.value, (*path, "value"))


def generation_of(f: Field, schema: Struct) -> StoredExpression:
    """The expression of a generated column."""
    return stored(str(f.metadata[GENERATION]), schema, f"generated column {f.name}")


def default_of(f: Field) -> StoredExpression | None:
    """The default of a column; None where it has none."""
    if DEFAULT not in f.metadata:
        return None
    return stored(str(f.metadata[DEFAULT]), Struct(()), f"default of the column {f.name}", default=True)


def mismatch(incoming: Struct, table: Struct, wrong: dict[Path, str]) -> SchemaMismatch:
    """The error for rows that do not fit."""
    names = tuple(path_text(path) for path in wrong)
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    typed = any(len(path) == 1 and incoming.find(path[0]) and table.find(path[0]) for path in wrong)
    return (TypeMismatch if typed else SchemaMismatch)(
        f"the rows do not fit the table, because of {shown}: what to do stands beside each\n"
        f"{side_by_side(table, incoming, wrong)}",
        table=schema_text(table),
        incoming=schema_text(incoming),
        columns=names,
    )


def refuse_doubles(schema: Struct) -> None:
    """Refuse a struct with two columns whose names differ in case alone, or not at all."""
    _refuse_doubles(schema, ())


def _refuse_doubles(type_: DataType, path: Path) -> None:
    match type_:
        case Struct(fields):
            counted = Counter(f.name.lower() for f in fields)
            twice = [f.name for f in fields if counted[f.name.lower()] > 1]
            if twice:
                where = f" in {path_text(path)}" if path else ""
                wrong = Invalid(f"there is more than one column {twice[0]}{where} ({', '.join(twice)}): rename one")
                raise wrong.named("COLUMN_ALREADY_EXISTS")
            for f in fields:
                _refuse_doubles(f.type, (*path, f.name))
        case Array(element, _):
            _refuse_doubles(element, (*path, "element"))
        case Map(key, value, _):
            _refuse_doubles(key, (*path, "key"))
            _refuse_doubles(value, (*path, "value"))
        case _:
            return


@dataclass(frozen=True, slots=True)
class _Fitter:
    assignment: Assignment
    wrong: dict[Path, str]  # differences, collected as they are met

    def parts(self, incoming: Struct, table: Struct, path: Path) -> tuple[FittedField, ...]:
        unmatched = {f.name.lower(): f for f in incoming.fields}
        fitted = tuple(self.part(unmatched.pop(f.name.lower(), None), f, table, (*path, f.name)) for f in table.fields)
        for extra in unmatched.values():
            self.wrong[(*path, extra.name)] = "not in the table: drop it, or let the write add columns (mergeSchema)"
        return fitted

    def part(self, incoming: Field | None, f: Field, table: Struct, path: Path) -> FittedField:
        if incoming is None:
            return FittedField(f, None, self.absent(f, table, path))
        identity = identity_of(f) if len(path) == 1 else None
        if identity is not None and not identity.explicit:
            self.wrong[path] = "numbered by the table itself: leave it out"
        return FittedField(f, incoming.name, self.how(incoming.type, f.type, path))

    def absent(self, f: Field, table: Struct, path: Path) -> How:
        if len(path) == 1:
            if (identity := identity_of(f)) is not None:
                return Numbered(identity)
            if GENERATION in f.metadata:
                return Generated(generation_of(f, table))
            if (default := default_of(f)) is not None:
                return Default(default)
        if f.write_default is not None:
            return GivenValue(f.write_default)
        if not f.nullable:
            self.wrong[path] = "missing, and must not be null: give it a value"
        return Null()

    def how(self, incoming: DataType, target: DataType, path: Path) -> How:
        match incoming, target:
            case (Struct(), Struct()):
                parts = self.parts(incoming, target, path)
                untouched = incoming.names == target.names and all(isinstance(p.how, Same) for p in parts)
                return Same() if untouched else Fields(parts)
            case (Array(), Array()):
                each = self.how(incoming.element, target.element, (*path, "element"))
                return each if isinstance(each, Same) else Elements(each)
            case (Map(), Map()):
                key = self.how(incoming.key, target.key, (*path, "key"))
                value = self.how(incoming.value, target.value, (*path, "value"))
                return Same() if isinstance(key, Same) and isinstance(value, Same) else MapEntries(key, value)
            case _:
                return self.value(incoming, target, path)

    def value(self, incoming: DataType, target: DataType, path: Path) -> How:
        if incoming == target:
            return Same()
        lossless = is_lossless(incoming, target)
        if not lossless and not self.converts(incoming, target):
            self.wrong[path] = _advice(incoming, target)
        return Cast(target, lossless)

    def converts(self, incoming: DataType, target: DataType) -> bool:
        match self.assignment:
            case Assignment.LOSSLESS:
                return False
            case Assignment.ANSI:
                return is_assignable(incoming, target)
            case Assignment.CAST:
                return is_castable(incoming, target)


def _advice(incoming: DataType, target: DataType) -> str:
    shown = f"{type_text(incoming)} does not fit {type_text(target)}"
    if widens(target, incoming):
        return f"{shown}: cast it, or let the write widen types (widenTypes)"
    return f"{shown}: cast it" if is_assignable(incoming, target) else f"{shown}: give it as {type_text(target)}"
