"""An Iceberg table that explains itself: whether what is stored is what its metadata says, and what happened to a row.

1. Without `repair` nothing is written. A repair writes manifests and commits through the catalog as any change does; it
   never touches a data file, and says nothing that files do not prove.
2. Its commit stands on the very snapshot that was checked; another writer in between means checking again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from holdfast.errors import LimitReached
from holdfast.iceberg.audit import MetadataChecked, check_metadata
from holdfast.iceberg.state import IcebergState
from holdfast.iceberg.stretch import as_told
from holdfast.iceberg.summary import REPAIR
from holdfast.iceberg.trail import trail
from holdfast.local.look import LocalLooker
from holdfast.model.finding import Finding, Kind
from holdfast.model.mutation import AllRows, Committed, Mutation
from holdfast.ops.check import FilesChecked, check_files, letting_go
from holdfast.plan.biography import Biography
from holdfast.plan.check import Looker
from holdfast.spark.look import SparkLooker
from holdfast.table.biography import life
from holdfast.table.checking import ROUNDS, CheckReport, refuse_dropping
from holdfast.table.handle import TableBase
from holdfast.table.iceberg_handle import IcebergHandle


@dataclass(frozen=True, slots=True)
class _Checked:
    state: IcebergState
    metadata: MetadataChecked
    files: FilesChecked | None  # None: the files cannot be listed

    @property
    def mark(self) -> int | None:
        """What the mark of row ids must be raised to."""
        return None if self.files is None or self.state.metadata.next_row_id is None else self.files.mark

    def report(self, *, deep: bool, repaired: tuple[str, ...] = ()) -> CheckReport:
        snapshot = self.state.snapshot
        of_files = () if self.files is None else tuple(map(self._repairable, self.files.findings))
        count = 0 if self.files is None else len(snapshot.files)
        found = (*of_files, *self.metadata.findings)
        return CheckReport(snapshot.location.url, self.state.version, count, deep, found, repaired)

    def _repairable(self, finding: Finding) -> Finding:
        """A finding of files, with the repair that there is for Iceberg."""
        known = finding.kind is Kind.MISSING_FILE or (finding.kind is Kind.MARK_BELOW_DATA and self.mark is not None)
        return finding if known else replace(finding, repair=None)

    def mutation(self, *, drop_missing: bool) -> Mutation | None:
        """What to commit next; None: nothing. Files go in a commit of their own."""
        tuples, mark = self.metadata.tuples, self.mark
        done = [
            *([f"gave {tuples.count} files the partition values that they have"] if tuples.count else []),
            *([f"counted {wrong} manifests anew"] if (wrong := self.metadata.miscounted) else []),
            *(["put the totals of the summary right"] if self.metadata.totals_wrong else []),
            *([f"raised the mark of row ids to {mark}"] if mark is not None else []),
        ]
        if done:
            parameters = {"repairs": json.dumps(done)}
            return Mutation(REPAIR, parameters, mends=True, mark=mark, data_change=tuples.rehides, reads=AllRows())
        if not drop_missing or self.files is None:
            return None
        return letting_go(self.state.snapshot, self.files.missing)


class IcebergChecking(TableBase):
    """What an Iceberg table tells of itself."""

    handle: IcebergHandle

    def check(self, *, repair: bool = False, deep: bool = True, dropMissing: bool = False) -> CheckReport:
        """Whether the table is what its metadata says: snapshots, manifests, delete files, data files, row ids.

        `deep=False` looks at metadata and at file sizes, and not into data files. `repair` does what is safe, in one
        commit: it never touches a data file. `dropMissing` lets it take files that are not there any more out of the
        table.
        """
        refuse_dropping(repair=repair, drop_missing=dropMissing)
        checked = self._checked(deep=deep, repair=repair)
        if not repair:
            return checked.report(deep=deep)
        format_, env = self.handle.dialect.committing(checked.state), self._caller().env
        done: list[str] = []
        for _ in range(ROUNDS):
            mutation = checked.mutation(drop_missing=dropMissing)
            if mutation is None:
                return checked.report(deep=deep, repaired=tuple(done))
            outcome = format_.attempt(checked.state, mutation, env)
            if isinstance(outcome, Committed):
                repairs = json.loads(mutation.parameters["repairs"])
                done += [f"{what} (version {outcome.version})" for what in repairs]
            checked = self._checked(deep=deep, repair=True)
        raise LimitReached(f"others wrote to {checked.state.metadata.location} during {ROUNDS} checks: repair it later")

    def _checked(self, *, deep: bool, repair: bool) -> _Checked:
        state = self.handle.newest()
        metadata = check_metadata(state, footers=deep or repair)
        if not metadata.is_readable:
            return _Checked(state, metadata, None)
        in_memory = state.snapshot.location.store.url.startswith("memory:")
        looker: Looker = LocalLooker() if self.handle.spark is None or in_memory else SparkLooker(self.handle.spark)
        files = check_files(state.snapshot, metadata.spoken_of, looker, state.hidden.load, deep=deep)
        return _Checked(state, metadata, files)

    def biography(self, rowId: int) -> Biography:
        """What happened to a row, by its id: where it was born, changed, moved, deleted.

        Versions are the sequence numbers of snapshots. Files are opened only where the row may have been in them.
        """
        state = self.handle.newest()
        return life(as_told(state), lambda: trail(state), rowId, self.handle.dialect.load_hidden)
