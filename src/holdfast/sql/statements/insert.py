"""INSERT: rows of a query, fitted to the columns by their places or names, appended or put in the place of others.

1. Values are converted to the types of their columns as ANSI casts do: one that does not fit raises, whatever the
   session's settings.
2. Columns that a statement leaves out get their defaults, or what generates them, or null.
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
from holdfast.sql.query.references import Span
from holdfast.sql.query.run import expressions, frame_of
from holdfast.sql.resolver import ResolvedTable
from holdfast.sql.statements.dml import called, default_text, refuse_doubled, target_of
from holdfast.sql.text import Edit, Statement
from holdfast.table.delta import DeltaTable

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
    given: Span | None = None  # the WITH before the statement
    alias: str | None = None  # what REPLACE ON calls the table
    replace_using: tuple[str, ...] | None = None
    replace_on: Span | None = None


def parse_insert(cursor: Cursor, given: Span | None = None) -> Insert:
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
    is_called = cursor.sees("AS") or (cursor.upper(1) in ("REPLACE", "BY") and not cursor.sees("BY"))
    alias = cursor.alias() if is_called else None
    partition = _partition(cursor) if cursor.take("PARTITION") else {}
    if cursor.take("IF", "NOT", "EXISTS"):
        raise Unsupported("INSERT ... IF NOT EXISTS is not done for Delta tables: leave it out")
    by_name = cursor.take("BY", "NAME")
    columns = None
    if cursor.sees("(") and not cursor.begins_query():
        columns = tuple(".".join(path) for path in cursor.names_in(cursor.group()))
    asked = Insert(table, (0, 0), overwrite, columns, by_name, partition, None, evolves, given, alias)
    if cursor.take("REPLACE", "USING"):
        asked = replace(asked, replace_using=tuple(".".join(path) for path in cursor.names_in(cursor.group())))
    elif cursor.take("REPLACE", "ON"):
        asked = replace(asked, replace_on=_condition(cursor))
    elif cursor.take("REPLACE"):
        cursor.expect("WHERE")
        asked = replace(asked, replace_where=cursor.until(*_QUERY))
    matches = asked.replace_using is not None or asked.replace_on is not None
    if (matches and (overwrite or partition)) or (alias is not None and not matches):
        raise cursor.wrong("a name for the table goes with INSERT INTO t ... REPLACE ON, and that with no partition")
    if not cursor.begins_query():
        raise cursor.wrong("a query is expected")
    if asked.replace_on is not None and cursor.sees("("):
        asked = replace(asked, query=cursor.group())
        cursor.alias()  # what qualifies columns in the condition and is not the table is the query
        cursor.end()
        return asked
    return replace(asked, query=cursor.rest())


def _condition(cursor: Cursor) -> Span:
    """The condition of REPLACE ON: up to a query, which may be in brackets at the end and have a name there."""
    begun = cursor.at
    while not cursor.is_over and cursor.upper() not in _QUERY:
        after = Cursor(cursor.statement, cursor.statement.after(cursor.at), cursor.last)
        if cursor.sees("(") and cursor.begins_query() and cursor.at > begun:
            after.alias()
            if after.is_over:
                break
        cursor.at = cursor.statement.after(cursor.at)
    if cursor.at == begun:
        raise cursor.wrong("a condition is expected")
    return begun, cursor.at


def run_insert(asking: StatementContext, statement: Statement, asked: Insert, found: ResolvedTable) -> DataFrame:
    table, said = found.table, asking.user_metadata
    snapshot = table.handle.newest().snapshot
    places = _places(asked, snapshot.schema)
    defaults = _defaults(asking, statement, asked.query, places)
    rows = frame_of(asking, statement, asked.query, asked.given, defaults)
    if asked.replace_on is not None and places is not None:
        _refuse_renamed(rows.columns, places)
    evolves = asked.evolves or asking.evolves
    with expressions(asking, statement, target_of(asked.table, asked.alias)) as text_of:
        static = {name: text_of(span) for name, span in asked.partition.items() if span is not None}
        where = None if asked.replace_where is None else text_of(asked.replace_where)
        rows = _fitted(asking, rows, asked, places, static, snapshot.schema, evolves=evolves)
        if where is None and asked.overwrite and static:
            where = " AND ".join(
                f"{quoted(name)} <=> {_typed(text, name, snapshot.schema)}" for name, text in static.items()
            )
        if asked.replace_using is not None or asked.replace_on is not None:
            on = None if asked.replace_on is None else text_of(asked.replace_on)
            _replace_matched(found, asked, rows, on, evolves=evolves, said=said)
        elif asked.overwrite or where is not None:
            dynamic = where is None and table._is_partitioned() and _is_dynamic(asking)
            mode = "dynamic" if dynamic else "static"
            table.overwrite(
                rows, replaceWhere=where, partitionOverwriteMode=mode, mergeSchema=evolves, userMetadata=said
            )
        else:
            table.append(rows, mergeSchema=evolves, userMetadata=said)
    return answers.nothing(asking.spark)


def _replace_matched(
    found: ResolvedTable, asked: Insert, rows: DataFrame, on: str | None, *, evolves: bool, said: str | None
) -> None:
    found.delta("REPLACE USING and ON")
    table = called(found, asked.alias)
    assert isinstance(table, DeltaTable), "an alias of a Delta table is one"
    table.overwrite(rows, replaceUsing=asked.replace_using, replaceOn=on, mergeSchema=evolves, userMetadata=said)


def _refuse_renamed(given: Sequence[str], places: Sequence[Field]) -> None:
    """Refuse columns that the condition would call otherwise than the table does."""
    for name, f in zip(given, places, strict=False):
        if name.lower() != f.name.lower():
            raise Unsupported(
                f"the column {name} of the query is for {f.name}: with REPLACE ON, name columns of the query as the "
                f"table does, {name} AS {f.name}"
            )


def _partition(cursor: Cursor) -> dict[str, Span | None]:
    found: dict[str, Span | None] = {}
    for each in cursor.listed(cursor.group()):
        name = each.identifier()
        found[name] = each.until() if each.take("=") else None
        each.end()
    return found


def _is_dynamic(asking: StatementContext) -> bool:
    return asking.setting("spark.sql.sources.partitionOverwriteMode", "static") == "dynamic"


def _places(asked: Insert, schema: Struct) -> list[Field] | None:
    """The columns that values are for, in the order of the query; None where their names say so."""
    refuse_doubled([(name,) for name in (*asked.partition, *(asked.columns or ()))], "COLUMN_ALREADY_EXISTS")
    for name in (*asked.partition, *(asked.columns or ())):
        if schema.find(name) is None:
            raise UnknownColumn(f"the table has no column {name!r}; it has {', '.join(schema.names[:20])}", column=name)
    if asked.by_name:
        return None
    if asked.columns is not None:
        return [f for f in map(schema.find, asked.columns) if f is not None]
    static = {name.lower() for name, span in asked.partition.items() if span is not None}
    return [f for f in schema.fields if f.name.lower() not in static]


def _fitted(
    asking: StatementContext,
    rows: DataFrame,
    asked: Insert,
    places: Sequence[Field] | None,
    static: Mapping[str, str],
    schema: Struct,
    *,
    evolves: bool,
) -> DataFrame:
    """The rows with the names and types of the columns they are for."""
    if places is not None:
        names = _names(rows.columns, places, is_listed=asked.columns is not None, evolves=evolves)
        rows = rows.toDF(*names)
    for name, text in static.items():
        rows = rows.withColumn(name, F.expr(text))
    wanted = {f.name.lower(): f.dataType for f in spark_struct(schema.fields)}
    ansi = asking.setting("spark.sql.ansi.enabled", "true") == "true"
    columns = []
    for f in rows.schema.fields:
        to = wanted.get(f.name.lower())
        column = F.col(quoted(f.name))
        is_nested = isinstance(f.dataType, _NESTED) or isinstance(to, _NESTED)
        if to is None or f.dataType == to or (is_nested and (asked.by_name or not _is_alike(f.dataType, to))):
            columns.append(column)
        else:
            columns.append(_converted(column, f.dataType, to, ansi=ansi or is_nested).alias(f.name))
    return rows.select(*columns)


def _names(given: Sequence[str], places: Sequence[Field], *, is_listed: bool, evolves: bool) -> list[str]:
    fewer = places[len(given) :]
    if len(given) > len(places) and evolves and not is_listed:
        return [*(f.name for f in places), *given[len(places) :]]
    if len(given) > len(places) or (fewer and (is_listed or not all(map(_fills_itself, fewer)))):
        told = ", ".join(f.name for f in places)
        wrong = Invalid(f"the query gives {len(given)} columns, and {len(places)} are to be filled ({told})")
        raise wrong.named("DELTA_INSERT_COLUMN_ARITY_MISMATCH")
    return [f.name for f in places[: len(given)]]


def _fills_itself(f: Field) -> bool:
    has_default = DEFAULT in f.metadata or f.write_default is not None
    return has_default or GENERATION in f.metadata or identity_of(f) is not None


def _is_alike(a: spark.DataType, b: spark.DataType) -> bool:
    """Whether nested types have the same shape, so that one is cast to the other part by part."""
    match a, b:
        case spark.StructType(), spark.StructType():
            return len(a) == len(b) and all(_is_alike(x.dataType, y.dataType) for x, y in zip(a, b, strict=True))
        case spark.ArrayType(), spark.ArrayType():
            return _is_alike(a.elementType, b.elementType)
        case spark.MapType(), spark.MapType():
            return _is_alike(a.keyType, b.keyType) and _is_alike(a.valueType, b.valueType)
        case _:
            return isinstance(a, spark.NullType) or not (isinstance(a, _NESTED) or isinstance(b, _NESTED))


def _converted(column: Column, given: spark.DataType, to: spark.DataType, *, ansi: bool) -> Column:
    if ansi or isinstance(given, spark.NullType):
        return column.cast(to)
    tried = column.try_cast(to)
    wrong = F.concat(F.lit("a value cannot be cast to "), F.lit(f"{to.simpleString()}: "), column.cast("string"))
    return F.when(column.isNotNull() & tried.isNull(), F.raise_error(wrong).cast(to)).otherwise(tried)


def _typed(text: str, name: str, schema: Struct) -> str:
    """A value of a partition as a literal of the column's type, so that it says which files go."""
    found = schema.find(name)
    assert found is not None, "columns of a partition were looked up"
    kind = spark_struct([found]).fields[0].dataType
    if isinstance(kind, spark.DateType | spark.TimestampType) and text.startswith("'"):
        return f"{kind.simpleString().upper()} {text}"
    if isinstance(kind, spark.NumericType) and text.startswith("'"):
        return text.strip("'")
    if isinstance(kind, spark.StringType) and text[0] not in "'\"" and text.upper() != "NULL":
        return f"'{text}'"
    return text


def _defaults(
    asking: StatementContext, statement: Statement, query: Span, places: Sequence[Field] | None
) -> list[Edit]:
    """DEFAULT in rows of VALUES, as what it means for the column in its place."""
    if statement.upper(query[0]) != "VALUES" or places is None:
        return []
    edits: list[Edit] = []
    cursor = Cursor(statement, query[0] + 1, query[1])
    for row in cursor.listed((query[0] + 1, query[1])):
        values = row.listed(row.group()) if row.sees("(") else [row]
        for f, value in zip(places, values, strict=False):
            word = statement.words[value.at] if not value.is_over else None
            if word is not None and word.upper == "DEFAULT" and value.last - value.at == 1:
                edits.append(Edit(word.start, word.end, default_text(asking, f)))
    return edits
