"""An earlier snapshot's files in the place of those that are there: the manifests of a restore.

1. Files come back as they were: a data file with its sequence number and first row id, a delete file with its sequence
   number, so that the same deletes apply to the same files. Files both snapshots have stay where they are listed.
2. What goes and what comes is said entry by entry, so that whoever follows snapshots sees it.
3. A file from before row ids gets some, like any new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.iceberg.manifests import DELETES, Listed
from holdfast.iceberg.state import IcebergState
from holdfast.iceberg.summary import Tally
from holdfast.iceberg.transact_manifests import Writing, listed_before
from holdfast.iceberg.winners import names_of


def restored(writing: Writing, then: IcebergState, tally: Tally) -> Iterator[Mapping[str, Any]]:
    """The manifests of a snapshot with the files of `then`; those of the state that is written on lead to it."""
    now = writing.state
    kept, wanted = _names(now), _names(then)
    listed = {one.manifest.path: one for one in now.contents.listed}
    for row in listed_before(now):
        one = listed[row["manifest_path"]]
        gone = ~np.asarray(pc.is_in(names_of(one.entries), value_set=wanted), np.bool_)
        if not gone.any():
            yield row
            continue
        tally.removed(one, gone)
        yield writing.without(one, gone.tolist())
    for one in then.contents.listed:
        back = ~np.asarray(pc.is_in(names_of(one.entries), value_set=kept), np.bool_)
        if back.any():
            tally.restored(one, back)
            yield writing.again(one, back.tolist())


def coming_back(now: IcebergState, then: IcebergState) -> tuple[int, int, pa.Array]:
    """How many data files a restore takes away and brings back; and the paths of all files that come back."""
    kept, wanted = _names(now), _names(then)
    gone = sum(_count(one, wanted) for one in now.contents.listed if one.manifest.content != DELETES)
    back = sum(_count(one, kept) for one in then.contents.listed if one.manifest.content != DELETES)
    paths = [
        one.entries["file_path"].combine_chunks().filter(pc.invert(pc.is_in(names_of(one.entries), value_set=kept)))
        for one in then.contents.listed
    ]
    return gone, back, pc.unique(pa.concat_arrays(paths)) if paths else pa.array([], pa.string())


def _count(one: Listed, others: pa.Array) -> int:
    return len(one) - int(pc.sum(pc.is_in(names_of(one.entries), value_set=others)).as_py() or 0)


def _names(state: IcebergState) -> pa.Array:
    every = [names_of(one.entries) for one in state.contents.listed]
    return pa.concat_arrays(every) if every else pa.array([], pa.string())
