"""Holds the changes of a table: a plan that Spark or this process reads, and where to go on from."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Invalid, Unsupported
from holdfast.plan.changefeed.query import ChangeKind, ChangeQuery, ChangesPlan
from holdfast.verbs.changefeed.apply import ApplyTarget, applied_up_to, apply_rows, refuse_unpaired
from holdfast.verbs.dml.delete_update import Changed
from holdfast.verbs.open.engine import LOCAL, AnyEngine, on_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

When: TypeAlias = int | str | datetime.datetime | datetime.date


class ChangeSource(Protocol):
    """The table that changes are of, where they can be gone on from and applied to another table."""

    @property
    def table_id(self) -> str: ...

    @property
    def location(self) -> str: ...

    def token(self, version: int) -> str:
        """The resume token of what begins at a version."""

    def between(self, first: int, last: int, query: ChangeQuery) -> ChangesPlan:
        """The changes of other versions of the same table."""


@dataclass(frozen=True)
class ChangeSet:
    """The changes of versions `startVersion` to `endVersion`; none where the end is before the start."""

    startVersion: int
    endVersion: int
    kind: str
    plan: ChangesPlan = field(repr=False)
    engine: AnyEngine = field(repr=False)
    source: ChangeSource | None = field(default=None, repr=False)  # None: the format goes on from no token
    query: ChangeQuery | None = field(default=None, repr=False)  # None: the change data feed

    def toDF(self) -> DataFrame:
        """The changes as a DataFrame; a DataFrame has no order, `_commit_version` tells it."""
        return on_spark(self.engine).changes(self.plan)

    def toArrow(self) -> pa.Table:
        """The changes in the order they were made, read in this process without Spark: for small ones."""
        return LOCAL.changes(self.plan)

    @property
    def bytesRead(self) -> int:
        """The size of the files that reading the changes opens."""
        return sum(pc.sum(reading.files.column("size")).as_py() or 0 for reading in self.plan.files)

    @property
    def resumeToken(self) -> str:
        """Hand this to `changes(resume=...)` for what comes after these changes; of Delta tables only."""
        return self._source().token(self.endVersion + 1)

    def applyChanges(self, target: ApplyTarget, keys: Sequence[str] | None = None) -> Changed:
        """Make another table have these changes too, in one commit; once, however often it is called.

        Rows meet by `keys`, or by their ids, which the target then keeps in the column `_source_row_id`. The target
        knows how far it has come: a change set that reaches further back, or begins later, goes on from there. The
        changes are of a Delta table; the target may be of either format.
        """
        source, handle = self._source(), target.handle
        if self.query is None:
            raise Invalid("the change data feed has no row ids to apply it by: use changes()")
        names = key_names(keys or ())
        if handle.newest().snapshot.location.url == source.location:
            raise Invalid("the changes of a table cannot be applied to the table itself")
        first, last = self.startVersion, self.endVersion
        seen = applied_up_to(handle, source.table_id)
        first = first if seen is None else seen + 1
        if last < first:
            return Changed(None, {})
        net = ChangeKind.MIN_DELTA if self.query.kind is ChangeKind.FULL_DELTA else self.query.kind
        deletes = self.query.include_deleted and net is ChangeKind.UPSERT
        plan = source.between(first, last, ChangeQuery(net, names, deletes))
        if not names:
            refuse_unpaired(plan)
        rows = handle.caller().engine.changes(plan)
        return apply_rows(handle, source.table_id, last, [f.name for f in plan.fields], names, rows)

    def _source(self) -> ChangeSource:
        if self.source is None:
            raise Unsupported(
                "changes of an Iceberg table have no resume token and are not applied to other tables: ask for the "
                "snapshots after these, or publish() the table"
            )
        return self.source


def query_of(kind: str, keys: Sequence[str], *, include_deleted: bool, drop_unchanged: bool) -> ChangeQuery:
    """A change query as users spell it."""
    try:
        known = ChangeKind(kind)
    except ValueError:
        offered = ", ".join(k.value for k in ChangeKind)
        raise Invalid(f"there is no kind of changes {kind!r}; ask for one of {offered}") from None
    return ChangeQuery(known, key_names(keys), include_deleted, drop_unchanged)


def key_names(keys: Sequence[str]) -> tuple[str, ...]:
    """The columns that pair rows."""
    if isinstance(keys, str):
        raise Invalid(f"keys= takes a list of names, such as [{keys!r}]")
    return tuple(keys)
