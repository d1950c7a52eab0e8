"""Opens a snapshot of an Iceberg table.

1. A scan with a condition reads only the manifests that may list a file with a row that satisfies it.
"""

from __future__ import annotations

from holdfast.formats.iceberg.format import IcebergFormat
from holdfast.formats.iceberg.state import IcebergState
from holdfast.index.pruning import ByRowId
from holdfast.index.reader import PinnedReader
from holdfast.plan.scan.prune import Pruner
from holdfast.predicate.records import ALWAYS, Predicate
from holdfast.verbs.open.open_table import OpenTable, opened


def open_iceberg(state: IcebergState, format_: IcebergFormat | None = None) -> OpenTable:
    """The table at this snapshot; without its format, to be read alone."""
    return opened(format_ or IcebergFormat(None, lambda: state), state, pruners_of)


def pruners_of(state: IcebergState, also: Predicate = ALWAYS) -> tuple[Pruner, ...]:
    """What row ids offer to whoever reads a snapshot; `also` is true of every row that is wanted."""
    if state.snapshot.identity is None:
        return ()
    return (ByRowId(lambda: PinnedReader(state.snapshot, state.hidden.load), also),)
