"""Writing checkpoints: a state becomes the few files from which the next reader starts.

1. Everything a checkpoint refers to is there before it is, and it is there before the hint to it: a crash at any moment
   leaves files nobody refers to, never a reference to nothing.
2. A good checkpoint is never replaced or removed; one of the same name that is broken or lost files is replaced.
3. Writing twice, or from two places at once, leaves one state: the second finds the first, or adds an equal one.
4. There is no checkpoint of a version that has no commit.
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
from holdfast.formats.delta.checkpoint.last_checkpoint import hint_body, point
from holdfast.formats.delta.checkpoint.reader import Survey, survey
from holdfast.formats.delta.checkpoint.rows import STRETCH, Plan, file_rows, plain_actions, plain_rows, plan_rows
from holdfast.formats.delta.log.actions import Json, Sidecar, Txn, encode_action, encode_lines
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
SIDECAR_ACTIONS = STRETCH
HINTED_ACTIONS = 30  # a hint repeats the small actions of a V2 checkpoint up to so many of them


@dataclass(frozen=True, slots=True)
class CheckpointWritten:
    """A checkpoint that is there: the names of its files below the log, and whether this call made them."""

    version: int
    names: tuple[str, ...]
    actions: int
    size_bytes: int
    created: bool


@dataclass(frozen=True, slots=True)
class _Content:
    """Everything of a checkpoint but its live files, which stay where they are in the state."""

    state: DeltaState
    plan: Plan
    plain: list[Json]
    removed: pa.Table
    now_ms: int

    @property
    def files(self) -> int:
        return len(self.state.snapshot.files) + int(self.removed.num_rows)

    def rows(self) -> Iterator[pa.Table]:
        return file_rows(self.state, self.removed, self.plan)


def write_checkpoint(state: DeltaState, env: Env, *, policy: Policy | None = None) -> CheckpointWritten:
    """Write the checkpoint of a state, unless there is a good one of this kind, and point the hint to it."""
    location, version = state.snapshot.location, state.version
    kind = _policy(state, policy)
    listing = list_hinted(location, at=version).listing
    if version not in listing.commits:
        raise UnknownVersion(
            f"version {version} of the table at {location.url} has no {commit_name(version)}: a checkpoint may only "
            "be written of a version whose commit is there; open the table again",
            version=version,
        )
    for there in listing.checkpoints:
        if there.version == version and there.unique == (kind == "v2") and (found := _good(state, there)):
            return _point_to(location, there, found, listing)
    content = _content(state, listing, env.now_ms())
    if kind == "v2":
        return _write_v2(location, content, listing, env)
    return _write_classic(location, content, listing)


def point_to(location: Location, checkpoint: Checkpoint, listing: LogListing) -> CheckpointWritten:
    """Point the hint to a checkpoint that is there, unless it points at least as far."""
    return _point_to(location, checkpoint, survey(location, checkpoint), listing)


def _policy(state: DeltaState, asked: Policy | None) -> Policy:
    able = "v2Checkpoint" in reader_features(state.protocol)
    if asked == "v2" and not able:
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
    if asked is not None:
        return asked
    wanted = state.metadata.properties.get(CHECKPOINT_POLICY, "classic").lower() == "v2"
    return "v2" if wanted and able else "classic"


def _content(state: DeltaState, listing: LogListing, now_ms: int) -> _Content:
    properties = state.metadata.properties
    removed = tombstones(state, segments=segments_from(listing, at=state.version))
    removed = removed.filter(
        pc.greater(pc.fill_null(removed.column("deleted_ms"), 0), now_ms - file_retention_ms(state))
    )
    txns = list(state.txns.values())
    if (kept_for := properties.get(TXN_RETENTION)) is not None:
        oldest = now_ms - span_ms(TXN_RETENTION, kept_for)
        txns = [txn for txn in txns if _updated(txn) > oldest]
    plain = plain_actions(state.protocol, state.metadata, txns, list(state.domains.values()))
    return _Content(state, plan_rows(state), plain, removed, now_ms)


def _updated(txn: Txn) -> int:
    return 0 if txn.last_updated is None else txn.last_updated


def _write_classic(location: Location, content: _Content, listing: LogListing) -> CheckpointWritten:
    version = content.state.version
    name = checkpoint_name(version)
    key = location.key(LOG, name)
    data = _parquet(_cut(_whole_rows(content), STRETCH), content.plan.everything)
    if not location.store.put_if_absent(key, data):
        there = Checkpoint(version, (location.store.head(key),))
        if found := _good(content.state, there):
            return _point_to(location, there, found, listing)
        location.store.put(key, data)
    actions = len(content.plain) + content.files
    body = hint_body(version, actions, size_bytes=len(data), adds=len(content.state.snapshot.files))
    point(location, version, body, listing)
    return CheckpointWritten(version, (name,), actions, len(data), created=True)


def _whole_rows(content: _Content) -> Iterator[pa.Table]:
    schema = content.plan.everything
    yield plain_rows(content.plain, content.plan)
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
    told: Json = {"path": name, "sizeInBytes": len(top), "modificationTime": content.now_ms}
    if len(plain) <= HINTED_ACTIONS:
        told["nonFileActions"] = plain
    if len(sidecars) <= HINTED_ACTIONS:
        told["sidecarFiles"] = [encode_action(s) for s in sidecars]
    point(location, version, hint_body(version, actions, size_bytes=size, adds=adds, v2=told), listing)
    names = (name, *(f"{SIDECARS}/{s.path}" for s in sidecars))
    return CheckpointWritten(version, names, actions, size, created=True)


def _write_sidecars(location: Location, content: _Content, env: Env) -> Iterator[Sidecar]:
    count = -(-content.files // SIDECAR_ACTIONS)
    for part, rows in enumerate(_cut(content.rows(), SIDECAR_ACTIONS), start=1):
        name = sidecar_name(content.state.version, part, count, env.new_uuid())
        data = _parquet([rows], content.plan.files)
        location.store.put(location.key(LOG, SIDECARS, name), data)
        yield Sidecar(name, len(data), content.now_ms)


def _cut(tables: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """The same rows in tables of `size` rows, the last one shorter."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        while count + table.num_rows >= size:
            head = size - count
            yield pa.concat_tables([*waiting, table.slice(0, head)])
            table, waiting, count = table.slice(head), [], 0
        waiting.append(table)
        count += table.num_rows
    if count:
        yield pa.concat_tables(waiting)


def _parquet(tables: Iterable[pa.Table], schema: pa.Schema) -> bytes:
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema, compression="snappy") as writer:
        for table in tables:
            writer.write_table(table)
    return sink.getvalue()


def _good(state: DeltaState, checkpoint: Checkpoint) -> Survey | None:
    """What a checkpoint of a state consists of; None where it is broken, or lost files."""
    try:
        found = survey(state.snapshot.location, checkpoint)
    except Damaged:
        return None
    return found if found.adds == len(state.snapshot.files) else None


def _point_to(location: Location, there: Checkpoint, found: Survey, listing: LogListing) -> CheckpointWritten:
    parts = len(there.files) if len(there.files) > 1 else None
    body = hint_body(there.version, found.actions, parts=parts, size_bytes=found.size_bytes, adds=found.adds)
    point(location, there.version, body, listing, again=False)
    names = (*(meta.name for meta in there.files), *(f"{SIDECARS}/{s.path}" for s in found.sidecars))
    return CheckpointWritten(there.version, names, found.actions, found.size_bytes, created=False)
