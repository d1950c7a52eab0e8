"""The parser of CREATE TABLE, REPLACE TABLE and DROP TABLE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from holdfast.errors import Invalid, Unsupported
from holdfast.sql.cursor import Cursor
from holdfast.sql.text import Span, TokenKind
from holdfast.verbs.define.builder import CreateMode, IdentityGenerator

# Prefixes of properties that a table sets itself; a copy does not take them over.
OF_ITSELF = (
    "delta.rowTracking.",
    "delta.rowTrackingSuspended",
    "delta.columnMapping.maxColumnId",
    "delta.inCommitTimestampEnablement",
)
_ENDS_DEFAULT = ("COMMENT", "NOT", "GENERATED", "CONSTRAINT", "PRIMARY", "CHECK", "MASK", ",")
_ENDS_CLAUSE = ("USING", "OPTIONS", "PARTITIONED", "CLUSTER", "LOCATION", "COMMENT", "TBLPROPERTIES", "AS")


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """A column of a new table."""

    name: str
    type: str
    nullable: bool = True
    comment: str | None = None
    default: Span | None = None
    generated: Span | None = None
    identity: IdentityGenerator | None = None
    by_default: bool = False  # rows may bring their own numbers


@dataclass(frozen=True, slots=True)
class Clone:
    """[SHALLOW] CLONE source [VERSION or TIMESTAMP AS OF x]."""

    source: tuple[str, ...]
    shallow: bool
    version: Span | None = None
    timestamp: Span | None = None


@dataclass(frozen=True, slots=True)
class Create:
    """CREATE or REPLACE TABLE."""

    table: tuple[str, ...]
    mode: CreateMode
    columns: tuple[ColumnDef, ...] = ()
    checks: Mapping[str, Span] = field(default_factory=dict)
    provider: str | None = None
    partitions: tuple[str, ...] = ()
    clustering: tuple[tuple[str, ...], ...] | None = None
    location: str | None = None
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    query: Span | None = None
    like: tuple[str, ...] | None = None
    clone: Clone | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """DROP TABLE [IF EXISTS] t."""

    table: tuple[str, ...]
    if_exists: bool


def parse_create(cursor: Cursor) -> Create:
    creates = cursor.take("CREATE")
    replaces = cursor.take("OR", "REPLACE") if creates else cursor.take("REPLACE")
    mode = (
        CreateMode.CREATE_OR_REPLACE if creates and replaces else CreateMode.REPLACE if replaces else CreateMode.CREATE
    )
    cursor.take("EXTERNAL")
    cursor.expect("TABLE")
    if cursor.take("IF", "NOT", "EXISTS"):
        if mode is not CreateMode.CREATE:
            raise cursor.wrong("IF NOT EXISTS and REPLACE exclude each other")
        mode = CreateMode.CREATE_IF_NOT_EXISTS
    command = Create(cursor.table(), mode)
    if cursor.take("LIKE"):
        command = replace(command, like=cursor.name())
    elif cursor.upper() in ("SHALLOW", "DEEP", "CLONE"):
        command = replace(command, clone=_clone(cursor))
    elif cursor.sees("(") and not cursor.begins_query():
        command = _with_columns(cursor, command)
    while not cursor.is_over:
        command = _clause(cursor, command)
    if command.partitions and command.clustering is not None:
        raise Invalid("a table is either partitioned or clustered: choose one")
    return command


def parse_drop(cursor: Cursor) -> Drop:
    cursor.expect("DROP", "TABLE")
    if_exists = cursor.take("IF", "EXISTS")
    table = cursor.table()
    cursor.take("PURGE")  # a managed table is deleted without it too
    cursor.end()
    return Drop(table, if_exists)


def parse_properties(cursor: Cursor) -> dict[str, str]:
    """Read (key = value, ...)."""
    properties: dict[str, str] = {}
    for item in cursor.listed(cursor.group()):
        key = parse_key(item)
        item.take("=")
        if item.is_over:
            raise item.wrong("a value is expected")
        if item.statement.kind(item.at) is TokenKind.TEXT:
            properties[key] = item.text()
            item.end()
        else:
            properties[key] = "".join(word.text for word in item.statement.words[item.at : item.last])
    return properties


def parse_key(cursor: Cursor) -> str:
    """Read the name of a property: a string, or a dotted name."""
    if cursor.statement.kind(cursor.at) is TokenKind.TEXT:
        return cursor.text()
    return ".".join(cursor.name())


def parse_column(cursor: Cursor) -> ColumnDef:
    """Read the definition of a column: name, type and options."""
    column = ColumnDef(cursor.identifier(), parse_type_text(cursor))
    while not cursor.is_over and not cursor.sees(","):
        column = _option(cursor, column)
    return column


def parse_type_text(cursor: Cursor) -> str:
    """Read a type, as text."""
    cursor.take(":")
    begin = cursor.at
    cursor.identifier()
    if cursor.sees("("):
        cursor.group()
    if cursor.sees("<"):
        depth = 0
        while True:
            depth += cursor.sees("<") - cursor.sees(">")
            if cursor.is_over:
                raise cursor.wrong("> is expected")
            cursor.at += 1
            if depth == 0:
                break
    return " ".join(word.text for word in cursor.statement.words[begin : cursor.at])


def _with_columns(cursor: Cursor, command: Create) -> Create:
    inner = Cursor(cursor.statement, *cursor.group())
    columns: list[ColumnDef] = []
    checks: dict[str, Span] = {}
    while not inner.is_over:
        if inner.upper() in ("PRIMARY", "FOREIGN", "UNIQUE") and inner.upper(1) in ("KEY", "("):
            raise Unsupported(f"a Delta table has no {inner.upper()} KEY without a catalog that keeps it: leave it out")
        if inner.sees("CONSTRAINT") or (inner.sees("CHECK") and inner.upper(1) == "("):
            name = inner.identifier() if inner.take("CONSTRAINT") else f"check_{len(checks)}"
            inner.expect("CHECK")
            checks[name] = inner.group()
        else:
            columns.append(parse_column(inner))
        if not inner.take(","):
            inner.end()
    return replace(command, columns=tuple(columns), checks=checks)


def _option(cursor: Cursor, column: ColumnDef) -> ColumnDef:
    if cursor.take("NOT", "NULL"):
        return replace(column, nullable=False)
    if cursor.take("NULL"):
        return column
    if cursor.take("COMMENT"):
        return replace(column, comment=cursor.text())
    if cursor.take("DEFAULT"):
        return replace(column, default=cursor.until(*_ENDS_DEFAULT))
    if cursor.take("GENERATED"):
        by_default = cursor.take("BY", "DEFAULT")
        if not by_default:
            cursor.expect("ALWAYS")
        cursor.expect("AS")
        if cursor.take("IDENTITY"):
            return replace(column, identity=_identity(cursor), by_default=by_default)
        if by_default:
            raise cursor.wrong("IDENTITY is expected")
        return replace(column, generated=cursor.group())
    raise cursor.wrong(f"this cannot be said of the column {column.name}")


def _identity(cursor: Cursor) -> IdentityGenerator:
    start, step = 1, 1
    if cursor.sees("("):
        inner = Cursor(cursor.statement, *cursor.group())
        while not inner.is_over:
            if inner.take("START", "WITH"):
                start = inner.number()
            else:
                inner.expect("INCREMENT", "BY")
                step = inner.number()
            inner.take(",")
    return IdentityGenerator(start, step)


def _clone(cursor: Cursor) -> Clone:
    shallow = cursor.take("SHALLOW")
    cursor.take("DEEP")
    cursor.expect("CLONE")
    source = cursor.name()
    cursor.take("FOR")
    if cursor.take("VERSION", "AS", "OF"):
        return Clone(source, shallow, version=cursor.until(*_ENDS_CLAUSE))
    if cursor.take("TIMESTAMP", "AS", "OF"):
        return Clone(source, shallow, timestamp=cursor.until(*_ENDS_CLAUSE))
    return Clone(source, shallow)


def _clause(cursor: Cursor, command: Create) -> Create:
    if cursor.take("USING"):
        return replace(command, provider=".".join(cursor.name()))
    if cursor.take("LOCATION"):
        return replace(command, location=cursor.text())
    if cursor.take("COMMENT"):
        return replace(command, comment=cursor.text())
    if cursor.take("TBLPROPERTIES"):
        return replace(command, properties=parse_properties(cursor))
    if cursor.take("PARTITIONED", "BY"):
        return _partitioned(cursor, command)
    if cursor.take("CLUSTER", "BY"):
        if cursor.take("NONE"):
            return replace(command, clustering=())
        if cursor.sees("AUTO"):
            raise Unsupported("CLUSTER BY AUTO leaves the choice to a service that is not here: name the columns")
        return replace(command, clustering=tuple(cursor.names_in(cursor.group())))
    if cursor.take("OPTIONS"):
        return _options(cursor, command)
    cursor.take("AS")
    if cursor.begins_query():
        return replace(command, query=cursor.rest())
    raise cursor.wrong("a clause of CREATE TABLE is expected")


def _options(cursor: Cursor, command: Create) -> Create:
    options = {name.lower(): value for name, value in parse_properties(cursor).items()}
    path = options.pop("path", command.location)
    if options:
        raise Unsupported(f"the option {next(iter(options))!r} says nothing to a Delta table: use TBLPROPERTIES")
    return replace(command, location=path)


def _partitioned(cursor: Cursor, command: Create) -> Create:
    names: list[str] = []
    columns = list(command.columns)
    inner = Cursor(cursor.statement, *cursor.group())
    while not inner.is_over:
        if inner.upper(1) == "(":
            raise Unsupported(
                f"a Delta table is not partitioned by {inner.upper().lower()}(...): add a column "
                "GENERATED ALWAYS AS (...) and partition by that"
            )
        if inner.upper(1) in (",", ""):
            names.append(inner.identifier())
        else:
            columns.append(parse_column(inner))
            names.append(columns[-1].name)
        if not inner.take(","):
            inner.end()
    return replace(command, partitions=tuple(names), columns=tuple(columns))
