"""Indexes of an Iceberg table: kept in its properties, one each, `holdfast.index.<name>`; and rows by their keys.

The format has no place of its own for them. A property is committed by itself, makes no snapshot and meets no other
commit, and other engines leave it alone; the files are below `_holdfast`, which they do not look into.

1. An index is complete for a snapshot, known by its sequence number; which rows it cannot answer for is computed.
2. A column is known by its id, so an index follows it through renames, and never answers for another of its old name.
3. Two who write one index at a time: the later finds the property changed and begins again, or, where a catalog lets
   that through, has the last word. Either is a whole index, and right for the snapshot it names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.engines.local.scan import LocalRunner
from holdfast.errors import Conflict, Invalid, NoRowIdentity, Unsupported
from holdfast.formats.iceberg.catalog.upgrade import set_properties
from holdfast.formats.iceberg.history.resurrected_rows import why_rows_may_be_back
from holdfast.formats.iceberg.state import IcebergState
from holdfast.index.keyed import condition_of
from holdfast.index.kinds import IndexKind, Site
from holdfast.index.reader import PinnedReader
from holdfast.index.registry import Index, Registered, checked_name, domain_of, fields_of, registered, rendered
from holdfast.index.scalar.kind import BITMAP, ENTRIES
from holdfast.index.search import Indexes
from holdfast.index.tail import Since, Steady, Unsteady
from holdfast.model.files import may_lose
from holdfast.model.snapshot import Snapshot
from holdfast.plan.scan.request import Condition, Request
from holdfast.predicate.render import render
from holdfast.schema.types import MAPPING_NAME, Struct
from holdfast.verbs.index import build as ops
from holdfast.verbs.index.delta import by_index
from holdfast.verbs.index.maintain import IndexInfo, Verified, fields_asked, info_of, kind_of
from holdfast.verbs.open.handle import Metadata, TableBase, Timestamp, Version
from holdfast.verbs.open.iceberg_handle import IcebergHandle

_AGAIN = 20
_KINDS = (ENTRIES, BITMAP)


@dataclass(frozen=True)
class _Indexed:
    """A state as indexes see it."""

    state: IcebergState
    snapshot: Snapshot  # its version is a sequence number, and its columns are known by their ids

    @classmethod
    def of(cls, state: IcebergState) -> _Indexed:
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


class IcebergIndexing(TableBase):
    """Verbs about indexes, and lookups."""

    handle: IcebergHandle

    def createIndex(
        self, columns: str | Sequence[str], *, name: str | None = None, kind: str = ENTRIES, **options: Any
    ) -> IndexInfo:
        """Index one or several columns, so that `lookup` finds rows by them.

        `kind` is btree, or bitmap for columns with few different values. The name is made of the columns' unless given.
        """
        indexed = self._indexable()
        if kind not in _KINDS:
            raise Unsupported(f"an Iceberg table has indexes of the kinds {' and '.join(_KINDS)}, not {kind!r}")
        maker = kind_of(kind)
        fields = fields_asked(indexed, [columns] if isinstance(columns, str) else list(columns))
        name = checked_name("_".join(f.name for f in fields) if name is None else name)
        if name in (known := indexed.registered).indexes or name in known.troubles:
            raise Invalid(f"there is an index {name!r} already: drop it, rebuild it, or choose another name")
        kept = maker.define(indexed.snapshot, fields, options)
        definition = ops.defined(indexed.snapshot, indexed.table_id, name, kind, fields, kept)
        index = ops.made(self._site(indexed), maker, definition)
        self._say(name, index, None)
        return info_of(index, indexed)

    def refreshIndex(self, name: str) -> IndexInfo:
        """Index what was written since; costs what was written, and commits nothing where that is nothing."""

        def fresh(indexed: _Indexed, index: Index, kind: IndexKind) -> Index | None:
            indexes = self._indexes(indexed)
            if reason := indexes.unusable(index):
                raise Invalid(f"the index {name!r} cannot be refreshed: {reason}; call rebuildIndex({name!r})")
            return ops.refreshed(self._site(indexed), kind, index, indexes.reader, indexes.tail(index))

        return self._remade(name, fresh)

    def rebuildIndex(self, name: str) -> IndexInfo:
        """Make an index anew from every row; until then the old one answers."""

        def anew(indexed: _Indexed, index: Index, kind: IndexKind) -> Index:
            fields = fields_of(index.definition, indexed.snapshot)
            if fields is None:
                raise Invalid(f"a column of the index {name!r} is gone: drop it")
            snapshot, old = indexed.snapshot, index.definition
            definition = ops.defined(snapshot, indexed.table_id, name, old.kind, fields, old.params)
            return ops.made(self._site(indexed), kind, definition, generation=index.generation + 1)

        return self._remade(name, anew)

    def dropIndex(self, name: str, ifExists: bool = False) -> bool:
        """Take an index away; its files stay where they are. False where there was none and `ifExists` allows it."""
        known = _Indexed.of(self.handle.newest()).registered
        if name not in known.indexes and name not in known.troubles:
            if ifExists:
                return False
            known.named(name)
        self._say(name, None, known.indexes.get(name))
        return True

    def indexes(self) -> list[IndexInfo]:
        """The indexes of the table."""
        indexed = _Indexed.of(self.handle.newest())
        return [info_of(index, indexed) for index in indexed.registered.indexes.values()]

    def verifyIndex(self, name: str, sample: int | None = None) -> Verified:
        """Compare an index with its table: checksums, entries with rows, rows with entries; all, or some of them."""
        indexed = self._indexable()
        index, indexes = indexed.registered.named(name), self._indexes(indexed)
        if reason := indexes.unusable(index):
            return Verified(name, (reason,))
        kind, tail = kind_of(index.definition.kind), indexes.tail(index)
        return Verified(name, tuple(kind.verify(self._site(indexed), index, indexes.reader, tail, sample=sample)))

    def lookup(
        self,
        keys: Mapping[str, Any] | None = None,
        /,
        *,
        columns: Sequence[str] | None = None,
        version: Version = None,
        timestamp: Timestamp = None,
        metadata: Metadata = (),
        **by: Any,
    ) -> pa.Table:
        """Rows by the values of columns: `lookup(id=42)`, `lookup(id=[1, 2])`, `lookup(day=between(a, b), kind="x")`.

        Reads in this process, through an index where there is one that helps, else by a scan; each row comes once.
        """
        indexed = _Indexed.of(self.handle.at(version, timestamp))
        where = condition_of(indexed.snapshot, {**(keys or {}), **by})
        if indexed.registered.indexes and _refusal(indexed) is None:
            found = by_index(self._indexes(indexed), where, columns, metadata)
            if found is not None:
                return found
        request = Request(columns, Condition(None, render(where), where), metadata)
        return self.handle.opened(indexed.state).scan(request, LocalRunner())

    def _remade(self, name: str, make: Callable[[_Indexed, Index, IndexKind], Index | None]) -> IndexInfo:
        for _ in range(_AGAIN):
            indexed = self._indexable()
            index = indexed.registered.named(name)
            new = make(indexed, index, kind_of(index.definition.kind))
            if new is None:
                return info_of(index, indexed)
            try:
                self._say(name, new, index)
            except Conflict:
                continue
            return info_of(new, indexed)
        raise Conflict(f"others write the index {name!r} all the time: try again later")

    def _say(self, name: str, index: Index | None, before: Index | None) -> None:
        """Register what an index is from now on, if it is still what it was."""
        state = self.handle.newest()
        self.handle.dialect.commits(state.snapshot.location, state)
        assert self.handle.source is not None, "a table without a catalog is refused above"
        if registered(state.metadata.properties).indexes.get(name) != before:
            raise Conflict(f"the index {name!r} of {state.metadata.location} was changed meanwhile; do it again")
        said = {} if index is None else {domain_of(name): rendered(index)}
        gone = [domain_of(name)] if index is None else []
        self.handle.state = set_properties(self.handle.source, state, said, gone)

    def _indexable(self) -> _Indexed:
        indexed = _Indexed.of(self.handle.newest())
        if (error := _refusal(indexed)) is not None:
            raise error
        return indexed

    def _indexes(self, indexed: _Indexed) -> Indexes:
        load_hidden = self.handle.dialect.load_hidden
        reader, now = self.handle.reader, indexed.snapshot
        if reader is None or (reader.snapshot.version, reader.snapshot.schema) != (now.version, now.schema):
            reader = self.handle.reader = PinnedReader(now, load_hidden, reader)
        return Indexes(reader, indexed.registered, indexed.table_id, indexed.since, load_hidden)

    def _site(self, indexed: _Indexed) -> Site:
        return Site(indexed.snapshot, self.handle.dialect.load_hidden, self._caller().env, self.handle.spark)


def _refusal(indexed: _Indexed) -> Invalid | Unsupported | None:
    """Why a table can have no index now; None where it can."""
    snapshot, where = indexed.snapshot, indexed.state.metadata.location
    if snapshot.identity is None:
        return NoRowIdentity(f"an index needs rows with ids, which {where} does not have: {snapshot.to_track}")
    files = snapshot.files
    if len(files) and files.column("base_row_id").null_count:
        return NoRowIdentity(f"rows of this snapshot of {where} have no ids: it is older than the upgrade to version 3")
    if pc.any(may_lose(files)).as_py():
        return Unsupported(f"rows of {where} are deleted by value, so an entry tells of no live row: purge() it first")
    return None
