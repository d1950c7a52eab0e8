"""Delta as the commit loop sees a format."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.delta.state import DeltaState, is_table, load, refresh
from holdfast.delta.transact import attempt, prepare
from holdfast.delta.winners import winners
from holdfast.env import Env
from holdfast.model.mutation import Mutation, Outcome, Winner
from holdfast.model.snapshot import Snapshot
from holdfast.storage.location import Location


@dataclass(frozen=True, slots=True)
class DeltaFormat:
    """The log at one location."""

    location: Location

    def newest(self, state: DeltaState | None) -> DeltaState | None:
        """The table as it is now; None where there is none."""
        if state is not None:
            return refresh(state)
        return load(self.location) if is_table(self.location) else None

    def snapshot(self, state: DeltaState) -> Snapshot:
        return state.snapshot

    def attempt(self, state: DeltaState | None, mutation: Mutation, env: Env) -> Outcome:
        """Try to make a mutation the version after `state`."""
        return attempt(self.location, prepare(self.location, state, mutation, env))

    def winners(self, old: DeltaState | None, new: DeltaState) -> tuple[Winner, ...]:
        """The commits between two states; none worth naming where there was no table."""
        return () if old is None else winners(old, new)

    def app_version(self, state: DeltaState, app_id: str) -> int | None:
        found = state.txns.get(app_id)
        return None if found is None else found.version
