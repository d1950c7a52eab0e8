"""The indexes of a table as verbs see them, whatever format keeps them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.index.search import Indexes
from holdfast.model.snapshot import Snapshot
from holdfast.verbs.index.maintain import IndexInfo, Verified
from holdfast.verbs.open.open_table import OpenTable


class IndexRegistry(Protocol):
    """The indexes of the newest version of a table."""

    def create(self, columns: Sequence[str], name: str | None, kind: str, options: Mapping[str, Any]) -> IndexInfo:
        """Make an index, and register it."""

    def refresh(self, name: str) -> IndexInfo:
        """Index what was written since."""

    def rebuild(self, name: str) -> IndexInfo:
        """Make an index anew from every row."""

    def drop(self, name: str, *, if_exists: bool) -> bool:
        """Remove an index; False where there was none and `if_exists` allows it."""

    def infos(self) -> list[IndexInfo]:
        """All of them."""

    def verify(self, name: str, sample: int | None) -> Verified:
        """Compare an index with the table."""


@dataclass(frozen=True)
class Searchable:
    """A version of a table that rows are looked up in."""

    snapshot: Snapshot  # as its indexes see it
    opened: OpenTable
    indexes: Callable[[], Indexes] | None  # None: there are none that could be asked
