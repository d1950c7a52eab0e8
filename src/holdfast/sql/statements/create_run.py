"""CREATE, REPLACE and DROP TABLE: creates tables, and keeps their entries in Spark's catalog.

1. The entry comes before the table, because Spark chooses the location of a managed table. Where creating the table
   fails, the entry is removed again.
2. A table with rows is created in one commit: no version is without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from holdfast.engines.spark.session.catalog import CatalogEntry, enter, find, forget, place
from holdfast.engines.spark.types import spark_struct
from holdfast.env import system
from holdfast.errors import Invalid, NotATable, SchemaMismatch, Unsupported
from holdfast.model.mutation import TableDefinition
from holdfast.schema.mapping import without_mapping
from holdfast.schema.show import schema_text
from holdfast.schema.types import Struct, struct_to_json
from holdfast.sql import answers
from holdfast.sql.context import StatementContext
from holdfast.sql.query.run import query_frame
from holdfast.sql.resolver import path_of
from holdfast.sql.statements.create_parse import OF_ITSELF, Clone, Create, Drop
from holdfast.sql.text import Span
from holdfast.storage.location import Location
from holdfast.storage.open import open_location
from holdfast.table.delta import DeltaTable
from holdfast.verbs.define.builder import CreateMode, DeltaTableBuilder, without_plain
from holdfast.verbs.define.create import create_with
from holdfast.verbs.dml.write_mutation import CommitOptions
from holdfast.verbs.open.engine import rows_of
from holdfast.verbs.stream.follow import nullable

T = TypeVar("T")


@dataclass(frozen=True)
class _Creation:
    """The schema for a table's catalog entry, and a function that creates the table at a location."""

    schema: StructType
    create_at: Callable[[str], None]


_BUILDERS: Mapping[CreateMode, Callable[[SparkSession], DeltaTableBuilder[DeltaTable]]] = {
    CreateMode.CREATE: DeltaTable.create,
    CreateMode.CREATE_IF_NOT_EXISTS: DeltaTable.createIfNotExists,
    CreateMode.REPLACE: DeltaTable.replace,
    CreateMode.CREATE_OR_REPLACE: DeltaTable.createOrReplace,
}


def is_ours(context: StatementContext, command: Create) -> bool:
    """Whether a statement creates a Delta table."""
    if command.provider is not None:
        return command.provider.lower() == "delta"
    if path_of(command.table) is not None or command.clone is not None:
        return True
    if command.like is not None:
        return context.table(command.like) is not None
    return context.settings.default_source.lower() == "delta"


def run_create(context: StatementContext, command: Create) -> DataFrame:
    """Create a table, and its catalog entry unless its name is a path."""
    spark, path = context.spark, path_of(command.table)
    if path is None and command.location is not None:
        command = replace(command, location=_absolute(context, command.table, command.location))
    if path is not None:
        if command.location is not None and command.location != path:
            raise Invalid(f"the table's name says {path}, and LOCATION {command.location}: leave LOCATION out")
        if command.mode is not CreateMode.CREATE_IF_NOT_EXISTS or not DeltaTable.isDeltaTable(spark, path):
            _creation(context, command, path).create_at(path)
            return _answer(context, command, path)
        return answers.nothing(spark)
    name = ".".join(command.table)
    entry = find(spark, command.table)
    if entry is None:
        if command.mode is CreateMode.REPLACE:
            missing = NotATable(f"there is no table {name} to replace: use CREATE OR REPLACE TABLE", location=name)
            raise missing.named("TABLE_OR_VIEW_NOT_FOUND")
        _create_new(context, command)
    elif command.mode is CreateMode.CREATE:
        wrong = Invalid(f"there is a table {name} already: drop it, or use CREATE OR REPLACE TABLE")
        raise wrong.named("TABLE_OR_VIEW_ALREADY_EXISTS")
    elif command.mode is not CreateMode.CREATE_IF_NOT_EXISTS:
        if not entry.is_delta:
            raise Invalid(f"{name} is a table of {entry.provider}: drop it before a Delta table takes its name")
        if command.location is not None and not _is_at(entry, command.location):
            raise Invalid(f"{name} is at {entry.location}: a table is replaced where it is, so leave LOCATION out")
        _creation(context, command, entry.location).create_at(entry.location)
    else:
        return answers.nothing(spark)
    return _answer(context, command, None)


def _answer(context: StatementContext, command: Create, path: str | None) -> DataFrame:
    """The answer of a statement that created a table: the counts of a clone, otherwise nothing."""
    if command.clone is None:
        return answers.nothing(context.spark)
    if path is None:
        entry = find(context.spark, command.table)
        assert entry is not None, "the table was entered"
        path = entry.location
    return answers.cloned(context.spark, DeltaTable.forPath(context.spark, path))


def run_drop(context: StatementContext, command: Drop) -> DataFrame | None:
    """Remove a table from the catalog, a managed one with its files; None where it is not ours."""
    if path_of(command.table) is not None:
        raise Unsupported(
            f"{command.table[1]} is a path, in no catalog that it could be dropped from: delete the directory"
        )
    if context.resolver.entry(context.spark, command.table) is None:
        return None
    forget(context.spark, command.table)
    return answers.nothing(context.spark)


def _create_new(context: StatementContext, command: Create) -> None:
    """Create a table and its entry; or only the entry, where there is a table at its location."""
    spark, location = context.spark, command.location
    keeps = command.query is None and command.clone is None and command.mode is not CreateMode.CREATE_OR_REPLACE
    if location is not None and keeps and DeltaTable.isDeltaTable(spark, location):
        _enter_existing(context, command, location)
        return
    creation = _creation(context, command, location)
    if not creation.schema.fields and location is None and not command.columns:
        raise Invalid(f"{'.'.join(command.table)} has no columns: name them, or say AS SELECT ...")
    entry = enter(spark, command.table, location=location, schema=creation.schema, comment=command.comment)
    try:
        creation.create_at(entry.location)
    except BaseException:
        forget(spark, command.table, if_exists=True)
        raise


def _enter_existing(context: StatementContext, command: Create, path: str) -> None:
    table = DeltaTable.forPath(context.spark, path)
    snapshot = table.handle.newest().snapshot
    if command.columns:
        schema = _definition(context, command, path).schema
        if [(f.name.lower(), f.type) for f in schema.fields] != [
            (f.name.lower(), f.type) for f in snapshot.schema.fields
        ]:
            raise SchemaMismatch(
                f"there is a table at {path} already, with other columns:\n{schema_text(snapshot.schema)}\nleave the "
                "columns out to enter it as it is",
                table=schema_text(snapshot.schema),
                incoming=schema_text(schema),
                columns=(),
            ).named("DELTA_CREATE_TABLE_SCHEME_MISMATCH")
    if command.partitions and tuple(command.partitions) != snapshot.partition_columns:
        raise Invalid(f"the table at {path} is partitioned by {', '.join(snapshot.partition_columns) or 'nothing'}")
    enter(context.spark, command.table, location=path, schema=_catalog_schema(snapshot.schema), comment=command.comment)


def _creation(context: StatementContext, command: Create, path: str | None) -> _Creation:
    if command.clone is not None:
        return _from_clone(context, command, command.clone)
    if command.query is not None:
        return _from_query(context, command, command.query)
    like = None if command.like is None else _like(context, command.like)

    def create_at(location: str) -> None:
        _described(_BUILDERS[command.mode](context.spark), context, command, like).location(location).execute()

    return _Creation(_catalog_schema(_definition(context, command, path or "/", like).schema), create_at)


def _from_query(context: StatementContext, command: Create, query: Span) -> _Creation:
    if command.columns:
        raise Invalid("CREATE TABLE ... AS SELECT takes its columns from the query: leave the list of columns out")
    rows = query_frame(context, query)
    schema = StructType([StructField(f.name, f.dataType, True, f.metadata) for f in rows.schema.fields])
    env = system()

    def execute(location: Location, definition: TableDefinition, mode: CreateMode) -> None:
        definition, plain = without_plain(definition)
        options = CommitOptions(None, context.settings.user_metadata)
        incoming = rows_of(rows, env, context.zone)
        create_with(location, definition, incoming, env, mode=mode, options=options, plain=plain)

    def create_at(location: str) -> None:
        builder = DeltaTableBuilder(execute, command.mode).addColumns(schema)
        _described(builder, context, command).location(location).execute()

    return _Creation(schema, create_at)


def _from_clone(context: StatementContext, command: Create, clone: Clone) -> _Creation:
    source = _like(context, clone.source)
    replaces = command.mode in (CreateMode.REPLACE, CreateMode.CREATE_OR_REPLACE)
    properties = dict(command.properties)

    def create_at(location: str) -> None:
        if clone.version is not None:
            version = context.version(clone.version)
            if not isinstance(version, int):
                raise Invalid(f"a clone begins with a version by its number, not {version!r}")
            source.cloneAtVersion(version, location, clone.shallow, replaces, properties)
        elif clone.timestamp is not None:
            moment = context.timestamp(clone.timestamp)
            source.cloneAtTimestamp(moment, location, clone.shallow, replaces, properties)
        else:
            source.clone(location, clone.shallow, replaces, properties)

    return _Creation(_catalog_schema(source.handle.newest().snapshot.schema), create_at)


def _like(context: StatementContext, parts: tuple[str, ...]) -> DeltaTable:
    """The table that another one is cloned from or made like."""
    resolved = context.table(parts)
    if resolved is None:
        name = ".".join(parts)
        raise NotATable(f"{name} is no Delta table, and only one can be cloned or made like", location=name)
    return resolved.delta("CREATE TABLE ... LIKE and CLONE")


def _described(
    builder: DeltaTableBuilder[T],
    context: StatementContext,
    command: Create,
    like: DeltaTable | None = None,
) -> DeltaTableBuilder[T]:
    """The builder with the columns, properties and layout of a statement."""
    if like is not None:
        snapshot = like.handle.newest().snapshot
        builder.addColumns(StructType.fromJson(struct_to_json(without_mapping(snapshot.schema))))
        description = like.detailArrow().column("description")[0].as_py()
        if description:
            builder.comment(description)
        if snapshot.partition_columns:
            builder.partitionedBy(*snapshot.partition_columns)
        for name, value in snapshot.properties.items():
            if not name.startswith(OF_ITSELF):
                builder.property(name, value)
    for column in command.columns:
        identity, by_default = column.identity, column.by_default
        builder.addColumn(
            column.name,
            column.type,
            column.nullable,
            context.written(column.generated) if column.generated else None if by_default else identity,
            identity if by_default else None,
            column.comment,
            context.written(column.default) if column.default else None,
        )
    if command.comment is not None:
        builder.comment(command.comment)
    if command.partitions:
        builder.partitionedBy(*command.partitions)
    if command.clustering is not None:
        builder.clusterBy(*(".".join(path) for path in command.clustering))
    checks = {f"delta.constraints.{name}": context.written(span) for name, span in command.checks.items()}
    for name, value in {**context.settings.properties, **command.properties, **checks}.items():
        builder.property(name, value)
    return builder


def _definition(
    context: StatementContext, command: Create, path: str, like: DeltaTable | None = None
) -> TableDefinition:
    """The table that the statement describes, without creating it."""
    builder: DeltaTableBuilder[TableDefinition] = DeltaTableBuilder(
        lambda _, definition, mode: definition, command.mode
    )
    return _described(builder, context, command, like).location(path).execute()


def _catalog_schema(schema: Struct) -> StructType:
    return spark_struct(nullable(schema).fields)


def _absolute(context: StatementContext, table: tuple[str, ...], location: str) -> str:
    """A location as Spark's catalog has it: a relative one is below the database's."""
    if "://" in location or location.startswith(("/", "file:")):
        return location
    return f"{place(context.spark, table).rsplit('/', 1)[0]}/{location}"


def _is_at(entry: CatalogEntry, location: str) -> bool:
    return open_location(entry.location).url == open_location(location).url
