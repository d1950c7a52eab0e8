"""A version of a Delta table, opened to be read."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.delta.state import DeltaState
from holdfast.delta.vectors import load_hidden
from holdfast.ops.open_table import OpenTable
from holdfast.plan.prune import Pruner


def open_delta(state: DeltaState, pruners: Callable[[], tuple[Pruner, ...]] = tuple) -> OpenTable:
    """The table at this version; `pruners` are what its row ids and indexes offer."""
    return OpenTable(state.snapshot, load_hidden, pruners)
