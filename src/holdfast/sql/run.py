"""Run a statement that is about one of our tables, or say that it is about none.

1. A statement about none of our tables is not touched: Spark gets it as the user wrote it.
2. A statement about one is carried out whole or refused with a sentence; nothing of it is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from holdfast.engines.spark.session.catalog import find
from holdfast.errors import NotATable, TableError, Unsupported
from holdfast.sql import answers
from holdfast.sql.context import StatementContext
from holdfast.sql.cursor import Cursor, NotUnderstood
from holdfast.sql.immediate import identified, parse_immediate, refuse_script, said
from holdfast.sql.parameters import Parameters
from holdfast.sql.query.references import BEGINS_QUERY, Span
from holdfast.sql.query.run import run_query
from holdfast.sql.resolver import ResolvedTable, TableResolver
from holdfast.sql.several import inserts_in
from holdfast.sql.statements import alter, comment, describe, insert, maintain, merge, view
from holdfast.sql.statements import create_parse as create
from holdfast.sql.statements import create_run as creating
from holdfast.sql.statements import dml as change
from holdfast.sql.text import Statement, statement_of

_Parse: TypeAlias = Callable[..., Any]
_Run: TypeAlias = Callable[[StatementContext, Statement, Any, ResolvedTable], DataFrame]
_VERBS: Mapping[str, tuple[_Parse, _Run]] = {
    "ALTER": (alter.parse_alter, alter.run_alter),
    "ANALYZE": (maintain.parse_analyze, maintain.run_refresh),
    "COMMENT": (comment.parse_comment, comment.run_comment),
    "DELETE": (change.parse_delete, change.run_delete),
    "DESC": (describe.parse_describe, describe.run_describe),
    "DESCRIBE": (describe.parse_describe, describe.run_describe),
    "GENERATE": (maintain.parse_generate, maintain.run_generate),
    "OPTIMIZE": (maintain.parse_optimize, maintain.run_optimize),
    "REFRESH": (maintain.parse_refresh, maintain.run_refresh),
    "REORG": (maintain.parse_reorg, maintain.run_reorg),
    "RESTORE": (maintain.parse_restore, maintain.run_restore),
    "SHOW": (describe.parse_show, describe.run_show),
    "TRUNCATE": (change.parse_truncate, change.run_truncate),
    "UPDATE": (change.parse_update, change.run_update),
    "VACUUM": (maintain.parse_vacuum, maintain.run_vacuum),
}
_WITH_QUERY: Mapping[str, tuple[_Parse, _Run]] = {
    "INSERT": (insert.parse_insert, insert.run_insert),
    "MERGE": (merge.parse_merge, merge.run_merge),
}
_EXPLAINED: Mapping[str, tuple[_Parse, _Run]] = {
    "DELETE": (change.parse_delete, change.explain_delete),
    "UPDATE": (change.parse_update, change.explain_update),
}
# What Spark has no statement for.
_OURS_ALONE = (
    maintain.Optimize,
    maintain.Vacuum,
    maintain.Restore,
    maintain.Reorg,
    maintain.Generate,
    describe.DescribeHistory,
    describe.Detail,
)


def run(
    spark: SparkSession,
    text: str,
    args: Mapping[str, Any] | Sequence[Any] | None = None,
    fields: Mapping[str, Any] | None = None,
    *,
    known: TableResolver,
) -> DataFrame | None:
    """The answer to a statement; None where it is none of ours, and Spark is to be asked.

    `args` are the values of parameters, `fields` those of places in the text, both as `spark.sql` takes them.
    """
    statement = statement_of(text, fields=bool(fields))
    if statement is None or not statement.words:
        return None
    asking = StatementContext(spark, known, Parameters(args, dict(fields or {})))
    statement = identified(asking, statement)
    given = _with(statement)
    begun = 0 if given is None else given[1]
    head = statement.upper(begun)
    if head in _WITH_QUERY:
        parse, run_ = _WITH_QUERY[head]
        answer = _about(asking, Cursor(statement, begun), parse, run_, given)
        return run_query(asking, statement, _query_in(statement, begun), given) if answer is None else answer
    if head in _VERBS:
        answer = _about(asking, Cursor(statement), *_VERBS[head])
        return run_query(asking, statement) if answer is None and head in ("DESC", "DESCRIBE") else answer
    if head in ("CREATE", "REPLACE"):
        return _created(asking, statement)
    if head == "DROP":
        return _dropped(asking, statement)
    if statement.upper(0) == "CONVERT":
        return maintain.run_convert(asking, maintain.parse_convert(Cursor(statement)))
    if head == "EXPLAIN":
        return _explained(asking, statement)
    if head in ("FROM", "WITH") and (inserts := inserts_in(statement)):
        return _inserted(asking, statement, inserts)
    if head == "EXECUTE":
        return _executed(asking, statement)
    if head == "BEGIN":
        refuse_script(asking, statement)
    if head == "DECLARE" or (head == "SET" and statement.upper(1) in ("VAR", "VARIABLE")):
        return run_query(asking, statement)
    if head == "CACHE":
        return run_query(asking, statement, _query_in(statement, 0))
    return run_query(asking, statement) if head in BEGINS_QUERY or head == "(" else None


def _explained(asking: StatementContext, statement: Statement) -> DataFrame | None:
    """What a query or a change would do; Spark explains queries, our tables their changes."""
    begun = 1 + (statement.upper(1) in ("EXTENDED", "CODEGEN", "COST", "FORMATTED", "LOGICAL"))
    given = _with(statement, begun)
    begun = begun if given is None else given[1]
    head = statement.upper(begun)
    if head == "MERGE":
        return _about(asking, Cursor(statement, begun), merge.parse_merge, merge.explain_merge, given)
    if head == "INSERT":
        return _about(asking, Cursor(statement, begun), insert.parse_insert, _refuse_explain, given)
    if head in _EXPLAINED:
        return _about(asking, Cursor(statement, begun), *_EXPLAINED[head])
    return run_query(
        asking, statement, _query_in(statement, begun) if head != "TABLE" else (begun, len(statement.words))
    )


def _refuse_explain(asking: StatementContext, statement: Statement, asked: Any, found: ResolvedTable) -> DataFrame:
    raise Unsupported(f"EXPLAIN says nothing of an INSERT into {found.name}: explain the query that gives its rows")


def _about(asking: StatementContext, cursor: Cursor, parse: _Parse, run_: _Run, *more: Span | None) -> DataFrame | None:
    """Carry out a statement about a table, if the table is ours."""
    try:
        asked = parse(cursor, *more)
    except TableError:
        if cursor.named is None or asking.table(cursor.named) is None:
            return None
        raise
    found = asking.table(cursor.named or ())
    if found is None and isinstance(asked, _OURS_ALONE):
        name = ".".join(asked.table)
        wrong = NotATable(
            f"{name} is no Delta table: there is none of that name in Spark's catalog, and a path is written "
            "delta.`/path`",
            location=name,
        )
        is_other = find(asking.spark, asked.table) is not None
        raise wrong.named("DELTA_ONLY_OPERATION" if is_other else "TABLE_OR_VIEW_NOT_FOUND")
    return None if found is None else run_(asking, cursor.statement, asked, found)


def _inserted(
    asking: StatementContext, statement: Statement, inserts: Sequence[tuple[tuple[str, ...], str]]
) -> DataFrame | None:
    """Inserts that share a FROM, one after the other."""
    if all(asking.table(table) is None for table, _ in inserts):
        return run_query(asking, statement)
    args, fields = asking.given.args, asking.given.fields
    for _, text in inserts:
        if run(asking.spark, text, args, fields, known=asking.known) is None:
            asking.sql(text, args, **fields)
    return answers.nothing(asking.spark)


def _executed(asking: StatementContext, statement: Statement) -> DataFrame | None:
    """EXECUTE IMMEDIATE of a statement about tables of ours; None where it is about none."""
    try:
        asked = parse_immediate(Cursor(statement))
    except NotUnderstood:
        return None
    text, args = said(asking, statement, asked)
    if not asked.is_kept:
        return run(asking.spark, text, args, known=asking.known)
    inner = statement_of(text)
    if (
        inner is not None
        and run_query(StatementContext(asking.spark, asking.known, Parameters(args)), inner) is not None
    ):
        raise Unsupported("EXECUTE IMMEDIATE ... INTO takes no query over Delta tables: use SET VAR x = (SELECT ...)")
    return None


def _created(asking: StatementContext, statement: Statement) -> DataFrame | None:
    """A table of ours, a view over tables of ours, or something of Spark's that is made of them."""
    words = [statement.upper(i) for i in range(6)]
    if "VIEW" in words:
        try:
            return view.run_view(asking, statement, view.parse_view(Cursor(statement)))
        except NotUnderstood:
            return None
    if "TABLE" not in words:
        return None
    try:
        asked = create.parse_create(Cursor(statement))
    except TableError:
        if _names_delta(asking, statement):
            raise
        return run_query(asking, statement, _query_in(statement, 0))
    if creating.is_ours(asking, asked):
        return creating.run_create(asking, statement, asked)
    return None if asked.query is None else run_query(asking, statement, asked.query)


def _names_delta(asking: StatementContext, statement: Statement) -> bool:
    """Whether a CREATE TABLE that is not understood was meant to make a Delta table."""
    for at in range(len(statement.words)):
        if statement.upper(at) == "USING" and statement.words[at - 1].upper not in (".", "AS"):
            return statement.upper(at + 1) == "DELTA"
    if any(statement.upper(i) == "DELTA" and statement.upper(i + 1) == "." for i in range(2, 8)):
        return True
    hive = any(statement.upper(i) in ("STORED", "ROW") for i in range(len(statement.words)))
    return not hive and asking.setting("spark.sql.sources.default", "parquet") == "delta"


def _dropped(asking: StatementContext, statement: Statement) -> DataFrame | None:
    cursor = Cursor(statement)
    try:
        return creating.run_drop(asking, create.parse_drop(cursor))
    except NotUnderstood:
        return None


def _with(statement: Statement, begun: int = 0) -> Span | None:
    """The WITH that stands before a statement that is no query."""
    if statement.upper(begun) != "WITH":
        return None
    at = begun
    while at < len(statement.words) and statement.upper(at) not in _WITH_QUERY:
        if statement.upper(at) in ("SELECT", "FROM", "VALUES"):
            return None
        at = statement.after(at)
    return (begun, at) if at < len(statement.words) else None


def _query_in(statement: Statement, at: int) -> Span:
    """Where the query begins in a statement that writes it elsewhere."""
    while at < len(statement.words) and statement.upper(at) not in ("SELECT", "WITH", "FROM", "VALUES"):
        if statement.upper(at) == "(" and statement.upper(at + 1) in BEGINS_QUERY:
            break
        at = statement.after(at)
    return at, len(statement.words)
