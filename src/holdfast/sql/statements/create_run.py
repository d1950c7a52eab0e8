"""CREATE, REPLACE and DROP TABLE, carried out: a table at a place, and its entry in Spark's catalog.

1. A table is entered before it is made, because Spark gives a managed one its place; where it cannot be made, its entry
   goes again.
2. With rows it is one commit: nobody sees it without them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from holdfast.engines.spark.session.catalog import CatalogEntry, enter, find, forget, place
from holdfast.engines.spark.types import spark_struct
from holdfast.env import system
from holdfast.errors import Invalid, NotATable, SchemaMismatch, Unsupported
from holdfast.model.mutation import TableDefinition
from holdfast.schema.mapping import without_mapping
from holdfast.schema.properties import truth
from holdfast.schema.show import schema_text
from holdfast.schema.types import Struct, to_json
from holdfast.sql import answers
from holdfast.sql.context import StatementContext
from holdfast.sql.query.references import Span
from holdfast.sql.query.run import frame_of
from holdfast.sql.resolver import path_of
from holdfast.sql.statements.create_parse import OF_ITSELF, Clone, Create, Drop
from holdfast.sql.text import Statement
from holdfast.storage.location import Location
from holdfast.storage.open import open_location
from holdfast.table.delta import DeltaTable
from holdfast.verbs.define.builder import PLAIN, CreateMode, DeltaTableBuilder
from holdfast.verbs.define.create import create_with
from holdfast.verbs.dml.write import rows_of
from holdfast.verbs.dml.write_mutation import CommitOptions
from holdfast.verbs.stream.follow import nullable

T = TypeVar("T")


@dataclass(frozen=True)
class _Making:
    """A table about to be made: the schema for its entry, and what makes it at a place."""

    schema: StructType
    at: Callable[[str], None]


def is_ours(asking: StatementContext, asked: Create) -> bool:
    """Whether a table is to be a Delta table."""
    if asked.provider is not None:
        return asked.provider.lower() == "delta"
    if path_of(asked.table) is not None or asked.clone is not None:
        return True
    if asked.like is not None:
        return asking.table(asked.like) is not None
    return asking.setting("spark.sql.sources.default", "parquet") == "delta"


def run_create(asking: StatementContext, statement: Statement, asked: Create) -> DataFrame:
    """Make a table, and enter it into the catalog unless its name is a path."""
    spark, path = asking.spark, path_of(asked.table)
    if path is None and asked.location is not None:
        asked = replace(asked, location=_absolute(asking, asked.table, asked.location))
    if path is not None:
        if asked.location is not None and asked.location != path:
            raise Invalid(f"the table's name says {path}, and LOCATION {asked.location}: leave LOCATION out")
        if asked.mode is not CreateMode.CREATE_IF_NOT_EXISTS or not DeltaTable.isDeltaTable(spark, path):
            _making(asking, statement, asked, path).at(path)
            return _answer(asking, asked, path)
        return answers.nothing(spark)
    name = ".".join(asked.table)
    entry = find(spark, asked.table)
    if entry is None:
        if asked.mode is CreateMode.REPLACE:
            missing = NotATable(f"there is no table {name} to replace: use CREATE OR REPLACE TABLE", location=name)
            raise missing.named("TABLE_OR_VIEW_NOT_FOUND")
        _entered(asking, statement, asked)
    elif asked.mode is CreateMode.CREATE:
        wrong = Invalid(f"there is a table {name} already: drop it, or use CREATE OR REPLACE TABLE")
        raise wrong.named("TABLE_OR_VIEW_ALREADY_EXISTS")
    elif asked.mode is not CreateMode.CREATE_IF_NOT_EXISTS:
        if not entry.is_delta:
            raise Invalid(f"{name} is a table of {entry.provider}: drop it before a Delta table takes its name")
        if asked.location is not None and not _is_at(entry, asked.location):
            raise Invalid(f"{name} is at {entry.location}: a table is replaced where it is, so leave LOCATION out")
        _making(asking, statement, asked, entry.location).at(entry.location)
    else:
        return answers.nothing(spark)
    return _answer(asking, asked, None)


def _answer(asking: StatementContext, asked: Create, path: str | None) -> DataFrame:
    """What a statement answers that made a table: of a clone its counts, otherwise nothing."""
    if asked.clone is None:
        return answers.nothing(asking.spark)
    if path is None:
        entry = find(asking.spark, asked.table)
        assert entry is not None, "the table was entered"
        path = entry.location
    return answers.cloned(asking.spark, DeltaTable.forPath(asking.spark, path))


def run_drop(asking: StatementContext, asked: Drop) -> DataFrame | None:
    """Take a table out of the catalog, a managed one with its files; None where it is not there, or not ours."""
    if path_of(asked.table) is not None:
        raise Unsupported(
            f"{asked.table[1]} is a path, in no catalog that it could be dropped from: delete the directory"
        )
    if asking.known.entry(asking.spark, asked.table) is None:
        return None
    forget(asking.spark, asked.table)
    return answers.nothing(asking.spark)


def _entered(asking: StatementContext, statement: Statement, asked: Create) -> None:
    """A table that is not in the catalog: entered, then made; or only entered, where there is one at its place."""
    spark, there = asking.spark, asked.location
    keeps = asked.query is None and asked.clone is None and asked.mode is not CreateMode.CREATE_OR_REPLACE
    if there is not None and keeps and DeltaTable.isDeltaTable(spark, there):
        _enter_existing(asking, statement, asked, there)
        return
    making = _making(asking, statement, asked, there)
    if not making.schema.fields and there is None and not asked.columns:
        raise Invalid(f"{'.'.join(asked.table)} has no columns: name them, or say AS SELECT ...")
    entry = enter(spark, asked.table, location=there, schema=making.schema, comment=asked.comment)
    try:
        making.at(entry.location)
    except BaseException:
        forget(spark, asked.table, if_exists=True)
        raise


def _enter_existing(asking: StatementContext, statement: Statement, asked: Create, path: str) -> None:
    table = DeltaTable.forPath(asking.spark, path)
    snapshot = table.handle.newest().snapshot
    if asked.columns:
        wanted = _shape_of(asking, statement, asked, path).schema
        if [(f.name.lower(), f.type) for f in wanted.fields] != [
            (f.name.lower(), f.type) for f in snapshot.schema.fields
        ]:
            raise SchemaMismatch(
                f"there is a table at {path} already, with other columns:\n{schema_text(snapshot.schema)}\nleave the "
                "columns out to enter it as it is",
                table=schema_text(snapshot.schema),
                incoming=schema_text(wanted),
                columns=(),
            ).named("DELTA_CREATE_TABLE_SCHEME_MISMATCH")
    if asked.partitions and tuple(asked.partitions) != snapshot.partition_columns:
        raise Invalid(f"the table at {path} is partitioned by {', '.join(snapshot.partition_columns) or 'nothing'}")
    enter(asking.spark, asked.table, location=path, schema=_shown(snapshot.schema), comment=asked.comment)


def _making(asking: StatementContext, statement: Statement, asked: Create, path: str | None) -> _Making:
    if asked.clone is not None:
        return _cloning(asking, statement, asked, asked.clone)
    if asked.query is not None:
        return _selecting(asking, statement, asked, asked.query)
    like = None if asked.like is None else _like(asking, asked.like)

    def at(there: str) -> None:
        builder = _described(DeltaTable._builder(asking.spark, asked.mode), asking, statement, asked, like)
        builder.location(there).execute()

    return _Making(_shown(_shape_of(asking, statement, asked, path or "/", like).schema), at)


def _selecting(asking: StatementContext, statement: Statement, asked: Create, query: Span) -> _Making:
    if asked.columns:
        raise Invalid("CREATE TABLE ... AS SELECT takes its columns from the query: leave the list of columns out")
    rows = frame_of(asking, statement, query)
    schema = StructType([StructField(f.name, f.dataType, True, f.metadata) for f in rows.schema.fields])
    env = system()

    def execute(location: Location, shape: TableDefinition, mode: CreateMode) -> None:
        plain = truth(shape.properties.get(PLAIN))
        kept = replace(shape, properties={k: v for k, v in shape.properties.items() if k != PLAIN})
        said = CommitOptions(None, asking.user_metadata)
        create_with(location, kept, rows_of(rows, asking.spark, env), env, mode=mode, said=said, plain=plain)

    def at(there: str) -> None:
        builder = DeltaTableBuilder(execute, asked.mode).addColumns(schema)
        _described(builder, asking, statement, asked).location(there).execute()

    return _Making(schema, at)


def _cloning(asking: StatementContext, statement: Statement, asked: Create, clone: Clone) -> _Making:
    source = _like(asking, clone.source)
    replaces = asked.mode in (CreateMode.REPLACE, CreateMode.CREATE_OR_REPLACE)
    properties = dict(asked.properties)

    def at(there: str) -> None:
        if clone.version is not None:
            version = asking.version(statement, clone.version)
            if not isinstance(version, int):
                raise Invalid(f"a clone begins with a version by its number, not {version!r}")
            source.cloneAtVersion(version, there, clone.shallow, replaces, properties)
        elif clone.timestamp is not None:
            moment = asking.timestamp(statement, clone.timestamp)
            source.cloneAtTimestamp(moment, there, clone.shallow, replaces, properties)
        else:
            source.clone(there, clone.shallow, replaces, properties)

    return _Making(_shown(source.handle.newest().snapshot.schema), at)


def _like(asking: StatementContext, parts: tuple[str, ...]) -> DeltaTable:
    """The table another is made like."""
    found = asking.table(parts)
    if found is None:
        name = ".".join(parts)
        raise NotATable(f"{name} is no Delta table, and only one can be cloned or made like", location=name)
    return found.delta("CREATE TABLE ... LIKE and CLONE")


def _described(
    builder: DeltaTableBuilder[T],
    asking: StatementContext,
    statement: Statement,
    asked: Create,
    like: DeltaTable | None = None,
) -> DeltaTableBuilder[T]:
    """Tell a builder what the statement says."""
    if like is not None:
        snapshot = like.handle.newest().snapshot
        builder.addColumns(StructType.fromJson(to_json(without_mapping(snapshot.schema))))
        description = like.detailArrow().column("description")[0].as_py()
        if description:
            builder.comment(description)
        if snapshot.partition_columns:
            builder.partitionedBy(*snapshot.partition_columns)
        for name, value in snapshot.properties.items():
            if not name.startswith(OF_ITSELF):
                builder.property(name, value)
    given = asking.given
    for column in asked.columns:
        identity, numbers = column.identity, column.by_default
        builder.addColumn(
            column.name,
            column.type,
            column.nullable,
            given.written(statement, *column.generated) if column.generated else None if numbers else identity,
            identity if numbers else None,
            column.comment,
            given.written(statement, *column.default) if column.default else None,
        )
    if asked.comment is not None:
        builder.comment(asked.comment)
    if asked.partitions:
        builder.partitionedBy(*asked.partitions)
    if asked.clustering is not None:
        builder.clusterBy(*(".".join(path) for path in asked.clustering))
    checks = {f"delta.constraints.{name}": given.written(statement, *span) for name, span in asked.checks.items()}
    for name, value in {**asking.table_defaults, **asked.properties, **checks}.items():
        builder.property(name, value)
    return builder


def _shape_of(
    asking: StatementContext, statement: Statement, asked: Create, path: str, like: DeltaTable | None = None
) -> TableDefinition:
    """What the statement describes, without making it."""
    builder: DeltaTableBuilder[TableDefinition] = DeltaTableBuilder(lambda _, shape, mode: shape, asked.mode)
    return _described(builder, asking, statement, asked, like).location(path).execute()


def _shown(schema: Struct) -> StructType:
    return spark_struct(nullable(schema).fields)


def _absolute(asking: StatementContext, table: tuple[str, ...], location: str) -> str:
    """A place as Spark's catalog has it: a relative one lies below the database's."""
    if "://" in location or location.startswith(("/", "file:")):
        return location
    return f"{place(asking.spark, table).rsplit('/', 1)[0]}/{location}"


def _is_at(entry: CatalogEntry, location: str) -> bool:
    return open_location(entry.location).url == open_location(location).url
