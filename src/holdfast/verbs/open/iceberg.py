"""A snapshot of an Iceberg table, opened to be read.

1. A scan with a condition reads only the manifests that may list a file with a row that satisfies it.
"""

from __future__ import annotations

from holdfast.formats.iceberg.metadata.manifest_pruning import prune_manifests
from holdfast.formats.iceberg.state import IcebergState
from holdfast.index.pruning import ByRowId
from holdfast.index.reader import PinnedReader
from holdfast.plan.scan.prune import Pruner
from holdfast.predicate.records import ALWAYS, Predicate
from holdfast.verbs.read.open_table import OpenTable


def open_iceberg(state: IcebergState) -> OpenTable:
    """The table at this snapshot."""
    return OpenTable(
        state.snapshot,
        state.hidden.load,
        lambda: pruners_of(state),
        lambda where: open_iceberg(prune_manifests(state, where)),
    )


def pruners_of(state: IcebergState, also: Predicate = ALWAYS) -> tuple[Pruner, ...]:
    """What row ids offer to whoever reads a snapshot; `also` is true of every row that is wanted."""
    if state.snapshot.identity is None:
        return ()
    return (ByRowId(lambda: PinnedReader(state.snapshot, state.hidden.load), also),)
