"""Delta as the commit loop sees a format."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from holdfast.env import Env
from holdfast.formats.delta.commit.attempt import attempt, prepare
from holdfast.formats.delta.commit.dv_update import HiddenVectors
from holdfast.formats.delta.commit.winners import since
from holdfast.formats.delta.log.tombstones import file_retention_ms
from holdfast.formats.delta.state import DeltaState, is_table, load, refresh
from holdfast.model.mutation import Came, Mutation, Outcome
from holdfast.model.snapshot import Snapshot
from holdfast.storage.location import Location


@dataclass(frozen=True, slots=True)
class DeltaFormat:
    """The log at one location, as one transaction writes to it."""

    location: Location
    vectors: HiddenVectors = field(default_factory=HiddenVectors, repr=False, compare=False)

    def newest(self, state: DeltaState | None) -> DeltaState | None:
        """The table as it is now; None where there is none."""
        if state is not None:
            return refresh(state)
        return load(self.location) if is_table(self.location) else None

    def snapshot(self, state: DeltaState) -> Snapshot:
        return state.snapshot

    def attempt(self, state: DeltaState | None, mutation: Mutation, env: Env) -> Outcome:
        """Try to make a mutation the version after `state`."""
        return attempt(self.location, prepare(self.location, state, mutation, env, self.vectors))

    def since(self, state: DeltaState) -> tuple[DeltaState, Came]:
        """The table as it is now, and the commits that came."""
        newest, came = since(state)
        if came.only_appends:
            self.vectors.carry(state.version, newest.version)
        return newest, came

    def turn(self, mutation: Mutation) -> AbstractContextManager[None]:
        """No turns: nothing keeps others from putting the next version."""
        return nullcontext()

    def keeps_ms(self, state: DeltaState) -> int:
        """The table's own retention: a vacuum that keeps files for less says so in the log."""
        return file_retention_ms(state)

    def app_version(self, state: DeltaState, app_id: str) -> int | None:
        found = state.txns.get(app_id)
        return None if found is None else found.version

    def abandon(self, state: DeltaState) -> None:
        """Delete the vectors of attempts that all lost."""
        self.vectors.drop(state.snapshot.location)
