"""One attempt to commit: builds the commit file of a mutation for the next version and writes it if absent.

1. Row ids of new rows, above the high-water mark, and commit versions of new files are assigned in each attempt.
2. An attempt writes one commit file, with put-if-absent: the commit is atomic.
3. After a request without an answer, the commit file is read back and its `txnId` compared with that of the attempt.
4. commitInfo is the first action. In-commit timestamps increase; where a commit enables them, it records its own
   version and time as their start.
5. A definition that does not change the schema text, the metadata or the clustering does not write them again.
6. A `remove` action has the row ids that the file has in the version before.
7. Deletion vectors are united with those of that version, and written before the commit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from holdfast import __version__
from holdfast.env import Env
from holdfast.errors import Damaged, Invalid, OutcomeUnknown, Unavailable
from holdfast.formats.delta.commit.dv_update import NO_UPDATE, DvUpdate, HiddenVectors, loosened, update_dvs
from holdfast.formats.delta.commit.iceberg_compat import refuse_breaking
from holdfast.formats.delta.commit.published import published
from holdfast.formats.delta.log.actions import (
    DeletionVector,
    DomainMetadata,
    FileAction,
    FormatAction,
    Json,
    Metadata,
    Protocol,
    Txn,
    commit_info,
    decode_lines,
    encode_action,
    encode_lines,
    encode_path,
)
from holdfast.formats.delta.log.columns import table_ids
from holdfast.formats.delta.log.file_names import LOG, commit_name
from holdfast.formats.delta.log.times import in_commit_times
from holdfast.formats.delta.metadata import CLUSTERING_DOMAIN, ROW_TRACKING_DOMAIN
from holdfast.formats.delta.protocol.downgrade import without
from holdfast.formats.delta.protocol.features import check_writable, writer_features
from holdfast.formats.delta.protocol.upgrade import protocol_for
from holdfast.formats.delta.state import DeltaState
from holdfast.model.mutation import Committed, Laid, Mutation, Outcome, TableDefinition, VersionTaken
from holdfast.rows.rowmap import ROW_IDS, note
from holdfast.rows.stamp import NO_IDS_YET, stamp
from holdfast.schema.constraints import refuse_new
from holdfast.schema.properties import (
    CHANGE_FEED,
    ENABLE_IN_COMMIT_TIMESTAMPS,
    ENABLE_ROW_TRACKING,
    IN_COMMIT_TIMESTAMP_TIME,
    IN_COMMIT_TIMESTAMP_VERSION,
    ISOLATION_LEVEL,
    MATERIALIZED_ROW_COMMIT_VERSION,
    MATERIALIZED_ROW_ID,
    ROW_TRACKING_SUSPENDED,
    isolation,
    truth,
)
from holdfast.schema.storable import refuse_feed_columns
from holdfast.schema.types import render_schema
from holdfast.storage.base import NotFound
from holdfast.storage.error_mapping import MALFORMED
from holdfast.storage.location import Location

ENGINE = f"Holdfast/{__version__}"


@dataclass(frozen=True, slots=True)
class CommitAttempt:
    """The bytes of a commit, and its `txnId`."""

    version: int
    body: bytes
    txn_id: UUID


def prepare(
    location: Location, state: DeltaState | None, mutation: Mutation, env: Env, vectors: HiddenVectors | None = None
) -> CommitAttempt:
    """The commit that makes a mutation the next version; `state` is the newest one, None where there is no table.

    `vectors` are the deletion vectors that earlier attempts of the transaction have written.
    """
    version = 0 if state is None else state.version + 1
    txn_id = env.new_uuid()
    now = env.now_ms()
    # Later than the version before, which may have an in-commit timestamp or only the time of its file.
    commit_ms = max(now, 0 if state is None else state.snapshot.timestamp_ms + 1)
    new_metadata, new_protocol = _redefined(location, state, mutation, env, commit_ms=commit_ms)
    metadata = new_metadata or (state.metadata if state is not None else None)
    protocol = new_protocol or (state.protocol if state is not None else None)
    assert metadata is not None, "a mutation without a definition has a table"
    assert protocol is not None, "a mutation without a definition has a table"
    check_writable(protocol, table=location.url)
    tracking = _Tracking.of(protocol, metadata, state, mutation.mark)
    dv_update = NO_UPDATE
    if state is not None:
        in_new = _hidden_in_new_files(mutation)
        dv_update = update_dvs(state, mutation.hidden, env, in_new=in_new, vectors=vectors or HiddenVectors())
        refuse_breaking(state, mutation, metadata, protocol, dv_update)
    numbered = _newly_numbered(mutation, dv_update, tracking)
    lines: list[Json] = [
        {"commitInfo": _info(state, mutation, metadata, now=now, commit_ms=commit_ms, txn_id=txn_id)},
        *([{"protocol": new_protocol}] if new_protocol else []),
        *([{"metaData": encode_action(new_metadata)}] if new_metadata else []),
        *([{"txn": Txn(mutation.app.app_id, mutation.app.version, now)}] if mutation.app else []),
        *({"remove": encode_action(action)} for action in _removes(mutation, dv_update, state, now)),
        *({"add": encode_action(action)} for action in _adds(mutation, dv_update, numbered, tracking, version)),
        *({"cdc": encode_action(action)} for action in _change_files(mutation)),
        *(
            {"domainMetadata": encode_action(domain)}
            for domain in _domains(mutation, numbered, tracking, state, version)
        ),
    ]
    return CommitAttempt(version, encode_lines(lines), txn_id)


def attempt(location: Location, prepared: CommitAttempt) -> Outcome:
    """Writes a prepared commit unless the version exists."""
    key = location.key(LOG, commit_name(prepared.version))
    try:
        created = location.store.put_if_absent(key, prepared.body)
    except OutcomeUnknown:
        created = None
    if created:
        return Committed(prepared.version)
    # The existing file may be our own: a client of the store may have repeated the request after a lost answer.
    return Committed(prepared.version) if _is_ours(location, key, prepared) else VersionTaken(prepared.version)


def _is_ours(location: Location, key: str, prepared: CommitAttempt) -> bool:
    try:
        body = location.store.get(key)
    except (NotFound, Unavailable) as error:
        problem = "is not there now" if isinstance(error, NotFound) else "cannot be read now"
        raise OutcomeUnknown(
            f"the commit of version {prepared.version} to {location.url} got no answer, and the version {problem}: "
            "look at the table's history before writing again"
        ) from error
    return commit_info(decode_lines(body, where=f"{location.store.url}/{key}")).get("txnId") == str(prepared.txn_id)


@dataclass(frozen=True, slots=True)
class _Tracking:
    """The high-water marks from which an attempt assigns row ids."""

    high_water: int
    stored: int  # in the domain metadata of the table

    @classmethod
    def of(cls, protocol: Protocol, metadata: Metadata, state: DeltaState | None, mark: int | None) -> _Tracking | None:
        if "rowTracking" not in writer_features(protocol) or truth(metadata.properties.get(ROW_TRACKING_SUSPENDED)):
            return None
        domain = state.domains.get(ROW_TRACKING_DOMAIN) if state is not None else None
        if domain is None or domain.configuration is None:
            return cls(NO_IDS_YET if mark is None else mark, NO_IDS_YET)
        try:
            stored = int(json.loads(domain.configuration)["rowIdHighWaterMark"])
            return cls(stored if mark is None else max(stored, mark), stored)
        except MALFORMED as error:
            raise Damaged(
                f"the row-id mark {domain.configuration!r} cannot be read", path=ROW_TRACKING_DOMAIN
            ) from error


def _redefined(
    location: Location, state: DeltaState | None, mutation: Mutation, env: Env, *, commit_ms: int
) -> tuple[Metadata | None, Protocol | None]:
    """The metaData and protocol actions of a new table definition, None where they do not change."""
    definition = mutation.shape
    if definition is None:
        if state is None:
            raise Invalid(f"there is no table at {location.url}: create it first")
        return None, None
    current = None if state is None else (state.snapshot.schema, state.snapshot.properties)
    refuse_new(definition.schema, definition.properties, current)
    properties: dict[str, str | None] = {
        **definition.properties,
        **_in_commit_timestamp_properties(definition, state, commit_ms),
    }
    recorded = state is not None and truth(state.metadata.properties.get(CHANGE_FEED))
    refuse_feed_columns(definition.schema, properties, recorded=recorded)
    if truth(properties.get(ENABLE_ROW_TRACKING)):
        properties.setdefault(MATERIALIZED_ROW_ID, f"_row-id-col-{env.new_uuid()}")
        properties.setdefault(MATERIALIZED_ROW_COMMIT_VERSION, f"_row-commit-version-col-{env.new_uuid()}")
    old = None if state is None else state.metadata
    kept = state.metadata.schema_string if state is not None and definition.schema == state.snapshot.schema else None
    metadata = Metadata(
        id=str(env.new_uuid()) if old is None else old.id,
        name=definition.name,
        description=definition.description,
        format=FormatAction(options={}) if old is None else old.format,
        schema_string=kept or render_schema(definition.schema),
        partition_columns=definition.partition_columns,
        configuration=properties,
        created_time=env.now_ms() if old is None else old.created_time,
    )
    protocol = protocol_for(definition, old=None if state is None else state.protocol)
    if mutation.drops:
        protocol = without(protocol, mutation.drops)
    unchanged = state is not None and protocol == state.protocol
    return (None if metadata == old else metadata), (None if unchanged else protocol)


def _in_commit_timestamp_properties(
    definition: TableDefinition, state: DeltaState | None, commit_ms: int
) -> dict[str, str]:
    """The version and time from which on commits have timestamps, for a table that had none from its start."""
    if state is None or not truth(definition.properties.get(ENABLE_IN_COMMIT_TIMESTAMPS)):
        return {}
    if in_commit_times(state.protocol, state.metadata) is None:
        return {IN_COMMIT_TIMESTAMP_VERSION: str(state.version + 1), IN_COMMIT_TIMESTAMP_TIME: str(commit_ms)}
    old = state.metadata.properties
    return {name: old[name] for name in (IN_COMMIT_TIMESTAMP_VERSION, IN_COMMIT_TIMESTAMP_TIME) if name in old}


def _newly_numbered(mutation: Mutation, dv_update: DvUpdate, tracking: _Tracking | None) -> pa.Table:
    """Existing files that get row ids now: those of a backfill, and those that are added again without ids."""
    if tracking is None:
        return mutation.restamped
    readded = pa.concat_tables([dv_update.readded, mutation.readded])
    return pa.concat_tables([mutation.restamped, readded.filter(pc.is_null(readded.column("base_row_id")))])


def _adds(
    mutation: Mutation, dv_update: DvUpdate, numbered: pa.Table, tracking: _Tracking | None, version: int
) -> Iterator[FileAction]:
    """One action per file, new ones first, with row ids where the table has row tracking."""
    staged = mutation.added
    bases = None if tracking is None else stamp(_counts(mutation, numbered), high_water=tracking.high_water).bases
    for i, row in enumerate(staged.to_pylist()):  # one per file
        dv = dv_update.of_new.get(row["key"])
        if dv is None and row["key"] in mutation.covered:
            continue  # it has no live row
        laid = mutation.laid.get(row["key"], Laid())
        yield FileAction(
            path=encode_path(row["key"]),
            partition_values=dict(row["partition_values"] or ()),
            size=row["size"],
            modification_time=row["modified_ms"],
            data_change=mutation.data_change,
            stats=row["stats"] if dv is None else loosened(row["stats"], row["num_records"], 0),
            tags=_tags(row, laid, tracking) or None,
            deletion_vector=dv,
            base_row_id=None if bases is None else bases[i],
            default_row_commit_version=None if bases is None else version,
            clustering_provider=laid.provider,
        )
    if numbered.num_rows:
        assert bases is not None, "files get row ids only where the table has row tracking"
        for row, base in zip(numbered.to_pylist(), bases[staged.num_rows :], strict=True):  # one per file
            yield _readd(mutation, {**row, "base_row_id": base, "default_row_commit_version": version})
    readded = pa.concat_tables([dv_update.readded, mutation.readded])
    if tracking is not None:
        readded = readded.filter(pc.is_valid(readded.column("base_row_id")))
    for row in readded.to_pylist():  # one per file
        yield _readd(mutation, row)


def _tags(row: Mapping[str, Any], laid: Laid, tracking: _Tracking | None) -> dict[str, str | None]:
    """The tags of a new file: its layout, and which row ids it stores."""
    if tracking is None or row["carried"] is None:
        return dict(laid.tags)
    return {**laid.tags, ROW_IDS: note(row["size"], row["carried"])}


def _hidden_in_new_files(mutation: Mutation) -> dict[str, tuple[BitMap64, int]]:
    """Positions that a transaction hides in its own new files, and the row counts of these files."""
    own = zip(*(mutation.added.column(name).to_pylist() for name in ("key", "num_records")), strict=True)
    return {key: (mutation.covered[key], rows) for key, rows in own if key in mutation.covered}


def _readd(mutation: Mutation, row: Mapping[str, Any]) -> FileAction:
    return FileAction(
        path=row["path"],
        partition_values=dict(row["partition_values"] or ()),
        size=row["size"],
        modification_time=row["modified_ms"],
        data_change=mutation.data_change,
        stats=row["stats"],
        tags=None if row["tags"] is None else dict(row["tags"]),
        deletion_vector=DeletionVector.from_row(row["dv"]),
        base_row_id=row["base_row_id"],
        default_row_commit_version=row["default_row_commit_version"],
        clustering_provider=row["clustering_provider"],
    )


def _change_files(mutation: Mutation) -> Iterator[FileAction]:
    for row in mutation.feed.to_pylist():  # one per file
        yield FileAction(
            path=encode_path(row["key"]),
            partition_values=dict(row["partition_values"] or ()),
            size=row["size"],
            data_change=False,
        )


def _counts(mutation: Mutation, numbered: pa.Table) -> list[int]:
    """Physical row counts of the files that get row ids, in the order of their actions."""
    return [*mutation.added.column("num_records").to_pylist(), *numbered.column("num_records").to_pylist()]


def _removes(mutation: Mutation, dv_update: DvUpdate, state: DeltaState | None, now: int) -> Iterator[FileAction]:
    removed = pa.concat_tables([_with_current_ids(mutation.removed, state), dv_update.removed])
    for row in removed.to_pylist():  # one per file
        yield FileAction(
            path=row["path"],
            deletion_timestamp=now,
            data_change=mutation.data_change,
            extended_file_metadata=True if row["size"] is not None else None,
            partition_values=dict(row["partition_values"] or ()),
            size=row["size"],
            tags=dict(row["tags"]) if row["tags"] else None,
            deletion_vector=DeletionVector.from_row(row["dv"]),
            base_row_id=row["base_row_id"],
            default_row_commit_version=row["default_row_commit_version"],
        )


def _with_current_ids(removed: pa.Table, state: DeltaState | None) -> pa.Table:
    """Removed files with the row ids of the state, because a backfill may have assigned them meanwhile."""
    without_ids = pc.is_null(removed.column("base_row_id"))
    if state is None or not pc.any(without_ids).as_py() or "rowTracking" not in writer_features(state.protocol):
        return removed
    current = state.snapshot.files.table
    files = current.filter(pc.is_in(current.column("key"), value_set=removed.column("key").combine_chunks()))
    where = pc.index_in(table_ids(removed), value_set=table_ids(files))
    for name in ("base_row_id", "default_row_commit_version"):
        ids = pc.coalesce(removed.column(name), files.column(name).take(where))
        removed = removed.set_column(removed.column_names.index(name), name, ids)
    return removed


def _domains(
    mutation: Mutation, numbered: pa.Table, tracking: _Tracking | None, state: DeltaState | None, version: int
) -> Iterator[DomainMetadata]:
    if tracking is not None:
        mark = stamp(_counts(mutation, numbered), high_water=tracking.high_water).high_water
        if mark != tracking.stored:
            yield DomainMetadata(ROW_TRACKING_DOMAIN, json.dumps({"rowIdHighWaterMark": mark}))
    clustering = None if mutation.shape is None else mutation.shape.clustering_columns
    current = None if state is None or CLUSTERING_DOMAIN not in state.domains else state.snapshot.clustering_columns
    if clustering is not None and clustering != current:
        columns = [list(path) for path in clustering]
        clustered = json.dumps({"clusteringColumns": columns, "domainName": CLUSTERING_DOMAIN})
        yield DomainMetadata(CLUSTERING_DOMAIN, clustered)
    for name, configuration in mutation.domains.items():
        before = None if state is None or name not in state.domains else state.domains[name].configuration
        yield DomainMetadata(name, configuration or before, removed=configuration is None)
    if mutation.publishes is not None:
        yield published(mutation.publishes, version)


def _info(
    state: DeltaState | None, mutation: Mutation, metadata: Metadata, *, now: int, commit_ms: int, txn_id: UUID
) -> Json:
    info: Json = {
        "timestamp": now,
        "operation": mutation.operation,
        "operationParameters": dict(mutation.parameters),
        **({} if state is None else {"readVersion": state.version}),
        "isolationLevel": _isolation(mutation, metadata),
        "isBlindAppend": mutation.is_blind,
        "operationMetrics": {name: str(value) for name, value in mutation.metrics.items()},
        **({"userMetadata": mutation.user_metadata} if mutation.user_metadata is not None else {}),
        **({"tags": dict(mutation.tags)} if mutation.tags else {}),
        "engineInfo": ENGINE,
        "txnId": str(txn_id),
    }
    if truth(metadata.properties.get(ENABLE_IN_COMMIT_TIMESTAMPS)):
        info = {"inCommitTimestamp": commit_ms, **info}
    return info


def _isolation(mutation: Mutation, metadata: Metadata) -> str:
    """The isolation level of the commit: SnapshotIsolation where no row changes, else that of the table."""
    level = isolation(metadata.properties.get(ISOLATION_LEVEL))
    return level.value if mutation.data_change else "SnapshotIsolation"
