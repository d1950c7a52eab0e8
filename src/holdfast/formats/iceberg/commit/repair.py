"""The manifests of a repair: corrects partition values, record counts and the counts of the manifest list.

1. Only manifests with a wrong value or count, or that the manifest list miscounts, are rewritten. Entries keep their
   sequence numbers, snapshot ids and row ids; no data file and no delete file is added or removed.
2. Wrong partition values are searched in the attempt's snapshot, so a lost race costs only another search. Record
   counts are in the data files, so the caller, who has read them, passes those that are wrong.
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


def repaired_manifests(writer: ManifestWriter, counts: Counts) -> Iterator[Mapping[str, Any]]:
    """The manifest list rows of a snapshot with exact partition values and these record counts."""
    state = writer.state
    exact = check_partition_values(state, footers=True).exact or {}
    listed = {one.manifest.path: one for one in state.contents.listed}
    for row in manifest_list_rows(state):
        one = listed[row["manifest_path"]]
        rows = _rows(state, one, counts)
        is_wrong = one.manifest.path in exact or count_mismatch(one) is not None or any(n is not None for n in rows)
        yield writer.write_corrected(one, exact.get(one.manifest.path, {}), rows) if is_wrong else row


def repaired_totals(state: IcebergState, counts: Counts) -> dict[str, int]:
    """The totals of the snapshot summary after the files get these record counts."""
    totals = totals_of(state.contents.listed)
    for one in state.contents.listed if counts else ():
        pairs = zip(_rows(state, one, counts), one.entries["record_count"].to_pylist(), strict=True)
        totals["total-records"] += sum(rows - before for rows, before in pairs if rows is not None)
    return totals


def _rows(state: IcebergState, one: ManifestEntries, counts: Counts) -> list[int | None]:
    """The corrected record counts of a manifest's files; None: unchanged."""
    if not counts or one.manifest.content != DATA:
        return [None] * len(one)
    return [counts.get(key) for key in state.paths.keys(one.entries["file_path"].combine_chunks()).to_pylist()]
