"""Statistics that are fetched when first asked for: in a large checkpoint they weigh more than all the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import pyarrow as pa

from holdfast.model.files import FileStats, LeafPath, StatsSource
from holdfast.schema.types import DataType


class DeferredStats:
    """A statistics source of known length whose values are loaded once, on first reading."""

    def __init__(
        self, length: int, load: Callable[[], StatsSource], peek: Callable[[], StatsSource] | None = None
    ) -> None:
        self._length = length
        self._load = load
        self._peek = peek or load

    def __len__(self) -> int:
        return self._length

    def read(self, leaves: Mapping[LeafPath, DataType]) -> FileStats:
        return self._loaded.read(leaves)

    def peek(self) -> StatsSource:
        """The values, not kept here: what goes through a whole table once must not hold all of it."""
        return self.__dict__.get("_loaded") or self._peek()

    def filter(self, mask: pa.Array) -> StatsSource:
        return DeferredStats(mask.true_count, lambda: self._loaded.filter(mask), lambda: self.peek().filter(mask))

    def take(self, indices: pa.Array) -> StatsSource:
        return DeferredStats(len(indices), lambda: self._loaded.take(indices), lambda: self.peek().take(indices))

    @cached_property
    def _loaded(self) -> StatsSource:
        loaded = self._load()
        assert len(loaded) == self._length, "statistics are aligned with their files"
        return loaded
