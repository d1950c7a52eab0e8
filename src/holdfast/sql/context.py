"""What running a statement needs: its session, its text, the tables that its names mean, and its parameters.

1. A name means one table, at one version, for the whole of a statement.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from holdfast.engines.spark.session.unpatched import plain_sql
from holdfast.errors import Invalid
from holdfast.sql.parameters import Parameters
from holdfast.sql.resolver import ResolvedTable, TableResolver, TableRows
from holdfast.sql.settings import SessionSettings, settings_of
from holdfast.sql.text import Span, Statement, TokenKind

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class StatementContext:
    """A statement in a session, and the tables and rows that its names were resolved to so far."""

    spark: SparkSession
    resolver: TableResolver
    statement: Statement
    parameters: Parameters = field(default_factory=Parameters)
    tables: dict[tuple[str, ...], ResolvedTable | None] = field(default_factory=dict, repr=False)
    rows: dict[tuple[object, ...], TableRows] = field(default_factory=dict, repr=False)

    @property
    def zone(self) -> str:
        """The session's time zone."""
        return self.spark.conf.get("spark.sql.session.timeZone") or "UTC"

    @property
    def settings(self) -> SessionSettings:
        """The settings of the session."""
        return settings_of(self.spark)

    def sql(
        self, text: str, args: Mapping[str, object] | Sequence[object] | None = None, **fields: object
    ) -> DataFrame:
        """Spark's own answer to a statement."""
        return plain_sql(self.spark, text, args, **fields)

    def spark_answer(self) -> DataFrame:
        """Spark's own answer to this statement."""
        return self.sql(self.statement.text, self.parameters.args, **self.parameters.fields)

    def fresh(self) -> StatementContext:
        """The same statement with nothing resolved yet."""
        return replace(self, tables={}, rows={})

    def table(self, parts: tuple[str, ...]) -> ResolvedTable | None:
        """The table that a name means; None where it is not one of ours."""
        if parts not in self.tables:
            self.tables[parts] = self.resolver.table(self.spark, parts)
        return self.tables[parts]

    def rows_of(
        self,
        resolved: ResolvedTable,
        version: int | str | None = None,
        timestamp: str | datetime.datetime | None = None,
    ) -> TableRows:
        """The rows of a table at a version; the newest without one."""
        return self.rows.setdefault((resolved.parts, version, timestamp), TableRows(resolved.table, version, timestamp))

    def version(self, span: Span) -> int | str:
        """The version that an expression names: a number, or the name of a pin."""
        value = self.value(span)
        if isinstance(value, str):
            return int(value) if value.isdigit() else value
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise Invalid(f"{self.statement.slice(*span)} is no version: give a whole number, or the name of a pin")

    def timestamp(self, span: Span) -> str | datetime.datetime:
        """The moment that an expression names."""
        value = self._literal(span)
        if isinstance(value, str | datetime.datetime):
            return value
        text = self.written(span)
        micros = self.sql(f"SELECT unix_micros(CAST(({text}) AS TIMESTAMP))").collect()[0][0]  # one value
        if micros is None:
            raise Invalid(f"{self.statement.slice(*span)} is no timestamp")
        return _EPOCH + datetime.timedelta(microseconds=micros)

    def value(self, span: Span) -> object:
        """The value of an expression without columns."""
        value = self._literal(span)
        return self.sql(f"SELECT {self.written(span)}").collect()[0][0] if value is None else value  # one value

    def written(self, span: Span) -> str:
        """A part of the statement, with its parameters written as literals."""
        return self.parameters.written(self.statement, *span)

    def _literal(self, span: Span) -> object:
        """The value of a literal or a parameter; None where Spark has to evaluate the expression."""
        first, last = span
        parameter = self.parameters.at(self.statement, first) if first < last else None
        if parameter is not None and first + parameter.words == last:
            return parameter.value
        if last - first != 1:
            return None
        word = self.statement.words[first]
        if word.kind is TokenKind.TEXT:
            return word.value
        return int(word.text) if word.kind is TokenKind.NUMBER and word.text.isdigit() else None
