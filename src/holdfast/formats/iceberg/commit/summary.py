"""What a snapshot says of itself: its operation, what it added and removed, and what the table has then.

1. Totals go on from those of the snapshot before; where that does not say one, this does not either.
2. A commit that changes no row is a replacement; one that only adds is an append, one that only takes away a delete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.formats.iceberg.metadata.manifests import DELETES, EQUALITY_DELETES, ManifestEntries

OPERATION = "holdfast.operation"
KEEPS_IDS = "holdfast.keeps-row-ids"
APP = "holdfast.app."
REPAIR = "FSCK"  # the operation that tells tuples anew
_TOTALS = {  # what is counted: added and removed under these names, and in all
    "data-files": ("added-data-files", "deleted-data-files"),
    "records": ("added-records", "deleted-records"),
    "files-size": ("added-files-size", "removed-files-size"),
    "delete-files": ("added-delete-files", "removed-delete-files"),
    "position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}


class SnapshotTally:
    """What an attempt adds and removes."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self.counts: Counter[str] = Counter(counts)

    def added(self, files: Iterable[Mapping[str, Any]]) -> None:
        """Data files that are new."""
        for file in files:  # one per new file
            self.counts["added-data-files"] += 1
            self.counts["added-records"] += file["record_count"]
            self.counts["added-files-size"] += file["file_size_in_bytes"]

    def deletes_added(self, files: Iterable[Mapping[str, Any]]) -> None:
        """Delete files that are new; a vector counts as one."""
        for file in files:  # one per touched file
            vector = file["file_format"] == "PUFFIN"
            self.counts["added-delete-files"] += 1
            self.counts["added-dvs" if vector else "added-position-delete-files"] += 1
            self.counts["added-position-deletes"] += file["record_count"]
            self.counts["added-files-size"] += file["content_size_in_bytes"] if vector else file["file_size_in_bytes"]

    def removed(self, listed: ManifestEntries, gone: NDArray[np.bool_]) -> None:
        """Entries of a manifest that go."""
        self._counted(listed, gone, {"all": "removed", "data": "deleted"})

    def restored(self, listed: ManifestEntries, back: NDArray[np.bool_]) -> None:
        """Entries of an earlier manifest that come back."""
        self._counted(listed, back, {"all": "added", "data": "added"})

    def _counted(self, listed: ManifestEntries, chosen: NDArray[np.bool_], words: Mapping[str, str]) -> None:
        entries, word = listed.entries.filter(chosen), words["all"]
        rows = pc.sum(entries["record_count"]).as_py() or 0
        sizes = pc.sum(pc.coalesce(entries["content_size_in_bytes"], entries["file_size_in_bytes"])).as_py() or 0
        self.counts[f"{word}-files-size"] += sizes
        if listed.manifest.content != DELETES:
            self.counts[f"{words['data']}-data-files"] += entries.num_rows
            self.counts[f"{words['data']}-records"] += rows
            return
        by_value = entries.filter(pc.equal(entries["content"], EQUALITY_DELETES))
        vectors = pc.sum(pc.equal(entries["file_format"], "puffin")).as_py() or 0
        self.counts[f"{word}-delete-files"] += entries.num_rows
        self.counts[f"{word}-dvs"] += vectors
        self.counts[f"{word}-equality-delete-files"] += by_value.num_rows
        self.counts[f"{word}-position-delete-files"] += entries.num_rows - vectors - by_value.num_rows
        values = pc.sum(by_value["record_count"]).as_py() or 0
        self.counts[f"{word}-equality-deletes"] += values
        self.counts[f"{word}-position-deletes"] += rows - values


def totals_of(listed: Iterable[ManifestEntries]) -> dict[str, int]:
    """What the totals of a snapshot with these manifests must be."""
    totals = dict.fromkeys(("total-data-files", "total-records", "total-delete-files"), 0)
    for one in listed:
        if one.manifest.content == DELETES:
            totals["total-delete-files"] += len(one)
        else:
            totals["total-data-files"] += len(one)
            totals["total-records"] += pc.sum(one.entries["record_count"]).as_py() or 0
    return totals


def operation_of(tally: SnapshotTally, *, data_change: bool) -> str:
    """The word for what a commit does."""
    counts = tally.counts
    adds, takes = counts["added-data-files"], counts["deleted-data-files"] + counts["added-delete-files"]
    if not data_change:
        return "replace"
    if adds and takes:
        return "overwrite"
    return "append" if not takes else "delete"


def summary_of(tally: SnapshotTally, before: Mapping[str, str], *, is_first: bool) -> dict[str, str]:
    """What a commit counted, and the totals after it."""
    said = {name: str(count) for name, count in tally.counts.items() if count}
    for what, (added, removed) in _TOTALS.items():
        old = "0" if is_first else before.get(f"total-{what}")
        if old is not None and old.lstrip("-").isdigit():
            said[f"total-{what}"] = str(int(old) + tally.counts[added] - tally.counts[removed])
    return said
