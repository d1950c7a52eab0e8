"""Decides from snapshot summaries whether deleted rows may have come back since a sequence number.

1. None means that no row came back: the state descends from the snapshot with the sequence number, and every commit
   since is one of ours that never brings rows back.
2. Otherwise the result is the reason; commits of other engines may always have brought rows back.
"""

from __future__ import annotations

from holdfast.formats.iceberg.commit.summary import OPERATION
from holdfast.formats.iceberg.state import IcebergState

_NEVER_BACK = frozenset({"WRITE", "DELETE", "UPDATE", "MERGE", "OPTIMIZE", "REORG"})


def why_rows_may_be_back(after: IcebergState, sequence: int) -> str | None:
    """Why deleted rows may have come back since a sequence number; None where none did."""
    for entry in after.metadata.ancestry(after.entry):
        if entry.sequence_number == sequence:
            return None
        if entry.sequence_number < sequence:
            break
        operation = entry.summary.get(OPERATION)
        if entry.summary.get("engine-name") != "holdfast" or operation not in _NEVER_BACK:
            return f"snapshot {entry.snapshot_id}, a {operation or entry.operation}, may have brought rows back"
    return f"the table does not descend from a snapshot with sequence number {sequence}, or no longer has it"
