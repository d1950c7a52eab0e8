"""Builds the summary of a snapshot: its operation, the counts of added and removed files, and the totals.

1. Totals continue those of the parent snapshot; a total that the parent lacks is left out.
2. The operation is replace if no row changes, append or delete if files are only added or removed, else overwrite.
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
REPAIR = "FSCK"  # the operation that corrects partition values
_TOTALS = {  # by the name of the total: the counts that raise and lower it
    "data-files": ("added-data-files", "deleted-data-files"),
    "records": ("added-records", "deleted-records"),
    "files-size": ("added-files-size", "removed-files-size"),
    "delete-files": ("added-delete-files", "removed-delete-files"),
    "position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}


class SnapshotTally:
    """Counts what an attempt adds and removes."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self.counts: Counter[str] = Counter(counts)

    def added(self, files: Iterable[Mapping[str, Any]]) -> None:
        """Counts new data files."""
        for file in files:  # one per new file
            self.counts["added-data-files"] += 1
            self.counts["added-records"] += file["record_count"]
            self.counts["added-files-size"] += file["file_size_in_bytes"]

    def deletes_added(self, files: Iterable[Mapping[str, Any]]) -> None:
        """Counts new delete files; a deletion vector counts as one."""
        for file in files:  # one per touched file
            vector = file["file_format"] == "PUFFIN"
            self.counts["added-delete-files"] += 1
            self.counts["added-dvs" if vector else "added-position-delete-files"] += 1
            self.counts["added-position-deletes"] += file["record_count"]
            self.counts["added-files-size"] += file["content_size_in_bytes"] if vector else file["file_size_in_bytes"]

    def removed(self, listed: ManifestEntries, gone: NDArray[np.bool_]) -> None:
        """Counts entries of a manifest that are removed."""
        self._count(listed, gone, "removed", "deleted")

    def restored(self, listed: ManifestEntries, back: NDArray[np.bool_]) -> None:
        """Counts entries of an earlier manifest that are added again."""
        self._count(listed, back, "added", "added")

    def _count(self, listed: ManifestEntries, chosen: NDArray[np.bool_], word: str, data_word: str) -> None:
        entries = listed.entries.filter(chosen)
        rows = pc.sum(entries["record_count"]).as_py() or 0
        sizes = pc.sum(pc.coalesce(entries["content_size_in_bytes"], entries["file_size_in_bytes"])).as_py() or 0
        self.counts[f"{word}-files-size"] += sizes
        if listed.manifest.content != DELETES:
            self.counts[f"{data_word}-data-files"] += entries.num_rows
            self.counts[f"{data_word}-records"] += rows
            return
        equality = entries.filter(pc.equal(entries["content"], EQUALITY_DELETES))
        vectors = pc.sum(pc.equal(entries["file_format"], "puffin")).as_py() or 0
        self.counts[f"{word}-delete-files"] += entries.num_rows
        self.counts[f"{word}-dvs"] += vectors
        self.counts[f"{word}-equality-delete-files"] += equality.num_rows
        self.counts[f"{word}-position-delete-files"] += entries.num_rows - vectors - equality.num_rows
        values = pc.sum(equality["record_count"]).as_py() or 0
        self.counts[f"{word}-equality-deletes"] += values
        self.counts[f"{word}-position-deletes"] += rows - values


def totals_of(listed: Iterable[ManifestEntries]) -> dict[str, int]:
    """The totals of a snapshot with these manifests."""
    totals = dict.fromkeys(("total-data-files", "total-records", "total-delete-files"), 0)
    for one in listed:
        if one.manifest.content == DELETES:
            totals["total-delete-files"] += len(one)
        else:
            totals["total-data-files"] += len(one)
            totals["total-records"] += pc.sum(one.entries["record_count"]).as_py() or 0
    return totals


def operation_of(tally: SnapshotTally, *, data_change: bool) -> str:
    """The `operation` of a snapshot."""
    counts = tally.counts
    adds, takes = counts["added-data-files"], counts["deleted-data-files"] + counts["added-delete-files"]
    if not data_change:
        return "replace"
    if adds and takes:
        return "overwrite"
    return "append" if not takes else "delete"


def summary_of(tally: SnapshotTally, before: Mapping[str, str], *, is_first: bool) -> dict[str, str]:
    """The counts of a commit, and the totals after it."""
    summary = {name: str(count) for name, count in tally.counts.items() if count}
    for what, (added, removed) in _TOTALS.items():
        old = "0" if is_first else before.get(f"total-{what}")
        if old is not None and old.lstrip("-").isdigit():
            summary[f"total-{what}"] = str(int(old) + tally.counts[added] - tally.counts[removed])
    return summary
