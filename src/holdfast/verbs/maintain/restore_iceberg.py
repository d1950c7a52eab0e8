"""Restores an Iceberg table to an earlier snapshot.

1. A restore is a snapshot of its own: what it takes away can be restored as well, and ids are never given out again.
2. Columns stay as they are.
"""

from __future__ import annotations

import json

from holdfast.errors import MissingFile
from holdfast.formats.iceberg.commit.restore import files_to_restore
from holdfast.formats.iceberg.state import IcebergState
from holdfast.model.mutation import AllRows, Mutation
from holdfast.storage.open import missing
from holdfast.verbs.dml.delete_update import Changed, ExecutionContext
from holdfast.verbs.open.open_table import OpenTable


def restore(table: OpenTable, state: IcebergState, then: IcebergState, caller: ExecutionContext) -> Changed:
    """Bring an earlier snapshot back."""
    gone, back, paths = files_to_restore(state, then)
    metrics = {"numRemovedFiles": gone, "numRestoredFiles": back}
    if then.version == state.version:
        return Changed(None, metrics, before=table)
    location = state.snapshot.location
    lost = list(missing(location, state.paths.keys(paths).to_pylist()))  # one look per file that comes back
    if lost:
        raise MissingFile(
            f"snapshot {then.version} of {location.url} cannot be restored: {len(lost)} of its files are gone, such as "
            f"{lost[0]}",
            path=lost[0],
        )
    mutation = Mutation(
        "RESTORE",
        {"version": json.dumps(then.version)},
        metrics,
        removed=state.snapshot.files.table,
        reads=AllRows(),
        back_to=then.version,
    )
    landed = table.commit(mutation, caller.env)
    return Changed(landed.version, metrics, landed.attempts, before=table)
