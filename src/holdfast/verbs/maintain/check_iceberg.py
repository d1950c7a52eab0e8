"""An Iceberg table that explains itself: whether what is stored is what its metadata says, and what happened to a row.

1. Without `repair` nothing is written. A repair writes manifests and commits through the catalog as any change does; it
   never touches a data file, and says nothing that files do not prove.
2. Each branch is repaired by a commit on it, which stands on the very snapshot that was checked; another writer in
   between means checking again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.engines.local.file_inspection import LocalLooker
from holdfast.engines.spark.scan.file_inspection import SparkLooker
from holdfast.errors import LimitReached
from holdfast.formats.iceberg.audit.metadata import MetadataChecked, check_metadata
from holdfast.formats.iceberg.history.commit_range import at_sequence_number
from holdfast.formats.iceberg.history.trail import trail
from holdfast.formats.iceberg.metadata.table_metadata import MAIN
from holdfast.formats.iceberg.state import IcebergState, time_travel
from holdfast.model.finding import FindingKind, listed
from holdfast.model.mutation import Committed, Mutation
from holdfast.plan.changefeed.biography import Biography
from holdfast.plan.maintain.check import Looker
from holdfast.verbs.changefeed.biography import life
from holdfast.verbs.maintain.check import ROUNDS, CheckReport, refuse_dropping
from holdfast.verbs.maintain.iceberg_heads import BranchHead, heads_of
from holdfast.verbs.open.handle import TableBase
from holdfast.verbs.open.iceberg_handle import IcebergHandle

_UNREAD = (FindingKind.MISSING_COMMIT, FindingKind.BAD_COMMIT)


@dataclass(frozen=True, slots=True)
class _IcebergChecked:
    state: IcebergState
    metadata: MetadataChecked
    heads: tuple[BranchHead, ...]  # the main branch's first

    def report(self, *, deep: bool, repaired: tuple[str, ...] = ()) -> CheckReport:
        snapshot, main = self.state.snapshot, self.heads[0]
        count = 0 if main.files is None else len(snapshot.files)
        # That a snapshot cannot be read is said once, of what it fails on first.
        unread = {f.version for f in self.metadata.findings if f.kind in _UNREAD}
        of_heads = (
            f for head in self.heads for f in head.findings() if f.kind not in _UNREAD or f.version not in unread
        )
        found = [*of_heads, *self.metadata.findings]
        kinds = dict.fromkeys(finding.kind for finding in found)
        shown = tuple(one for kind in kinds for one in listed(f for f in found if f.kind is kind))
        return CheckReport(snapshot.location.url, self.state.version, count, deep, shown, repaired)


class IcebergChecking(TableBase):
    """What an Iceberg table tells of itself."""

    handle: IcebergHandle

    def check(self, *, repair: bool = False, deep: bool = True, dropMissing: bool = False) -> CheckReport:
        """Whether the table is what its metadata says: snapshots, manifests, delete files, data files, row ids.

        The snapshots of all branches and tags are looked at. `deep=False` looks at metadata and at file sizes, and not
        into data files. `repair` does what is safe, in one commit per branch: it never touches a data file, and tags
        stay. `dropMissing` lets it take files that are not there any more out of the table.
        """
        refuse_dropping(repair=repair, drop_missing=dropMissing)
        checked = self._checked(deep=deep, repair=repair)
        if not repair:
            return checked.report(deep=deep)
        self.handle.dialect.committing(checked.state)
        done: list[str] = []
        for _ in range(ROUNDS):
            todo = [
                (head, branch, mutation)
                for head in checked.heads
                for branch in head.branches
                if (mutation := head.mutation(drop_missing=dropMissing)) is not None
            ]
            if not todo:
                return checked.report(deep=deep, repaired=tuple(done))
            for head, branch, mutation in todo:
                done += self._mend(head.state, branch, mutation)
            checked = self._checked(deep=deep, repair=True)
        raise LimitReached(f"others wrote to {checked.state.metadata.location} during {ROUNDS} checks: repair it later")

    def _mend(self, checked: IcebergState, branch: str, mutation: Mutation) -> Iterator[str]:
        """Commit a repair to a branch that is still what was checked; gives what is done."""
        newest = self.handle.newest()
        ref = newest.metadata.refs.get(branch)
        if ref is None or ref.snapshot_id != checked.version:
            return
        format_ = replace(self.handle.dialect.committing(newest), branch=branch)
        state = newest if branch == MAIN else time_travel(newest, version=branch)
        outcome = format_.attempt(state, mutation, self._caller().env)
        if isinstance(outcome, Committed):
            where = "" if branch == MAIN else f"branch {branch}, "
            yield from (
                f"{what} ({where}version {outcome.version})" for what in json.loads(mutation.parameters["repairs"])
            )

    def _checked(self, *, deep: bool, repair: bool) -> _IcebergChecked:
        state = self.handle.newest()
        metadata = check_metadata(state)
        in_memory = state.snapshot.location.store.url.startswith("memory:")
        looker: Looker = LocalLooker() if self.handle.spark is None or in_memory else SparkLooker(self.handle.spark)
        heads = heads_of(state, metadata.spoken_of, looker, deep=deep, footers=deep or repair)
        return _IcebergChecked(state, metadata, tuple(heads))

    def biography(self, rowId: int) -> Biography:
        """What happened to a row, by its id: where it was born, changed, moved, deleted.

        Versions are the sequence numbers of snapshots. Files are opened only where the row may have been in them.
        """
        state = self.handle.newest()
        return life(at_sequence_number(state), lambda: trail(state), rowId, self.handle.dialect.load_hidden)
