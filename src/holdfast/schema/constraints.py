"""The constraints of a table on the rows written to it (demands), each as one SQL expression over its columns.

A row satisfies a demand where the expression is true; false and null both violate it.

1. A nested field that must not be null may be missing where a struct, list or map around it is null.
2. Where incoming rows have a generated column, its values must equal the computed ones.
3. A demand that cannot be parsed, or may not be evaluated (`schema.expressions`), is refused, never skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from holdfast.errors import Unsupported
from holdfast.schema.enforce import DEFAULT, GENERATION, Fit, Generated, default_of
from holdfast.schema.expressions import StoredExpression, stored
from holdfast.schema.mapping import all_fields
from holdfast.schema.properties import CONSTRAINT
from holdfast.schema.show import Path, path_text
from holdfast.schema.tokens import quoted as quoted
from holdfast.schema.types import Array, DataType, Field, Map, Struct
from holdfast.storage.error_mapping import MALFORMED_JSON

INVARIANTS = "delta.invariants"
CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"

_LENGTH = re.compile(r"(?:var)?char\((\d+)\)", re.IGNORECASE)


class DemandKind(Enum):
    """Where a demand comes from; the value is its name in errors."""

    NOT_NULL = "NOT NULL constraint"
    INVARIANT = "invariant"
    LENGTH = "length limit"
    CHECK = "CHECK constraint"
    GENERATED = "generated column"


@dataclass(frozen=True, slots=True)
class Demand:
    """A condition that every row must satisfy."""

    name: str  # of the constraint, or of the column where it has no name of its own
    kind: DemandKind
    expression: str  # as errors show it
    columns: tuple[str, ...]  # the top-level columns it uses
    stored: StoredExpression | None = field(default=None, compare=False)  # the part that is in the table's metadata

    @property
    def sql(self) -> str:
        """The expression that engines evaluate."""
        if self.stored is None:
            return self.expression
        return f"{quoted(self.name)} <=> ({self.stored.sql})" if self.kind is DemandKind.GENERATED else self.stored.sql

    @property
    def title(self) -> str:
        """Its name in errors."""
        return f"{self.kind.value} {self.name}"


def demands(schema: Struct, properties: Mapping[str, str], fit: Fit | None = None) -> tuple[Demand, ...]:
    """All demands of a table; with `fit`, without those on generated columns that this write computes.

    Raises where an expression of the metadata may not be evaluated, a default's too, because a write follows.
    """
    for f in schema.fields:
        default_of(f)
    computed = {p.field.name for p in fit.parts if isinstance(p.how, Generated)} if fit else set()
    texts = (_read(schema, *each) for each in stated(schema, properties))
    every = (*_not_null(schema), *_lengths(schema), *texts)
    return tuple(d for d in every if not (d.kind is DemandKind.GENERATED and d.name in computed))


def stated(schema: Struct, properties: Mapping[str, str]) -> Iterator[tuple[DemandKind, str, str]]:
    """The kind, name and text of each demand that the metadata states as an expression."""
    yield from _invariants(schema)
    for f in schema.fields:
        if GENERATION in f.metadata:
            yield DemandKind.GENERATED, f.name, str(f.metadata[GENERATION])
    for name in sorted(properties):
        if name.startswith(CONSTRAINT):
            yield DemandKind.CHECK, name.removeprefix(CONSTRAINT), properties[name]


def refuse_new(schema: Struct, properties: Mapping[str, str], old: tuple[Struct, Mapping[str, str]] | None) -> None:
    """Refuse metadata with expressions that may not be evaluated, unless the table had all of them before."""
    before = set() if old is None else _texts(*old)
    if not _texts(schema, properties) <= before:
        demands(schema, properties)


def pinned(schema: Struct, properties: Mapping[str, str]) -> dict[str, str]:
    """Columns that must keep their type, each with the reason."""
    reasons: dict[str, str] = {}
    for d in demands(schema, properties):
        if d.stored is not None:
            reasons |= dict.fromkeys(d.columns, f"the {d.title} depends on it")
    return reasons


def references(expression: str, schema: Struct) -> tuple[str, ...]:
    """The top-level columns that an expression names; all columns where it cannot be parsed."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        tree = sqlglot.parse_one(expression, dialect="spark")
    except (SqlglotError, RecursionError, ValueError):
        return schema.names
    names = {node.parts[0].name.lower() for node in tree.find_all(exp.Column)}
    return tuple(f.name for f in schema.fields if f.name.lower() in names)


def longest(f: Field) -> int | None:
    """The maximum length of a string column in characters; None where there is no limit."""
    if (declared := f.metadata.get(CHAR_VARCHAR)) is None:
        return None
    limit = _LENGTH.fullmatch(str(declared).strip())
    if limit is None:
        raise _unread(f.name, f"the type {declared}")
    return int(limit[1])


def _texts(schema: Struct, properties: Mapping[str, str]) -> set[tuple[str, str, str]]:
    defaults = {("default", f.name, str(f.metadata[DEFAULT])) for f in schema.fields if DEFAULT in f.metadata}
    return defaults | {(kind.value, name, text) for kind, name, text in stated(schema, properties)}


def _not_null(schema: Struct) -> Iterator[Demand]:
    for f in schema.fields:
        value = quoted(f.name)
        if not f.nullable:
            yield Demand(f.name, DemandKind.NOT_NULL, f"{value} IS NOT NULL", (f.name,))
        for path, expression in _inside(f.type, value, (f.name,), 0):
            yield Demand(path_text(path), DemandKind.NOT_NULL, expression, (f.name,))


def _inside(type_: DataType, value: str, path: Path, depth: int) -> Iterator[tuple[Path, str]]:
    """Conditions that fields below a value are not null; they are true where the value itself is null."""
    match type_:
        case Struct(fields):
            for f in fields:
                inner, below = f"{value}.{quoted(f.name)}", (*path, f.name)
                conditions = [(below, f"{inner} IS NOT NULL")] if not f.nullable else []
                conditions += _inside(f.type, inner, below, depth)
                for where, condition in conditions:
                    yield where, f"({value} IS NULL OR {condition})"
        case Array(element, contains_null):
            yield from _each(element, contains_null, value, (*path, "element"), depth)
        case Map(key, item, value_contains_null):
            yield from _each(key, True, f"map_keys({value})", (*path, "key"), depth)  # a map has no null key
            yield from _each(item, value_contains_null, f"map_values({value})", (*path, "value"), depth)
        case _:
            return


def _each(type_: DataType, nullable: bool, values: str, path: Path, depth: int) -> Iterator[tuple[Path, str]]:
    variable = f"x{depth}"
    conditions = [] if nullable else [(path, f"{variable} IS NOT NULL")]
    conditions += _inside(type_, variable, path, depth + 1)
    for where, condition in conditions:
        yield where, f"coalesce(forall({values}, {variable} -> {condition}), true)"


def _lengths(schema: Struct) -> Iterator[Demand]:
    """The limits of CHAR and VARCHAR, which Spark keeps in a string column's metadata."""
    for f in schema.fields:
        if any(CHAR_VARCHAR in inner.metadata for inner in all_fields(f.type)):
            raise _unread(f.name, "a length limit inside of it")
        if (limit := longest(f)) is not None:
            value = quoted(f.name)
            yield Demand(f.name, DemandKind.LENGTH, f"({value} IS NULL OR length({value}) <= {limit})", (f.name,))


def _invariants(schema: Struct) -> Iterator[tuple[DemandKind, str, str]]:
    for path, text in _invariant_texts(schema, ()):
        try:
            expression = msgspec.json.decode(text)["expression"]["expression"]
        except MALFORMED_JSON as error:
            raise _unread(path_text(path), f"the invariant {text}") from error
        yield DemandKind.INVARIANT, path_text(path), str(expression)


def _invariant_texts(schema: Struct, path: Path) -> Iterator[tuple[Path, str]]:
    for f in schema.fields:
        if INVARIANTS in f.metadata:
            yield (*path, f.name), str(f.metadata[INVARIANTS])
        if isinstance(f.type, Struct):
            yield from _invariant_texts(f.type, (*path, f.name))


def _read(schema: Struct, kind: DemandKind, name: str, text: str) -> Demand:
    expression = stored(text, schema, f"{kind.value} {name}")
    if kind is not DemandKind.GENERATED:
        return Demand(name, kind, text, expression.columns, expression)
    columns = tuple(dict.fromkeys((name, *expression.columns)))
    return Demand(name, kind, f"{quoted(name)} <=> ({text})", columns, expression)


def _unread(column: str, what: str) -> Unsupported:
    return Unsupported(f"the column {column} has {what}, which Holdfast cannot enforce: write with the table's engine")
