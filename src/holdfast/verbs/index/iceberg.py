"""Keeps the indexes of an Iceberg table in its properties, one each: `holdfast.index.<name>`.

A property is committed by itself, makes no snapshot and conflicts with no other commit. Other engines leave it alone,
and do not look into `_holdfast`, where the files are.

1. An index is complete for a snapshot, identified by its sequence number; rows without entries are computed.
2. Columns are identified by id, so an index follows a renamed column and never answers for another of its old name.
3. Where two writers change one index at once, the later one finds the property changed and begins again, or, where a
   catalog accepts both, wins. Either result is a complete index, and right for the snapshot it names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc

from holdfast.errors import Conflict, Invalid, NoRowIdentity, Unsupported
from holdfast.formats.iceberg.history.resurrected_rows import why_rows_may_be_back
from holdfast.formats.iceberg.state import IcebergState
from holdfast.index.kinds import IndexKind, Site
from holdfast.index.registry import Index, Registered, checked_name, domain_of, fields_of, registered, rendered
from holdfast.index.scalar.kind import BITMAP, ENTRIES
from holdfast.index.search import Indexes
from holdfast.index.tail import Since, Steady, Unsteady
from holdfast.model.files import may_lose
from holdfast.model.snapshot import Snapshot
from holdfast.schema.types import MAPPING_NAME, Struct
from holdfast.verbs.define.iceberg import IcebergAlteration
from holdfast.verbs.index import build as ops
from holdfast.verbs.index.maintain import IndexInfo, Verified, fields_asked, info_of, kind_of

_AGAIN = 20
_KINDS = (ENTRIES, BITMAP)


@dataclass(frozen=True)
class IndexedSnapshot:
    """A state as indexes see it."""

    state: IcebergState
    snapshot: Snapshot  # its version is a sequence number, and its columns are known by their ids

    @classmethod
    def of(cls, state: IcebergState) -> IndexedSnapshot:
        own = state.snapshot.schema.fields
        fields = tuple(replace(f, metadata={**f.metadata, MAPPING_NAME: f"field-{f.field_id}"}) for f in own)
        sequence = 0 if state.entry is None else state.entry.sequence_number
        return cls(state, replace(state.snapshot, version=sequence, schema=Struct(fields)))

    @property
    def table_id(self) -> str:
        return self.state.table_id

    @property
    def registered(self) -> Registered:
        return registered(self.state.metadata.properties)

    def since(self, sequence: int) -> Since:
        why = why_rows_may_be_back(self.state, sequence)
        return Steady() if why is None else Unsteady(why)

    def refusal(self) -> Invalid | Unsupported | None:
        """Why a table can have no index now; None where it can."""
        snapshot, where = self.snapshot, self.state.metadata.location
        if snapshot.identity is None:
            return NoRowIdentity(f"an index needs rows with ids, which {where} does not have: {snapshot.to_track}")
        files = snapshot.files
        if len(files) and files.column("base_row_id").null_count:
            return NoRowIdentity(
                f"rows of this snapshot of {where} have no ids: it is older than the upgrade to version 3"
            )
        if pc.any(may_lose(files)).as_py():
            return Unsupported(
                f"rows of {where} are deleted by value, so an entry tells of no live row: purge() it first"
            )
        return None


@dataclass(frozen=True)
class IcebergIndexRegistry:
    """The indexes of an Iceberg table."""

    newest: Callable[[], IcebergState]
    alter: Callable[[], IcebergAlteration]
    open: Callable[[IndexedSnapshot], Indexes]
    site: Callable[[Snapshot], Site]

    def create(self, columns: Sequence[str], name: str | None, kind: str, options: Mapping[str, Any]) -> IndexInfo:
        indexed = self._indexable()
        if kind not in _KINDS:
            raise Unsupported(f"an Iceberg table has indexes of the kinds {' and '.join(_KINDS)}, not {kind!r}")
        maker = kind_of(kind)
        fields = fields_asked(indexed, columns)
        name = checked_name("_".join(f.name for f in fields) if name is None else name)
        if name in (known := indexed.registered).indexes or name in known.troubles:
            raise Invalid(f"there is an index {name!r} already: drop it, rebuild it, or choose another name")
        kept = maker.define(indexed.snapshot, fields, options)
        definition = ops.defined(indexed.snapshot, indexed.table_id, name, kind, fields, kept)
        index = ops.made(self.site(indexed.snapshot), maker, definition)
        self.register(name, index, None)
        return info_of(index, indexed)

    def refresh(self, name: str) -> IndexInfo:
        def fresh(indexed: IndexedSnapshot, index: Index, kind: IndexKind) -> Index | None:
            indexes = self.open(indexed)
            if reason := indexes.unusable(index):
                raise Invalid(f"the index {name!r} cannot be refreshed: {reason}; call rebuildIndex({name!r})")
            return ops.refreshed(self.site(indexed.snapshot), kind, index, indexes.reader, indexes.tail(index))

        return self._remade(name, fresh)

    def rebuild(self, name: str) -> IndexInfo:
        def anew(indexed: IndexedSnapshot, index: Index, kind: IndexKind) -> Index:
            fields = fields_of(index.definition, indexed.snapshot)
            if fields is None:
                raise Invalid(f"a column of the index {name!r} is gone: drop it")
            snapshot, old = indexed.snapshot, index.definition
            definition = ops.defined(snapshot, indexed.table_id, name, old.kind, fields, old.params)
            return ops.made(self.site(snapshot), kind, definition, generation=index.generation + 1)

        return self._remade(name, anew)

    def drop(self, name: str, *, if_exists: bool) -> bool:
        known = IndexedSnapshot.of(self.newest()).registered
        if name not in known.indexes and name not in known.troubles:
            if if_exists:
                return False
            known.named(name)
        self.register(name, None, known.indexes.get(name))
        return True

    def infos(self) -> list[IndexInfo]:
        indexed = IndexedSnapshot.of(self.newest())
        return [info_of(index, indexed) for index in indexed.registered.indexes.values()]

    def verify(self, name: str, sample: int | None) -> Verified:
        indexed = self._indexable()
        index, indexes = indexed.registered.named(name), self.open(indexed)
        if reason := indexes.unusable(index):
            return Verified(name, (reason,))
        kind, tail = kind_of(index.definition.kind), indexes.tail(index)
        troubles = kind.verify(self.site(indexed.snapshot), index, indexes.reader, tail, sample=sample)
        return Verified(name, tuple(troubles))

    def register(self, name: str, index: Index | None, before: Index | None) -> None:
        """Register what an index is from now on, if it is still what it was."""
        alteration = self.alter()
        metadata = alteration.state.metadata
        if registered(metadata.properties).indexes.get(name) != before:
            raise Conflict(f"the index {name!r} of {metadata.location} was changed meanwhile; do it again")
        if index is None:
            alteration.change_properties({}, [domain_of(name)])
        else:
            alteration.change_properties({domain_of(name): rendered(index)})

    def _remade(self, name: str, make: Callable[[IndexedSnapshot, Index, IndexKind], Index | None]) -> IndexInfo:
        for _ in range(_AGAIN):
            indexed = self._indexable()
            index = indexed.registered.named(name)
            new = make(indexed, index, kind_of(index.definition.kind))
            if new is None:
                return info_of(index, indexed)
            try:
                self.register(name, new, index)
            except Conflict:
                continue
            return info_of(new, indexed)
        raise Conflict(f"others write the index {name!r} all the time: try again later")

    def _indexable(self) -> IndexedSnapshot:
        indexed = IndexedSnapshot.of(self.newest())
        if (error := indexed.refusal()) is not None:
            raise error
        return indexed
