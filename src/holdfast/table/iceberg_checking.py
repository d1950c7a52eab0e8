"""An Iceberg table that explains itself: whether what is stored is what its metadata says, and what happened to a row.

1. Nothing is repaired: metadata of Iceberg is never said anew without a commit through its catalog.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from pyspark.sql import SparkSession

from holdfast.iceberg.audit import check_metadata
from holdfast.iceberg.state import IcebergState
from holdfast.iceberg.stretch import as_told
from holdfast.iceberg.trail import trail
from holdfast.local.look import LocalLooker
from holdfast.ops.check import check_files
from holdfast.plan.biography import Biography
from holdfast.plan.check import Looker
from holdfast.spark.look import SparkLooker
from holdfast.table.biography import life
from holdfast.table.checking import CheckReport
from holdfast.table.iceberg_latest import Latest


class IcebergChecking(ABC):
    """What an Iceberg table tells of itself."""

    _spark: SparkSession | None
    _latest: Latest

    @abstractmethod
    def _state(self) -> IcebergState: ...

    def check(self, *, deep: bool = True) -> CheckReport:
        """Whether the table is what its metadata says: snapshots, manifests, delete files, data files, row ids.

        `deep=False` looks at metadata and at file sizes, and not into data files.
        """
        state = self._state()
        snapshot = state.snapshot
        metadata = check_metadata(state)
        if not metadata.is_readable:
            return CheckReport(snapshot.location.url, state.version, 0, deep, metadata.findings)
        in_memory = snapshot.location.store.url.startswith("memory:")
        looker: Looker = LocalLooker() if self._spark is None or in_memory else SparkLooker(self._spark)
        files = check_files(snapshot, metadata.spoken_of, looker, state.hidden.load, deep=deep)
        found = (*(replace(finding, repair=None) for finding in files.findings), *metadata.findings)
        return CheckReport(snapshot.location.url, state.version, len(snapshot.files), deep, found)

    def biography(self, rowId: int) -> Biography:
        """What happened to a row, by its id: where it was born, changed, moved, deleted.

        Versions are the sequence numbers of snapshots. Files are opened only where the row may have been in them.
        """
        state = self._state()
        return life(as_told(state), lambda: trail(state), rowId, self._latest.dialect.load_hidden)
