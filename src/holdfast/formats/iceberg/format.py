"""Iceberg as a table format: a table of a catalog, what its writers must know, and how it stores rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from sqlalchemy import Connection

from holdfast.env import Env
from holdfast.errors import Invalid, Unsupported
from holdfast.formats.iceberg.catalog.commit import attempt
from holdfast.formats.iceberg.catalog.pointer import has_pointer, holding
from holdfast.formats.iceberg.catalog.tables import CatalogTable
from holdfast.formats.iceberg.commit.attempt import DATA_FOLDER, prepare
from holdfast.formats.iceberg.commit.drafts import Drafts
from holdfast.formats.iceberg.commit.published import changed_since, published_into
from holdfast.formats.iceberg.commit.staging import in_same_partitions, missing_source, placed_by
from holdfast.formats.iceberg.commit.summary import APP
from holdfast.formats.iceberg.commit.winners import appended_manifests, winners_since
from holdfast.formats.iceberg.deletes.scope import POSITIONS
from holdfast.formats.iceberg.metadata.manifest_pruning import prune_manifests
from holdfast.formats.iceberg.metadata.schema_evolution import check_evolution, with_field_ids
from holdfast.formats.iceberg.metadata.table_metadata import MAIN
from holdfast.formats.iceberg.metadata.types import type_names
from holdfast.formats.iceberg.state import IcebergState, time_travel
from holdfast.model.files import FileTable
from holdfast.model.format import DmlMode, Storing, TableFormat
from holdfast.model.mutation import Came, Committed, Mutation, Outcome, TableDefinition
from holdfast.model.publication import Publication
from holdfast.model.snapshot import HiddenRows, LoadHidden
from holdfast.parquet.write import WriteSpec
from holdfast.predicate.records import Predicate
from holdfast.schema.properties import Isolation, number, truth
from holdfast.schema.types import Array, Field, Map, Struct, leaves
from holdfast.storage.location import Location

_TARGET_BYTES = "write.target-file-size-bytes"
_CODEC = "write.parquet.compression-codec"
_CODECS = {"zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "brotli": "brotli", "uncompressed": "none"}
_TARGET = 512 << 20
_MEASURED = 100  # leaves that metrics are kept of
_PREFIX = 16  # characters of a text in its bounds
_ISOLATION = {"serializable": Isolation.SERIALIZABLE, "snapshot": Isolation.SNAPSHOT}
_OWN_PATHS = ("write.data.path", "write.folder-storage.path", "write.object-storage.path")
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class IcebergFormat(TableFormat[IcebergState]):
    """One Iceberg table."""

    source: CatalogTable | None  # None: a metadata file, which nobody writes to
    last_read: Callable[[], IcebergState]  # the newest state that was read so far
    branch: str = MAIN  # that attempts are made on
    drafts: Drafts = field(default_factory=Drafts, repr=False, compare=False)  # of one transaction
    holds: list[Connection] = field(default_factory=list, repr=False, compare=False)  # one, during a turn
    states: dict[int, IcebergState] = field(default_factory=dict, repr=False, compare=False)  # read, by snapshot

    def newest(self, state: IcebergState | None) -> IcebergState:
        state = state or self.last_read()
        return state if self.source is None else self.source.newest(state)

    def at_version(self, state: IcebergState, version: int) -> IcebergState:
        return self._at(version)

    def load_hidden(self, location: Location, files: FileTable) -> HiddenRows:
        if not len(files):
            return HiddenRows()
        vectors = files.column("dv").combine_chunks()
        by_position = pc.fill_null(pc.equal(pc.struct_field(vectors, "storage"), POSITIONS), False)
        snapshots = pc.struct_field(vectors, "offset")
        hidden = dict(self.last_read().hidden.load(location, files.filter(pc.invert(by_position))).positions)
        for snapshot_id in pc.unique(snapshots.filter(by_position)).to_pylist():
            of_it = files.filter(pc.and_(by_position, pc.fill_null(pc.equal(snapshots, snapshot_id), False)))
            hidden |= self._by_position(location, snapshot_id, of_it)
        is_placed = "lost_by" in files.table.column_names
        versions = pc.unique(files.column("lost_by")).drop_null().to_pylist() if is_placed else []
        assert len(versions) < 2, "files of one version are asked about at a time"
        return HiddenRows(hidden, self._at(versions[0]).hidden.by_value if versions else ())

    def loader(self, state: IcebergState) -> LoadHidden:
        return state.hidden.load

    def narrowed(self, state: IcebergState, where: Predicate) -> IcebergState:
        return prune_manifests(state, where)

    def check_committable(self, state: IcebergState) -> CatalogTable:
        """Refuse a table that takes no commit at all; gives its place in the catalog."""
        source = self.catalog_table(state)
        if state.metadata.format_version < 2:
            raise Unsupported(
                f"{state.metadata.location} is of format version 1, which Holdfast reads and does not write: upgrade "
                "it to 2"
            )
        return source

    def catalog_table(self, state: IcebergState) -> CatalogTable:
        """The table's place in the catalog; refuses one that is a metadata file alone."""
        if self.source is None:
            url = state.snapshot.location.url
            raise Invalid(f"{url} was opened by its metadata file, to be read: open it with load to write")
        return self.source

    def check_writable(self, state: IcebergState) -> None:
        self.check_committable(state)
        metadata, where = state.metadata, state.metadata.location
        if (form := metadata.properties.get("write.format.default", "parquet").lower()) != "parquet":
            raise Unsupported(f"{where} asks for {form} data files (write.format.default); Holdfast writes Parquet")
        for name in _OWN_PATHS:
            if name in metadata.properties:
                raise Unsupported(f"{where} puts data files elsewhere ({name}), which Holdfast does not do")
        _refuse_columns(state)

    def definition_of(self, state: IcebergState) -> TableDefinition:
        return TableDefinition(state.snapshot.schema, properties=state.snapshot.properties)

    def evolved(self, state: IcebergState, definition: TableDefinition, schema: Struct, env: Env) -> TableDefinition:
        with_ids = with_field_ids(schema, state.metadata.last_column_id)
        check_evolution(definition.schema, with_ids, state.contents.types.specs, where=state.metadata.location)
        return replace(definition, schema=with_ids)

    def same_partitions(self, state: IcebergState, staged: pa.Table) -> pa.BooleanArray:
        return in_same_partitions(state, staged)

    def dml_mode(self, state: IcebergState, mode: str | None, verb: str) -> DmlMode:
        return DmlMode.of(mode or state.metadata.properties.get(f"write.{verb}.mode", DmlMode.COPY_ON_WRITE.value))

    def isolation_of(self, state: IcebergState, verb: str) -> Isolation | None:
        name = f"write.{verb.lower()}.isolation-level"
        level = state.metadata.properties.get(name, "serializable").lower()
        if level not in _ISOLATION:
            raise Invalid(f"the property {name} is {level!r}; it must be serializable or snapshot")
        return _ISOLATION[level]

    def storing(
        self, state: IcebergState, definition: TableDefinition, *, carried: bool = True, feeds: bool = True
    ) -> Storing:
        properties, spec = state.metadata.properties, state.contents.types.specs[state.metadata.default_spec_id]
        schema = definition.schema
        measured = [fields for fields, type_ in leaves(schema) if not isinstance(type_, Array | Map)][:_MEASURED]
        ids = {_path(fields): fields[-1].field_id for fields in measured if fields[-1].field_id is not None}
        identity = state.snapshot.identity if carried else None
        codec = properties.get(_CODEC, "zstd").lower()
        if codec not in _CODECS:
            raise Invalid(f"the property {_CODEC} is {codec!r}; it must be one of {', '.join(_CODECS)}")
        data = WriteSpec(
            fields=schema.fields,
            id_column=None if identity is None else identity.id_column,
            version_column=None if identity is None else identity.version_column,
            id_field=None if identity is None else identity.id_field,
            version_field=None if identity is None else identity.version_field,
            stats_leaves=tuple(ids),
            string_prefix=_PREFIX,
            metric_ids=ids,
            codec=_CODECS[codec],
            target_bytes=number(_TARGET_BYTES, properties.get(_TARGET_BYTES, str(_TARGET))),
            prefix=DATA_FOLDER,
            transforms=placed_by(spec, schema),
            random_prefix=4 if truth(properties.get("write.object-storage.enabled")) else 0,
        )
        return Storing(data, None, properties)

    def publication_of(self, state: IcebergState) -> Publication | None:
        return published_into(state)

    def changed_since(self, state: IcebergState, publication: Publication) -> tuple[int, str] | None:
        return changed_since(state)

    def begin(self) -> Self:
        return replace(self, drafts=Drafts(), holds=[])

    def attempt(self, state: IcebergState | None, mutation: Mutation, env: Env) -> Outcome:
        assert state is not None, "a table of a catalog is made by the catalog"
        prepared = prepare(state, mutation, env, self.drafts)
        hold = self.holds[0] if self.holds else None
        outcome = attempt(self.catalog_table(state), state, prepared, env, self.branch, self.drafts, hold)
        if isinstance(outcome, Committed):
            self.drafts.clear(state.paths, prepared.files)
        return outcome

    @contextmanager
    def turn(self, mutation: Mutation, env: Env) -> Iterator[None]:
        """Hold the table's pointer for an attempt, where an SQL catalog has one and the attempt moves it itself."""
        source = self.source
        if source is None or self.branch != MAIN or mutation.shape is not None or not has_pointer(source.catalog):
            yield
            return
        with holding(source.catalog, source.identifier, env) as hold:
            self.holds.extend([] if hold is None else [hold])
            try:
                yield
            finally:
                self.holds.clear()

    def since(self, state: IcebergState) -> tuple[IcebergState, Came]:
        newest = self.newest(state)
        if self.drafts.plan is not None:
            is_same = appended_manifests(state, newest) is not None
            self.drafts.carry(state.version, newest.version if is_same else None)
        return newest, winners_since(state, newest)

    def abandon(self, state: IcebergState) -> None:
        self.drafts.clear(state.paths)

    def post_commit(self, before: IcebergState | None, version: int, env: Env) -> None:
        """Nothing: a snapshot is whole."""

    def keeps_ms(self, state: IcebergState) -> int:
        """A day: the remove_orphan_files of Iceberg on Spark takes no younger file, and leaves no snapshot behind."""
        return _DAY_MS

    def app_version(self, state: IcebergState, app_id: str) -> int | None:
        """How far an application has written, as the newest snapshot that names it says."""
        versions = (entry.summary.get(f"{APP}{app_id}") for entry in state.metadata.ancestry(state.entry))
        return next((int(version) for version in versions if version is not None), None)

    def _by_position(self, location: Location, snapshot_id: int, files: FileTable) -> dict[str, BitMap64]:
        """What position delete files of a snapshot hide in files, which may have other keys than the table's."""
        state = self._at(snapshot_id)
        paths = files.column("path").combine_chunks()
        own = state.snapshot.files.filter(
            pc.is_in(state.snapshot.files.column("path").combine_chunks(), value_set=paths)
        )
        positions = state.hidden.load(location, own).positions
        keys = dict(zip(own.column("path").to_pylist(), own.column("key").to_pylist(), strict=True))
        pairs = zip(files.column("key").to_pylist(), paths.to_pylist(), strict=True)
        return {key: positions[keys[path]] for key, path in pairs if keys[path] in positions}

    def _at(self, snapshot_id: int) -> IcebergState:
        if snapshot_id not in self.states:
            state = self.last_read()
            if state.metadata.snapshot(snapshot_id) is None:
                state = self.newest(state)
            self.states[snapshot_id] = time_travel(state, version=snapshot_id)
        return self.states[snapshot_id]


def _refuse_columns(state: IcebergState) -> None:
    """Refuse a table with a column that cannot be written as the table has it."""
    metadata, where = state.metadata, state.metadata.location
    raw = metadata.schema_of(None, state.metadata_path)
    for type_name in type_names(raw).values():
        if type_name in ("uuid", "unknown", "variant", "timestamp_ns", "timestamptz_ns") or type_name.startswith(
            "fixed"
        ):
            raise Unsupported(f"{where} has a column of {type_name}, which Holdfast reads and does not write")
    spec = state.contents.types.specs[metadata.default_spec_id]
    if (lost := missing_source(spec, state.snapshot.schema)) is not None:
        raise Invalid(f"{where} is partitioned by {lost}, whose column is gone: give it another partition spec first")


def _path(fields: Sequence[Field]) -> tuple[str, ...]:
    return tuple(f.physical_name for f in fields)
