"""Changes of a table that were asked for, of whichever format: planned already, and read in one of two ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from holdfast.engines.local.changefeed import LocalChangeReader
from holdfast.engines.spark.changefeed import SparkChangeReader
from holdfast.errors import Invalid
from holdfast.plan.changefeed.query import ChangeKind, ChangeQuery, ChangesPlan


@dataclass(frozen=True)
class ToldChanges:
    """The changes of versions `startVersion` to `endVersion`; none where the end is before the start."""

    startVersion: int
    endVersion: int
    kind: str
    plan: ChangesPlan = field(repr=False)
    spark: SparkSession | None = field(repr=False)

    def toDF(self) -> DataFrame:
        """The changes as a DataFrame; a DataFrame has no order, `_commit_version` tells it."""
        if self.spark is None:
            raise Invalid("this table was opened without a Spark session: use toArrow, or open it with one")
        return SparkChangeReader(self.spark).changes(self.plan)

    def toArrow(self) -> pa.Table:
        """The changes in the order they were made, read in this process without Spark: for small ones."""
        return LocalChangeReader().changes(self.plan)

    @property
    def bytesRead(self) -> int:
        """The size of the files that reading the changes opens."""
        return sum(pc.sum(reading.files.column("size")).as_py() or 0 for reading in self.plan.files)


def wanted_of(kind: str, keys: Sequence[str], *, include_deleted: bool, drop_unchanged: bool) -> ChangeQuery:
    """What a user asks of changes."""
    try:
        found = ChangeKind(kind)
    except ValueError:
        offered = ", ".join(k.value for k in ChangeKind)
        raise Invalid(f"there is no kind of changes {kind!r}; ask for one of {offered}") from None
    return ChangeQuery(found, key_names(keys), include_deleted, drop_unchanged)


def key_names(keys: Sequence[str]) -> tuple[str, ...]:
    """Columns that pair rows."""
    if isinstance(keys, str):
        raise Invalid(f"keys= takes a list of names, such as [{keys!r}]")
    return tuple(keys)
