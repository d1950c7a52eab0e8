"""Opens a version of a Delta table."""

from __future__ import annotations

from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.state import DeltaState
from holdfast.verbs.open.open_table import OpenTable, PrunersOf, opened


def open_delta(state: DeltaState, pruners: PrunersOf[DeltaState] | None = None) -> OpenTable:
    """The table at this version; `pruners` are what its row ids and indexes offer."""
    return opened(DeltaFormat(state.snapshot.location), state, pruners)
