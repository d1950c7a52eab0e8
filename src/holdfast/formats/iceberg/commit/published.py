"""What the summaries of snapshots say of rows that are published into the table.

1. It is in the summary of the snapshot that brought the rows, so it is true exactly if they are there. A snapshot of
   ours that only moves rows says it again, so that older ones can expire.
2. Versions here are sequence numbers, which is what rows say they were last changed in.
3. A table is as it was published if nothing came since but snapshots that only moved rows.
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
    """What the summary of a snapshot with this sequence number says of publications."""
    if mutation.publishes is not None:
        return {f"{PREFIX}{name}": text for name, text in mutation.publishes.landed(sequence).told().items()}
    if mutation.data_change or parent is None:
        return {}
    return {name: text for name, text in parent.summary.items() if name.startswith(PREFIX)}


def published_into(state: IcebergState) -> Publication | None:
    """What the table has of another one; None where no snapshot that is left says it has any."""
    for entry in state.metadata.ancestry(state.entry):
        if f"{PREFIX}{VERSIONS}" in entry.summary:
            told = {n.removeprefix(PREFIX): text for n, text in entry.summary.items() if n.startswith(PREFIX)}
            return publication_of(told, where=f"snapshot {entry.snapshot_id} of {state.metadata.location}")
    return None


def changed_since(state: IcebergState) -> tuple[int, str] | None:
    """The last snapshot, and what it is called, that changed rows and published none; None where none did."""
    for entry in state.metadata.ancestry(state.entry):
        if f"{PREFIX}{VERSIONS}" in entry.summary:
            return None
        if entry.operation != _MOVES_ROWS:
            return entry.snapshot_id, entry.summary.get(OPERATION, entry.operation)
    return None


def first_after(state: IcebergState, sequence: int) -> int:
    """The id of the snapshot after the one with a sequence number, on the way to the one a state is at."""
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
