"""Where the rows of a snapshot are, by row id.

A file with nothing but fresh ids is a range; one that carries ids of its own needs them as a sequence, which whoever
read or wrote the file hands in. Nothing here costs a step per row.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow.compute as pc

from holdfast.errors import Damaged, NoRowIdentity
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.rows.locator import RowLocator
from holdfast.rows.sequence import RowIdSequence


def locator(snapshot: Snapshot, hidden: HiddenRows, carried: Mapping[str, RowIdSequence] | None = None) -> RowLocator:
    """An index from row id to (number of the file in the snapshot, position), over live rows.

    `carried` has the ids of files that carry their own, by file key; every other file has fresh ids only.
    """
    if snapshot.identity is None:
        raise NoRowIdentity(f"the table at {snapshot.location.url} does not track rows, so its rows have no ids")
    files = snapshot.files
    bases = pc.fill_null(files.column("base_row_id"), -1).to_numpy()
    counts = pc.fill_null(files.num_records, -1).to_numpy(zero_copy_only=False)
    keys = files.column("key").to_pylist()  # one per file
    unknown = np.flatnonzero((bases < 0) | (counts < 0))
    if len(unknown):
        key = keys[int(unknown[0])]
        raise Damaged(f"the log gives no row ids or no row count for {key}; its rows cannot be located", path=key)
    numbers = {key: i for i, key in enumerate(keys)}
    own = {numbers[key]: sequence for key, sequence in (carried or {}).items() if key in numbers}
    fresh = np.ones(len(keys), np.bool_)
    fresh[list(own)] = False
    return RowLocator.from_ranges(
        bases[fresh],
        counts[fresh],
        files=np.flatnonzero(fresh),
        sequences=tuple(own.items()),
        hidden={numbers[key]: positions for key, positions in hidden.positions.items() if key in numbers},
        where=snapshot.location.url,
    )
