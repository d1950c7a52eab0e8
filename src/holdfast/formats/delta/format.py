"""Delta as a table format: its log, what its protocol lets writers do, and how it stores rows."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.env import Env
from holdfast.errors import Invalid, TableError
from holdfast.formats.delta.checkpoint.crc_write import write_crc
from holdfast.formats.delta.checkpoint.writer import write_checkpoint
from holdfast.formats.delta.commit.attempt import attempt, prepare
from holdfast.formats.delta.commit.dv_update import HiddenVectors
from holdfast.formats.delta.commit.post_commit import PostCommitTask, post_commit_tasks
from holdfast.formats.delta.commit.published import changed_since, published_into
from holdfast.formats.delta.commit.winners import since
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.log.cleanup import clean_log
from holdfast.formats.delta.log.tombstones import file_retention_ms
from holdfast.formats.delta.protocol.features import check_writable, writer_features
from holdfast.formats.delta.state import DeltaState, is_table, load, refresh
from holdfast.formats.delta.symlink_manifests import SYMLINK_FORMAT, generate
from holdfast.model.definition import with_schema
from holdfast.model.files import FileTable
from holdfast.model.format import DmlMode, Storing, TableFormat
from holdfast.model.mutation import Came, Mutation, Outcome, TableDefinition
from holdfast.model.publication import Publication
from holdfast.model.snapshot import HiddenRows
from holdfast.model.write_spec import write_spec
from holdfast.parquet.write import WriteSpec
from holdfast.schema.evolve import TYPE_CHANGES
from holdfast.schema.mapping import all_fields
from holdfast.schema.partition import column
from holdfast.schema.properties import CHANGE_FEED, COLUMN_MAPPING_MODE, ENABLE_DELETION_VECTORS, truth
from holdfast.schema.storable import refuse_feed_columns, refuse_unstorable
from holdfast.schema.types import STRING, Field, Struct
from holdfast.storage.location import Location
from holdfast.terminal import phase

CHANGE_DIRECTORY = "_change_data"
_CHANGE_TYPE = "_change_type"
_DELETION_VECTORS = "deletionVectors"
_TYPE_WIDENING = "delta.enableTypeWidening"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeltaFormat(TableFormat[DeltaState]):
    """The Delta table at one location."""

    location: Location
    vectors: HiddenVectors = field(default_factory=HiddenVectors, repr=False, compare=False)  # of one transaction

    def newest(self, state: DeltaState | None) -> DeltaState | None:
        if state is not None:
            return refresh(state)
        return load(self.location) if is_table(self.location) else None

    def at_version(self, state: DeltaState, version: int) -> DeltaState:
        return load(self.location, version=version)

    def load_hidden(self, location: Location, files: FileTable) -> HiddenRows:
        return load_hidden(location, files)

    @staticmethod
    def check_writable(state: DeltaState) -> None:
        check_writable(state.protocol, table=state.snapshot.location.url)

    @staticmethod
    def definition_of(state: DeltaState) -> TableDefinition:
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

    def evolved(self, state: DeltaState, definition: TableDefinition, schema: Struct, env: Env) -> TableDefinition:
        new = with_schema(definition, schema, env.new_uuid)
        refuse_unstorable(new.schema, mapped=new.properties.get(COLUMN_MAPPING_MODE, "none").lower() != "none")
        before = {f.name: f.metadata.get(TYPE_CHANGES) for f in all_fields(definition.schema)}
        widened = [f.name for f in all_fields(new.schema) if f.metadata.get(TYPE_CHANGES) != before.get(f.name)]
        if widened and not truth(new.properties.get(_TYPE_WIDENING)):
            raise Invalid(
                f"widening the type of {', '.join(widened)} needs the property {_TYPE_WIDENING}=true on "
                f"{state.snapshot.location.url}, which shuts out readers that do not know it: set it first"
            )
        return new

    def widens_types(self, state: DeltaState) -> bool:
        return truth(state.snapshot.properties.get(_TYPE_WIDENING))

    def same_partitions(self, state: DeltaState, staged: pa.Table) -> pa.BooleanArray:
        snapshot = state.snapshot
        if not snapshot.partition_columns:
            raise Invalid("dynamic partition overwrite needs a partitioned table")
        fields = [snapshot.schema.find(name) for name in snapshot.partition_columns]
        names = [f.physical_name for f in fields if f is not None]
        return pc.is_in(
            _partition_texts(snapshot.files.column("partition_values"), names),
            value_set=_partition_texts(staged.column("partition_values"), names),
        )

    def dml_mode(self, state: DeltaState, mode: str | None, verb: str) -> DmlMode:
        can_hide = _DELETION_VECTORS in writer_features(state.protocol)
        hides = can_hide and truth(state.snapshot.properties.get(ENABLE_DELETION_VECTORS))
        if mode is None:
            return DmlMode.MERGE_ON_READ if hides else DmlMode.COPY_ON_WRITE
        chosen = DmlMode.of(mode)
        if chosen is DmlMode.MERGE_ON_READ and not hides:
            raise Invalid(
                f"merge-on-read hides rows by deletion vectors, which the table at {state.snapshot.location.url} does "
                f"not have enabled: set the property {ENABLE_DELETION_VECTORS}=true, or use mode='copy-on-write'"
            )
        return DmlMode.COPY_ON_WRITE if chosen is DmlMode.AUTO and not hides else chosen

    @staticmethod
    def storing(state: DeltaState, definition: TableDefinition, *, carried: bool = True, feeds: bool = True) -> Storing:
        data = write_spec(
            definition.schema,
            definition.partition_columns,
            definition.properties,
            clustering=definition.clustering_columns or (),
            deletion_vectors=_DELETION_VECTORS in writer_features(state.protocol),
            carried=state.snapshot.identity if carried else None,
        )
        feed = None
        if feeds and truth(definition.properties.get(CHANGE_FEED)):
            refuse_feed_columns(definition.schema, definition.properties, recorded=True)
            feed = WriteSpec(
                fields=(*definition.schema.fields, Field(_CHANGE_TYPE, STRING)),
                partition_columns=definition.partition_columns,
                codec=data.codec,
                target_bytes=data.target_bytes,
                prefix=CHANGE_DIRECTORY,
            )
        return Storing(data, feed, definition.properties)

    def publication_of(self, state: DeltaState) -> Publication | None:
        return published_into(state)

    def changed_since(self, state: DeltaState, publication: Publication) -> tuple[int, str] | None:
        return changed_since(state, publication)

    def begin(self) -> Self:
        return type(self)(self.location)

    def attempt(self, state: DeltaState | None, mutation: Mutation, env: Env) -> Outcome:
        return attempt(self.location, prepare(self.location, state, mutation, env, self.vectors))

    def since(self, state: DeltaState) -> tuple[DeltaState, Came]:
        newest, came = since(state)
        if came.only_appends:
            self.vectors.carry(state.version, newest.version)
        return newest, came

    def abandon(self, state: DeltaState) -> None:
        self.vectors.drop(state.snapshot.location)

    def post_commit(self, before: DeltaState | None, version: int, env: Env) -> None:
        try:
            self._write_due(before, version, env)
        except TableError as error:
            _log.warning("version %s of %s is committed; what follows it failed: %s", version, self.location.url, error)

    def keeps_ms(self, state: DeltaState) -> int:
        """The table's own retention: a vacuum that keeps files for less says so in the log."""
        return file_retention_ms(state)

    def app_version(self, state: DeltaState, app_id: str) -> int | None:
        txn = state.txns.get(app_id)
        return None if txn is None else txn.version

    def _write_due(self, before: DeltaState | None, version: int, env: Env) -> None:
        """Write what a version calls for that this writer committed; others may have committed more since."""
        newest = self.newest(before)
        assert newest is not None, "a version was committed, so there is a table"
        state = newest if newest.version == version else load(self.location, version=version)
        for task in post_commit_tasks(state):
            match task:
                case PostCommitTask.CRC:
                    write_crc(state)
                case PostCommitTask.CHECKPOINT:
                    with phase(f"writing the checkpoint of version {version}"):
                        write_checkpoint(state, env)
                case PostCommitTask.CLEANUP:
                    with phase("cleaning the log"):
                        clean_log(state, env)
                case PostCommitTask.MANIFESTS:
                    with phase("writing manifests"):
                        generate(newest, SYMLINK_FORMAT)


def _partition_texts(values: pa.ChunkedArray, names: list[str]) -> pa.Array:
    """One text per file that tells partitions apart; null and empty are the same partition."""
    parts = [pc.fill_null(column(values, name), "") for name in names]
    escaped = [pc.replace_substring(part, "\x1f", "\x1f\x1f") for part in parts]
    return pc.binary_join_element_wise(*escaped, "\x1f|") if len(escaped) > 1 else escaped[0]
