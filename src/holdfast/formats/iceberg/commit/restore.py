"""The manifests of a restore: replaces the files of the current snapshot by those of an earlier one.

1. Files come back as they were: a data file with its sequence number and first row id, a delete file with its sequence
   number, so that the same deletes apply. Files that both snapshots have in the same partition stay in their manifests;
   a file that a repair moved to another partition goes back with its deletes.
2. Removed and added files are entries of their own, so that readers of changes see them.
3. A file from before row ids gets ids, like a new one.
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
from holdfast.formats.iceberg.metadata.manifests import DELETES
from holdfast.formats.iceberg.metadata.partition_groups import partition_groups
from holdfast.formats.iceberg.state import IcebergState


def restored_manifests(
    writer: ManifestWriter, target: IcebergState, tally: SnapshotTally
) -> Iterator[Mapping[str, Any]]:
    """The manifest list rows of a snapshot that has the files of `target`."""
    difference = _Difference(writer.state, target)
    removed = {one.manifest.path: (one, mask) for one, mask in difference.removed}
    for row in manifest_list_rows(writer.state):
        one, mask = removed[row["manifest_path"]]
        if not mask.any():
            yield row
            continue
        tally.removed(one, mask)
        yield writer.write_without(one, mask.tolist())
    for one, mask in difference.restored:
        if mask.any():
            tally.restored(one, mask)
            yield writer.write_restored(one, mask.tolist())


def files_to_restore(state: IcebergState, target: IcebergState) -> tuple[int, int, pa.Array]:
    """How many data files a restore removes and how many it restores, and the paths of all restored files."""
    difference = _Difference(state, target)
    counts = (
        sum(int(mask.sum()) for one, mask in side if one.manifest.content != DELETES)
        for side in (difference.removed, difference.restored)
    )
    paths = [one.entries["file_path"].combine_chunks().filter(pa.array(mask)) for one, mask in difference.restored]
    return *counts, pc.unique(_concat(paths))


class _Difference:
    """Masks of the entries, by manifest, that the other state does not have in the same partition."""

    def __init__(self, state: IcebergState, target: IcebergState) -> None:
        current, wanted = state.contents.listed, target.contents.listed
        listed = (*current, *wanted)
        groups = partition_groups(listed, state.contents.types.specs, where=state.metadata_path)
        names = [
            pc.binary_join_element_wise(file_names(one.entries), pa.array(group).cast(pa.string()), "@")
            for one, group in zip(listed, groups, strict=True)
        ]
        before, after = names[: len(current)], names[len(current) :]
        all_before, all_after = _concat(before), _concat(after)
        self.removed = [(one, _missing(own, all_after)) for one, own in zip(current, before, strict=True)]
        self.restored = [(one, _missing(own, all_before)) for one, own in zip(wanted, after, strict=True)]


def _concat(names: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays(names) if names else pa.array([], pa.string())


def _missing(names: pa.Array, others: pa.Array) -> NDArray[np.bool_]:
    return ~np.asarray(pc.is_in(names, value_set=others), np.bool_)
