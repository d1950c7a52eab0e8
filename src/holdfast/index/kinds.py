"""The protocol of an index kind: how it builds, merges and verifies segments.

`createIndex` and the other verbs register segments, compute the tail and commit.

1. A segment holds an entry for each row it was given whose key the kind indexes, with row id and row commit version.
2. Files of a segment are below its directory and listed in its `meta.json` with their checksums. They are complete
   before `build` or `merge` returns, and nothing refers to them until a commit does.
3. Merging keeps every entry that is valid in the given snapshot, and may drop others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.env import Env
from holdfast.index.reader import PinnedReader
from holdfast.index.registry import Index, IndexDefinition, SegmentRef
from holdfast.index.tail import Tail
from holdfast.model.snapshot import LoadHidden, Snapshot
from holdfast.plan.indexing import IndexedFiles, Workers
from holdfast.schema.types import Field


@dataclass(frozen=True)
class Site:
    """What an index is built from: the snapshot, what loads its deletes, and the workers of the engine."""

    snapshot: Snapshot
    load_hidden: LoadHidden
    env: Env
    workers: Workers | None = None  # that do large work; None: this process does all of it


class IndexKind(Protocol):
    def define(self, snapshot: Snapshot, fields: Sequence[Field], params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Check columns and options; returns the options to store with the index."""

    def build(
        self, site: Site, definition: IndexDefinition, parts: Sequence[IndexedFiles], before: Sequence[SegmentRef]
    ) -> Sequence[SegmentRef]:
        """Write segments for rows of the snapshot; `before` are the existing segments, empty for a full build."""

    def merge(
        self, site: Site, definition: IndexDefinition, segments: Sequence[SegmentRef], reader: PinnedReader
    ) -> SegmentRef | None:
        """Write one segment that replaces several, without dead entries; None if no entry is left."""

    def outgrown(self, index: Index) -> str | None:
        """Why a refresh should rebuild the index instead of adding to it; None if it should not."""

    def stats(self, index: Index, reader: PinnedReader, *, sample: int | None) -> Mapping[str, Any]:
        """The figures of `indexStats` that only this kind has, such as `dead_share`."""

    def verify(
        self, site: Site, index: Index, reader: PinnedReader, tail: Tail, *, sample: int | None
    ) -> Sequence[str]:
        """The problems: unreadable files, entries that contradict their rows, rows outside the tail without an entry.

        `sample`: how many rows and entries to check; None: all."""
