"""An Iceberg table that is published.

1. Its versions are sequence numbers, which is what its rows say.
2. Only format version 3 has row ids, so only such a table is published, or published into.
"""

from __future__ import annotations

from holdfast.errors import Invalid
from holdfast.formats.iceberg.commit.published import first_after
from holdfast.formats.iceberg.history.commit_range import read_commit_range
from holdfast.formats.iceberg.state import IcebergState, time_travel
from holdfast.model.commits import CommitRange
from holdfast.model.snapshot import LoadHidden
from holdfast.verbs.changefeed.iceberg import refuse_imported
from holdfast.verbs.publish.mutation import Origin


def origin_of(newest: IcebergState, load_hidden: LoadHidden) -> Origin:
    """A snapshot of a table as it is published."""
    if newest.entry is None:
        raise Invalid(f"{newest.metadata.location} has no snapshot, so there are no rows to publish")
    last = newest.entry
    # Columns as the snapshot has them: what was done to columns since comes with the next.
    state = time_travel(newest, version=last.snapshot_id)

    def since(sequence: int) -> CommitRange:
        refuse_imported(state)
        return read_commit_range(state, first_after(state, sequence), last.snapshot_id)

    return Origin(state.table_id, last.sequence_number, state.snapshot, load_hidden, since)
