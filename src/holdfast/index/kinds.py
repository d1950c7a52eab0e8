"""What a kind of index must do; `createIndex` and its siblings do the rest.

A kind writes segments from rows, merges segments, and says of its own what is worth telling. It does not know how
segments are registered, which rows are the tail, or who commits.

1. A segment holds an entry for each row it was given whose key the kind indexes, with the row's id and commit version.
2. Files of a segment are below its directory and listed in its `meta.json` with their checksums; they are complete
   before the segment is told, and nobody refers to them until a commit does.
3. Merging keeps every entry that is still valid in the snapshot it is given, and may drop the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.env import Env
from holdfast.index.reader import PinnedReader
from holdfast.index.registry import Index, IndexDefinition, SegmentRef
from holdfast.index.tail import Tail, TailPart
from holdfast.model.snapshot import LoadHidden, Snapshot
from holdfast.schema.types import Field


@dataclass(frozen=True)
class Site:
    """Where an index is built: the snapshot it is of, who reads vectors, and on what the work runs."""

    snapshot: Snapshot
    load_hidden: LoadHidden
    env: Env
    session: Any = None  # a Spark session; None: this process does it


class IndexKind(Protocol):
    """One kind of index."""

    def define(self, snapshot: Snapshot, fields: Sequence[Field], params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Check columns and options, or refuse them by name; gives the options that are kept with the index."""

    def build(
        self, site: Site, definition: IndexDefinition, parts: Sequence[TailPart], before: Sequence[SegmentRef]
    ) -> Sequence[SegmentRef]:
        """Write segments for rows of the site's snapshot; `before`: the index's own, empty when all is made anew."""

    def merge(
        self, site: Site, definition: IndexDefinition, segments: Sequence[SegmentRef], reader: PinnedReader
    ) -> SegmentRef | None:
        """Write one segment in the place of several, without entries that are dead; None where nothing is left."""

    def outgrown(self, index: Index) -> str | None:
        """Why refreshing should make all of it anew rather than add to it; None where it should not."""

    def stats(self, index: Index, reader: PinnedReader, *, sample: int | None) -> Mapping[str, Any]:
        """What `indexStats` tells beyond what every index has; `dead_share` where the kind can tell it."""

    def verify(
        self, site: Site, index: Index, reader: PinnedReader, tail: Tail, *, sample: int | None
    ) -> Sequence[str]:
        """What is wrong: files that cannot be opened, entries that contradict their rows, rows outside the tail that
        have no entry. `sample`: how many rows and entries to look at; None: all."""
