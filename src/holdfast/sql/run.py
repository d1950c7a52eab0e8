"""Runs a statement about one of our tables, and leaves every other statement to Spark.

1. A statement about none of our tables is not touched: Spark gets the user's text.
2. A statement about one of our tables is carried out whole, or refused with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from holdfast.engines.spark.session.catalog import find
from holdfast.errors import NotATable, TableError, Unsupported
from holdfast.sql import answers
from holdfast.sql.context import StatementContext
from holdfast.sql.cursor import Cursor, NotUnderstood
from holdfast.sql.parameters import Parameters, literal
from holdfast.sql.query.run import run_query
from holdfast.sql.resolver import ResolvedTable, TableResolver
from holdfast.sql.statements import alter, create_parse, create_run, describe, dml, insert, maintain, merge, view
from holdfast.sql.statements.immediate import immediate_text, parse_immediate
from holdfast.sql.text import BEGINS_QUERY, Edit, Span, Statement, TokenKind, applied, statement_of

_Parse: TypeAlias = Callable[..., Any]
_Run: TypeAlias = Callable[[StatementContext, Any, ResolvedTable], DataFrame]
_VERBS: Mapping[str, tuple[_Parse, _Run]] = {
    "ALTER": (alter.parse_alter, alter.run_alter),
    "ANALYZE": (maintain.parse_analyze, maintain.run_refresh),
    "COMMENT": (alter.parse_comment, alter.run_comment),
    "DELETE": (dml.parse_delete, dml.run_delete),
    "DESC": (describe.parse_describe, describe.run_describe),
    "DESCRIBE": (describe.parse_describe, describe.run_describe),
    "GENERATE": (maintain.parse_generate, maintain.run_generate),
    "OPTIMIZE": (maintain.parse_optimize, maintain.run_optimize),
    "REFRESH": (maintain.parse_refresh, maintain.run_refresh),
    "REORG": (maintain.parse_reorg, maintain.run_reorg),
    "RESTORE": (maintain.parse_restore, maintain.run_restore),
    "SHOW": (describe.parse_show, describe.run_show),
    "TRUNCATE": (dml.parse_truncate, dml.run_truncate),
    "UPDATE": (dml.parse_update, dml.run_update),
    "VACUUM": (maintain.parse_vacuum, maintain.run_vacuum),
}
_WITH_QUERY: Mapping[str, tuple[_Parse, _Run]] = {
    "INSERT": (insert.parse_insert, insert.run_insert),
    "MERGE": (merge.parse_merge, merge.run_merge),
}
_EXPLAINED: Mapping[str, tuple[_Parse, _Run]] = {
    "DELETE": (dml.parse_delete, dml.explain_delete),
    "UPDATE": (dml.parse_update, dml.explain_update),
}
_BEFORE_TABLES = frozenset(("FROM", "JOIN", "INTO", "UPDATE", "TABLE", "OVERWRITE", "USING"))
# Statements that Spark does not have.
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
    args: Mapping[str, object] | Sequence[object] | None = None,
    fields: Mapping[str, object] | None = None,
    *,
    resolver: TableResolver,
) -> DataFrame | None:
    """The answer to a statement; None where the statement is Spark's.

    `args` are the values of parameters, `fields` those of placeholders in the text, both as `spark.sql` takes them.
    """
    statement = statement_of(text, fields=bool(fields))
    if statement is None or not statement.words:
        return None
    context = _with_identifiers(StatementContext(spark, resolver, statement, Parameters(args, dict(fields or {}))))
    statement = context.statement
    with_span = _with_before(statement)
    begin = 0 if with_span is None else with_span[1]
    head = statement.upper(begin)
    if head in _WITH_QUERY:
        parse, run_ = _WITH_QUERY[head]
        answer = _run_if_ours(context, Cursor(statement, begin), parse, run_, with_span)
        return run_query(context, _query_in(statement, begin), with_span) if answer is None else answer
    if head in _VERBS:
        answer = _run_if_ours(context, Cursor(statement), *_VERBS[head])
        return run_query(context) if answer is None and head in ("DESC", "DESCRIBE") else answer
    if head in ("CREATE", "REPLACE"):
        return _create(context)
    if head == "DROP":
        return _drop(context)
    if statement.upper(0) == "CONVERT":
        return maintain.run_convert(context, maintain.parse_convert(Cursor(statement)))
    if head == "EXPLAIN":
        return _explain(context)
    if head in ("FROM", "WITH") and (inserts := insert.split_inserts(statement)):
        return _insert_each(context, inserts)
    if head == "EXECUTE":
        return _execute(context)
    if head == "BEGIN":
        _refuse_script(context)
    if head == "DECLARE" or (head == "SET" and statement.upper(1) in ("VAR", "VARIABLE")):
        return run_query(context)
    if head == "CACHE":
        return run_query(context, _query_in(statement, 0))
    return run_query(context) if head in BEGINS_QUERY or head == "(" else None


def _with_identifiers(context: StatementContext) -> StatementContext:
    """Replace the expression or parameter in each IDENTIFIER(...) by the name that it evaluates to."""
    statement, edits = context.statement, []
    for at, word in enumerate(statement.words):
        span = (at + 2, statement.closes.get(at + 1, 0))
        if word.upper != "IDENTIFIER" or span[1] <= span[0]:
            continue
        is_text = span[1] - span[0] == 1 and statement.kind(span[0]) is TokenKind.TEXT
        if is_text or any(statement.upper(i) == "?" for i in range(*span)):
            continue
        value = context.value(span)
        if isinstance(value, str):
            edits.append(Edit(statement.words[span[0]].start, statement.words[span[1] - 1].end, literal(value)))
    if not edits:
        return context
    edited = statement_of(applied(statement.text, edits), fields=bool(context.parameters.fields))
    assert edited is not None, "a string in the place of an expression leaves every bracket with its partner"
    return replace(context, statement=edited)


def _explain(context: StatementContext) -> DataFrame | None:
    """Explain a query (Spark does), or a change of one of our tables."""
    statement = context.statement
    begin = 1 + (statement.upper(1) in ("EXTENDED", "CODEGEN", "COST", "FORMATTED", "LOGICAL"))
    with_span = _with_before(statement, begin)
    begin = begin if with_span is None else with_span[1]
    head = statement.upper(begin)
    if head == "MERGE":
        return _run_if_ours(context, Cursor(statement, begin), merge.parse_merge, merge.explain_merge, with_span)
    if head == "INSERT":
        return _run_if_ours(context, Cursor(statement, begin), insert.parse_insert, _refuse_explain, with_span)
    if head in _EXPLAINED:
        return _run_if_ours(context, Cursor(statement, begin), *_EXPLAINED[head])
    return run_query(context, _query_in(statement, begin) if head != "TABLE" else (begin, len(statement.words)))


def _refuse_explain(context: StatementContext, command: insert.Insert, resolved: ResolvedTable) -> DataFrame:
    raise Unsupported(f"EXPLAIN says nothing of an INSERT into {resolved.name}: explain the query that gives its rows")


def _run_if_ours(
    context: StatementContext, cursor: Cursor, parse: _Parse, run_: _Run, *with_span: Span | None
) -> DataFrame | None:
    """Parse a statement and run it if its table is ours."""
    try:
        command = parse(cursor, *with_span)
    except TableError:
        if cursor.table_name is None or context.table(cursor.table_name) is None:
            return None
        raise
    resolved = context.table(cursor.table_name or ())
    if resolved is None and isinstance(command, _OURS_ALONE):
        name = ".".join(command.table)
        wrong = NotATable(
            f"{name} is no Delta table: there is none of that name in Spark's catalog, and a path is written "
            "delta.`/path`",
            location=name,
        )
        is_other = find(context.spark, command.table) is not None
        raise wrong.named("DELTA_ONLY_OPERATION" if is_other else "TABLE_OR_VIEW_NOT_FOUND")
    return None if resolved is None else run_(context, command, resolved)


def _insert_each(context: StatementContext, inserts: Sequence[tuple[tuple[str, ...], str]]) -> DataFrame | None:
    """Run inserts that share a FROM, one after the other."""
    if all(context.table(table) is None for table, _ in inserts):
        return run_query(context)
    args, fields = context.parameters.args, context.parameters.fields
    for _, text in inserts:
        if run(context.spark, text, args, fields, resolver=context.resolver) is None:
            context.sql(text, args, **fields)
    return answers.nothing(context.spark)


def _execute(context: StatementContext) -> DataFrame | None:
    """Run EXECUTE IMMEDIATE of a statement about one of our tables; None where it is about none."""
    try:
        command = parse_immediate(Cursor(context.statement))
    except NotUnderstood:
        return None
    text, args = immediate_text(context, command)
    if not command.has_into:
        return run(context.spark, text, args, resolver=context.resolver)
    inner = statement_of(text)
    if inner is None or run_query(StatementContext(context.spark, context.resolver, inner, Parameters(args))) is None:
        return None
    raise Unsupported("EXECUTE IMMEDIATE ... INTO takes no query over Delta tables: use SET VAR x = (SELECT ...)")


def _refuse_script(context: StatementContext) -> None:
    """Refuse a script that names tables of ours: Spark runs its statements, and cannot read our tables."""
    statement = context.statement
    for at in range(1, len(statement.words)):
        end = statement.name_end(at) if statement.upper(at - 1) in _BEFORE_TABLES else at
        if end > at and context.table(statement.names(at, end)) is not None:
            raise Unsupported(
                f"a script is run by Spark, which cannot read the Delta table {statement.slice(at, end)} in it: call "
                "spark.sql for each of its statements"
            )


def _create(context: StatementContext) -> DataFrame | None:
    """Create a table of ours, a view over tables of ours, or a table of Spark's from rows of ours."""
    statement = context.statement
    words = [statement.upper(i) for i in range(6)]
    if "VIEW" in words:
        try:
            return view.run_view(context, view.parse_view(Cursor(statement)))
        except NotUnderstood:
            return None
    if "TABLE" not in words:
        return None
    try:
        command = create_parse.parse_create(Cursor(statement))
    except TableError:
        if _names_delta(context):
            raise
        return run_query(context, _query_in(statement, 0))
    if create_run.is_ours(context, command):
        return create_run.run_create(context, command)
    return None if command.query is None else run_query(context, command.query)


def _names_delta(context: StatementContext) -> bool:
    """Whether a CREATE TABLE with a syntax error was meant to create a Delta table."""
    statement = context.statement
    for at in range(len(statement.words)):
        if statement.upper(at) == "USING" and statement.words[at - 1].upper not in (".", "AS"):
            return statement.upper(at + 1) == "DELTA"
    if any(statement.upper(i) == "DELTA" and statement.upper(i + 1) == "." for i in range(2, 8)):
        return True
    hive = any(statement.upper(i) in ("STORED", "ROW") for i in range(len(statement.words)))
    return not hive and context.settings.default_source.lower() == "delta"


def _drop(context: StatementContext) -> DataFrame | None:
    try:
        return create_run.run_drop(context, create_parse.parse_drop(Cursor(context.statement)))
    except NotUnderstood:
        return None


def _with_before(statement: Statement, begin: int = 0) -> Span | None:
    """The WITH before a statement that is no query."""
    if statement.upper(begin) != "WITH":
        return None
    at = begin
    while at < len(statement.words) and statement.upper(at) not in _WITH_QUERY:
        if statement.upper(at) in ("SELECT", "FROM", "VALUES"):
            return None
        at = statement.after(at)
    return (begin, at) if at < len(statement.words) else None


def _query_in(statement: Statement, at: int) -> Span:
    """The query of a statement that writes its rows elsewhere."""
    while at < len(statement.words) and statement.upper(at) not in ("SELECT", "WITH", "FROM", "VALUES"):
        if statement.upper(at) == "(" and statement.upper(at + 1) in BEGINS_QUERY:
            break
        at = statement.after(at)
    return at, len(statement.words)
