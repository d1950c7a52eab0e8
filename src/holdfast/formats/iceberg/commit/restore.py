"""An earlier snapshot's files in the place of those that are there: the manifests of a restore.

1. Files come back as they were: a data file with its sequence number and first row id, a delete file with its sequence
   number, so that the same deletes apply to the same files. Files both snapshots have in one partition stay where they
   are listed; one that a repair placed otherwise goes back with its deletes.
2. What goes and what comes is said entry by entry, so that whoever follows snapshots sees it.
3. A file from before row ids gets some, like any new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.formats.iceberg.commit.manifest_writer import ManifestWriter, manifest_list_rows
from holdfast.formats.iceberg.commit.summary import SnapshotTally
from holdfast.formats.iceberg.commit.winners import file_names
from holdfast.formats.iceberg.metadata.manifests import DELETES, ManifestEntries
from holdfast.formats.iceberg.metadata.partition_groups import partition_groups
from holdfast.formats.iceberg.state import IcebergState


def restored_manifests(
    writing: ManifestWriter, then: IcebergState, tally: SnapshotTally
) -> Iterator[Mapping[str, Any]]:
    """The manifests of a snapshot with the files of `then`; those of the state that is written on lead to it."""
    now = writing.state
    difference = _Difference(now, then)
    going = {one.manifest.path: (one, gone) for one, gone in difference.going}
    for row in manifest_list_rows(now):
        one, gone = going[row["manifest_path"]]
        if not gone.any():
            yield row
            continue
        tally.removed(one, gone)
        yield writing.without(one, gone.tolist())
    for one, back in difference.coming:
        if back.any():
            tally.restored(one, back)
            yield writing.again(one, back.tolist())


def files_to_restore(now: IcebergState, then: IcebergState) -> tuple[int, int, pa.Array]:
    """How many data files a restore takes away and brings back; and the paths of all files that come back."""
    difference = _Difference(now, then)
    counts = (
        sum(int(chosen.sum()) for one, chosen in side if one.manifest.content != DELETES)
        for side in (difference.going, difference.coming)
    )
    paths = [one.entries["file_path"].combine_chunks().filter(pa.array(back)) for one, back in difference.coming]
    return *counts, pc.unique(pa.concat_arrays(paths)) if paths else pa.array([], pa.string())


class _Difference:
    """The entries of two states by manifest, with a mask of those that the other state has not in the same place."""

    def __init__(self, now: IcebergState, then: IcebergState) -> None:
        ours, theirs = now.contents.listed, then.contents.listed
        groups = partition_groups((*ours, *theirs), now.contents.types.specs, where=now.metadata_path)
        names = [_placed(one, group) for one, group in zip((*ours, *theirs), groups, strict=True)]
        kept, wanted = _joined(names[: len(ours)]), _joined(names[len(ours) :])
        self.going = [(one, _beyond(own, wanted)) for one, own in zip(ours, names, strict=False)]
        self.coming = [(one, _beyond(own, kept)) for one, own in zip(theirs, names[len(ours) :], strict=True)]


def _placed(one: ManifestEntries, group: NDArray[np.int64]) -> pa.Array:
    """What tells the entries of a manifest from others: the file and the partition it is said to be in."""
    return pc.binary_join_element_wise(file_names(one.entries), pa.array(group).cast(pa.string()), "@")


def _joined(names: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays(names) if names else pa.array([], pa.string())


def _beyond(names: pa.Array, others: pa.Array) -> NDArray[np.bool_]:
    return ~np.asarray(pc.is_in(names, value_set=others), np.bool_)
