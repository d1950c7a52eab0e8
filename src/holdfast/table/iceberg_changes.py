"""What happened to the rows of an Iceberg table, and rows by their ids.

1. Changes are told by row ids (version 3), by keys, or, where no row moved, by what was added and hidden.
2. `_commit_version` of a change is the sequence number of its snapshot.
3. Columns come out of the data files, so a table is refused whose files may leave partition columns to its metadata.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import Invalid, Unsupported
from holdfast.iceberg.state import IcebergState
from holdfast.iceberg.stretch import read_stretch
from holdfast.iceberg.types import NAME_MAPPING
from holdfast.index.reader import PinnedReader
from holdfast.local.changes import LocalChangeReader
from holdfast.ops import take as taking
from holdfast.ops.changes import planned
from holdfast.ops.take import Missing, RowIds
from holdfast.plan.changes import ChangesPlan, Kind, Wanted
from holdfast.spark.changes import SparkChangeReader
from holdfast.storage.open import is_there
from holdfast.table.iceberg_writing import Latest


@dataclass(frozen=True)
class IcebergChanges:
    """The changes of some snapshots."""

    startVersion: int
    endVersion: int
    kind: str
    plan: ChangesPlan = field(repr=False)
    spark: SparkSession | None = field(repr=False, default=None)

    def toDF(self) -> DataFrame:
        """The changes as a DataFrame; a DataFrame has no order, `_commit_version` tells it."""
        if self.spark is None:
            raise Invalid("this table was opened without a Spark session: use toArrow, or open it with one")
        return SparkChangeReader(self.spark).changes(self.plan)

    def toArrow(self) -> pa.Table:
        """The changes in the order they were made, read in this process without Spark: for small ones."""
        return LocalChangeReader().changes(self.plan)


class IcebergReadingById(ABC):
    """Verbs that go by who rows are."""

    _spark: SparkSession | None
    _latest: Latest

    @abstractmethod
    def _state(self) -> IcebergState: ...

    @abstractmethod
    def _at(self, version: Any, timestamp: Any) -> IcebergState: ...

    def changes(
        self,
        start: int,
        end: int | None = None,
        *,
        kind: str = "full-delta",
        keys: Sequence[str] = (),
        includeDeleted: bool = False,
        dropUnchanged: bool = False,
    ) -> IcebergChanges:
        """What snapshots `start` to `end` did to rows, both included, as `DeltaTable.changes` tells it.

        `kind` is `append-only`, `upsert`, `min-delta` or `full-delta`.
        """
        known = {k.value: k for k in Kind}
        if kind not in known:
            raise Invalid(f"there is no kind of changes {kind!r}; ask for one of {', '.join(known)}")
        if isinstance(keys, str):
            raise Invalid(f"keys= takes a list of names, such as [{keys!r}]")
        state = self._state()
        _refuse_imported(state)
        wanted = Wanted(known[kind], tuple(keys), includeDeleted, dropUnchanged)
        plan = planned(read_stretch(state, start, end), wanted, self._latest.dialect.load_hidden, is_there)
        return IcebergChanges(start, state.version if end is None else end, kind, plan, self._spark)

    def take(
        self,
        row_ids: RowIds,
        columns: Sequence[str] | None = None,
        version: int | str | None = None,
        metadata: Mapping[str, str] | Sequence[str] = (),
        missing: str = "error",
    ) -> pa.Table:
        """The rows with these ids, in the order asked, as an Arrow table; an id that is given twice comes twice.

        Ids that no live row has are an error, or with `missing="skip"` left out, or with `missing="null"` rows of
        nulls.
        """
        reader = PinnedReader(self._at(version, None).snapshot, self._latest.dialect.load_hidden, None)
        return taking.take(reader, row_ids, columns, metadata, Missing.of(missing))


def _refuse_imported(state: IcebergState) -> None:
    """Refuse a table that may hold files of Hive, whose partition columns are in no file."""
    placement = state.snapshot.placement
    if placement is not None and placement.identities and NAME_MAPPING in state.metadata.properties:
        raise Unsupported(
            f"the table at {state.snapshot.location.url} has a name mapping, so some of its files may lack its "
            "partition columns, and changes() reads columns from files alone: compare scans of two snapshots by "
            "_row_id instead"
        )
