"""Logs in memory that a test writes action by action."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.env import fixed
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "day", "type": "string", "nullable": True, "metadata": {}},
        ],
    }
)
Action = dict[str, Any]

_MAP = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_ADD = [
    ("path", pa.string()),
    ("partitionValues", _MAP),
    ("size", pa.int64()),
    ("modificationTime", pa.int64()),
    ("dataChange", pa.bool_()),
    ("tags", _MAP),
    ("deletionVector", _VECTOR),
    ("baseRowId", pa.int64()),
    ("defaultRowCommitVersion", pa.int64()),
    ("stats", pa.string()),
]
CHECKPOINT = pa.schema(
    [
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", pa.list_(pa.string())),
                    ("writerFeatures", pa.list_(pa.string())),
                ]
            ),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _MAP)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", _MAP),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        (
            "domainMetadata",
            pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
        ),
        ("add", pa.struct(_ADD)),
        ("remove", pa.struct([*_ADD, ("deletionTimestamp", pa.int64())])),
        ("checkpointMetadata", pa.struct([("version", pa.int64()), ("tags", _MAP)])),
        (
            "sidecar",
            pa.struct(
                [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", _MAP)]
            ),
        ),
    ]
)


def protocol(reader: int = 1, writer: int = 2, rf: Iterable[str] = (), wf: Iterable[str] = ()) -> Action:
    action: Action = {"minReaderVersion": reader, "minWriterVersion": writer}
    if reader >= 3:
        action["readerFeatures"] = list(rf)
    if writer >= 7:
        action["writerFeatures"] = [*rf, *wf]
    return {"protocol": action}


def metadata(schema: str | None = SCHEMA, partitions: Iterable[str] = (), **configuration: str) -> Action:
    action: Action = {
        "id": "5f54ef5f",
        "format": {"provider": "parquet", "options": {}},
        "partitionColumns": list(partitions),
        "configuration": {k.replace("__", "."): v for k, v in configuration.items()},
        "createdTime": 1,
    }
    return {"metaData": action if schema is None else action | {"schemaString": schema}}


def vector(name: str, *, offset: int | None = 1, cardinality: int = 1) -> Action:
    action: Action = {"storageType": "u", "pathOrInlineDv": name, "sizeInBytes": 34, "cardinality": cardinality}
    return action if offset is None else action | {"offset": offset}


def add(path: str, *, dv: Action | None = None, rows: int | None = 3, **more: Any) -> Action:
    action = {"path": path, "partitionValues": {}, "size": 10, "modificationTime": 5, "dataChange": True} | more
    if rows is not None:
        action["stats"] = json.dumps({"numRecords": rows})
    return {"add": action if dv is None else action | {"deletionVector": dv}}


def remove(path: str, *, dv: Action | None = None, **more: Any) -> Action:
    action = {"path": path, "deletionTimestamp": 7, "dataChange": True} | more
    return {"remove": action if dv is None else action | {"deletionVector": dv}}


def domain(name: str, configuration: Any, *, removed: bool = False) -> Action:
    return {"domainMetadata": {"domain": name, "configuration": json.dumps(configuration), "removed": removed}}


def lines(actions: Iterable[Action]) -> bytes:
    return "".join(json.dumps(action) + "\n" for action in actions).encode()


def parquet(actions: Iterable[Action], schema: pa.Schema = CHECKPOINT) -> bytes:
    """A checkpoint file: one row per action."""
    sink = io.BytesIO()
    rows = [{kind: _maps_as_pairs(action, schema.field(kind).type) for kind, action in a.items()} for a in actions]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    return sink.getvalue()


class HandLog:
    """A table of which only the log exists."""

    def __init__(self) -> None:
        self.store = MemoryStore(env=fixed())
        self.location = Location(self.store, "t")

    def put(self, name: str, data: bytes) -> None:
        self.store.put(f"t/_delta_log/{name}", data)

    def delete(self, name: str) -> None:
        self.store.delete(f"t/_delta_log/{name}")

    def commit(self, version: int, *actions: Action) -> None:
        self.put(f"{version:020d}.json", lines(actions))

    def create(self, *actions: Action) -> None:
        self.commit(0, protocol(), metadata(), *actions)

    def checkpoint(self, version: int, *actions: Action, infix: str = "") -> None:
        self.put(f"{version:020d}.checkpoint{infix}.parquet", parquet(actions))

    def hint(self, **fields: Any) -> None:
        self.put("_last_checkpoint", json.dumps(fields).encode())


def _maps_as_pairs(value: Any, type_: pa.DataType) -> Any:
    if pa.types.is_map(type_):
        return list(value.items()) if value is not None else None
    if pa.types.is_struct(type_) and value is not None:
        return {f.name: _maps_as_pairs(value.get(f.name), f.type) for f in type_}
    return value
