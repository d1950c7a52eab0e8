"""Whether rows that were gone came back between a snapshot and a later one, as their summaries tell.

1. None means: the later one descends from the earlier, every commit in between is known, and each is one of ours that
   never brings rows back.
2. Anything else is the reason why that cannot be said; of what other engines did it cannot.
"""

from __future__ import annotations

from holdfast.formats.iceberg.commit.summary import OPERATION
from holdfast.formats.iceberg.state import IcebergState

_NEVER_BACK = frozenset({"WRITE", "DELETE", "UPDATE", "MERGE", "OPTIMIZE", "REORG"})


def why_rows_may_be_back(after: IcebergState, sequence: int) -> str | None:
    """Why rows may have come back since a sequence number; None where none did."""
    for entry in after.metadata.ancestry(after.entry):
        if entry.sequence_number == sequence:
            return None
        if entry.sequence_number < sequence:
            break
        operation = entry.summary.get(OPERATION)
        if entry.summary.get("engine-name") != "holdfast" or operation not in _NEVER_BACK:
            return f"snapshot {entry.snapshot_id}, a {operation or entry.operation}, may have brought rows back"
    return f"the table does not descend from a snapshot with sequence number {sequence}, or no longer has it"
