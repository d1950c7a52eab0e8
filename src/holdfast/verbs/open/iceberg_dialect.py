"""Iceberg, as verbs see a format: what its writers must know, how it stores rows, what its properties ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from holdfast.env import Env
from holdfast.errors import Invalid, Unsupported
from holdfast.formats.iceberg.catalog.tables import CatalogTable
from holdfast.formats.iceberg.commit.attempt import DATA_FOLDER
from holdfast.formats.iceberg.commit.loop import IcebergFormat
from holdfast.formats.iceberg.commit.staging import in_same_partitions, missing_source, placed_by
from holdfast.formats.iceberg.deletes.scope import POSITIONS
from holdfast.formats.iceberg.metadata.schema_evolution import check_evolution, with_field_ids
from holdfast.formats.iceberg.metadata.types import type_names
from holdfast.formats.iceberg.state import IcebergState, time_travel
from holdfast.model.files import FileTable
from holdfast.model.mutation import TableDefinition
from holdfast.model.snapshot import HiddenRows
from holdfast.parquet.write import WriteSpec
from holdfast.plan.dml.change import Storing
from holdfast.schema.properties import Isolation, number, truth
from holdfast.schema.types import Array, Map, Struct, leaves
from holdfast.storage.location import Location
from holdfast.verbs.dml.strategy import DmlMode
from holdfast.verbs.open.dialect import Dialect, mode_asked

TARGET_BYTES = "write.target-file-size-bytes"
_CODEC = "write.parquet.compression-codec"
_CODECS = {"zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "brotli": "brotli", "uncompressed": "none"}
_TARGET = 512 << 20
_MEASURED = 100  # leaves that metrics are kept of
_PREFIX = 16  # characters of a text in its bounds
_ISOLATION = {"serializable": Isolation.SERIALIZABLE, "snapshot": Isolation.SNAPSHOT}
_OWN_PATHS = ("write.data.path", "write.folder-storage.path", "write.object-storage.path")


@dataclass(frozen=True)
class IcebergDialect(Dialect):
    """What only Iceberg can say, of one table."""

    source: CatalogTable | None  # None: a metadata file, which nobody writes to
    seen: Callable[[], IcebergState]  # the newest state that was read so far
    _states: dict[int, IcebergState] = field(default_factory=dict, repr=False)

    def commits(self, location: Location, state: IcebergState | None) -> IcebergFormat:
        if self.source is None:
            raise Invalid(f"{location.url} was opened by its metadata file, to be read: open it with load to write")
        return IcebergFormat(self.source)

    def committing(self, state: IcebergState) -> IcebergFormat:
        """How to commit what writes metadata alone."""
        metadata, where = state.metadata, state.metadata.location
        if metadata.format_version < 2:
            raise Unsupported(
                f"{where} is of format version 1, which Holdfast reads and does not write: upgrade it to 2"
            )
        return self.commits(state.snapshot.location, state)

    def check_writable(self, state: IcebergState) -> None:
        self.committing(state)
        metadata, where = state.metadata, state.metadata.location
        if (form := metadata.properties.get("write.format.default", "parquet").lower()) != "parquet":
            raise Unsupported(f"{where} asks for {form} data files (write.format.default); Holdfast writes Parquet")
        for name in _OWN_PATHS:
            if name in metadata.properties:
                raise Unsupported(f"{where} puts data files elsewhere ({name}), which Holdfast does not do")
        _refuse_columns(state)

    def shape_of(self, state: IcebergState) -> TableDefinition:
        return TableDefinition(state.snapshot.schema, properties=state.snapshot.properties)

    def grown(self, state: IcebergState, shape: TableDefinition, schema: Struct, env: Env) -> TableDefinition:
        made = with_field_ids(schema, state.metadata.last_column_id)
        check_evolution(shape.schema, made, state.contents.types.specs, where=state.metadata.location)
        return replace(shape, schema=made)

    def widens(self, state: IcebergState) -> bool:
        return False

    def beside(self, state: IcebergState, staged: pa.Table) -> pa.BooleanArray:
        return in_same_partitions(state, staged)

    def mode_of(self, state: IcebergState, asked: str | None, verb: str) -> DmlMode:
        said = asked or state.metadata.properties.get(f"write.{verb}.mode", DmlMode.COPY_ON_WRITE.value)
        mode = mode_asked(said)
        if mode is None:
            known = ", ".join(repr(m.value) for m in DmlMode)
            raise Invalid(f"mode is one of {known}, not {said!r}")
        return mode

    def level_of(self, state: IcebergState, verb: str) -> Isolation | None:
        name = f"write.{verb.lower()}.isolation-level"
        said = state.metadata.properties.get(name, "serializable").lower()
        if said not in _ISOLATION:
            raise Invalid(f"the property {name} is {said!r}; it must be serializable or snapshot")
        return _ISOLATION[said]

    def storing(
        self, state: IcebergState, shape: TableDefinition, *, carried: bool = True, feeds: bool = True
    ) -> Storing:
        properties, spec = state.metadata.properties, state.contents.types.specs[state.metadata.default_spec_id]
        measured = [fields for fields, type_ in leaves(shape.schema) if not isinstance(type_, Array | Map)][:_MEASURED]
        ids = {_path(fields): fields[-1].field_id for fields in measured if fields[-1].field_id is not None}
        identity = state.snapshot.identity if carried else None
        codec = properties.get(_CODEC, "zstd").lower()
        if codec not in _CODECS:
            raise Invalid(f"the property {_CODEC} is {codec!r}; it must be one of {', '.join(_CODECS)}")
        data = WriteSpec(
            fields=shape.schema.fields,
            id_column=None if identity is None else identity.id_column,
            version_column=None if identity is None else identity.version_column,
            id_field=None if identity is None else identity.id_field,
            version_field=None if identity is None else identity.version_field,
            stats_leaves=tuple(ids),
            string_prefix=_PREFIX,
            metric_ids=ids,
            codec=_CODECS[codec],
            target_bytes=number(TARGET_BYTES, properties.get(TARGET_BYTES, str(_TARGET))),
            prefix=DATA_FOLDER,
            transforms=placed_by(spec, shape.schema),
            random_prefix=4 if truth(properties.get("write.object-storage.enabled")) else 0,
        )
        return Storing(data, None, properties)

    def load_hidden(self, location: Location, files: FileTable) -> HiddenRows:
        if not len(files):
            return HiddenRows()
        vectors = files.column("dv").combine_chunks()
        by_position = pc.fill_null(pc.equal(pc.struct_field(vectors, "storage"), POSITIONS), False)
        snapshots = pc.struct_field(vectors, "offset")
        found = dict(self.seen().hidden.load(location, files.filter(pc.invert(by_position))).positions)
        for snapshot_id in pc.unique(snapshots.filter(by_position)).to_pylist():
            of_it = files.filter(pc.and_(by_position, pc.fill_null(pc.equal(snapshots, snapshot_id), False)))
            found |= self._by_position(location, snapshot_id, of_it)
        versions = pc.unique(files.column("lost_by")).drop_null().to_pylist() if _is_placed(files) else []
        assert len(versions) < 2, "files of one version are asked about at a time"
        return HiddenRows(found, self._at(versions[0]).hidden.by_value if versions else ())

    def at(self, state: IcebergState, version: int) -> IcebergState:
        return self._at(version)

    def tend(self, location: Location, before: IcebergState | None, version: int, env: Env) -> None:
        """Nothing is due: a snapshot is whole."""

    def _by_position(self, location: Location, snapshot_id: int, files: FileTable) -> dict[str, BitMap64]:
        """What delete files of a snapshot hide in files, which may go by other keys than the table's."""
        state = self._at(snapshot_id)
        paths = files.column("path").combine_chunks()
        own = state.snapshot.files.filter(
            pc.is_in(state.snapshot.files.column("path").combine_chunks(), value_set=paths)
        )
        positions = state.hidden.load(location, own).positions
        keys = dict(zip(own.column("path").to_pylist(), own.column("key").to_pylist(), strict=True))
        told = zip(files.column("key").to_pylist(), paths.to_pylist(), strict=True)
        return {key: positions[keys[path]] for key, path in told if keys[path] in positions}

    def _at(self, snapshot_id: int) -> IcebergState:
        if snapshot_id not in self._states:
            state = self.seen()
            if state.metadata.snapshot(snapshot_id) is None and self.source is not None:
                state = self.source.newest(state)
            self._states[snapshot_id] = time_travel(state, version=snapshot_id)
        return self._states[snapshot_id]


def _is_placed(files: FileTable) -> bool:
    return "lost_by" in files.table.column_names


def _refuse_columns(state: IcebergState) -> None:
    """Say which column cannot be written as the table has it."""
    metadata, where = state.metadata, state.metadata.location
    raw = metadata.schema_of(None, state.metadata_path)
    for spelled in type_names(raw).values():
        if spelled in ("uuid", "unknown", "variant", "timestamp_ns", "timestamptz_ns") or spelled.startswith("fixed"):
            raise Unsupported(f"{where} has a column of {spelled}, which Holdfast reads and does not write")
    spec = state.contents.types.specs[metadata.default_spec_id]
    if (lost := missing_source(spec, state.snapshot.schema)) is not None:
        raise Invalid(f"{where} is partitioned by {lost}, whose column is gone: give it another partition spec first")


def _path(fields: Any) -> tuple[str, ...]:
    return tuple(f.physical_name for f in fields)
