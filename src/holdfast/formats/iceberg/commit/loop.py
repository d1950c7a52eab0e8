"""Iceberg as the commit loop sees a format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import Connection

from holdfast.env import Env
from holdfast.formats.iceberg.catalog.commit import attempt
from holdfast.formats.iceberg.catalog.pointer import has_pointer, holding
from holdfast.formats.iceberg.catalog.tables import CatalogTable
from holdfast.formats.iceberg.commit.attempt import prepare
from holdfast.formats.iceberg.commit.drafts import Drafts
from holdfast.formats.iceberg.commit.summary import APP
from holdfast.formats.iceberg.commit.winners import appended_manifests, winners_since
from holdfast.formats.iceberg.metadata.table_metadata import MAIN
from holdfast.formats.iceberg.state import IcebergState
from holdfast.model.mutation import Came, Committed, Mutation, Outcome
from holdfast.model.snapshot import Snapshot

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class IcebergFormat:
    """A table of a catalog, as one transaction writes to it."""

    source: CatalogTable
    branch: str = MAIN  # that attempts are made on
    drafts: Drafts = field(default_factory=Drafts, repr=False, compare=False)
    _holds: list[Connection] = field(default_factory=list, repr=False, compare=False)  # one, during a turn

    def newest(self, state: IcebergState | None) -> IcebergState:
        """The table as it is now."""
        return self.source.newest(state)

    def snapshot(self, state: IcebergState) -> Snapshot:
        return state.snapshot

    def attempt(self, state: IcebergState | None, mutation: Mutation, env: Env) -> Outcome:
        """Try to make a mutation the snapshot after that of `state`."""
        assert state is not None, "a table of a catalog is made by the catalog"
        made = prepare(state, mutation, env, self.drafts)
        hold = self._holds[0] if self._holds else None
        outcome = attempt(self.source, state, made, env, self.branch, self.drafts, hold)
        if isinstance(outcome, Committed):
            self.drafts.clear(state.paths, made.files)
        return outcome

    @contextmanager
    def turn(self, mutation: Mutation) -> Iterator[None]:
        """Hold the table's pointer for an attempt, where an SQL catalog has one and the attempt moves it itself."""
        catalog = self.source.catalog
        if self.branch != MAIN or mutation.shape is not None or not has_pointer(catalog):
            yield
            return
        with holding(catalog, self.source.identifier) as hold:
            self._holds.extend([] if hold is None else [hold])
            try:
                yield
            finally:
                self._holds.clear()

    def since(self, state: IcebergState) -> tuple[IcebergState, Came]:
        """The table as it is now, and the snapshots that came."""
        newest = self.newest(state)
        if self.drafts.plan is not None:
            is_same = appended_manifests(state, newest) is not None
            self.drafts.carry(state.version, newest.version if is_same else None)
        return newest, winners_since(state, newest)

    def abandon(self, state: IcebergState) -> None:
        """Delete what attempts wrote that all lost."""
        self.drafts.clear(state.paths)

    def keeps_ms(self, state: IcebergState) -> int:
        """A day: the remove_orphan_files of Iceberg on Spark takes no younger file, and leaves no snapshot behind."""
        return _DAY_MS

    def app_version(self, state: IcebergState, app_id: str) -> int | None:
        """How far an application has written, as the newest snapshot that speaks of it says."""
        told = (entry.summary.get(f"{APP}{app_id}") for entry in state.metadata.ancestry(state.entry))
        return next((int(version) for version in told if version is not None), None)
