"""Row counts that must add up before a change is committed. Pure.

1. Rows gained by new files, less rows lost with removed files and to vectors, are the rows inserted less those
   deleted. A change that was carried out wrongly somewhere does not pass.
2. A file whose row count the log does not say takes the check away: nothing is made up.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Damaged
from holdfast.model.files import FileTable, may_lose
from holdfast.model.snapshot import Snapshot
from holdfast.plan.dml.change import Positions, count


def live_rows(files: FileTable) -> list[int | None]:
    """Rows of each file that are not hidden; None where the log does not say."""
    found: list[int | None] = live_counts(files).to_pylist()
    return found


def live_counts(files: FileTable) -> pa.Array:
    """Rows of each file that are not hidden; null where the log does not say."""
    if not len(files):
        return pa.array([], pa.int64())
    vectors = files.column("dv").combine_chunks()
    # Of a file that hides rows, it may not be said how many.
    hidden = pc.if_else(pc.is_null(vectors), pa.scalar(0, pa.int64()), pc.struct_field(vectors, "cardinality"))
    return pc.subtract(files.num_records, pc.if_else(may_lose(files), pa.scalar(None, pa.int64()), hidden))


def check_rows(
    snapshot: Snapshot, *, removed: FileTable, hidden: Positions, staged: pa.Table, deleted: int, inserted: int
) -> None:
    """Raise where the rows of a change do not add up."""
    lives = live_rows(removed)
    if any(n is None for n in lives):
        return
    lost = sum(n for n in lives if n is not None) + count(hidden)
    gained = pc.sum(staged.column("num_records")).as_py() or 0
    if gained - lost != inserted - deleted:
        raise Damaged(
            f"{deleted} rows deleted and {inserted} inserted do not explain {gained} rows written and {lost} taken out "
            f"of {snapshot.location.url}, so nothing was committed: a row count in its log, or Holdfast, is wrong",
            path=snapshot.location.url,
            expected=str(inserted - deleted),
            found=str(gained - lost),
        )
