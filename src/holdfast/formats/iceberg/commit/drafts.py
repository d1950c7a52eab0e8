"""What the attempts of one transaction have written, so that the next one writes only what changed.

1. All attempts have one snapshot id and one name, which files that may be used again carry. What depends on the commit
   an attempt would land at stands in the list of manifests alone, which every attempt writes anew: sequence numbers and
   first row ids are inherited from there.
2. A manifest is known by what it was made of: new files, or an earlier manifest and which of its entries go, or earlier
   manifests that became one. A vector is used again only for the same rows of a file in the same place.
3. Files older than an hour are not used again: nobody refers to them, and others take such files.
4. Once it is known what came of the transaction, what no attempt that may have landed refers to is deleted. No failure
   of that is told: such files cost space and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import UUID

from pyroaring import BitMap64

from holdfast.env import Env
from holdfast.errors import TableError
from holdfast.formats.iceberg.metadata.manifests import ManifestFile
from holdfast.formats.iceberg.metadata.paths import Paths
from holdfast.model.mutation import Mutation
from holdfast.storage.open import place

REUSED_MS = 3_600_000
ManifestRow: TypeAlias = Mapping[
    str, Any
]  # what a list says of a manifest; None for a sequence number: that of the commit


@dataclass(frozen=True)
class ManifestPlan:
    """What a mutation does to manifests: those it adds, and those that stand in the place of earlier ones, by path."""

    mutation: Mutation
    added: tuple[ManifestRow, ...]
    replaced: Mapping[str, ManifestRow]
    counts: Mapping[str, int]  # what it adds and removes, for the summary
    files: frozenset[str]  # that it refers to, beyond these manifests


@dataclass
class Drafts:
    """What was written so far, and by what it is known."""

    name: UUID | None = None
    attempts: int = 0
    manifests: dict[Hashable, ManifestRow] = field(default_factory=dict)
    merged: list[tuple[frozenset[ManifestFile], ManifestRow]] = field(default_factory=list)
    vectors: dict[str, tuple[BitMap64, Any, Mapping[str, Any]]] = field(default_factory=dict)  # by path of a data file
    written: list[str] = field(default_factory=list)
    plan: tuple[int, ManifestPlan] | None = None  # and the version it holds for
    since_ms: int = 0

    def begin(self, env: Env) -> UUID:
        """Another attempt; gives the name of the transaction."""
        if self.name is None or env.now_ms() - self.since_ms > REUSED_MS:
            written = self.written
            self.forget()
            self.name, self.since_ms, self.written = env.new_uuid(), env.now_ms(), written
        self.attempts += 1
        return self.name

    def once(self, key: Hashable, make: Callable[[], ManifestRow]) -> ManifestRow:
        """A manifest, written unless it was."""
        if key not in self.manifests:
            self.manifests[key] = make()
        return self.manifests[key]

    def carry(self, old: int, new: int | None) -> None:
        """Between these versions nothing came but manifests of new files; None: something else did."""
        is_known = self.plan is not None and self.plan[0] == old
        self.plan = (new, self.plan[1]) if self.plan is not None and is_known and new is not None else None

    def planned(self, version: int, mutation: Mutation) -> ManifestPlan | None:
        """What is known of a mutation to do at a version."""
        if self.plan is None or self.plan[0] != version or self.plan[1].mutation is not mutation:
            return None
        return self.plan[1]

    def clear(self, paths: Paths, used: frozenset[str] = frozenset()) -> None:
        """Delete what was written but for what is used; the next attempt is that of another transaction."""
        for path in self.written:
            if path not in used:
                with suppress(TableError):
                    store, key = place(paths.location, paths.key(path))
                    store.delete(key)
        self.forget()

    def forget(self) -> None:
        """Begin anew, and leave alone what was written."""
        fresh = Drafts()
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(fresh, name))
