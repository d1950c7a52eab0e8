"""Files a version no longer has but whose removal its log still remembers. Only cleaning up needs them.

A removal stands until the same logical file is added again. What the checkpoint remembers and what the commits after it
say are reconciled like live files are.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.delta.actions import FileAction
from holdfast.delta.checkpoint import read_removed, removed_from
from holdfast.delta.columns import logical_ids
from holdfast.delta.log import read_lines
from holdfast.delta.state import DeltaState


def tombstones(state: DeltaState) -> pa.Table:
    """The removed files of a version: the columns of FILES, and `deleted_ms`, null where the log does not say when."""
    location, segment = state.snapshot.location, state.segment
    newest: dict[tuple[str, str | None], tuple[FileAction, bool]] = {}
    for lines in read_lines(location, segment.deltas):
        for line in lines:
            action = line.add or line.remove
            if action is not None:
                vector = action.deletion_vector
                newest[action.path, None if vector is None else vector.unique_id] = (action, line.add is None)
    spoken = removed_from([action for action, _ in newest.values()], location)
    removed = spoken.filter(pa.array([gone for _, gone in newest.values()], pa.bool_()))
    if segment.checkpoint is None:
        return removed
    older = read_removed(location, segment.checkpoint)
    return pa.concat_tables([older.filter(pc.invert(pc.is_in(_ids(older), value_set=_ids(spoken)))), removed])


def _ids(files: pa.Table) -> pa.Array:
    vectors = pc.struct_field(files.column("dv").combine_chunks(), "id")
    return logical_ids(files.column("key").combine_chunks(), vectors)
