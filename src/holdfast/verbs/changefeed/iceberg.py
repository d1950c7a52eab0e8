"""Answers change queries of an Iceberg table.

1. Rows are paired by row ids (format version 3) or by keys; where no row moved, added and hidden rows are the changes.
2. `_commit_version` of a change is the sequence number of its snapshot.
3. Columns are read from data files, so a table is refused whose files may leave partition columns to its metadata.
"""

from __future__ import annotations

from holdfast.errors import Invalid, Unsupported
from holdfast.formats.iceberg.history.commit_range import read_commit_range
from holdfast.formats.iceberg.metadata.types import NAME_MAPPING
from holdfast.formats.iceberg.state import IcebergState
from holdfast.model.snapshot import LoadHidden
from holdfast.plan.changefeed.query import ChangeQuery
from holdfast.verbs.changefeed.change_set import ChangeSet, When
from holdfast.verbs.changefeed.query import planned
from holdfast.verbs.open.engine import AnyEngine


def changes(
    state: IcebergState,
    start: When | None,
    end: When | None,
    query: ChangeQuery,
    resume: str | None,
    load_hidden: LoadHidden,
    *,
    engine: AnyEngine,
) -> ChangeSet:
    """What snapshots `start` to `end` did to rows."""
    if resume is not None:
        raise Unsupported("changes of an Iceberg table have no resume token: begin with the id of a snapshot")
    first, last = _snapshot_id(start), None if end is None else _snapshot_id(end)
    refuse_imported(state)
    plan = planned(read_commit_range(state, first, last), query, load_hidden)
    return ChangeSet(first, state.version if last is None else last, query.kind.value, plan, engine)


def _snapshot_id(when: When | None) -> int:
    if isinstance(when, bool) or not isinstance(when, int):
        raise Invalid(f"changes of an Iceberg table begin and end with the ids of snapshots, not with {when!r}")
    return when


def refuse_imported(state: IcebergState) -> None:
    """Refuse a table that may hold files of Hive, whose partition columns are in no file."""
    placement = state.snapshot.placement
    if placement is not None and placement.identities and NAME_MAPPING in state.metadata.properties:
        raise Unsupported(
            f"the table at {state.snapshot.location.url} has a name mapping, so some of its files may lack its "
            "partition columns, and changes() reads columns from files alone: compare scans of two snapshots by "
            "_row_id instead"
        )
