"""The indexes of a Delta table, which keeps each in a domain of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.formats.delta.state import DeltaState
from holdfast.verbs.dml.delete_update import ExecutionContext
from holdfast.verbs.index import maintain
from holdfast.verbs.index.maintain import IndexInfo, IndexStats, Verified
from holdfast.verbs.index.pinned_readers import Pin


@dataclass(frozen=True)
class DeltaIndexRegistry:
    """The indexes of a Delta table."""

    newest: Callable[[], DeltaState]
    caller: ExecutionContext
    pin: Callable[[DeltaState], Pin]

    def create(self, columns: Sequence[str], name: str | None, kind: str, options: Mapping[str, Any]) -> IndexInfo:
        return self._info(maintain.create(self.newest(), columns, name, kind, options, self.caller).name)

    def refresh(self, name: str) -> IndexInfo:
        maintain.refresh_index(self.newest(), name, self.caller, self.pin)
        return self._info(name)

    def rebuild(self, name: str) -> IndexInfo:
        maintain.rebuild(self.newest(), name, self.caller)
        return self._info(name)

    def rename(self, name: str, new_name: str) -> IndexInfo:
        """Give an index another name."""
        maintain.rename(self.newest(), name, new_name, self.caller)
        return self._info(new_name)

    def drop(self, name: str, *, if_exists: bool) -> bool:
        return maintain.drop(self.newest(), name, self.caller, if_exists=if_exists)

    def infos(self) -> list[IndexInfo]:
        state = self.newest()
        return [maintain.info_of(index, state) for index in maintain.indexes_of(state).indexes.values()]

    def stats(self, name: str, sample: int | None) -> IndexStats:
        """What an index holds and what it leaves to be scanned."""
        pin = self.pin(self.newest())
        return maintain.stats_of(maintain.indexes_of(pin.state).named(name), pin, sample)

    def verify(self, name: str, sample: int | None) -> Verified:
        indexes = maintain.opened(self.pin(self.newest()))
        return maintain.verify(indexes.registered.named(name), indexes, self.caller, sample)

    def _info(self, name: str) -> IndexInfo:
        state = self.newest()
        return maintain.info_of(maintain.indexes_of(state).named(name), state)
