"""INSERT: appends the rows of a query, or replaces rows by them; columns match by position or by name.

1. Values are cast to the types of their columns as in ANSI mode: a value that does not fit raises, whatever the
   session's settings.
2. Columns that a statement leaves out get their default, their generated value, or null.
3. An insert of several that share a FROM becomes a statement of its own: the WITH of the whole, the insert, the FROM of
   the whole, and the insert's query. All other text stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from holdfast.engines.spark.types import spark_struct
from holdfast.errors import Invalid, UnknownColumn, Unsupported
from holdfast.schema.constraints import quoted
from holdfast.schema.enforce import DEFAULT, GENERATION
from holdfast.schema.identity import identity_of
from holdfast.schema.types import Field, Struct
from holdfast.sql import answers
from holdfast.sql.context import StatementContext
from holdfast.sql.cursor import Cursor
from holdfast.sql.query.run import query_frame
from holdfast.sql.resolver import ResolvedTable
from holdfast.sql.statements.dml import TargetTable, default_text, refuse_doubled
from holdfast.sql.text import Edit, Span, Statement

_QUERY = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_NESTED = (spark.StructType, spark.ArrayType, spark.MapType, spark.VariantType)


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT INTO or OVERWRITE a table, with a query."""

    table: tuple[str, ...]
    query: Span
    overwrite: bool = False
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    partition: Mapping[str, Span | None] = field(default_factory=dict)  # None: the query has the values
    replace_where: Span | None = None
    evolves: bool = False
    with_span: Span | None = None  # the WITH before the statement
    alias: str | None = None  # of the table, in REPLACE ON
    replace_using: tuple[str, ...] | None = None
    replace_on: Span | None = None


def parse_insert(cursor: Cursor, with_span: Span | None = None) -> Insert:
    cursor.expect("INSERT")
    evolves = cursor.take("WITH", "SCHEMA", "EVOLUTION")
    overwrite = cursor.take("OVERWRITE")
    if not overwrite:
        cursor.expect("INTO")
    elif cursor.sees("DIRECTORY") or cursor.sees("LOCAL", "DIRECTORY"):
        raise cursor.wrong("a table is expected")
    else:
        cursor.take("INTO")
    cursor.take("TABLE")
    table = cursor.table()
    has_alias = cursor.sees("AS") or (cursor.upper(1) in ("REPLACE", "BY") and not cursor.sees("BY"))
    alias = cursor.alias() if has_alias else None
    partition = _partition(cursor) if cursor.take("PARTITION") else {}
    if cursor.take("IF", "NOT", "EXISTS"):
        raise Unsupported("INSERT ... IF NOT EXISTS is not done for Delta tables: leave it out")
    by_name = cursor.take("BY", "NAME")
    columns = None
    if cursor.sees("(") and not cursor.begins_query():
        columns = tuple(".".join(path) for path in cursor.names_in(cursor.group()))
    command = Insert(table, (0, 0), overwrite, columns, by_name, partition, None, evolves, with_span, alias)
    if cursor.take("REPLACE", "USING"):
        command = replace(command, replace_using=tuple(".".join(path) for path in cursor.names_in(cursor.group())))
    elif cursor.take("REPLACE", "ON"):
        command = replace(command, replace_on=_condition(cursor))
    elif cursor.take("REPLACE"):
        cursor.expect("WHERE")
        command = replace(command, replace_where=cursor.until(*_QUERY))
    matches = command.replace_using is not None or command.replace_on is not None
    if (matches and (overwrite or partition)) or (alias is not None and not matches):
        raise cursor.wrong("a name for the table goes with INSERT INTO t ... REPLACE ON, and that with no partition")
    if not cursor.begins_query():
        raise cursor.wrong("a query is expected")
    if command.replace_on is not None and cursor.sees("("):
        command = replace(command, query=cursor.group())
        cursor.alias()  # any other qualifier in the condition means the query
        cursor.end()
        return command
    return replace(command, query=cursor.rest())


def _condition(cursor: Cursor) -> Span:
    """Read the condition of REPLACE ON, up to the query, which may be in brackets with an alias."""
    begin = cursor.at
    while not cursor.is_over and cursor.upper() not in _QUERY:
        after = Cursor(cursor.statement, cursor.statement.after(cursor.at), cursor.last)
        if cursor.sees("(") and cursor.begins_query() and cursor.at > begin:
            after.alias()
            if after.is_over:
                break
        cursor.at = cursor.statement.after(cursor.at)
    if cursor.at == begin:
        raise cursor.wrong("a condition is expected")
    return begin, cursor.at


def split_inserts(statement: Statement) -> Sequence[tuple[tuple[str, ...], str]]:
    """The table and the text of each insert of FROM ... INSERT ... SELECT ...; empty for any other statement."""
    begin = 0
    while begin < len(statement.words) and statement.upper(begin) not in ("SELECT", "FROM", "INSERT", "VALUES"):
        begin = statement.after(begin)
    starts = _insert_starts(statement, begin) if statement.upper(begin) == "FROM" else []
    markers = [at for at, word in enumerate(statement.words) if word.upper == "?"]
    if starts and markers and (len(starts) > 1 or markers[0] < starts[0]):
        raise Unsupported("inserts that share a FROM take parameters by name, as :name, and not as ?")
    inserts = []
    for first, last in zip(starts, (*starts[1:], len(statement.words)), strict=False):
        command = parse_insert(Cursor(statement, first, last))
        head, query = statement.slice(first, command.query[0]), statement.slice(*command.query)
        texts = (statement.slice(0, begin), head, statement.slice(begin, starts[0]), query)
        inserts.append((command.table, " ".join(filter(None, texts))))
    return inserts


def _insert_starts(statement: Statement, at: int) -> list[int]:
    """The words outside of brackets where inserts begin."""
    starts = []
    while at < len(statement.words):
        if statement.upper(at) == "INSERT" and statement.upper(at + 1) in ("INTO", "OVERWRITE"):
            starts.append(at)
        at = statement.after(at)
    return starts


def run_insert(context: StatementContext, command: Insert, resolved: ResolvedTable) -> DataFrame:
    table, settings = resolved.table, context.settings
    schema = table.handle.newest().snapshot.schema
    fields = _fields(command, schema)
    defaults = _defaults(context, command.query, fields)
    rows = query_frame(context, command.query, command.with_span, defaults)
    if command.replace_on is not None and fields is not None:
        _refuse_renamed(rows.columns, fields)
    evolves = command.evolves or settings.merges_schema
    target = TargetTable(context, resolved, command.alias)
    with target.expressions(changes_rows=False) as text_of:
        static = {name: text_of(span) for name, span in command.partition.items() if span is not None}
        where = None if command.replace_where is None else text_of(command.replace_where)
        rows = _fitted(context, rows, command, fields, static, schema, evolves=evolves)
        if where is None and command.overwrite and static:
            where = " AND ".join(f"{quoted(name)} <=> {_typed(text, name, schema)}" for name, text in static.items())
        if command.replace_using is not None or command.replace_on is not None:
            delta = resolved.delta("REPLACE USING and ON")
            (delta if target.qualifier is None else delta.alias(target.qualifier)).overwrite(
                rows,
                replaceUsing=command.replace_using,
                replaceOn=None if command.replace_on is None else text_of(command.replace_on),
                mergeSchema=evolves,
                userMetadata=settings.user_metadata,
            )
        elif command.overwrite or where is not None:
            dynamic = where is None and table.handle.is_partitioned() and settings.is_dynamic
            mode = "dynamic" if dynamic else "static"
            table.overwrite(
                rows,
                replaceWhere=where,
                partitionOverwriteMode=mode,
                mergeSchema=evolves,
                userMetadata=settings.user_metadata,
            )
        else:
            table.append(rows, mergeSchema=evolves, userMetadata=settings.user_metadata)
    return answers.nothing(context.spark)


def _refuse_renamed(names: Sequence[str], fields: Sequence[Field]) -> None:
    """Refuse columns of the query that have other names than the columns of the table that they fill."""
    for name, f in zip(names, fields, strict=False):
        if name.lower() != f.name.lower():
            raise Unsupported(
                f"the column {name} of the query is for {f.name}: with REPLACE ON, name columns of the query as the "
                f"table does, {name} AS {f.name}"
            )


def _partition(cursor: Cursor) -> dict[str, Span | None]:
    values: dict[str, Span | None] = {}
    for item in cursor.listed(cursor.group()):
        name = item.identifier()
        values[name] = item.until() if item.take("=") else None
        item.end()
    return values


def _fields(command: Insert, schema: Struct) -> list[Field] | None:
    """The columns to fill, in the order of the query; None where the query's columns match by name."""
    refuse_doubled([(name,) for name in (*command.partition, *(command.columns or ()))], "COLUMN_ALREADY_EXISTS")
    for name in (*command.partition, *(command.columns or ())):
        if schema.find(name) is None:
            raise UnknownColumn(f"the table has no column {name!r}; it has {', '.join(schema.names[:20])}", column=name)
    if command.by_name:
        return None
    if command.columns is not None:
        return [f for f in map(schema.find, command.columns) if f is not None]
    static = {name.lower() for name, span in command.partition.items() if span is not None}
    return [f for f in schema.fields if f.name.lower() not in static]


def _fitted(
    context: StatementContext,
    rows: DataFrame,
    command: Insert,
    fields: Sequence[Field] | None,
    static: Mapping[str, str],
    schema: Struct,
    *,
    evolves: bool,
) -> DataFrame:
    """The rows with the names and types of the columns that they fill."""
    if fields is not None:
        names = _names(rows.columns, fields, is_listed=command.columns is not None, evolves=evolves)
        rows = rows.toDF(*names)
    for name, text in static.items():
        rows = rows.withColumn(name, F.expr(text))
    types = {f.name.lower(): f.dataType for f in spark_struct(schema.fields)}
    ansi = context.settings.is_ansi
    columns = []
    for f in rows.schema.fields:
        to = types.get(f.name.lower())
        column = F.col(quoted(f.name))
        is_nested = isinstance(f.dataType, _NESTED) or isinstance(to, _NESTED)
        if to is None or f.dataType == to or (is_nested and (command.by_name or not _is_alike(f.dataType, to))):
            columns.append(column)
        else:
            columns.append(_converted(column, f.dataType, to, ansi=ansi or is_nested).alias(f.name))
    return rows.select(*columns)


def _names(names: Sequence[str], fields: Sequence[Field], *, is_listed: bool, evolves: bool) -> list[str]:
    """The names of the columns that the query's columns fill."""
    unfilled = fields[len(names) :]
    if len(names) > len(fields) and evolves and not is_listed:
        return [*(f.name for f in fields), *names[len(fields) :]]
    if len(names) > len(fields) or (unfilled and (is_listed or not all(map(_fills_itself, unfilled)))):
        to_fill = ", ".join(f.name for f in fields)
        wrong = Invalid(f"the query gives {len(names)} columns, and {len(fields)} are to be filled ({to_fill})")
        raise wrong.named("DELTA_INSERT_COLUMN_ARITY_MISMATCH")
    return [f.name for f in fields[: len(names)]]


def _fills_itself(f: Field) -> bool:
    has_default = DEFAULT in f.metadata or f.write_default is not None
    return has_default or GENERATION in f.metadata or identity_of(f) is not None


def _is_alike(a: spark.DataType, b: spark.DataType) -> bool:
    """Whether nested types have the same structure, so that one can be cast to the other part by part."""
    match a, b:
        case spark.StructType(), spark.StructType():
            return len(a) == len(b) and all(_is_alike(x.dataType, y.dataType) for x, y in zip(a, b, strict=True))
        case spark.ArrayType(), spark.ArrayType():
            return _is_alike(a.elementType, b.elementType)
        case spark.MapType(), spark.MapType():
            return _is_alike(a.keyType, b.keyType) and _is_alike(a.valueType, b.valueType)
        case _:
            return isinstance(a, spark.NullType) or not (isinstance(a, _NESTED) or isinstance(b, _NESTED))


def _converted(column: Column, type_: spark.DataType, to: spark.DataType, *, ansi: bool) -> Column:
    if ansi or isinstance(type_, spark.NullType):
        return column.cast(to)
    tried = column.try_cast(to)
    wrong = F.concat(F.lit("a value cannot be cast to "), F.lit(f"{to.simpleString()}: "), column.cast("string"))
    return F.when(column.isNotNull() & tried.isNull(), F.raise_error(wrong).cast(to)).otherwise(tried)


def _typed(text: str, name: str, schema: Struct) -> str:
    """The value of a partition as a literal of the column's type, so that it prunes files."""
    f = schema.find(name)
    assert f is not None, "columns of a partition were looked up"
    kind = spark_struct([f]).fields[0].dataType
    if isinstance(kind, spark.DateType | spark.TimestampType) and text.startswith("'"):
        return f"{kind.simpleString().upper()} {text}"
    if isinstance(kind, spark.NumericType) and text.startswith("'"):
        return text.strip("'")
    if isinstance(kind, spark.StringType) and text[0] not in "'\"" and text.upper() != "NULL":
        return f"'{text}'"
    return text


def _defaults(context: StatementContext, query: Span, fields: Sequence[Field] | None) -> list[Edit]:
    """Edits that replace DEFAULT in rows of VALUES by the default of its column."""
    statement = context.statement
    if statement.upper(query[0]) != "VALUES" or fields is None:
        return []
    edits: list[Edit] = []
    for row in Cursor(statement).listed((query[0] + 1, query[1])):
        values = row.listed(row.group()) if row.sees("(") else [row]
        for f, value in zip(fields, values, strict=False):
            if value.sees("DEFAULT") and value.last - value.at == 1:
                word = statement.words[value.at]
                edits.append(Edit(word.start, word.end, default_text(context, f)))
    return edits
