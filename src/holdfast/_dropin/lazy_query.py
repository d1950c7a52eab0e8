"""The query behind a DataFrame of the drop-in: a version of a table, and the steps applied to it.

    pinned version  ->  scan, with the conditions and the metadata that they name  ->  the steps, in order

1. A frame is planned once, when its rows or its plan are first needed, with all conditions up to then.
2. Conditions only prune files: Spark applies each of them at its step.
3. A name in a condition means the table's column unless an earlier step gave the name to something else.
4. The scan has `_metadata` where a step names it; the frame shows it only where a step selects it.
5. A step runs under the qualifier that its expressions use, even if the frame has another one by then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from sqlglot import exp

from holdfast._dropin.qualifier import Qualifier
from holdfast.engines.spark.column_text import sql_of
from holdfast.engines.spark.engine import SparkEngine
from holdfast.engines.spark.types import spark_struct
from holdfast.errors import Unsupported
from holdfast.model.snapshot import Snapshot
from holdfast.plan.scan.request import Condition, Request, known_columns, metadata_field
from holdfast.predicate.parse import parse, read, syntax_tree
from holdfast.predicate.records import ALWAYS, Opaque, Predicate, conjunction, conjuncts, has_opaque
from holdfast.predicate.render import render
from holdfast.rows.columns import ROW_COMMIT_VERSION, ROW_ID
from holdfast.schema.types import Field, Struct
from holdfast.sql.query.metadata import FIELDS, OF_ANY_TABLE, OF_TRACKED, columns_for, in_conditions, with_struct
from holdfast.table.table import Table
from holdfast.verbs.open.open_table import OpenTable
from holdfast.verbs.stream.follow import nullable

METADATA = "_metadata"
_FIELD = re.compile(rf"(?<!\w){METADATA}\b`?(?:\s*\.\s*`?(\w+))?")

Step = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class PinnedTable:
    """A version of a table, to be read in a session."""

    spark: SparkSession
    opened: OpenTable
    zone: str
    name: str | None = None  # the table's name in the catalog

    @property
    def snapshot(self) -> Snapshot:
        return self.opened.snapshot

    @cached_property
    def qualifier(self) -> Qualifier:
        """The qualifier of its columns."""
        return Qualifier(self.name, self.spark)

    @cached_property
    def fields(self) -> Mapping[str, str]:
        """The fields of `_metadata` that a condition may use, and the columns of the scan that they are."""
        return in_conditions(self.all_fields)

    @property
    def all_fields(self) -> tuple[str, ...]:
        return OF_ANY_TABLE if self.snapshot.identity is None else OF_TRACKED

    @property
    def schema(self) -> StructType:
        return spark_struct(nullable(self.snapshot.schema).fields)

    def scan(self, where: Predicate, metadata: Mapping[str, str]) -> DataFrame:
        """The rows of the files that may hold matches of a condition, which Spark has yet to apply."""
        condition = None if where == ALWAYS else Condition("true", render(where), where)
        return self.opened.scan(Request(None, condition, metadata), SparkEngine(self.spark))

    def empty(self, fields: Sequence[str]) -> DataFrame:
        """A frame with the same columns and no rows, to find out names and types."""
        metadata = [metadata_field(self.snapshot, name, out) for name, out in columns_for(fields).items()]
        columns = [*nullable(self.snapshot.schema).fields, *metadata]
        return self.spark.createDataFrame([], spark_struct(columns))


def pinned(
    spark: SparkSession,
    table: Table,
    *,
    version: int | str | None = None,
    timestamp: str | None = None,
    name: str | None = None,
) -> PinnedTable:
    """A version of a table, the newest unless one is named."""
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    return PinnedTable(spark, table.handle.open(version, timestamp), zone, name)


@dataclass(frozen=True)
class LazyQuery:
    """A version of a table and the steps applied to it; each step gives a new query."""

    pinned: PinnedTable
    steps: tuple[Step, ...] = ()
    where: Predicate = ALWAYS
    fields: tuple[str, ...] = ()  # of `_metadata`, that steps name
    own: frozenset[str] | None = None  # names that still mean the table's columns, in lower case; None: all
    shows: bool = False  # a step selected `_metadata` itself
    keeps_columns: bool = True  # every step is a condition, an order, or an alias
    aliases: tuple[Qualifier, ...] = ()  # the last one is in effect
    is_checked: bool = True  # Spark cannot refuse the last step

    def frame(self) -> DataFrame:
        """The rows, as an ordinary DataFrame."""
        self.qualifier.mark_planned()
        return self.applied_to(self.pinned.scan(self.where, columns_for(self.fields)))

    def empty_frame(self) -> DataFrame:
        """An ordinary DataFrame with the same columns and no rows."""
        return self.applied_to(self.pinned.empty(self.fields))

    def filtered(self, condition: str | Column) -> LazyQuery:
        """The query with one more condition."""
        text = condition if isinstance(condition, str) else sql_of(condition)
        query = self._with_fields([condition])
        predicate = query.predicate_of(text)
        return replace(
            query,
            steps=(*self.steps, self._step([condition], lambda df: df.where(condition))),
            where=conjunction((*conjuncts(self.where), *conjuncts(predicate))),
            is_checked=not has_opaque(predicate),
        )

    def selected(self, columns: Sequence[str | Column]) -> LazyQuery:
        """The query with other columns."""
        query = self._with_fields(columns)
        names = [c for c in columns if isinstance(c, str)]
        qualifiers = self._names()
        stars = any(_is_star(c, qualifiers) for c in columns)
        kept = frozenset(name.lower() for name in names if self._is_own(name))
        own = None if stars and self.own is None else (kept | (self.own or frozenset()) if stars else kept)
        shows = self.shows or any(_text(c).strip("`") == METADATA for c in columns)
        hidden = bool(query.fields) and not shows

        def select(df: DataFrame) -> DataFrame:
            shown = [name for name in df.columns if not hidden or name != METADATA]
            wide = [c for column in columns for c in (_quoted(shown) if _is_star(column, qualifiers) else [column])]
            return df.select(*wide, *([METADATA] if hidden else []))

        is_checked = len(kept) == len(columns)
        steps = (*self.steps, self._step(columns, select))
        return replace(query, steps=steps, own=own, shows=shows, keeps_columns=False, is_checked=is_checked)

    def with_columns(self, columns: Mapping[str, Column]) -> LazyQuery:
        """The query with columns added or replaced."""
        query = self._with_fields(list(columns.values()))
        mine = frozenset(f.name.lower() for f in self.pinned.snapshot.schema.fields) if self.own is None else self.own
        own = mine - {name.lower() for name in columns}
        step = self._step(list(columns.values()), lambda df: df.withColumns(dict(columns)))
        return replace(query, steps=(*self.steps, step), own=own, keeps_columns=False, is_checked=False)

    def rearranged(self, expressions: Sequence[str | Column], step: Step) -> LazyQuery:
        """The query with a step that only moves rows, such as a sort."""
        query = self._with_fields(expressions)
        is_checked = all(isinstance(name, str) and self._is_own(name) for name in expressions)
        return replace(query, steps=(*self.steps, self._step(expressions, step)), is_checked=is_checked)

    def frame_with_ids(self) -> DataFrame | None:
        """The rows with their ids and commit versions; None where the columns are not the table's, or the table has
        columns of these names."""
        schema = self.pinned.snapshot.schema
        if not self.keeps_columns or any(schema.find(name) for name in (METADATA, ROW_ID, ROW_COMMIT_VERSION)):
            return None
        fields = tuple(name for name in FIELDS if name in (*self.fields, "row_id", "row_commit_version"))
        columns = _quoted(schema.names)
        ids = [F.col(f"{METADATA}.{name}").alias(FIELDS[name]) for name in ("row_id", "row_commit_version")]
        return replace(self, fields=fields, shows=True).frame().select(*columns, *ids)

    def aliased(self, alias: Qualifier) -> LazyQuery:
        """The query under an alias."""
        return replace(self, steps=(*self.steps, lambda df: df.alias(alias.current)), aliases=(*self.aliases, alias))

    @property
    def qualifier(self) -> Qualifier:
        """The qualifier of its columns."""
        return self.aliases[-1] if self.aliases else self.pinned.qualifier

    def predicate_of(self, text: str) -> Predicate:
        """A condition as a predicate on the table's columns."""
        tree = syntax_tree(text)
        if tree is None:
            return Opaque(text)
        schema = known_columns(self.pinned.snapshot, columns_for(self.fields))
        kept = Struct(tuple(f for f in schema.fields if self.own is None or f.name.lower() in self.own or _hidden(f)))
        names, fields = self._names(), self.pinned.fields
        return read(tree.transform(lambda node: _unqualified(node, names, fields)), text, kept, zone=self.pinned.zone)

    def column(self, name: str) -> str | None:
        """A column of the table with this frame's qualifier; None where the name is not the table's column."""
        first = name.strip().split(".", 1)[0].strip("`")
        if first == METADATA or self._is_own(first):
            spelled = name if "." in name or "`" in name else f"`{name}`"
            return f"{_quoted([self.qualifier.take()])[0]}.{spelled}"
        return None

    def applied_to(self, base: DataFrame) -> DataFrame:
        """The steps, applied to a scan."""
        df = (with_struct(base, self.fields) if self.fields else base).alias(self.pinned.qualifier.current)
        for step in self.steps:
            df = step(df)
        return df.drop(METADATA) if self.fields and not self.shows else df

    def _step(self, expressions: Sequence[str | Column], act: Step) -> Step:
        """A step that runs under the qualifier that its expressions use."""
        qualifiers, text = self._qualifiers(), " ".join(map(_text, expressions))

        def step(df: DataFrame) -> DataFrame:
            now = qualifiers[0].current
            name = next(filter(None, (qualifier.within(text) for qualifier in qualifiers)), now)
            return act(df) if name == now else act(df.alias(name)).alias(now)

        return step

    def _qualifiers(self) -> tuple[Qualifier, ...]:
        """The qualifiers that expressions may use, the last one first, without those that are also columns."""
        schema = self.pinned.snapshot.schema
        earlier = (*self.aliases[:-1][::-1], *((self.pinned.qualifier,) if self.aliases else ()))
        return (self.qualifier, *(q for q in earlier if not any(schema.find(name) for name in q.names)))

    def _names(self) -> frozenset[str]:
        return frozenset[str]().union(*(qualifier.names for qualifier in self._qualifiers()))

    def _is_own(self, name: str) -> bool:
        column = name.strip("`").lower()
        if self.own is not None:
            return column in self.own
        return self.pinned.snapshot.schema.find(column) is not None

    def _with_fields(self, expressions: Sequence[str | Column]) -> LazyQuery:
        """The query with the fields of `_metadata` that expressions name."""
        if self.pinned.snapshot.schema.find(METADATA) is not None:  # a column of the user's own
            return self
        fields = set(self.fields)
        for text in map(_text, expressions):
            for name in _FIELD.findall(text):
                fields |= {name} if name else set(self.pinned.all_fields)
        if unknown := sorted(fields - FIELDS.keys()):
            raise Unsupported(f"{METADATA} has no field {unknown[0]}: there are {', '.join(self.pinned.all_fields)}")
        return replace(self, fields=tuple(name for name in FIELDS if name in fields))


@dataclass(frozen=True)
class ViewRows:
    """The rows of a temporary view, for statements that name it; the query has conditions and no other steps."""

    query: LazyQuery

    def under_name(self, name: str) -> LazyQuery:
        """The query with the view's name as qualifier."""
        return self.query.aliased(Qualifier(name, self.query.pinned.spark))

    def columns(self, metadata: Mapping[str, str]) -> Struct:
        return known_columns(self.query.pinned.snapshot, metadata)

    def is_tracked(self) -> bool:
        return self.query.pinned.snapshot.identity is not None

    def read(self, where: str | None, metadata: Mapping[str, str]) -> DataFrame:
        query, pinned = self.query, self.query.pinned
        predicate = ALWAYS if where is None else parse(where, self.columns(metadata), zone=pinned.zone)
        both = conjunction((*conjuncts(query.where), *conjuncts(predicate)))
        df = query.applied_to(pinned.scan(both, metadata))
        return df if where is None else df.where(where)


def _unqualified(node: exp.Expr, qualifiers: Set[str], fields: Mapping[str, str]) -> exp.Expr:
    """A name without its qualifier, and a field of `_metadata` as the column of the scan."""
    if not isinstance(node, exp.Column):
        return node
    parts = [part.name for part in node.parts]
    if parts[0].lower() in qualifiers and len(parts) > 1:
        parts = parts[1:]
    if parts[0].lower() == METADATA and len(parts) == 2 and parts[1].lower() in fields:
        parts = [fields[parts[1].lower()]]
    return exp.column(*reversed(parts), quoted=True) if len(parts) <= 4 else node


def _hidden(f: Field) -> bool:
    return f.name.startswith("__holdfast")


def _text(expression: str | Column) -> str:
    return expression if isinstance(expression, str) else str(expression).removeprefix("Column<'").removesuffix("'>")


def _is_star(expression: str | Column, qualifiers: Set[str]) -> bool:
    text = _text(expression)
    is_qualified = text.endswith(".*") and text[:-2].strip("` ").lower() in qualifiers
    return is_qualified or text in ("*", "unresolvedstar()")


def _quoted(names: Sequence[str]) -> list[str]:
    return ["`" + name.replace("`", "``") + "`" for name in names]
