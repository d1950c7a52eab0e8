"""Delta, as verbs see a format: what its protocol lets writers do, how it stores rows, what a commit makes due."""

from __future__ import annotations

import logging

import pyarrow as pa

from holdfast.env import Env
from holdfast.errors import Invalid, TableError
from holdfast.formats.delta.checkpoint.crc_write import write_crc
from holdfast.formats.delta.checkpoint.writer import write_checkpoint
from holdfast.formats.delta.commit.due import Due, due
from holdfast.formats.delta.commit.loop import DeltaFormat
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.log.cleanup import clean_log
from holdfast.formats.delta.protocol.features import check_writable, writer_features
from holdfast.formats.delta.state import DeltaState, load
from holdfast.model.files import FileTable
from holdfast.model.mutation import TableDefinition
from holdfast.model.snapshot import HiddenRows
from holdfast.parquet.write import WriteSpec
from holdfast.plan.dml.change import Storing
from holdfast.plan.dml.write import ENABLE_DELETION_VECTORS, write_spec
from holdfast.schema.evolve import TYPE_CHANGES
from holdfast.schema.mapping import all_fields
from holdfast.schema.properties import CHANGE_FEED, COLUMN_MAPPING_MODE, truth
from holdfast.schema.storable import refuse_feed_columns, refuse_unstorable
from holdfast.schema.types import STRING, Field, Struct
from holdfast.storage.location import Location
from holdfast.terminal import phase
from holdfast.verbs.define.shape import grown
from holdfast.verbs.dml.strategy import DmlMode
from holdfast.verbs.dml.write_mutation import same_partitions
from holdfast.verbs.maintain.symlink_manifests import SYMLINK_FORMAT, generate
from holdfast.verbs.open.dialect import Dialect, mode_asked

CHANGE_TYPE = "_change_type"
CHANGE_DIRECTORY = "_change_data"
TYPE_WIDENING = "delta.enableTypeWidening"

_VECTORS = "deletionVectors"
_log = logging.getLogger(__name__)


class DeltaDialect(Dialect):
    """What only Delta can say."""

    def commits(self, location: Location, state: DeltaState | None) -> DeltaFormat:
        return DeltaFormat(location)

    def check_writable(self, state: DeltaState) -> None:
        check_writable(state.protocol, table=state.snapshot.location.url)

    def shape_of(self, state: DeltaState) -> TableDefinition:
        snapshot = state.snapshot
        clustered = "clustering" in writer_features(state.protocol)
        return TableDefinition(
            schema=snapshot.schema,
            partition_columns=snapshot.partition_columns,
            properties=snapshot.properties,
            clustering_columns=snapshot.clustering_columns if clustered else None,
            name=state.metadata.name,
            description=state.metadata.description,
        )

    def grown(self, state: DeltaState, shape: TableDefinition, schema: Struct, env: Env) -> TableDefinition:
        made = grown(shape, schema, env.new_uuid)
        refuse_unstorable(made.schema, mapped=made.properties.get(COLUMN_MAPPING_MODE, "none").lower() != "none")
        known = {f.name: f.metadata.get(TYPE_CHANGES) for f in all_fields(shape.schema)}
        widened = [f.name for f in all_fields(made.schema) if f.metadata.get(TYPE_CHANGES) != known.get(f.name)]
        if widened and not truth(made.properties.get(TYPE_WIDENING)):
            raise Invalid(
                f"widening the type of {', '.join(widened)} needs the property {TYPE_WIDENING}=true on "
                f"{state.snapshot.location.url}, which shuts out readers that do not know it: set it first"
            )
        return made

    def widens(self, state: DeltaState) -> bool:
        return truth(state.snapshot.properties.get(TYPE_WIDENING))

    def beside(self, state: DeltaState, staged: pa.Table) -> pa.BooleanArray:
        return same_partitions(state.snapshot, staged)

    def mode_of(self, state: DeltaState, asked: str | None, verb: str) -> DmlMode:
        can_hide = _VECTORS in writer_features(state.protocol)
        hides = can_hide and truth(state.snapshot.properties.get(ENABLE_DELETION_VECTORS))
        if asked is None:
            return DmlMode.MERGE_ON_READ if hides else DmlMode.COPY_ON_WRITE
        mode = mode_asked(asked)
        if mode is None:
            known = ", ".join(repr(m.value) for m in DmlMode)
            raise Invalid(f"mode is one of {known}, not {asked!r}")
        if mode is DmlMode.MERGE_ON_READ and not hides:
            raise Invalid(
                f"merge-on-read hides rows by deletion vectors, which the table at {state.snapshot.location.url} does "
                f"not have enabled: set the property {ENABLE_DELETION_VECTORS}=true, or use mode='copy-on-write'"
            )
        return DmlMode.COPY_ON_WRITE if mode is DmlMode.AUTO and not hides else mode

    def storing(
        self, state: DeltaState, shape: TableDefinition, *, carried: bool = True, feeds: bool = True
    ) -> Storing:
        data = write_spec(
            shape.schema,
            shape.partition_columns,
            shape.properties,
            clustering=shape.clustering_columns or (),
            deletion_vectors=_VECTORS in writer_features(state.protocol),
            carried=state.snapshot.identity if carried else None,
        )
        feed = None
        if feeds and truth(shape.properties.get(CHANGE_FEED)):
            refuse_feed_columns(shape.schema, shape.properties, recorded=True)
            feed = WriteSpec(
                fields=(*shape.schema.fields, Field(CHANGE_TYPE, STRING)),
                partition_columns=shape.partition_columns,
                codec=data.codec,
                target_bytes=data.target_bytes,
                prefix=CHANGE_DIRECTORY,
            )
        return Storing(data, feed, shape.properties)

    def load_hidden(self, location: Location, files: FileTable) -> HiddenRows:
        return load_hidden(location, files)

    def at(self, state: DeltaState, version: int) -> DeltaState:
        return load(state.snapshot.location, version=version)

    def tend(self, location: Location, before: DeltaState | None, version: int, env: Env) -> None:
        try:
            _tend(DeltaFormat(location).newest(before), version, env)
        except TableError as error:
            _log.warning("version %s of %s is committed; what follows it failed: %s", version, location.url, error)


DELTA = DeltaDialect()


def _tend(state: DeltaState | None, version: int, env: Env) -> None:
    """Do what is due at a version this writer committed; others may have moved on from it meanwhile."""
    assert state is not None, "a version was committed, so there is a table"
    newest = state
    if state.version != version:
        state = load(state.snapshot.location, version=version)
    for work in due(state):
        match work:
            case Due.CRC:
                write_crc(state)
            case Due.CHECKPOINT:
                with phase(f"writing the checkpoint of version {version}"):
                    write_checkpoint(state, env)
            case Due.CLEANUP:
                with phase("cleaning the log"):
                    clean_log(state, env)
            case Due.MANIFESTS:
                with phase("writing manifests"):
                    generate(newest, SYMLINK_FORMAT)
