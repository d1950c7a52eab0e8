"""Publishes a table into another one: the same rows, under the same ids, in one commit per publication.

1. The target itself records what was published so far; publishing again brings what is new since then, or nothing.
2. Where another writer comes first, the target is read again. Rows that are stored already are used again if the
   target still lacks them, and not where another publisher brought them.
3. A target whose rows somebody else changed since is refused; one whose rows were only moved is not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.errors import Conflict, Invalid, LimitReached, NoRowIdentity
from holdfast.model.mutation import TableDefinition
from holdfast.model.publication import Publication
from holdfast.model.snapshot import Snapshot
from holdfast.plan.engine import Engine
from holdfast.plan.publish.columns import plain, refuse_missing, refuse_renamed
from holdfast.plan.publish.rows import Storage
from holdfast.schema.constraints import demands, pinned
from holdfast.schema.enforce import fit
from holdfast.schema.evolve import evolve
from holdfast.schema.properties import ENABLE_DELETION_VECTORS, truth
from holdfast.schema.types import Struct
from holdfast.verbs.dml.delete_update import ExecutionContext
from holdfast.verbs.dml.write import refuse_append_only
from holdfast.verbs.open.handle import Handle
from holdfast.verbs.open.open_table import OpenTable
from holdfast.verbs.publish.mutation import (
    Brought,
    Difference,
    Origin,
    Published,
    brought,
    difference,
    located,
    mutation_of,
    told,
)

_ATTEMPTS = 100


def publish(source: Handle, target: object, *, upto: int | None, afresh: bool) -> Published:
    """Bring what another table lacks of a table's rows into it, in one commit, under the ids they have."""
    into = getattr(target, "handle", None)
    if not isinstance(into, Handle):
        raise Invalid(f"a table is published into an IcebergTable or a DeltaTable, not a {type(target).__name__}")
    origin, caller = source.origin(upto), into.caller()
    if origin.location == into.newest().snapshot.location.url:
        raise Invalid(f"{origin.location} cannot be published into itself")
    return _Publishing(origin, into, source.engine, caller, afresh).run()


@dataclass
class _Publishing:
    """A publication on its way; what it worked out for one attempt serves the next, if it is about the same."""

    origin: Origin
    target: Handle
    engine: Engine[object]
    caller: ExecutionContext
    afresh: bool
    _lacking: tuple[Publication | None, Difference] | None = None  # since what
    _brought: tuple[Publication | None, Storage, Brought] | None = None  # since what, stored how

    def run(self) -> Published:
        origin = self.origin
        for lost in range(_ATTEMPTS):
            table = self.target.open()
            since = None if self.afresh else self._since(table)
            if since is not None and since.version >= origin.last:
                return Published(None, None)
            shape, what = self._bring(table, since)
            hidden = located(table.snapshot, what.gone.all, self.engine, table.load_hidden)
            mutation = mutation_of(origin, since, table.snapshot, what, hidden, shape)
            version = table.commit_next(mutation, self.caller.env, vacuumed=lost > 0)
            if version is not None:
                return told(mutation, version)
        raise LimitReached(f"lost {_ATTEMPTS} races in a row; try again when fewer writers are at work")

    def _since(self, table: OpenTable) -> Publication | None:
        """What the other table has so far; refused where it is not as it was published."""
        snapshot, publication = table.snapshot, table.publication
        where, origin = snapshot.location.url, self.origin
        if publication is None:
            if len(snapshot.files) or (snapshot.identity is not None and snapshot.identity.high_water >= 0):
                raise Invalid(
                    f"{where} has, or had, rows that were not published to it, whose ids may be those of others: "
                    "publish into a new table, or with afresh=True, which takes them out"
                )
            return None
        if publication.table != origin.table:
            raise Invalid(
                f"{where} has the rows of {publication.location}, and {origin.location} is another table, or was "
                "replaced since: publish into a table of its own, or with afresh=True"
            )
        changed = table.changed_since(publication)
        if changed is not None:
            raise Conflict(
                f"version {changed[0]} of {where} ({changed[1]}) changed rows since version {publication.version} of "
                f"{origin.location} was published to it, so it is no copy any more: take that back, or publish with "
                "afresh=True, which puts all rows there anew"
            )
        return publication

    def _bring(self, table: OpenTable, since: Publication | None) -> tuple[TableDefinition | None, Brought]:
        """What the other table becomes, None where it stays as it is, and the rows as it stores them."""
        origin = self.origin
        table.check_writable()
        _refuse_untracked(table.snapshot)
        if self._lacking is None or self._lacking[0] != since:
            self._lacking = since, difference(origin, since)
        lacking = self._lacking[1]
        if lacking.before is not None:
            refuse_renamed(lacking.before, origin.snapshot.schema, table.snapshot.schema, source=origin.location)
        incoming, old = plain(origin.snapshot.schema), table.definition
        self.target.refuse_unpublishable(incoming)
        kept = pinned(old.schema, old.properties)
        schema = evolve(old.schema, incoming, add_columns=True, widen_types=True, pinned=kept)
        shape = old if schema == old.schema else table.evolved(old, schema, self.caller.env)
        storage = self._storage(table, shape, incoming)
        if self._brought is None or self._brought[:2] != (since, storage):
            self._brought = since, storage, brought(lacking, storage, self.engine)
        what = self._brought[2]
        if what.gone.all or (since is None and len(table.snapshot.files)):
            refuse_append_only(shape, storage.location)
        if what.gone.all:
            _refuse_unhiding(table.snapshot)
        return None if shape is old else shape, what

    def _storage(self, table: OpenTable, shape: TableDefinition, incoming: Struct) -> Storage:
        location = table.snapshot.location
        fitted = fit(incoming, shape.schema)
        refuse_missing(fitted, source=self.origin.location, target=location.url)
        spec = table.storing(shape, feeds=False).data
        # A row is as new there as the commit that brings it, which is what a row without a version says.
        spec = replace(spec, version_column=None, version_field=None)
        return Storage(fitted, demands(shape.schema, shape.properties, fitted), spec, location)


def _refuse_untracked(snapshot: Snapshot) -> None:
    if snapshot.identity is None or snapshot.identity.id_column is None:
        raise NoRowIdentity(
            f"{snapshot.location.url} has no row ids, which rows that are published to it keep: {snapshot.to_track}"
        )


def _refuse_unhiding(snapshot: Snapshot) -> None:
    if not (snapshot.hides or truth(snapshot.properties.get(ENABLE_DELETION_VECTORS))):
        raise Invalid(
            f"rows that changed are hidden in {snapshot.location.url} by deletion vectors, which it does not have "
            f"enabled: set the property {ENABLE_DELETION_VECTORS}=true there"
        )
