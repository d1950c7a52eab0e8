"""What happened to the rows of an Iceberg table, and rows by their ids.

1. Changes are told by row ids (version 3), by keys, or, where no row moved, by what was added and hidden.
2. `_commit_version` of a change is the sequence number of its snapshot.
3. Columns come out of the data files, so a table is refused whose files may leave partition columns to its metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Unsupported
from holdfast.formats.iceberg.history.commit_range import read_commit_range
from holdfast.formats.iceberg.metadata.types import NAME_MAPPING
from holdfast.formats.iceberg.state import IcebergState
from holdfast.index.reader import PinnedReader
from holdfast.model.files import may_lose
from holdfast.verbs.changefeed.change_set import ToldChanges, wanted_of
from holdfast.verbs.changefeed.query import planned
from holdfast.verbs.open.handle import TableBase
from holdfast.verbs.open.iceberg_handle import IcebergHandle
from holdfast.verbs.read import take as taking
from holdfast.verbs.read.take import Missing, RowIds


class IcebergReadingById(TableBase):
    """Verbs that go by who rows are."""

    handle: IcebergHandle

    def changes(
        self,
        start: int,
        end: int | None = None,
        *,
        kind: str = "full-delta",
        keys: Sequence[str] = (),
        includeDeleted: bool = False,
        dropUnchanged: bool = False,
    ) -> ToldChanges:
        """What snapshots `start` to `end` did to rows, both included, as `DeltaTable.changes` tells it.

        `kind` is `append-only`, `upsert`, `min-delta` or `full-delta`.
        """
        wanted = wanted_of(kind, keys, include_deleted=includeDeleted, drop_unchanged=dropUnchanged)
        state = self.handle.newest()
        refuse_imported(state)
        plan = planned(read_commit_range(state, start, end), wanted, self.handle.dialect.load_hidden)
        return ToldChanges(start, state.version if end is None else end, kind, plan, self.handle.spark)

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
        state = self.handle.at(version, None)
        if pc.any(may_lose(state.snapshot.files)).as_py():
            raise Unsupported(
                f"rows of {state.metadata.location} are deleted by value, so where a row is does not tell whether it "
                "is live: purge() the table first, or scan it by _row_id"
            )
        reader = PinnedReader(state.snapshot, self.handle.dialect.load_hidden, None)
        return taking.take(reader, row_ids, columns, metadata, Missing.of(missing))


def refuse_imported(state: IcebergState) -> None:
    """Refuse a table that may hold files of Hive, whose partition columns are in no file."""
    placement = state.snapshot.placement
    if placement is not None and placement.identities and NAME_MAPPING in state.metadata.properties:
        raise Unsupported(
            f"the table at {state.snapshot.location.url} has a name mapping, so some of its files may lack its "
            "partition columns, and changes() reads columns from files alone: compare scans of two snapshots by "
            "_row_id instead"
        )
