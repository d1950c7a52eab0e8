"""ALTER TABLE and COMMENT ON TABLE: changes of a table's columns, properties, constraints, name and place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pyspark.sql import DataFrame

from holdfast.engines.spark.session.catalog import enter, find, forget, rename
from holdfast.engines.spark.types import spark_struct
from holdfast.errors import Invalid, Unsupported
from holdfast.schema.constraints import quoted
from holdfast.sql import answers
from holdfast.sql.context import StatementContext
from holdfast.sql.cursor import Cursor
from holdfast.sql.resolver import ResolvedTable
from holdfast.sql.statements.create_parse import ColumnDef, parse_column, parse_key, parse_properties, parse_type_text
from holdfast.sql.text import Span, TokenKind
from holdfast.table.delta import DeltaTable
from holdfast.verbs.define.alter import ColumnPlace
from holdfast.verbs.define.columns import has_column
from holdfast.verbs.dml.identity_columns import sync_identity
from holdfast.verbs.stream.follow import nullable

Path: TypeAlias = tuple[str, ...]
_REFUSED = {
    ("ADD", "PARTITION"): "partitions of a Delta table come with their rows: insert them",
    ("DROP", "PARTITION"): "delete the rows of the partition instead, DELETE FROM ... WHERE ...",
    ("RECOVER", "PARTITIONS"): "a Delta table knows its partitions: there is nothing to recover",
    ("SET", "SERDE"): "a Delta table has no serde",
    ("ADD", "PRIMARY"): "no catalog here keeps keys: leave it out",
}


@dataclass(frozen=True, slots=True)
class AddColumns:
    columns: tuple[tuple[Path, ColumnDef], ...]
    places: Mapping[Path, str | None] = field(default_factory=dict)  # after which column; None: first; missing: last


@dataclass(frozen=True, slots=True)
class DropColumns:
    names: tuple[Path, ...]
    if_exists: bool


@dataclass(frozen=True, slots=True)
class ReplaceColumns:
    columns: tuple[ColumnDef, ...]


@dataclass(frozen=True, slots=True)
class RenameColumn:
    name: Path
    to: str


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """ALTER COLUMN; what is None stays."""

    name: Path
    type: str | None = None
    comment: str | None = None
    nullable: bool | None = None
    default: Span | None = None
    drops_default: bool = False
    first: bool = False
    after: str | None = None


@dataclass(frozen=True, slots=True)
class SyncIdentity:
    name: Path


@dataclass(frozen=True, slots=True)
class DropFeature:
    name: str
    truncates: bool


@dataclass(frozen=True, slots=True)
class SetProperties:
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UnsetProperties:
    names: tuple[str, ...]
    if_exists: bool


@dataclass(frozen=True, slots=True)
class AddConstraint:
    name: str
    check: Span


@dataclass(frozen=True, slots=True)
class DropConstraint:
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class ClusterBy:
    columns: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class RenameTo:
    to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetLocation:
    location: str


Change: TypeAlias = (
    AddColumns
    | DropColumns
    | ReplaceColumns
    | RenameColumn
    | ChangeColumn
    | SyncIdentity
    | DropFeature
    | SetProperties
    | UnsetProperties
    | AddConstraint
    | DropConstraint
    | ClusterBy
    | RenameTo
    | SetLocation
)


@dataclass(frozen=True, slots=True)
class Alter:
    """ALTER TABLE t and one change."""

    table: tuple[str, ...]
    change: Change


@dataclass(frozen=True, slots=True)
class Comment:
    """COMMENT ON TABLE t IS text."""

    table: tuple[str, ...]
    text: str | None


def parse_comment(cursor: Cursor) -> Comment:
    cursor.expect("COMMENT", "ON", "TABLE")
    table = cursor.table()
    cursor.expect("IS")
    text = None if cursor.take("NULL") else cursor.text()
    cursor.end()
    return Comment(table, text)


def parse_alter(cursor: Cursor) -> Alter:
    cursor.expect("ALTER", "TABLE")
    table = cursor.table()
    if advice := _REFUSED.get((cursor.upper(), cursor.upper(1))):
        raise Unsupported(f"ALTER TABLE ... {cursor.upper()} {cursor.upper(1)} is not done: {advice}")
    change = _change(cursor)
    cursor.end()
    return Alter(table, change)


def _change(cursor: Cursor) -> Change:
    if cursor.take("ADD", "CONSTRAINT"):
        name = cursor.identifier()
        if not cursor.take("CHECK"):
            raise Unsupported("ADD CONSTRAINT is for CHECK (...): no catalog here keeps keys")
        return AddConstraint(name, cursor.group())
    if cursor.take("DROP", "CONSTRAINT"):
        if_exists = cursor.take("IF", "EXISTS")
        return DropConstraint(cursor.identifier(), if_exists)
    if cursor.take("DROP", "FEATURE"):
        name = cursor.text() if cursor.statement.kind(cursor.at) is TokenKind.TEXT else ".".join(cursor.name())
        return DropFeature(name, cursor.take("TRUNCATE", "HISTORY"))
    if cursor.take("ADD"):
        return _add(cursor)
    if cursor.take("REPLACE", "COLUMNS"):
        return _replace(cursor)
    if cursor.take("DROP", "COLUMNS") or cursor.take("DROP", "COLUMN"):
        if_exists = cursor.take("IF", "EXISTS")
        names = cursor.names_in(cursor.group() if cursor.sees("(") else cursor.rest())
        return DropColumns(tuple(names), if_exists)
    if cursor.take("RENAME", "COLUMN"):
        old = cursor.name()
        cursor.expect("TO")
        return RenameColumn(old, cursor.identifier())
    if cursor.take("RENAME", "TO"):
        return RenameTo(cursor.name())
    if cursor.take("SET", "TBLPROPERTIES"):
        return SetProperties(parse_properties(cursor))
    if cursor.take("UNSET", "TBLPROPERTIES"):
        if_exists = cursor.take("IF", "EXISTS")
        return UnsetProperties(tuple(parse_key(item) for item in cursor.listed(cursor.group())), if_exists)
    if cursor.take("SET", "LOCATION"):
        return SetLocation(cursor.text())
    if cursor.take("CLUSTER", "BY"):
        return ClusterBy(()) if cursor.take("NONE") else ClusterBy(tuple(cursor.names_in(cursor.group())))
    if cursor.one_of("ALTER", "CHANGE") is not None:
        cursor.take("COLUMN")
        return _column(cursor)
    raise cursor.wrong("a change of a table is expected")


def _add(cursor: Cursor) -> AddColumns:
    if cursor.one_of("COLUMN", "COLUMNS") is None:
        raise cursor.wrong("COLUMNS is expected")
    if cursor.take("IF", "NOT", "EXISTS"):
        raise Unsupported("ADD COLUMNS IF NOT EXISTS is not done: leave IF NOT EXISTS out")
    inner = Cursor(cursor.statement, *(cursor.group() if cursor.sees("(") else cursor.rest()))
    columns: list[tuple[Path, ColumnDef]] = []
    places: dict[Path, str | None] = {}
    while not inner.is_over:
        *above, _ = inner.name()
        inner.at -= 1  # the last part is the column's own name
        end = _option_end(inner)
        column = parse_column(Cursor(inner.statement, inner.at, end))
        inner.at = end
        path = (*above, column.name)
        if column.generated or column.identity or column.default or not column.nullable:
            raise Unsupported(
                f"the new column {column.name} must take nulls and be neither generated nor have a default, because "
                "rows that are there lack it: say the rest with ALTER COLUMN afterwards"
            )
        columns.append((path, column))
        if inner.take("FIRST"):
            places[path] = None
        elif inner.take("AFTER"):
            places[path] = inner.identifier()
        if not inner.take(","):
            inner.end()
    return AddColumns(tuple(columns), places)


def _replace(cursor: Cursor) -> ReplaceColumns:
    inner, columns = Cursor(cursor.statement, *cursor.group()), list[ColumnDef]()
    while not inner.is_over:
        column = parse_column(inner)
        if not inner.take(","):
            inner.end()
        if column.generated or column.identity or column.default or not column.nullable:
            raise Unsupported(
                f"REPLACE COLUMNS says names, types and comments: say the rest of {column.name} with ALTER COLUMN"
            )
        columns.append(column)
    return ReplaceColumns(tuple(columns))


def _option_end(cursor: Cursor) -> int:
    """The end of a column definition, before FIRST or AFTER and the next column."""
    look = Cursor(cursor.statement, cursor.at, cursor.last)
    look.identifier()
    parse_type_text(look)
    while not look.is_over and look.upper() not in (",", "FIRST", "AFTER"):
        look.at = look.statement.after(look.at)
    return look.at


def _column(cursor: Cursor) -> ChangeColumn | SyncIdentity:
    name = cursor.name()
    if cursor.take("SYNC", "IDENTITY"):
        return SyncIdentity(name)
    if cursor.take("SET", "NOT", "NULL"):
        return ChangeColumn(name, nullable=False)
    if cursor.take("DROP", "NOT", "NULL"):
        return ChangeColumn(name, nullable=True)
    if cursor.take("SET", "DEFAULT"):
        return ChangeColumn(name, default=cursor.until())
    if cursor.take("DROP", "DEFAULT"):
        return ChangeColumn(name, drops_default=True)
    type_: str | None = None
    if cursor.take("TYPE"):
        type_ = parse_type_text(cursor)
    elif cursor.last - cursor.at > 1 and cursor.upper() not in ("COMMENT", "FIRST", "AFTER"):
        repeated = cursor.identifier()  # Hive's syntax: the name again, then the type
        if repeated.lower() != name[-1].lower():
            raise Unsupported(f"CHANGE COLUMN does not rename {name[-1]}: use RENAME COLUMN {name[-1]} TO {repeated}")
        type_ = parse_type_text(cursor)
    comment = cursor.text() if cursor.take("COMMENT") else None
    first = cursor.take("FIRST")
    after = cursor.identifier() if cursor.take("AFTER") else None
    if type_ is None and comment is None and not first and after is None:
        raise cursor.wrong("what to change of the column is expected")
    return ChangeColumn(name, type_, comment, first=first, after=after)


def run_alter(context: StatementContext, command: Alter, resolved: ResolvedTable) -> DataFrame:
    match command.change:
        case RenameTo(to):
            _rename(context, resolved, to)
        case SetLocation(location):
            _relocate(context, resolved, location)
        case ChangeColumn() as change:
            _change_column(context, resolved, change)
        case AddConstraint(name, check):
            resolved.delta("ADD CONSTRAINT").addConstraint(name, context.written(check))
        case DropConstraint(name, if_exists):
            resolved.delta("DROP CONSTRAINT").dropConstraint(name, if_exists)
        case DropFeature(name, truncates):
            resolved.delta("DROP FEATURE").dropFeatureSupport(name, truncates)
        case SyncIdentity(path):
            table = resolved.delta("SYNC IDENTITY")
            sync_identity(table.handle.newest(), _dotted(path), table.handle.caller())
        case ReplaceColumns(defined):
            columns = [(column.name, column.type, column.comment) for column in defined]
            resolved.delta("REPLACE COLUMNS").handle.alter.replace_columns(columns)
        case ClusterBy(paths):
            resolved.delta("CLUSTER BY").clusterBy(*map(_dotted, paths))
        case change:
            _altered(resolved, change)
    return answers.nothing(context.spark)


def run_comment(context: StatementContext, command: Comment, resolved: ResolvedTable) -> DataFrame:
    resolved.delta("COMMENT ON TABLE").setProperties({"comment": command.text or ""})
    return answers.nothing(context.spark)


def _altered(resolved: ResolvedTable, change: Change) -> None:
    table = resolved.table
    match change:
        case AddColumns(columns, places):
            new = [(_dotted(path), column.type, column.comment) for path, column in columns]
            if places:
                where = {_dotted(path): after for path, after in places.items()}
                resolved.delta("ADD COLUMNS ... AFTER").handle.alter.add_columns(new, where)
            else:
                table.addColumns(new)
        case DropColumns(names, if_exists):
            schema = table.handle.newest().snapshot.schema
            dropped = [name for name in map(_dotted, names) if not if_exists or has_column(schema, name)]
            if dropped:
                table.handle.alter.drop_columns(dropped)
        case RenameColumn(name, to):
            table.renameColumn(_dotted(name), quoted(to))
        case SetProperties(properties):
            table.setProperties(properties)
        case UnsetProperties(names):
            table.unsetProperties(names, True)  # as delta-spark, which asks for nothing to be there
        case _:
            raise AssertionError(f"{change} is carried out elsewhere")


def _change_column(context: StatementContext, resolved: ResolvedTable, change: ChangeColumn) -> None:
    name = _dotted(change.name)
    place = ColumnPlace(change.after) if change.first or change.after is not None else None
    if place is not None:
        alteration = resolved.delta("FIRST and AFTER").handle.alter
        alteration.redefine_column(name, type_=change.type, comment=change.comment, place=place)
    elif change.type is not None or change.comment is not None:
        resolved.table.handle.alter.redefine_column(name, type_=change.type, comment=change.comment)
    if change.nullable is False:
        resolved.delta("SET NOT NULL").handle.alter.set_not_null(name, zone=context.zone)
    if change.nullable is True:
        resolved.delta("DROP NOT NULL").handle.alter.drop_not_null(name)
    if change.default is not None:
        resolved.delta("SET DEFAULT").setColumnDefault(name, context.written(change.default))
    if change.drops_default:
        resolved.delta("DROP DEFAULT").dropColumnDefault(name)


def _rename(context: StatementContext, resolved: ResolvedTable, to: tuple[str, ...]) -> None:
    if resolved.entry is None:
        raise Unsupported(f"{resolved.name} is a path and has no name that could be changed")
    if find(context.spark, to) is not None:
        raise Invalid(f"there is a table {'.'.join(to)} already").named("TABLE_OR_VIEW_ALREADY_EXISTS")
    rename(context.spark, resolved.parts, to)


def _relocate(context: StatementContext, resolved: ResolvedTable, location: str) -> None:
    if resolved.entry is None:
        raise Unsupported(f"{resolved.name} is a path: name the other path instead")
    if resolved.entry.managed:
        raise Unsupported(
            f"{resolved.name} is managed, and letting go of its place would delete its files: create another table "
            "with LOCATION"
        )
    schema = DeltaTable.forPath(context.spark, location).handle.newest().snapshot.schema
    forget(context.spark, resolved.parts)
    enter(context.spark, resolved.parts, location=location, schema=spark_struct(nullable(schema).fields))


def _dotted(path: Path) -> str:
    return ".".join(map(quoted, path))
