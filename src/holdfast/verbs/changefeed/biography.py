"""Writes the biography of a row: reads the commits that touched its files, without Spark."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import Invalid, NoRowIdentity
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.history.trail import trail
from holdfast.formats.delta.state import DeltaState
from holdfast.model.snapshot import LoadHidden, Snapshot
from holdfast.model.touch import Trail
from holdfast.plan.changefeed.biography import Biography
from holdfast.verbs.changefeed import biography_events as following


def biography(state: DeltaState, row_id: int) -> Biography:
    """What happened to a row."""
    return life(state.snapshot, lambda: trail(state.snapshot.location), row_id, load_hidden)


def life(snapshot: Snapshot, trail_of: Callable[[], Trail], row_id: int, load: LoadHidden) -> Biography:
    """What happened to a row of a table in whatever format; `snapshot` is its newest version."""
    where = snapshot.location.url
    if snapshot.identity is None:
        raise NoRowIdentity(
            f"the table at {where} does not track rows, so its rows have no ids and no biographies: {snapshot.to_track}"
        )
    if type(row_id) is not int or row_id < 0:
        raise Invalid(f"a row id is a whole number from 0 on, not {row_id!r}")
    if row_id > snapshot.identity.high_water:
        raise Invalid(f"{where} has handed out row ids up to {snapshot.identity.high_water}; there is no row {row_id}")
    return following.biography(snapshot, trail_of(), row_id, load)
