"""A version of a Delta table, opened to be read."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.state import DeltaState
from holdfast.plan.scan.prune import Pruner
from holdfast.verbs.read.open_table import OpenTable


def open_delta(state: DeltaState, pruners: Callable[[], tuple[Pruner, ...]] = tuple) -> OpenTable:
    """The table at this version; `pruners` are what its row ids and indexes offer."""
    return OpenTable(state.snapshot, load_hidden, pruners)
