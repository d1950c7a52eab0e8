"""Writes checkpoints, classic and V2.

1. Sidecars are written before the checkpoint, and the checkpoint before the hint. So a crash at any moment leaves
   unreferenced files, never a reference to a missing file.
2. A valid checkpoint is never replaced or removed; one of the same name that is broken or lost files is replaced.
3. Two writers of one checkpoint do not harm each other: the second uses the first one's, or adds an equal one.
4. There is no checkpoint of a version without a commit.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.env import Env
from holdfast.errors import Damaged, Invalid, UnknownVersion
from holdfast.formats.delta.checkpoint.last_checkpoint import hint_body, update_hint
from holdfast.formats.delta.checkpoint.reader import Survey, survey
from holdfast.formats.delta.checkpoint.rows import (
    BATCH_ROWS,
    CheckpointSchema,
    checkpoint_schema,
    file_rows,
    plain_actions,
    plain_rows,
)
from holdfast.formats.delta.log.actions import Json, Sidecar, encode_action, encode_lines
from holdfast.formats.delta.log.file_names import (
    LOG,
    SIDECARS,
    checkpoint_name,
    commit_name,
    sidecar_name,
    unique_checkpoint_name,
)
from holdfast.formats.delta.log.listing import list_hinted
from holdfast.formats.delta.log.segment import Checkpoint, LogListing, segments_from
from holdfast.formats.delta.log.tombstones import file_retention_ms, tombstones
from holdfast.formats.delta.protocol.features import reader_features, writer_features
from holdfast.formats.delta.state import DeltaState
from holdfast.schema.properties import PROTECTED_BEFORE, TXN_RETENTION, number, span_ms
from holdfast.storage.location import Location

Policy: TypeAlias = Literal["classic", "v2"]

CHECKPOINT_POLICY = "delta.checkpointPolicy"
SIDECAR_ACTIONS = BATCH_ROWS
HINTED_ACTIONS = 30  # a hint repeats the other actions of a V2 checkpoint up to this many


@dataclass(frozen=True, slots=True)
class CheckpointWritten:
    """A checkpoint: the names of its files below the log, and whether this call wrote them."""

    version: int
    names: tuple[str, ...]
    actions: int
    size_bytes: int
    created: bool


@dataclass(frozen=True, slots=True)
class _Content:
    """What is written into a checkpoint; its live files are those of the state."""

    state: DeltaState
    schema: CheckpointSchema
    plain: list[Json]
    removed: pa.Table
    now_ms: int

    @property
    def files(self) -> int:
        return len(self.state.snapshot.files) + int(self.removed.num_rows)

    def rows(self) -> Iterator[pa.Table]:
        return file_rows(self.state, self.removed, self.schema)


def write_checkpoint(state: DeltaState, env: Env, *, policy: Policy | None = None) -> CheckpointWritten:
    """Writes the checkpoint of a state unless there is a valid one of this kind, and points the hint to it."""
    location, version = state.snapshot.location, state.version
    kind = _policy(state, policy)
    listing = list_hinted(location, at=version).listing
    if version not in listing.commits:
        raise UnknownVersion(
            f"version {version} of the table at {location.url} has no {commit_name(version)}: a checkpoint may only "
            "be written of a version whose commit is there; open the table again",
            version=version,
        )
    for existing in listing.checkpoints:
        same_kind = existing.version == version and existing.unique == (kind == "v2")
        if same_kind and (valid_survey := _valid_survey(state, existing)):
            return _use_existing(location, existing, valid_survey, listing)
    content = _content(state, listing, env.now_ms())
    if kind == "v2":
        return _write_v2(location, content, listing, env)
    return _write_classic(location, content, listing)


def point_hint_to(location: Location, checkpoint: Checkpoint, listing: LogListing) -> CheckpointWritten:
    """Points the hint to an existing checkpoint, unless it points to this version or a newer one."""
    return _use_existing(location, checkpoint, survey(location, checkpoint), listing)


def _policy(state: DeltaState, requested: Policy | None) -> Policy:
    supports_v2 = "v2Checkpoint" in reader_features(state.protocol)
    if requested == "v2" and not supports_v2:
        raise Invalid(
            f"the table at {state.snapshot.location.url} does not support V2 checkpoints: set its property "
            f"{CHECKPOINT_POLICY} to v2 first, which adds the feature v2Checkpoint"
        )
    protected = state.metadata.properties.get(PROTECTED_BEFORE)
    guarded = protected is not None and "checkpointProtection" in writer_features(state.protocol)
    if guarded and state.version < number(PROTECTED_BEFORE, protected or ""):
        raise Invalid(
            f"the table at {state.snapshot.location.url} protects its checkpoints before version {protected}: write "
            f"one of a later version than {state.version}"
        )
    if requested is not None:
        return requested
    prefers_v2 = state.metadata.properties.get(CHECKPOINT_POLICY, "classic").lower() == "v2"
    return "v2" if prefers_v2 and supports_v2 else "classic"


def _content(state: DeltaState, listing: LogListing, now_ms: int) -> _Content:
    properties = state.metadata.properties
    removed = tombstones(state, segments=segments_from(listing, at=state.version))
    removed = removed.filter(
        pc.greater(pc.fill_null(removed.column("deleted_ms"), 0), now_ms - file_retention_ms(state))
    )
    txns = list(state.txns.values())
    if (kept_for := properties.get(TXN_RETENTION)) is not None:
        oldest = now_ms - span_ms(TXN_RETENTION, kept_for)
        txns = [txn for txn in txns if (txn.last_updated or 0) > oldest]
    plain = plain_actions(state.protocol, state.metadata, txns, list(state.domains.values()))
    return _Content(state, checkpoint_schema(state), plain, removed, now_ms)


def _write_classic(location: Location, content: _Content, listing: LogListing) -> CheckpointWritten:
    version = content.state.version
    name = checkpoint_name(version)
    key = location.key(LOG, name)
    data = _parquet(_cut(_whole_rows(content), BATCH_ROWS), content.schema.everything)
    if not location.store.put_if_absent(key, data):
        existing = Checkpoint(version, (location.store.head(key),))
        if valid_survey := _valid_survey(content.state, existing):
            return _use_existing(location, existing, valid_survey, listing)
        location.store.put(key, data)
    actions = len(content.plain) + content.files
    body = hint_body(version, actions, size_bytes=len(data), adds=len(content.state.snapshot.files))
    update_hint(location, version, body, listing)
    return CheckpointWritten(version, (name,), actions, len(data), created=True)


def _whole_rows(content: _Content) -> Iterator[pa.Table]:
    schema = content.schema.everything
    yield plain_rows(content.plain, content.schema)
    for files in content.rows():
        columns = [
            files.column(f.name) if f.name in files.column_names else pa.nulls(files.num_rows, f.type) for f in schema
        ]
        yield pa.Table.from_arrays(columns, schema=schema)


def _write_v2(location: Location, content: _Content, listing: LogListing, env: Env) -> CheckpointWritten:
    version = content.state.version
    sidecars = list(_write_sidecars(location, content, env))
    adds = len(content.state.snapshot.files)
    tags = {
        "sidecarNumActions": str(content.files),
        "sidecarSizeInBytes": str(sum(s.size_in_bytes for s in sidecars)),
        "numOfAddFiles": str(adds),
    }
    plain = [{"checkpointMetadata": {"version": version, "tags": tags}}, *content.plain]
    top = encode_lines([plain[0], *({"sidecar": encode_action(s)} for s in sidecars), *plain[1:]])
    name = unique_checkpoint_name(version, env.new_uuid())
    location.store.put(location.key(LOG, name), top)
    actions = len(plain) + len(sidecars) + content.files
    size = len(top) + sum(s.size_in_bytes for s in sidecars)
    v2: Json = {"path": name, "sizeInBytes": len(top), "modificationTime": content.now_ms}
    if len(plain) <= HINTED_ACTIONS:
        v2["nonFileActions"] = plain
    if len(sidecars) <= HINTED_ACTIONS:
        v2["sidecarFiles"] = [encode_action(s) for s in sidecars]
    update_hint(location, version, hint_body(version, actions, size_bytes=size, adds=adds, v2=v2), listing)
    names = (name, *(f"{SIDECARS}/{s.path}" for s in sidecars))
    return CheckpointWritten(version, names, actions, size, created=True)


def _write_sidecars(location: Location, content: _Content, env: Env) -> Iterator[Sidecar]:
    count = -(-content.files // SIDECAR_ACTIONS)
    for part, rows in enumerate(_cut(content.rows(), SIDECAR_ACTIONS), start=1):
        name = sidecar_name(content.state.version, part, count, env.new_uuid())
        data = _parquet([rows], content.schema.files)
        location.store.put(location.key(LOG, SIDECARS, name), data)
        yield Sidecar(name, len(data), content.now_ms)


def _cut(tables: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """The same rows in tables of `size` rows, the last one shorter."""
    pending: list[pa.Table] = []
    count = 0
    for table in tables:
        while count + table.num_rows >= size:
            needed = size - count
            yield pa.concat_tables([*pending, table.slice(0, needed)])
            table, pending, count = table.slice(needed), [], 0
        pending.append(table)
        count += table.num_rows
    if count:
        yield pa.concat_tables(pending)


def _parquet(tables: Iterable[pa.Table], schema: pa.Schema) -> bytes:
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema, compression="snappy") as writer:
        for table in tables:
            writer.write_table(table)
    return sink.getvalue()


def _valid_survey(state: DeltaState, checkpoint: Checkpoint) -> Survey | None:
    """The survey of a checkpoint of this state; None where it is broken or lost files."""
    try:
        result = survey(state.snapshot.location, checkpoint)
    except Damaged:
        return None
    return result if result.adds == len(state.snapshot.files) else None


def _use_existing(location: Location, existing: Checkpoint, counts: Survey, listing: LogListing) -> CheckpointWritten:
    parts = len(existing.files) if len(existing.files) > 1 else None
    body = hint_body(existing.version, counts.actions, parts=parts, size_bytes=counts.size_bytes, adds=counts.adds)
    update_hint(location, existing.version, body, listing, again=False)
    names = (*(meta.name for meta in existing.files), *(f"{SIDECARS}/{s.path}" for s in counts.sidecars))
    return CheckpointWritten(existing.version, names, counts.actions, counts.size_bytes, created=False)
