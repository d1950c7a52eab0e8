"""Who asks: a session, what its names mean, and the values that came with the statement."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast.engines.spark.session.unpatched import plain_sql
from holdfast.errors import Invalid
from holdfast.sql.parameters import Parameters
from holdfast.sql.query.references import Span
from holdfast.sql.resolver import ResolvedTable, TableResolver, TableRows
from holdfast.sql.text import Statement, TokenKind

_DEFAULTS = "spark.databricks.delta.properties.defaults."
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class StatementContext:
    """What running a statement needs beside the statement."""

    spark: SparkSession
    known: TableResolver
    given: Parameters
    found: dict[tuple[str, ...], ResolvedTable | None] = field(default_factory=dict, repr=False)
    rows: dict[tuple[object, ...], TableRows] = field(default_factory=dict, repr=False)

    @property
    def zone(self) -> str:
        """The session's time zone."""
        return self.spark.conf.get("spark.sql.session.timeZone") or "UTC"

    def setting(self, name: str, default: str = "") -> str:
        """A setting of the session, in lower case."""
        return (self.spark.conf.get(name, default) or default).lower()

    @property
    def user_metadata(self) -> str | None:
        """What the session says of every commit."""
        return self.spark.conf.get("spark.databricks.delta.commitInfo.userMetadata", None)

    @property
    def evolves(self) -> bool:
        """Whether the session lets every write add columns."""
        return self.setting("spark.databricks.delta.schema.autoMerge.enabled", "false") == "true"

    @property
    def table_defaults(self) -> dict[str, str]:
        """Properties that the session gives to every new table."""
        found = self.spark.conf.getAll
        return {f"delta.{k.removeprefix(_DEFAULTS)}": str(v) for k, v in found.items() if k.startswith(_DEFAULTS)}

    def sql(self, text: str, args: Any = None, **fields: Any) -> DataFrame:
        """What Spark itself answers."""
        return plain_sql(self.spark, text, args, **fields)

    def anew(self) -> StatementContext:
        """The same, for another statement: names are looked up again."""
        return StatementContext(self.spark, self.known, self.given)

    def table(self, parts: tuple[str, ...]) -> ResolvedTable | None:
        """The table a name means, the same for all of a statement."""
        if parts not in self.found:
            self.found[parts] = self.known.table(self.spark, parts)
        return self.found[parts]

    def rows_of(
        self, found: ResolvedTable, version: int | str | None = None, timestamp: str | datetime.datetime | None = None
    ) -> TableRows:
        """The rows of a table; those of one name and version are the same for all of a statement."""
        return self.rows.setdefault((found.parts, version, timestamp), TableRows(found.table, version, timestamp))

    def version(self, statement: Statement, span: Span) -> int | str:
        """The version that an expression names: a number, or the name of a pin."""
        value = self.value(statement, span)
        if isinstance(value, str):
            return int(value) if value.isdigit() else value
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise Invalid(f"{statement.slice(*span)} is no version: give a whole number, or the name of a pin")

    def timestamp(self, statement: Statement, span: Span) -> str | datetime.datetime:
        """The moment that an expression names."""
        value = self._plain(statement, span)
        if isinstance(value, str | datetime.datetime):
            return value
        text = self.given.written(statement, *span)
        found = self.sql(f"SELECT unix_micros(CAST(({text}) AS TIMESTAMP))").collect()[0][0]  # one value
        if found is None:
            raise Invalid(f"{statement.slice(*span)} is no timestamp")
        return _EPOCH + datetime.timedelta(microseconds=found)

    def value(self, statement: Statement, span: Span) -> Any:
        """What an expression without columns comes to."""
        value = self._plain(statement, span)
        if value is not None:
            return value
        return self.sql(f"SELECT {self.given.written(statement, *span)}").collect()[0][0]  # one value

    def _plain(self, statement: Statement, span: Span) -> Any:
        """The value of a literal or a parameter; None where Spark has to be asked."""
        first, last = span
        if first < last and (given := self.given.at(statement, first)) is not None and first + given[1] == last:
            return given[2]
        if last - first != 1:
            return None
        word = statement.words[first]
        if word.kind is TokenKind.TEXT:
            return word.value
        return int(word.text) if word.kind is TokenKind.NUMBER and word.text.isdigit() else None
