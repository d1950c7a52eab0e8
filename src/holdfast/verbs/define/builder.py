"""Describes a new table by delta-spark's builder, and creates it.

1. Nothing is read or written before `execute`.
2. Whatever is wrong with the description alone is refused before the table is read.
3. The definition has no column mapping yet, because ids depend on the existing table; until then clustering columns
   are paths of names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from os import PathLike, fspath
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import pyarrow as pa

from holdfast.errors import Invalid, UnknownColumn, Unsupported
from holdfast.formats.delta.log.actions import Protocol
from holdfast.formats.delta.protocol.upgrade import protocol_for, refuse_lower
from holdfast.model.mutation import TableDefinition
from holdfast.predicate.parse import unknown_names
from holdfast.schema.constraints import CHAR_VARCHAR, demands, references, stated
from holdfast.schema.ddl import parse_type
from holdfast.schema.enforce import DEFAULT, GENERATION
from holdfast.schema.evolve import TYPE_CHANGES
from holdfast.schema.from_arrow import struct_of
from holdfast.schema.identity import identity_metadata, identity_of
from holdfast.schema.mapping import fields_along, without_mapping
from holdfast.schema.properties import COLUMN_MAPPING_MODE
from holdfast.schema.requests import least_versions, requested
from holdfast.schema.show import path_text, type_text
from holdfast.schema.storable import is_bounded, refuse_partition_columns, refuse_unstorable
from holdfast.schema.types import LONG, DataType, Field, Struct
from holdfast.storage.location import Location
from holdfast.storage.open import open_location
from holdfast.verbs.define.defaults import refuse_defaults, with_default
from holdfast.verbs.open.spark_values import spark_columns, spark_type, varchar_length

if TYPE_CHECKING:
    from pyspark.sql import types as spark

PLAIN = "holdfast.plain"  # asks for a table that every old reader opens; not kept

_TRACKED = Protocol(3, 7)  # what a new table has, unless it is plain
_BY_PATH = re.compile(r"(?:delta\.)?`(.+)`", re.DOTALL)
_VARCHAR = re.compile(r"varchar\s*\(\s*(\d+)\s*\)", re.IGNORECASE)
_MOST_CLUSTERING_COLUMNS = 4
_EXISTS = "EXISTS_DEFAULT"  # what Spark shows in rows older than a column; a table's rows are null in it

T = TypeVar("T")


class CreateMode(Enum):
    """What to do about a table that is there, or is not."""

    CREATE = "create"
    CREATE_IF_NOT_EXISTS = "createIfNotExists"
    REPLACE = "replace"
    CREATE_OR_REPLACE = "createOrReplace"


Create: TypeAlias = Callable[[Location, TableDefinition, CreateMode], T]


@dataclass(frozen=True, slots=True)
class IdentityGenerator:
    """Numbers that the table hands out: start, start + step, and so on, with gaps."""

    start: int = 1
    step: int = 1

    def __post_init__(self) -> None:
        if type(self.start) is not int or type(self.step) is not int:
            raise Invalid(f"an identity column starts and steps by whole numbers, not {self.start!r} and {self.step!r}")
        if self.step == 0:
            raise Invalid("an identity column must move: give it a step other than 0")


class DeltaTableBuilder(Generic[T]):
    """Describes a table and makes it."""

    def __init__(self, create: Create[T], mode: CreateMode) -> None:
        self._create = create
        self._mode = mode
        self._location: Location | None = None
        self._comment: str | None = None
        self._fields: list[Field] = []
        self._partitions: tuple[str, ...] = ()
        self._clustering: tuple[str, ...] | None = None
        self._properties: dict[str, str] = {}

    def tableName(self, identifier: str) -> DeltaTableBuilder[T]:
        """The table's name; for now only a path, as in ``delta.`/path/to/table` ``."""
        if by_path := _BY_PATH.fullmatch(identifier.strip()):
            return self.location(by_path[1])
        raise Unsupported(
            f"Holdfast keeps no catalog to put {identifier!r} in: say where the table is with location(path)"
        )

    def location(
        self, location: str | PathLike[str], *, storage_options: Mapping[str, str] | None = None
    ) -> DeltaTableBuilder[T]:
        """Where the table is, and how to reach it."""
        self._location = open_location(fspath(location), storage_options=storage_options)
        return self

    def comment(self, comment: str) -> DeltaTableBuilder[T]:
        """What the table is for."""
        self._comment = comment
        return self

    def addColumn(
        self,
        colName: str,
        dataType: str | spark.DataType,
        nullable: bool = True,
        generatedAlwaysAs: str | IdentityGenerator | None = None,
        generatedByDefaultAs: IdentityGenerator | None = None,
        comment: str | None = None,
        default: str | None = None,
    ) -> DeltaTableBuilder[T]:
        """Add a column; `dataType` is a Spark type or SQL text such as `array<int>`, `default` SQL text such as `'a'`.

        Rows that bring nothing for a column with a default get what that is when they are written.
        """
        metadata: dict[str, str | int | bool] = {} if comment is None else {"comment": comment}
        dataType, limit = _unlimited(dataType)
        type_ = _type_of(colName, dataType)
        metadata |= limit
        if generatedAlwaysAs is not None and generatedByDefaultAs is not None:
            raise Invalid(f"the column {colName} is generated either always or by default: choose one")
        if isinstance(generatedAlwaysAs, str):
            metadata[GENERATION] = generatedAlwaysAs
        elif (identity := generatedAlwaysAs or generatedByDefaultAs) is not None:
            metadata |= _identity(colName, type_, identity, explicit=generatedByDefaultAs is not None)
        self._fields.append(with_default(Field(colName, type_, nullable, metadata), default))
        return self

    def addColumns(self, cols: spark.StructType | Sequence[spark.StructField] | pa.Schema) -> DeltaTableBuilder[T]:
        """Add the columns of a Spark or Arrow schema, with the comments and defaults in their metadata."""
        if isinstance(cols, pa.Schema):
            self._fields += _of_arrow(cols)
            return self
        self._fields += without_mapping(spark_columns(cols)).fields
        return self

    def partitionedBy(self, *cols: str | Sequence[str]) -> DeltaTableBuilder[T]:
        """Partition the table by columns."""
        self._partitions = tuple(_flat(cols))
        return self

    def clusterBy(self, *cols: str | Sequence[str]) -> DeltaTableBuilder[T]:
        """Cluster the table by columns; a nested one as `a.b`."""
        self._clustering = tuple(_flat(cols))
        return self

    def property(self, key: str, value: str) -> DeltaTableBuilder[T]:
        """Set a property of the table, or ask for a feature by `delta.feature.<name>`."""
        self._properties[key] = value
        return self

    def execute(self) -> T:
        """Make the table."""
        if self._location is None:
            raise Invalid("the table has no place: give it one with location(path)")
        return self._create(self._location, self._shape(), self._mode)

    def _shape(self) -> TableDefinition:
        rest, versions = least_versions(self._properties)
        wanted = requested(rest)
        schema = Struct(tuple(_fresh(f) for f in self._fields))
        refuse_unstorable(schema, mapped=wanted.properties.get(COLUMN_MAPPING_MODE, "none") != "none")
        partitions = refuse_partition_columns(schema, self._partitions)
        if partitions and self._clustering is not None:
            raise Invalid("a table is either partitioned or clustered: choose one")
        refuse_defaults(schema)
        _refuse_generated(schema, partitions)
        for kind, name, text in stated(schema, wanted.properties):
            _refuse_unknown(text, schema, f"{kind.value} {name}")
        demands(schema, wanted.properties)  # refuses what may not be evaluated
        shape = TableDefinition(
            schema,
            partitions,
            wanted.properties,
            None if self._clustering is None else _clustering(schema, self._clustering),
            description=self._comment,
            features=wanted.features,
        )
        plain = wanted.properties.get(PLAIN, "false").lower() == "true"
        refuse_lower(protocol_for(shape) if plain else _TRACKED, versions)
        return shape


def without_plain(definition: TableDefinition) -> tuple[TableDefinition, bool]:
    """A definition without the property PLAIN, and whether that asked for a plain table."""
    properties = dict(definition.properties)
    plain = properties.pop(PLAIN, "false").lower() == "true"
    return replace(definition, properties=properties), plain


def _type_of(name: str, data_type: str | spark.DataType) -> DataType:
    if isinstance(data_type, str):
        return parse_type(data_type)
    if (parsed := spark_type(name, data_type)) is not None:
        return parsed
    raise Invalid(f"the type of {name} is SQL text or a Spark type, not {type(data_type).__name__}")


def _unlimited(type_: str | spark.DataType) -> tuple[str | spark.DataType, dict[str, str]]:
    """A type without its limit on length, and the metadata that says the limit."""
    if isinstance(type_, str):
        limited = _VARCHAR.fullmatch(type_.strip())
        return (type_, {}) if limited is None else ("string", {CHAR_VARCHAR: f"varchar({limited[1]})"})
    length = varchar_length(type_)
    return (type_, {}) if length is None else ("string", {CHAR_VARCHAR: f"varchar({length})"})


def _of_arrow(schema: pa.Schema) -> list[Field]:
    """The columns of an Arrow schema, with what of their metadata means something to a table."""
    noted = [{key.decode(): value.decode() for key, value in (f.metadata or {}).items()} for f in schema]
    return [
        replace(f, metadata={name: notes[name] for name in ("comment", DEFAULT) if name in notes})
        for f, notes in zip(struct_of(schema).fields, noted, strict=True)
    ]


def _identity(name: str, type_: DataType, identity: IdentityGenerator, *, explicit: bool) -> dict[str, int | bool]:
    if not isinstance(identity, IdentityGenerator):
        raise Invalid(f"the column {name} is generated by SQL text or an IdentityGenerator, not {identity!r}")
    if type_ != LONG:
        raise Invalid(f"the identity column {name} must be a bigint, not {type_text(type_)}")
    return identity_metadata(start=identity.start, step=identity.step, explicit=explicit)


def _fresh(f: Field) -> Field:
    """A field without what only an older table's log can say of it."""
    return Field(f.name, f.type, f.nullable, {k: v for k, v in f.metadata.items() if k not in (TYPE_CHANGES, _EXISTS)})


def _flat(cols: Iterable[str | Sequence[str]]) -> Iterable[str]:
    for col in cols:
        if isinstance(col, str):
            yield col
        else:
            yield from col


def _refuse_generated(schema: Struct, partitions: tuple[str, ...]) -> None:
    generated = {f.name: str(f.metadata[GENERATION]) for f in schema.fields if GENERATION in f.metadata}
    for name, expression in generated.items():
        for other in references(expression, schema):
            if other in generated:
                raise Invalid(f"the generated column {name} ({expression}) is made of {other}, which is generated too")
    for name in partitions:
        f = schema.find(name)
        if f is not None and identity_of(f) is not None:
            raise Invalid(f"the table cannot be partitioned by {name}, because its numbers are its own")


def _refuse_unknown(expression: str, schema: Struct, title: str) -> None:
    if unknown := unknown_names(expression, schema):
        raise UnknownColumn(
            f"the {title} ({expression}) names {unknown[0]}, but the table has {', '.join(schema.names)}",
            column=unknown[0],
        )


def _clustering(schema: Struct, names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    paths = [_path(schema, name) for name in names]
    if len(set(paths)) < len(paths):
        raise Invalid(f"a clustering column is named twice: {', '.join(names)}")
    if len(paths) > _MOST_CLUSTERING_COLUMNS:
        raise Invalid(f"a table is clustered by at most {_MOST_CLUSTERING_COLUMNS} columns, not {len(paths)}")
    return tuple(paths)


def _path(schema: Struct, name: str) -> tuple[str, ...]:
    fields = fields_along(schema, (name,) if schema.find(name) else name.split("."))
    path, type_ = tuple(f.name for f in fields), fields[-1].type
    if not is_bounded(type_):
        raise Invalid(f"the table cannot be clustered by {path_text(path)}, because it is {type_text(type_)}")
    return path
