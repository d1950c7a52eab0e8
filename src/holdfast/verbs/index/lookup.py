"""Rows by their ids, and the version of a table that rows are looked up in.

1. A table object looks rows up in one version, that of its first look, until it does something else: a verb of its own
   that reads or writes the table moves it on, so that what one has written or scanned is found. What others commit is
   seen after `refresh()`.
2. A version or timestamp that is given is read instead, and moves nothing.
3. Looking up costs no look at the log, and needs no Spark but where it gives a DataFrame.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from holdfast.engines.spark.scan.native import SparkRunner
from holdfast.engines.spark.scan.take import ids_of
from holdfast.verbs.index.pinned_readers import Pin
from holdfast.verbs.open.delta_handle import DeltaHandle
from holdfast.verbs.open.handle import TableBase
from holdfast.verbs.read import take as taking
from holdfast.verbs.read.take import Missing, RowIds

Metadata: TypeAlias = Mapping[str, str] | Sequence[str]
Timestamp: TypeAlias = str | datetime.datetime


class LookupVerbs(TableBase):
    """Verbs that find rows by what they are."""

    handle: DeltaHandle

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
        spark, choice = self.handle.session(), Missing.of(missing)
        wanted = ids_of(row_ids) if isinstance(row_ids, DataFrame) else taking.whole_numbers(row_ids)
        reader = self._pinned(version, timestamp).reader
        return taking.take_frame(reader, wanted, SparkRunner(spark), columns, metadata, choice)

    def refresh(self) -> int:
        """Look rows up in the newest version from now on; gives the version."""
        self.handle.pins.moved = True
        return self._pinned().state.version

    def _pinned(self, version: int | str | None = None, timestamp: Timestamp | None = None) -> Pin:
        """The version that rows are looked up in."""
        pins = self.handle.pins
        if version is not None or timestamp is not None:
            moved = pins.moved
            found = pins.at(self.handle.at(version, timestamp))
            pins.moved = moved  # looking into the past is no reason to move
            return found
        if pins.now is None or pins.moved:
            state = self.handle.newest()
            if pins.now is None or pins.now.state is not state:
                pins.now = Pin.of(state, pins.now)
            pins.moved = False
        return pins.now
