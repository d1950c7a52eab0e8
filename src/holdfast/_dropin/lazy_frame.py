"""What a DataFrame of the drop-in remembers: a version of a table, and what was asked of it since.

    pinned version  ->  scan, with what conditions say and the metadata they name  ->  the steps, one after another

1. A frame is planned when something needs its rows or its plan, once, with every condition that was there by then.
2. Conditions only leave out files: Spark applies each of them, where it was put.
3. A name in a condition counts as the table's column as long as no step gave that name to something else.
4. `_metadata` is carried beside the columns while a step names it, and shown only where one selects it.
5. A step is taken under the qualifier that its expressions use, though the frame may go by another one by then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from sqlglot import exp

from holdfast._dropin.qualifier import Calling
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
from holdfast.table.delta import DeltaTable
from holdfast.table.either import IcebergTable
from holdfast.verbs.open.open_table import OpenTable
from holdfast.verbs.stream.follow import nullable

METADATA = "_metadata"
_NAMED = re.compile(rf"(?<!\w){METADATA}\b`?(?:\s*\.\s*`?(\w+))?")

Step = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class PinnedTable:
    """A version of a table, to be read in a session."""

    spark: SparkSession
    opened: OpenTable
    zone: str
    name: str | None = None  # what a catalog calls the table

    @property
    def snapshot(self) -> Snapshot:
        """The version, as data."""
        return self.opened.snapshot

    @cached_property
    def calling(self) -> Calling:
        """What its columns are qualified by."""
        return Calling(self.name, self.spark)

    @cached_property
    def fields(self) -> Mapping[str, str]:
        """The fields of `_metadata`, by what a condition of a scan calls them."""
        return in_conditions(self.all_fields)

    @property
    def all_fields(self) -> tuple[str, ...]:
        return OF_ANY_TABLE if self.snapshot.identity is None else OF_TRACKED

    @property
    def schema(self) -> StructType:
        return spark_struct(nullable(self.snapshot.schema).fields)

    def scan(self, where: Predicate, metadata: Mapping[str, str]) -> DataFrame:
        """The rows of files that may have some that satisfy a condition; Spark has yet to apply it."""
        condition = None if where == ALWAYS else Condition("true", render(where), where)
        return self.opened.scan(Request(None, condition, metadata), SparkEngine(self.spark))

    def empty(self, fields: Sequence[str]) -> DataFrame:
        """A frame of the same columns and no rows: what asks only for names and types is answered by it."""
        given = [metadata_field(self.snapshot, name, out) for name, out in columns_for(fields).items()]
        columns = [*nullable(self.snapshot.schema).fields, *given]
        return self.spark.createDataFrame([], spark_struct(columns))


def pinned(
    spark: SparkSession,
    table: DeltaTable | IcebergTable,
    *,
    version: int | str | None = None,
    timestamp: Any = None,
    name: str | None = None,
) -> PinnedTable:
    """A version of a table, the newest unless one is named."""
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    return PinnedTable(spark, table.handle.open(version, timestamp), zone, name)


@dataclass(frozen=True)
class Memory:
    """A version of a table and what was asked of it; values in, values out."""

    pinned: PinnedTable
    steps: tuple[Step, ...] = ()
    where: Predicate = ALWAYS
    fields: tuple[str, ...] = ()  # of `_metadata`, that steps name
    own: frozenset[str] | None = None  # names that are columns of the table still, in lower case; None: all
    shows: bool = False  # a step selected `_metadata` itself
    narrows: bool = True  # every step is a condition, an order, or a name for what there is
    called: tuple[Calling, ...] = ()  # the names it was given since, the last one counts
    sure: bool = True  # nothing of the last step is for Spark to judge

    @property
    def is_shaped(self) -> bool:
        """Whether the columns are others than the table's."""
        return not self.narrows

    def frame(self) -> DataFrame:
        """The rows, as an ordinary DataFrame."""
        self.calling.used()
        return self._through(self.pinned.scan(self.where, columns_for(self.fields)))

    def shape(self) -> DataFrame:
        """An ordinary DataFrame of the same columns without rows."""
        return self._through(self.pinned.empty(self.fields))

    def filtered(self, condition: str | Column) -> Memory:
        """With a condition."""
        text = condition if isinstance(condition, str) else sql_of(condition)
        found = self._naming([condition])
        predicate = found.understood(text)
        return replace(
            found,
            steps=(*self.steps, self._step([condition], lambda df: df.where(condition))),
            where=conjunction((*conjuncts(self.where), *conjuncts(predicate))),
            sure=not has_opaque(predicate),
        )

    def selected(self, columns: Sequence[str | Column]) -> Memory:
        """With other columns."""
        found = self._naming(columns)
        names = [c for c in columns if isinstance(c, str)]
        called = self._names()
        stars = any(_is_star(c, called) for c in columns)
        kept = frozenset(name.lower() for name in names if self._is_own(name))
        own = None if stars and self.own is None else (kept | (self.own or frozenset()) if stars else kept)
        shows = self.shows or any(_text(c).strip("`") == METADATA for c in columns)
        hidden = bool(found.fields) and not shows

        def select(df: DataFrame) -> DataFrame:
            shown = [name for name in df.columns if not hidden or name != METADATA]
            wide = [c for given in columns for c in (_quoted(shown) if _is_star(given, called) else [given])]
            return df.select(*wide, *([METADATA] if hidden else []))

        sure = len(kept) == len(columns)
        steps = (*self.steps, self._step(columns, select))
        return replace(found, steps=steps, own=own, shows=shows, narrows=False, sure=sure)

    def with_columns(self, columns: Mapping[str, Column]) -> Memory:
        """With columns added, or put in the place of others."""
        found = self._naming(list(columns.values()))
        mine = frozenset(f.name.lower() for f in self.pinned.snapshot.schema.fields) if self.own is None else self.own
        own = mine - {name.lower() for name in columns}
        step = self._step(list(columns.values()), lambda df: df.withColumns(dict(columns)))
        return replace(found, steps=(*self.steps, step), own=own, narrows=False, sure=False)

    def kept(self, given: Sequence[str | Column], act: Step) -> Memory:
        """With every row as it is, in another place or order."""
        found = self._naming(given)
        sure = all(isinstance(name, str) and self._is_own(name) for name in given)
        return replace(found, steps=(*self.steps, self._step(given, act)), sure=sure)

    def carrying(self) -> DataFrame | None:
        """The rows with their ids and versions beside them; None where columns are others than the table's, or where
        the table has columns of such names."""
        schema = self.pinned.snapshot.schema
        if self.is_shaped or any(schema.find(name) for name in (METADATA, ROW_ID, ROW_COMMIT_VERSION)):
            return None
        fields = tuple(name for name in FIELDS if name in (*self.fields, "row_id", "row_commit_version"))
        columns = _quoted(schema.names)
        ids = [F.col(f"{METADATA}.{name}").alias(FIELDS[name]) for name in ("row_id", "row_commit_version")]
        return replace(self, fields=fields, shows=True).frame().select(*columns, *ids)

    def aliased(self, name: Calling) -> Memory:
        """Under another name, which its columns can be qualified by from then on."""
        return replace(self, steps=(*self.steps, lambda df: df.alias(name.qualifier)), called=(*self.called, name))

    @property
    def calling(self) -> Calling:
        """What its columns are qualified by."""
        return self.called[-1] if self.called else self.pinned.calling

    def understood(self, text: str) -> Predicate:
        """What a condition says of the table's columns, in the table's names."""
        tree = syntax_tree(text)
        if tree is None:
            return Opaque(text)
        schema = known_columns(self.pinned.snapshot, columns_for(self.fields))
        kept = Struct(tuple(f for f in schema.fields if self.own is None or f.name.lower() in self.own or _hidden(f)))
        names, fields = self._names(), self.pinned.fields
        return read(tree.transform(lambda node: _plainly(node, names, fields)), text, kept, zone=self.pinned.zone)

    def column(self, name: str) -> str | None:
        """A column of the table, qualified so that no other frame's is meant; None where it is no such column."""
        first = name.strip().split(".", 1)[0].strip("`")
        if first == METADATA or self._is_own(first):
            spelled = name if "." in name or "`" in name else f"`{name}`"
            return f"{_quoted([self.calling.taken()])[0]}.{spelled}"
        return None

    def _through(self, base: DataFrame) -> DataFrame:
        df = (with_struct(base, self.fields) if self.fields else base).alias(self.pinned.calling.qualifier)
        for step in self.steps:
            df = step(df)
        return df.drop(METADATA) if self.fields and not self.shows else df

    def _step(self, given: Sequence[str | Column], act: Step) -> Step:
        """What is done with a frame, under the qualifier that expressions use."""
        callings, text = self._callings(), " ".join(map(_text, given))

        def step(df: DataFrame) -> DataFrame:
            now = callings[0].qualifier
            name = next(filter(None, (calling.within(text) for calling in callings)), now)
            return act(df) if name == now else act(df.alias(name)).alias(now)

        return step

    def _callings(self) -> tuple[Calling, ...]:
        """What its columns may be qualified by, the last first; a name that a column has too is the column's."""
        schema = self.pinned.snapshot.schema
        earlier = (*self.called[:-1][::-1], *((self.pinned.calling,) if self.called else ()))
        return (self.calling, *(c for c in earlier if not any(schema.find(name) for name in c.names)))

    def _names(self) -> frozenset[str]:
        return frozenset[str]().union(*(calling.names for calling in self._callings()))

    def _is_own(self, name: str) -> bool:
        plain = name.strip("`").lower()
        if self.own is not None:
            return plain in self.own
        return self.pinned.snapshot.schema.find(plain) is not None

    def _naming(self, given: Sequence[str | Column]) -> Memory:
        """With the fields of `_metadata` that expressions name."""
        if self.pinned.snapshot.schema.find(METADATA) is not None:  # a column of the user's own
            return self
        found = set(self.fields)
        for text in map(_text, given):
            for named in _NAMED.findall(text):
                found |= {named} if named else set(self.pinned.all_fields)
        if unknown := sorted(found - FIELDS.keys()):
            raise Unsupported(f"{METADATA} has no field {unknown[0]}: there are {', '.join(self.pinned.all_fields)}")
        return replace(self, fields=tuple(name for name in FIELDS if name in found))


@dataclass(frozen=True)
class ViewRows:
    """The rows of a temporary view, for statements that name it; `memory` has conditions on columns, nothing else."""

    memory: Memory

    def called(self, name: str) -> Memory:
        """What the view remembers, with the view's name in front of its columns."""
        return self.memory.aliased(Calling(name, self.memory.pinned.spark))

    def columns(self, metadata: Mapping[str, str]) -> Struct:
        return known_columns(self.memory.pinned.snapshot, metadata)

    def is_tracked(self) -> bool:
        return self.memory.pinned.snapshot.identity is not None

    def read(self, where: str | None, metadata: Mapping[str, str]) -> DataFrame:
        memory, pinned = self.memory, self.memory.pinned
        found = ALWAYS if where is None else parse(where, self.columns(metadata), zone=pinned.zone)
        asked = conjunction((*conjuncts(memory.where), *conjuncts(found)))
        df = memory._through(pinned.scan(asked, metadata))
        return df if where is None else df.where(where)


def _plainly(node: exp.Expr, qualifiers: Set[str], fields: Mapping[str, str]) -> exp.Expr:
    """A name without its qualifier, and a field of `_metadata` as scans call it."""
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


def _text(given: str | Column) -> str:
    return given if isinstance(given, str) else str(given).removeprefix("Column<'").removesuffix("'>")


def _is_star(given: str | Column, called: Set[str]) -> bool:
    text = _text(given)
    whole = text.endswith(".*") and text[:-2].strip("` ").lower() in called
    return whole or text in ("*", "unresolvedstar()")


def _quoted(names: Sequence[str]) -> list[str]:
    return ["`" + name.replace("`", "``") + "`" for name in names]
