"""Checkpoints by hand: the reconciled actions of a log, laid out in each of the ways the protocol knows.

A checkpoint here is a mapping from a path below `_delta_log` to bytes, with the `_last_checkpoint` that points to it.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.smith_values import Json, arrow_type, dumps, physical_name

KINDS = ("classic", "multipart", "v2-json", "v2-parquet", "v2-classic-name")
STATS = ("json", "struct", "both", "none")

_MAP = pa.map_(pa.string(), pa.string())
_DV = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_FILE = [
    ("path", pa.string()),
    ("partitionValues", _MAP),
    ("size", pa.int64()),
    ("modificationTime", pa.int64()),
    ("dataChange", pa.bool_()),
    ("tags", _MAP),
    ("deletionVector", _DV),
    ("baseRowId", pa.int64()),
    ("defaultRowCommitVersion", pa.int64()),
    ("clusteringProvider", pa.string()),
]
_REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _MAP),
        ("size", pa.int64()),
        ("deletionVector", _DV),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
_FEATURES = pa.list_(pa.string())
_OTHER = {
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _FEATURES),
            ("writerFeatures", _FEATURES),
        ]
    ),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", _MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", _FEATURES),
            ("createdTime", pa.int64()),
            ("configuration", _MAP),
        ]
    ),
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
}
_V2 = {
    "checkpointMetadata": pa.struct([("version", pa.int64()), ("tags", _MAP)]),
    "sidecar": pa.struct(
        [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", _MAP)]
    ),
}


def lay_out(
    kind: str,
    version: int,
    actions: Sequence[Json],
    fields: Sequence[Json],
    *,
    stats: str,
    pieces: int,
    new_uuid: Callable[[], UUID],
    now_ms: int,
) -> tuple[dict[str, bytes], Json]:
    """The files of a checkpoint, and its `_last_checkpoint`. `pieces` are parts, or sidecars (0: all inline)."""
    assert kind in KINDS, f"no such checkpoint: {kind}"
    assert stats in STATS, f"no such statistics: {stats}"
    files = [a for a in actions if "add" in a or "remove" in a]
    other = [a for a in actions if a not in files]
    columns = {"add": _add_type(fields, stats), "remove": _REMOVE}
    stem = f"{version:020}.checkpoint"
    hint: Json = {"version": version, "size": len(actions)}

    def rendered(rows: Iterable[Json]) -> list[Json]:
        return [_with_parsed(row, fields, stats) for row in rows]

    if kind == "classic":
        return {f"{stem}.parquet": _parquet(other + rendered(files), {**_OTHER, **columns})}, hint
    if kind == "multipart":
        groups = [[f for f in files if _bucket(f, pieces) == i] for i in range(pieces)]
        groups[0] = other + groups[0]
        parts = {
            f"{stem}.{i + 1:010}.{pieces:010}.parquet": _parquet(rendered(group), {**_OTHER, **columns})
            for i, group in enumerate(groups)
        }
        return parts, {**hint, "parts": pieces}
    out = {}
    top = [{"checkpointMetadata": {"version": version}}, *other]
    for i in range(pieces):
        name = f"{stem}.{i + 1:010}.{pieces:010}.{new_uuid()}.parquet"
        data = _parquet(rendered(f for f in files if _bucket(f, pieces) == i), columns)
        out[f"_sidecars/{name}"] = data
        top.append({"sidecar": {"path": name, "sizeInBytes": len(data), "modificationTime": now_ms}})
    if not pieces:
        top += files
    if kind == "v2-json":
        name, data = f"{stem}.{new_uuid()}.json", "".join(dumps(a) + "\n" for a in top).encode()
    else:
        name = f"{stem}.parquet" if kind == "v2-classic-name" else f"{stem}.{new_uuid()}.parquet"
        data = _parquet(rendered(top), {**_OTHER, **_V2, **columns})
    out[name] = data
    hint["size"] = len(top) + (len(files) if pieces else 0)
    return out, {**hint, "v2Checkpoint": {"path": name, "sizeInBytes": len(data), "modificationTime": now_ms}}


def _bucket(action: Json, count: int) -> int:
    (body,) = action.values()
    return zlib.crc32(body["path"].encode()) % count


def _parquet(rows: Sequence[Json], columns: Mapping[str, pa.DataType]) -> bytes:
    table = pa.Table.from_pylist([_maps_as_items(row) for row in rows], schema=pa.schema(list(columns.items())))
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def _maps_as_items(action: Json) -> Json:
    ((kind, body),) = action.items()
    body = dict(body)
    for name in ("partitionValues", "tags", "configuration"):
        if isinstance(body.get(name), Mapping):
            body[name] = list(body[name].items())
    if kind == "metaData":
        body["format"] = {"provider": body["format"]["provider"], "options": list(body["format"]["options"].items())}
    return {kind: body}


def _add_type(fields: Sequence[Json], stats: str) -> pa.DataType:
    columns = list(_FILE)
    if stats in ("json", "both"):
        columns.append(("stats", pa.string()))
    if stats in ("struct", "both"):
        columns.append(("stats_parsed", _stats_type(fields)))
    return pa.struct(columns)


def _stats_type(fields: Sequence[Json]) -> pa.DataType:
    limits, counts = _limit_fields(fields), _count_fields(fields)
    parts = [("numRecords", pa.int64())]
    parts += [("minValues", pa.struct(limits)), ("maxValues", pa.struct(limits))] if limits else []
    return pa.struct([*parts, ("nullCount", pa.struct(counts)), ("tightBounds", pa.bool_())])


def _limit_fields(fields: Sequence[Json]) -> list[tuple[str, pa.DataType]]:
    found = []
    for field in fields:
        type_ = field["type"]
        if isinstance(type_, str) and type_ not in ("boolean", "binary", "void"):
            found.append((physical_name(field), arrow_type(type_)))
        elif isinstance(type_, Mapping) and type_["type"] == "struct" and (inner := _limit_fields(type_["fields"])):
            found.append((physical_name(field), pa.struct(inner)))
    return found


def _count_fields(fields: Sequence[Json]) -> list[tuple[str, pa.DataType]]:
    found = []
    for field in fields:
        type_ = field["type"]
        nested = isinstance(type_, Mapping) and type_["type"] == "struct"
        found.append((physical_name(field), pa.struct(_count_fields(type_["fields"])) if nested else pa.int64()))
    return found


def _with_parsed(action: Json, fields: Sequence[Json], stats: str) -> Json:
    if "add" not in action or stats not in ("struct", "both") or not action["add"].get("stats"):
        return action
    parsed = json.loads(action["add"]["stats"], parse_float=str)
    return {"add": {**action["add"], "stats_parsed": _typed(parsed, _stats_type(fields))}}


def _typed(value: Any, type_: pa.DataType) -> Any:
    """A value of a statistics text as one of an Arrow type."""
    if value is None:
        return None
    if pa.types.is_struct(type_):
        return {field.name: _typed(value.get(field.name), field.type) for field in type_}
    if pa.types.is_date(type_):
        return date.fromisoformat(value)
    if pa.types.is_timestamp(type_):
        return datetime.fromisoformat(value)
    if pa.types.is_decimal(type_):
        return Decimal(value).quantize(Decimal(1).scaleb(-type_.scale))
    return float(value) if pa.types.is_floating(type_) else value
