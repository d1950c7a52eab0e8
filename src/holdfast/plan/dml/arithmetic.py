"""Checks that the row counts of a change add up before it is committed. Pure.

1. Rows in new files, minus rows of removed files and newly hidden rows, must equal rows inserted minus rows deleted.
2. The check is skipped if the log does not give the row count of a removed file.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Damaged
from holdfast.model.files import FileTable, may_lose
from holdfast.model.snapshot import Snapshot
from holdfast.plan.dml.change import Positions, count


def live_rows(files: FileTable) -> list[int | None]:
    """The live rows of each file; None if the log does not give them."""
    return list(live_counts(files).to_pylist())


def live_counts(files: FileTable) -> pa.Array:
    """The live rows of each file; null if the log does not give them."""
    if not len(files):
        return pa.array([], pa.int64())
    dvs = files.column("dv").combine_chunks()
    # The cardinality of a deletion vector may be missing.
    hidden = pc.if_else(pc.is_null(dvs), pa.scalar(0, pa.int64()), pc.struct_field(dvs, "cardinality"))
    return pc.subtract(files.num_records, pc.if_else(may_lose(files), pa.scalar(None, pa.int64()), hidden))


def check_rows(
    snapshot: Snapshot, *, removed: FileTable, hidden: Positions, staged: pa.Table, deleted: int, inserted: int
) -> None:
    """Raise if the rows of a change do not add up."""
    live = live_counts(removed)
    if live.null_count:
        return
    lost = (pc.sum(live).as_py() or 0) + count(hidden)
    gained = pc.sum(staged.column("num_records")).as_py() or 0
    if gained - lost != inserted - deleted:
        raise Damaged(
            f"{deleted} rows deleted and {inserted} inserted do not explain {gained} rows written and {lost} taken out "
            f"of {snapshot.location.url}, so nothing was committed: a row count in its log, or Holdfast, is wrong",
            path=snapshot.location.url,
            expected=str(inserted - deleted),
            found=str(gained - lost),
        )
