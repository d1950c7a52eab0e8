"""Keeps the versions of a Delta table that rows are looked up in, each with a reader of its rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.state import DeltaState
from holdfast.index.reader import PinnedReader
from holdfast.index.search import Indexes

_PAST = 4  # versions other than the pinned one whose readers are kept


@dataclass(frozen=True)
class Pin:
    """A version of a table, and what reads rows of it."""

    state: DeltaState
    reader: PinnedReader
    opened: list[tuple[DeltaState | None, Indexes]] = field(default_factory=list)  # last, with the newest version then

    @classmethod
    def of(cls, state: DeltaState, before: Pin | None) -> Pin:
        """A pin of this version, with what was learned from another one of the same table."""
        same = before is not None and before.state.table_id == state.table_id
        return cls(state, PinnedReader(state.snapshot, load_hidden, before.reader if before and same else None))


@dataclass
class Pins:
    """What a table object has pinned."""

    now: Pin | None = None
    moved: bool = True  # a verb has asked for the newest version since
    past: dict[int, Pin] = field(default_factory=dict)  # by version, the last used last

    def at(self, state: DeltaState) -> Pin:
        """The pin of a version other than the pinned one."""
        if self.now is not None and self.now.state is state:
            return self.now
        known = self.past.pop(state.version, None)
        if known is None or known.state.table_id != state.table_id:
            known = Pin.of(state, self.now)
        self.past[state.version] = known
        while len(self.past) > _PAST:
            del self.past[next(iter(self.past))]
        return known
