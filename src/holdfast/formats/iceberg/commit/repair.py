"""Tuples and row counts told as files prove them, and manifests counted anew: the manifests of a repair.

1. Only manifests with a wrong value or count, or that their list counts otherwise, are written anew; every entry stays
   what it was (its sequence numbers, its snapshot, its row ids), but for that. No data file and no delete file comes or
   goes.
2. Wrong tuples are looked for in the snapshot that the attempt is made on, so a lost race costs no more than another
   look. Row counts are in the files, so who looked into them says which are wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.formats.iceberg.audit.partition_values import check_partition_values
from holdfast.formats.iceberg.commit.manifest_writer import ManifestWriter, manifest_list_rows
from holdfast.formats.iceberg.commit.summary import totals_of
from holdfast.formats.iceberg.metadata.manifests import DATA, ManifestEntries, count_mismatch
from holdfast.formats.iceberg.state import IcebergState

Counts = Mapping[str, int]  # rows by file key


def repaired_manifests(writing: ManifestWriter, counts: Counts) -> Iterator[Mapping[str, Any]]:
    """The manifests of the state that is written on, with the tuples that files prove and these row counts."""
    state = writing.state
    exact = check_partition_values(state, footers=True).exact or {}
    listed = {one.manifest.path: one for one in state.contents.listed}
    for row in manifest_list_rows(state):
        one = listed[row["manifest_path"]]
        rows = _rows(state, one, counts)
        is_wrong = one.manifest.path in exact or count_mismatch(one) is not None or any(n is not None for n in rows)
        yield writing.retold(one, exact.get(one.manifest.path, {}), rows) if is_wrong else row


def repaired_totals(state: IcebergState, counts: Counts) -> dict[str, int]:
    """What the totals of a snapshot must be once its files have these row counts."""
    totals = totals_of(state.contents.listed)
    for one in state.contents.listed if counts else ():
        said = zip(_rows(state, one, counts), one.entries["record_count"].to_pylist(), strict=True)
        totals["total-records"] += sum(rows - before for rows, before in said if rows is not None)
    return totals


def _rows(state: IcebergState, one: ManifestEntries, counts: Counts) -> list[int | None]:
    """The row counts of a manifest's files that are put right; None: as it is said."""
    if not counts or one.manifest.content != DATA:
        return [None] * len(one)
    return [counts.get(key) for key in state.paths.keys(one.entries["file_path"].combine_chunks()).to_pylist()]
