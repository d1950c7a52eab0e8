"""Rows by their ids, and the version of a table that rows are looked up in.

1. A table object looks rows up in one version, that of its first look, until it does something else: a verb of its own
   that reads or writes the table moves it on, so that what one has written or scanned is found. What others commit is
   seen after `refresh()`.
2. A version or timestamp that is given is read instead, and moves nothing.
3. Looking up costs no look at the log, and needs no Spark but where it gives a DataFrame.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.delta.state import DeltaState
from holdfast.delta.vectors import load_hidden
from holdfast.index.reader import PinnedReader
from holdfast.index.search import Indexes
from holdfast.ops import take as taking
from holdfast.ops.take import Missing, RowIds
from holdfast.spark.scan import SparkRunner
from holdfast.spark.take import ids_of

Metadata: TypeAlias = Mapping[str, str] | Sequence[str]
Timestamp: TypeAlias = str | datetime.datetime

_PAST = 4  # versions other than the pinned one whose readers are kept


@dataclass(frozen=True)
class Pin:
    """A version of a table, and what reads rows of it."""

    state: DeltaState
    reader: PinnedReader
    opened: list[tuple[DeltaState | None, Indexes]] = field(default_factory=list)  # last, with the newest version then

    @classmethod
    def of(cls, state: DeltaState, before: Pin | None) -> Pin:
        """A pin of this version, with what was learned from another one of the same table."""
        same = before is not None and before.state.table_id == state.table_id
        return cls(state, PinnedReader(state.snapshot, load_hidden, before.reader if before and same else None))


@dataclass
class Pins:
    """What a table object has pinned."""

    now: Pin | None = None
    moved: bool = True  # a verb has asked for the newest version since
    past: dict[int, Pin] = field(default_factory=dict)  # by version, the last used last

    def at(self, state: DeltaState) -> Pin:
        """The pin of a version other than the pinned one."""
        if self.now is not None and self.now.state is state:
            return self.now
        known = self.past.pop(state.version, None)
        if known is None or known.state.table_id != state.table_id:
            known = Pin.of(state, self.now)
        self.past[state.version] = known
        while len(self.past) > _PAST:
            del self.past[next(iter(self.past))]
        return known


class LookupVerbs(ABC):
    """Verbs that find rows by what they are."""

    @property
    @abstractmethod
    def _pins(self) -> Pins: ...

    @abstractmethod
    def _state(self) -> DeltaState: ...

    @abstractmethod
    def _session(self) -> SparkSession: ...

    @abstractmethod
    def _at(self, version: int | str | None, timestamp: Timestamp | None) -> DeltaState: ...

    def take(
        self,
        row_ids: RowIds,
        columns: Sequence[str] | None = None,
        version: int | str | None = None,
        timestamp: Timestamp | None = None,
        metadata: Metadata = (),
        missing: str = "error",
    ) -> pa.Table:
        """The rows with these ids, in the order asked, as an Arrow table; an id that is given twice comes twice.

        Ids that no live row has are an error, or with `missing="skip"` left out, or with `missing="null"` rows of
        nulls. Reads in this process, without Spark; `metadata` names columns as for `toArrow`.
        """
        choice = Missing.of(missing)
        return taking.take(self._pinned(version, timestamp).reader, row_ids, columns, metadata, choice)

    def takeDF(
        self,
        row_ids: RowIds | DataFrame,
        columns: Sequence[str] | None = None,
        version: int | str | None = None,
        timestamp: Timestamp | None = None,
        metadata: Metadata = (),
        missing: str = "error",
    ) -> DataFrame:
        """The rows with these ids as a DataFrame, for many of them: each row once, in no particular order.

        Ids may come as a DataFrame of one column, of which only a bitmap reaches this process. Ids that no live row
        has are an error, or with `missing="skip"` left out.
        """
        spark, choice = self._session(), Missing.of(missing)
        wanted = ids_of(row_ids) if isinstance(row_ids, DataFrame) else taking.whole_numbers(row_ids)
        reader = self._pinned(version, timestamp).reader
        return taking.take_frame(reader, wanted, SparkRunner(spark), columns, metadata, choice)

    def refresh(self) -> int:
        """Look rows up in the newest version from now on; gives the version."""
        self._pins.moved = True
        return self._pinned().state.version

    def _written(self) -> None:
        self._pins.moved = True

    def _pinned(self, version: int | str | None = None, timestamp: Timestamp | None = None) -> Pin:
        """The version that rows are looked up in."""
        pins = self._pins
        if version is not None or timestamp is not None:
            moved = pins.moved
            found = pins.at(self._at(version, timestamp))
            pins.moved = moved  # looking into the past is no reason to move
            return found
        if pins.now is None or pins.moved:
            state = self._state()
            if pins.now is None or pins.now.state is not state:
                pins.now = Pin.of(state, pins.now)
            pins.moved = False
        return pins.now
