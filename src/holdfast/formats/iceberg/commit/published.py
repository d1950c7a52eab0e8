"""Reads and writes the entries of snapshot summaries that describe publications into the table.

1. The summary of the snapshot that brought the rows has them, so they are true exactly if the rows are there. Our
   snapshots that only move rows repeat them, so that older snapshots can expire.
2. Versions are sequence numbers, as in the rows' last updated sequence number.
3. A table is unchanged since its publication if only snapshots that move rows followed.
"""

from __future__ import annotations

from holdfast.errors import UnknownVersion
from holdfast.formats.iceberg.commit.summary import OPERATION
from holdfast.formats.iceberg.metadata.table_metadata import SnapshotEntry
from holdfast.formats.iceberg.state import IcebergState
from holdfast.model.mutation import Mutation
from holdfast.model.publication import VERSIONS, Publication, publication_of

PREFIX = "holdfast.published."
_MOVES_ROWS = "replace"


def publication_summary(mutation: Mutation, parent: SnapshotEntry | None, sequence: int) -> dict[str, str]:
    """The publication entries for the summary of a snapshot with this sequence number."""
    if mutation.publishes is not None:
        return {f"{PREFIX}{name}": text for name, text in mutation.publishes.landed(sequence).rendered().items()}
    if mutation.data_change or parent is None:
        return {}
    return {name: text for name, text in parent.summary.items() if name.startswith(PREFIX)}


def published_into(state: IcebergState) -> Publication | None:
    """What the table has of another one; None where no remaining snapshot has a publication."""
    for entry in state.metadata.ancestry(state.entry):
        if f"{PREFIX}{VERSIONS}" in entry.summary:
            texts = {n.removeprefix(PREFIX): text for n, text in entry.summary.items() if n.startswith(PREFIX)}
            return publication_of(texts, where=f"snapshot {entry.snapshot_id} of {state.metadata.location}")
    return None


def changed_since(state: IcebergState) -> tuple[int, str] | None:
    """The id and operation of the last snapshot that changed rows since the publication; None where none did."""
    for entry in state.metadata.ancestry(state.entry):
        if f"{PREFIX}{VERSIONS}" in entry.summary:
            return None
        if entry.operation != _MOVES_ROWS:
            return entry.snapshot_id, entry.summary.get(OPERATION, entry.operation)
    return None


def first_after(state: IcebergState, sequence: int) -> int:
    """The id of the snapshot that follows the one with a sequence number in the ancestry of a state."""
    after = None
    for entry in state.metadata.ancestry(state.entry):
        if entry.sequence_number == sequence and after is not None:
            return after.snapshot_id
        after = entry
    raise UnknownVersion(
        f"snapshot {state.version} of {state.metadata.location} does not descend from the one with the sequence "
        f"number {sequence}, or that is expired",
        version=sequence,
    )
