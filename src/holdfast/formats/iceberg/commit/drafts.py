"""Files that the attempts of one transaction have written, so that the next attempt writes only what changed.

1. All attempts have one snapshot id and one name, which reusable files carry. What depends on the commit (sequence
   numbers, first row ids) is inherited from the manifest list, which every attempt writes anew.
2. A manifest is reused if it has the same origin: the same new files, the same manifest without the same entries, or
   the same merged manifests. Deletes are reused for the same rows of a file in the same partition.
3. Files older than an hour are not reused: nobody refers to them, so others may have deleted them as orphans.
4. When the outcome is known, files that no possibly committed attempt refers to are deleted. A failure to delete is
   ignored: such files cost only space.
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
ManifestRow: TypeAlias = Mapping[str, Any]  # of a manifest list; a sequence number of None is that of the commit


@dataclass(frozen=True)
class ManifestPlan:
    """The manifests that a mutation adds, and those that replace earlier ones, by path of the original."""

    mutation: Mutation
    added: tuple[ManifestRow, ...]
    replaced: Mapping[str, ManifestRow]
    counts: Mapping[str, int]  # for the snapshot summary
    files: frozenset[str]  # written beyond these manifests


@dataclass
class Drafts:
    """The files written so far, by their origin."""

    name: UUID | None = None
    attempts: int = 0
    manifests: dict[Hashable, ManifestRow] = field(default_factory=dict)
    merged: list[tuple[frozenset[ManifestFile], ManifestRow]] = field(default_factory=list)
    deletes: dict[str, tuple[BitMap64, Any, Mapping[str, Any]]] = field(default_factory=dict)  # by path of a data file
    written: list[str] = field(default_factory=list)
    plan: tuple[int, ManifestPlan] | None = None  # with the version that it is for
    since_ms: int = 0

    def begin(self, env: Env) -> UUID:
        """Starts another attempt; gives the name of the transaction."""
        if self.name is None or env.now_ms() - self.since_ms > REUSED_MS:
            written = self.written
            self.forget()
            self.name, self.since_ms, self.written = env.new_uuid(), env.now_ms(), written
        self.attempts += 1
        return self.name

    def once(self, key: Hashable, write: Callable[[], ManifestRow]) -> ManifestRow:
        """The manifest with this origin; writes it unless an earlier attempt has."""
        if key not in self.manifests:
            self.manifests[key] = write()
        return self.manifests[key]

    def carry(self, old: int, new: int | None) -> None:
        """Keeps the plan of version `old` for version `new`, which only added files; None: drops the plan."""
        plan, self.plan = self.plan, None
        if plan is not None and plan[0] == old and new is not None:
            self.plan = new, plan[1]

    def planned(self, version: int, mutation: Mutation) -> ManifestPlan | None:
        """The plan for a mutation at a version."""
        if self.plan is None or self.plan[0] != version or self.plan[1].mutation is not mutation:
            return None
        return self.plan[1]

    def clear(self, paths: Paths, used: frozenset[str] = frozenset()) -> None:
        """Deletes the files that are not used, and begins another transaction."""
        for path in self.written:
            if path not in used:
                with suppress(TableError):
                    store, key = place(paths.location, paths.key(path))
                    store.delete(key)
        self.forget()

    def forget(self) -> None:
        """Begins another transaction without deleting files."""
        fresh = Drafts()
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(fresh, name))
