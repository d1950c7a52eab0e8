"""One attempt to commit: a mutation and a version become the bytes of a commit, and the bytes become true or do not.

1. Fresh rows get their ids and every new file its commit version here, per attempt, above the table's mark.
2. An attempt writes exactly one object, and only if nobody has: the table has all of it or none of it.
3. A lost answer is resolved by reading the version back and looking for this attempt's own id.
4. commitInfo comes first; with in-commit timestamps, time never goes back, and where they are turned on the table says
   from which version and moment, those of the attempt.
5. What a shape does not change is not written again: the text of a schema, the metadata, the clustering.
6. A removed file is said to have the row ids it has in the version the attempt is made on.
7. Vectors are made on that version too, and written before the commit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from holdfast import __version__
from holdfast.env import Env
from holdfast.errors import Damaged, Invalid, OutcomeUnknown, Unavailable
from holdfast.formats.delta.commit.compat import refuse_breaking
from holdfast.formats.delta.commit.published import published
from holdfast.formats.delta.commit.rehide import NOTHING, HiddenVectors, Rehidden, loosened, rehide
from holdfast.formats.delta.log.actions import (
    DeletionVector,
    DomainMetadata,
    FileAction,
    FormatAction,
    Metadata,
    Protocol,
    Txn,
    commit_info,
    decode_lines,
    encode_action,
    encode_path,
)
from holdfast.formats.delta.log.columns import logical_ids
from holdfast.formats.delta.log.file_names import LOG, commit_name
from holdfast.formats.delta.log.times import in_commit_times
from holdfast.formats.delta.protocol.downgrade import without
from holdfast.formats.delta.protocol.features import check_writable, writer_features
from holdfast.formats.delta.protocol.upgrade import protocol_for
from holdfast.formats.delta.shape import CLUSTERING_DOMAIN, ROW_TRACKING_DOMAIN
from holdfast.formats.delta.state import DeltaState
from holdfast.model.mutation import RESTAMPED, Committed, Laid, Mutation, Outcome, TableDefinition, VersionTaken
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
    """The bytes of a commit, and the id by which to know it again."""

    version: int
    body: bytes
    txn_id: UUID


def prepare(
    location: Location, state: DeltaState | None, mutation: Mutation, env: Env, vectors: HiddenVectors | None = None
) -> CommitAttempt:
    """What to write to make a mutation the next version; `state` is the newest there is, None for no table.

    `vectors` are those of the attempt before, where this is not the first.
    """
    version = 0 if state is None else state.version + 1
    txn_id = env.new_uuid()
    protocol = None if state is None else state.protocol
    now = env.now_ms()
    # Later than the version before, by whatever that is dated: where times in commits begin, by its file.
    moment = max(now, 0 if state is None else state.snapshot.timestamp_ms + 1)
    new_metadata, new_protocol = _shaped(location, state, mutation, env, moment=moment)
    metadata = new_metadata or (state.metadata if state is not None else None)
    protocol = new_protocol or protocol
    assert metadata is not None, "a table without a shape has one already"
    assert protocol is not None, "a table without a shape has a protocol already"
    check_writable(protocol, table=location.url)
    tracked = _Tracking.of(protocol, metadata, state, mutation.mark)
    rehidden = NOTHING
    if state is not None:
        rehidden = rehide(state, mutation.hidden, env, born=_born(mutation), vectors=vectors or HiddenVectors())
        refuse_breaking(state, mutation, metadata, protocol, rehidden)
    fresh = _fresh(mutation, rehidden, tracked)
    lines: list[dict[str, Any]] = [
        {"commitInfo": _info(state, mutation, metadata, now=now, moment=moment, txn_id=txn_id)},
        *([{"protocol": new_protocol}] if new_protocol else []),
        *([{"metaData": encode_action(new_metadata)}] if new_metadata else []),
        *([{"txn": Txn(mutation.app.app_id, mutation.app.version, now)}] if mutation.app else []),
        *({"remove": encode_action(action)} for action in _removes(mutation, rehidden, state, now)),
        *({"add": encode_action(action)} for action in _adds(mutation, rehidden, fresh, tracked, version)),
        *({"cdc": encode_action(action)} for action in _feed(mutation)),
        *({"domainMetadata": encode_action(domain)} for domain in _domains(mutation, fresh, tracked, state, version)),
    ]
    return CommitAttempt(version, b"\n".join(map(msgspec.json.encode, lines)) + b"\n", txn_id)


def attempt(location: Location, prepared: CommitAttempt) -> Outcome:
    """Write a prepared commit, unless its version is taken."""
    key = location.key(LOG, commit_name(prepared.version))
    try:
        created = location.store.put_if_absent(key, prepared.body)
    except OutcomeUnknown:
        created = None
    if created:
        return Committed(prepared.version)
    # False may be our own object too: what another client of the store repeated after a lost answer.
    return Committed(prepared.version) if _is_ours(location, key, prepared) else VersionTaken(prepared.version)


def _is_ours(location: Location, key: str, prepared: CommitAttempt) -> bool:
    try:
        found = location.store.get(key)
    except (NotFound, Unavailable) as error:
        why = "is not there now" if isinstance(error, NotFound) else "cannot be read now"
        raise OutcomeUnknown(
            f"the commit of version {prepared.version} to {location.url} got no answer, and the version {why}: look at "
            "the table's history before writing again"
        ) from error
    return commit_info(decode_lines(found, where=f"{location.store.url}/{key}")).get("txnId") == str(prepared.txn_id)


@dataclass(frozen=True, slots=True)
class _Tracking:
    """How an attempt must give out row ids; None of it where the table does not."""

    high_water: int
    told: int  # what the table says it is

    @classmethod
    def of(cls, protocol: Protocol, metadata: Metadata, state: DeltaState | None, mark: int | None) -> _Tracking | None:
        if "rowTracking" not in writer_features(protocol):
            return None
        if truth(metadata.properties.get(ROW_TRACKING_SUSPENDED)):
            return None
        domain = state.domains.get(ROW_TRACKING_DOMAIN) if state is not None else None
        if domain is None or domain.configuration is None:
            return cls(NO_IDS_YET if mark is None else mark, NO_IDS_YET)
        try:
            told = int(json.loads(domain.configuration)["rowIdHighWaterMark"])
            return cls(told if mark is None else max(told, mark), told)
        except MALFORMED as error:
            raise Damaged(
                f"the row-id mark {domain.configuration!r} cannot be read", path=ROW_TRACKING_DOMAIN
            ) from error


def _shaped(
    location: Location, state: DeltaState | None, mutation: Mutation, env: Env, *, moment: int
) -> tuple[Metadata | None, Protocol | None]:
    """The metadata and protocol actions a new shape asks for."""
    shape = mutation.shape
    if shape is None:
        if state is None:
            raise Invalid(f"there is no table at {location.url}: create it first")
        return None, None
    known = None if state is None else (state.snapshot.schema, state.snapshot.properties)
    refuse_new(shape.schema, shape.properties, known)
    properties: dict[str, str | None] = {**shape.properties, **_timed(shape, state, moment)}
    recorded = state is not None and truth(state.metadata.properties.get(CHANGE_FEED))
    refuse_feed_columns(shape.schema, properties, recorded=recorded)
    if truth(properties.get(ENABLE_ROW_TRACKING)):
        properties.setdefault(MATERIALIZED_ROW_ID, f"_row-id-col-{env.new_uuid()}")
        properties.setdefault(MATERIALIZED_ROW_COMMIT_VERSION, f"_row-commit-version-col-{env.new_uuid()}")
    old = None if state is None else state.metadata
    kept = state.metadata.schema_string if state is not None and shape.schema == state.snapshot.schema else None
    metadata = Metadata(
        id=str(env.new_uuid()) if old is None else old.id,
        name=shape.name,
        description=shape.description,
        format=FormatAction(options={}) if old is None else old.format,
        schema_string=kept or render_schema(shape.schema),
        partition_columns=shape.partition_columns,
        configuration=properties,
        created_time=env.now_ms() if old is None else old.created_time,
    )
    protocol = protocol_for(shape, old=None if state is None else state.protocol)
    if mutation.drops:
        protocol = without(protocol, mutation.drops)
    unchanged = state is not None and protocol == state.protocol
    return (None if metadata == old else metadata), (None if unchanged else protocol)


def _timed(shape: TableDefinition, state: DeltaState | None, moment: int) -> dict[str, str]:
    """Since when commits carry their own time: written where a table that has a history turns that on."""
    if state is None or not truth(shape.properties.get(ENABLE_IN_COMMIT_TIMESTAMPS)):
        return {}
    if in_commit_times(state.protocol, state.metadata) is None:
        return {IN_COMMIT_TIMESTAMP_VERSION: str(state.version + 1), IN_COMMIT_TIMESTAMP_TIME: str(moment)}
    old = state.metadata.properties
    return {name: old[name] for name in (IN_COMMIT_TIMESTAMP_VERSION, IN_COMMIT_TIMESTAMP_TIME) if name in old}


def _fresh(mutation: Mutation, rehidden: Rehidden, tracked: _Tracking | None) -> pa.Table:
    """Files that are in the table already and get ids now: those asked for, and those that come by."""
    again = pa.concat_tables([rehidden.again, mutation.readded])
    bare = again.filter(pc.is_null(again.column("base_row_id"))) if tracked is not None else RESTAMPED.empty_table()
    return pa.concat_tables([mutation.restamped, bare])


def _adds(
    mutation: Mutation, rehidden: Rehidden, fresh: pa.Table, tracked: _Tracking | None, version: int
) -> Iterator[FileAction]:
    """One action per file, staged ones first, stamped where the table tracks rows."""
    staged = mutation.added
    bases = None if tracked is None else stamp(_counts(mutation, fresh), high_water=tracked.high_water).bases
    for i, row in enumerate(staged.to_pylist()):  # one per file
        hides = rehidden.born.get(row["key"])
        if hides is None and row["key"] in mutation.covered:
            continue  # no row of it is left
        laid = mutation.laid.get(row["key"], Laid())
        yield FileAction(
            path=encode_path(row["key"]),
            partition_values=dict(row["partition_values"] or ()),
            size=row["size"],
            modification_time=row["modified_ms"],
            data_change=mutation.data_change,
            stats=row["stats"] if hides is None else loosened(row["stats"], row["num_records"], 0),
            tags=_tags(row, laid, tracked) or None,
            deletion_vector=hides,
            base_row_id=None if bases is None else bases[i],
            default_row_commit_version=None if bases is None else version,
            clustering_provider=laid.provider,
        )
    if fresh.num_rows:
        assert bases is not None, "files are stamped only where the table tracks rows"
        for row, base in zip(fresh.to_pylist(), bases[staged.num_rows :], strict=True):  # one per file
            yield _added_again(mutation, {**row, "base_row_id": base, "default_row_commit_version": version})
    again = pa.concat_tables([rehidden.again, mutation.readded])
    if tracked is not None:
        again = again.filter(pc.is_valid(again.column("base_row_id")))
    for row in again.to_pylist():  # one per file
        yield _added_again(mutation, row)


def _tags(row: Mapping[str, Any], laid: Laid, tracked: _Tracking | None) -> dict[str, str | None]:
    """What is noted of a new file: how it was laid out, and what its rows carry."""
    if tracked is None or row["carried"] is None:
        return dict(laid.tags)
    return {**laid.tags, ROW_IDS: note(row["size"], row["carried"])}


def _born(mutation: Mutation) -> dict[str, tuple[BitMap64, int]]:
    """Rows of its own new files that a transaction hides, and how many rows these files have."""
    own = zip(*(mutation.added.column(name).to_pylist() for name in ("key", "num_records")), strict=True)
    return {key: (mutation.covered[key], rows) for key, rows in own if key in mutation.covered}


def _added_again(mutation: Mutation, row: Mapping[str, Any]) -> FileAction:
    return FileAction(
        path=row["path"],
        partition_values=dict(row["partition_values"] or ()),
        size=row["size"],
        modification_time=row["modified_ms"],
        data_change=mutation.data_change,
        stats=row["stats"],
        tags=None if row["tags"] is None else dict(row["tags"]),
        deletion_vector=_vector(row["dv"]),
        base_row_id=row["base_row_id"],
        default_row_commit_version=row["default_row_commit_version"],
        clustering_provider=row["clustering_provider"],
    )


def _feed(mutation: Mutation) -> Iterator[FileAction]:
    for row in mutation.feed.to_pylist():  # one per file
        yield FileAction(
            path=encode_path(row["key"]),
            partition_values=dict(row["partition_values"] or ()),
            size=row["size"],
            data_change=False,
        )


def _counts(mutation: Mutation, fresh: pa.Table) -> list[int]:
    """Physical rows of each file that is to be stamped, in the order of their actions."""
    return [*mutation.added.column("num_records").to_pylist(), *fresh.column("num_records").to_pylist()]


def _removes(mutation: Mutation, rehidden: Rehidden, state: DeltaState | None, now: int) -> Iterator[FileAction]:
    removed = pa.concat_tables([_as_stamped(mutation.removed, state), rehidden.gone])
    for row in removed.to_pylist():  # one per file
        yield FileAction(
            path=row["path"],
            deletion_timestamp=now,
            data_change=mutation.data_change,
            extended_file_metadata=True if row["size"] is not None else None,
            partition_values=dict(row["partition_values"] or ()),
            size=row["size"],
            tags=dict(row["tags"]) if row["tags"] else None,
            deletion_vector=_vector(row["dv"]),
            base_row_id=row["base_row_id"],
            default_row_commit_version=row["default_row_commit_version"],
        )


def _as_stamped(removed: pa.Table, state: DeltaState | None) -> pa.Table:
    """Removed files as the state has them: one without ids may have been given some since it was read."""
    bare = pc.is_null(removed.column("base_row_id"))
    if state is None or not pc.any(bare).as_py() or "rowTracking" not in writer_features(state.protocol):
        return removed
    current = state.snapshot.files.table
    files = current.filter(pc.is_in(current.column("key"), value_set=removed.column("key").combine_chunks()))
    where = pc.index_in(_logical(removed), value_set=_logical(files))
    for name in ("base_row_id", "default_row_commit_version"):
        told = pc.coalesce(removed.column(name), files.column(name).take(where))
        removed = removed.set_column(removed.column_names.index(name), name, told)
    return removed


def _logical(files: pa.Table) -> pa.Array:
    return logical_ids(files.column("key").combine_chunks(), pc.struct_field(files.column("dv").combine_chunks(), "id"))


def _vector(dv: Mapping[str, Any] | None) -> DeletionVector | None:
    if dv is None:
        return None
    return DeletionVector(dv["storage"], dv["path"], dv["size"], dv["cardinality"], dv["offset"])


def _domains(
    mutation: Mutation, fresh: pa.Table, tracked: _Tracking | None, state: DeltaState | None, version: int
) -> Iterator[DomainMetadata]:
    if tracked is not None:
        mark = stamp(_counts(mutation, fresh), high_water=tracked.high_water).high_water
        if mark != tracked.told:
            yield DomainMetadata(ROW_TRACKING_DOMAIN, json.dumps({"rowIdHighWaterMark": mark}))
    clustering = None if mutation.shape is None else mutation.shape.clustering_columns
    known = None if state is None or CLUSTERING_DOMAIN not in state.domains else state.snapshot.clustering_columns
    if clustering is not None and clustering != known:
        columns = [list(path) for path in clustering]
        said = {"clusteringColumns": columns, "domainName": CLUSTERING_DOMAIN}
        yield DomainMetadata(CLUSTERING_DOMAIN, json.dumps(said))
    for name, configuration in mutation.domains.items():
        before = None if state is None or name not in state.domains else state.domains[name].configuration
        yield DomainMetadata(name, configuration or before, removed=configuration is None)
    if mutation.publishes is not None:
        yield published(mutation.publishes, version)


def _info(
    state: DeltaState | None, mutation: Mutation, metadata: Metadata, *, now: int, moment: int, txn_id: UUID
) -> dict[str, Any]:
    info: dict[str, Any] = {
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
        info = {"inCommitTimestamp": moment, **info}
    return info


def _isolation(mutation: Mutation, metadata: Metadata) -> str:
    """What a lost race would be judged by: where no row changes, nothing that was read can be wrong."""
    level = isolation(metadata.properties.get(ISOLATION_LEVEL))
    return level.value if mutation.data_change else "SnapshotIsolation"
