"""What another engine that keeps to the protocol may commit to a table with row ids: written by hand, as JSON."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from holdfast.engines.local.scan import scan_table
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.state import DeltaState, load
from holdfast.model.files import FileTable
from holdfast.model.snapshot import HiddenRows
from holdfast.plan.scan.request import Request, plan_scan
from holdfast.schema.arrow import arrow_schema
from holdfast.storage.open import open_location


def append_by_hand(path: str, rows: list[dict[str, Any]]) -> None:
    """Rows in one new file per partition, with ids above the table's mark, and no statistics but the row count."""
    state = load(open_location(path))
    commit(state, "WRITE", _added(state, rows))


def rewrite_by_hand(path: str) -> set[int]:
    """Write a file anew without keeping ids, as an engine may that does not know how: the rows are new ones then."""
    state = load(open_location(path))
    files = state.snapshot.files
    if not len(files):
        return set()
    one = files.filter(pa.array([n == 0 for n in range(len(files))]))
    plan = plan_scan(state.snapshot, Request(None, None, ["_row_id"]))
    rows_read = scan_table(replace(plan, files=one), load_hidden(state.snapshot.location, one)).to_pylist()
    ids = {row.pop("_row_id") for row in rows_read}
    remove = {
        "path": one.column("path")[0].as_py(),
        "deletionTimestamp": 0,
        "dataChange": True,
        **_vector(one.column("dv")[0].as_py()),
    }
    commit(state, "OPTIMIZE", [{"remove": remove}, *_added(state, rows_read)])
    return ids


def show_again_by_hand(path: str) -> bool:
    """Take the vector off a file whose hidden rows were deleted, not updated: those live on in another file."""
    state = load(open_location(path))
    files = state.snapshot.files.table
    hiding = files.filter(files.column("dv").is_valid())
    live = set(_ids(state, state.snapshot.files, load_hidden(state.snapshot.location, state.snapshot.files)))
    chosen = [row for row in hiding.to_pylist() if not _hidden_ids(state, row["key"]) & live]
    if not chosen:
        return False
    row = chosen[0]
    at = files.column("path").to_pylist().index(row["path"])
    stats = json.dumps({"numRecords": state.snapshot.files.num_records[at].as_py()})
    add = {
        "path": row["path"],
        "partitionValues": dict(row["partition_values"] or ()),
        "size": row["size"],
        "modificationTime": row["modified_ms"],
        "dataChange": True,
        "stats": stats,
        "baseRowId": row["base_row_id"],
        "defaultRowCommitVersion": row["default_row_commit_version"],
        **({"tags": dict(row["tags"])} if row["tags"] else {}),
    }
    remove = {"path": row["path"], "deletionTimestamp": 0, "dataChange": True, **_vector(row["dv"])}
    commit(state, "UNDELETE", [{"remove": remove}, {"add": add}])
    return True


def _hidden_ids(state: DeltaState, key: str) -> set[int]:
    """The ids of rows that a file hides."""
    files = state.snapshot.files
    one = files.filter(pa.array([other == key for other in files.column("key").to_pylist()]))
    every = _ids(state, one, HiddenRows({key: BitMap64()}))
    return set(every) - set(_ids(state, one, load_hidden(state.snapshot.location, one)))


def _ids(state: DeltaState, files: FileTable, hidden: HiddenRows) -> list[int]:
    plan = plan_scan(state.snapshot, Request([], None, ["_row_id"]))
    rows_read = scan_table(replace(plan, files=files), hidden)
    return list(rows_read.column("_row_id").to_pylist())


def commit(state: DeltaState, operation: str, actions: list[dict[str, Any]]) -> None:
    version = state.version + 1
    location = state.snapshot.location
    lines = [{"commitInfo": {"timestamp": 0, "operation": operation, "engineInfo": "by hand"}}, *actions]
    body = "\n".join(json.dumps(line) for line in lines).encode()
    assert location.store.put_if_absent(location.key("_delta_log", f"{version:020}.json"), body)


def _added(state: DeltaState, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    snapshot = state.snapshot
    assert snapshot.identity is not None
    partitions = snapshot.partition_columns
    names = {f.name: f.physical_name for f in snapshot.schema.fields}
    by_partition: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        by_partition.setdefault(tuple(row[name] for name in partitions), []).append(row)
    mark = snapshot.identity.high_water
    actions: list[dict[str, Any]] = []
    for values, some in by_partition.items():
        columns = arrow_schema(snapshot.schema)
        kept = [name for name in columns.names if name not in partitions]
        table = pa.Table.from_pylist(some, columns).select(kept).rename_columns([names[name] for name in kept])
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        data = sink.getvalue().to_pybytes()
        name = f"other-{uuid.uuid4()}.parquet"
        snapshot.location.store.put(snapshot.location.key(name), data)
        actions.append(
            {
                "add": {
                    "path": name,
                    "partitionValues": {names[p]: _text(v) for p, v in zip(partitions, values, strict=True)},
                    "size": len(data),
                    "modificationTime": 0,
                    "dataChange": True,
                    "stats": json.dumps({"numRecords": len(some)}),
                    "baseRowId": mark + 1,
                    "defaultRowCommitVersion": state.version + 1,
                }
            }
        )
        mark += len(some)
    domain = {
        "domain": "delta.rowTracking",
        "configuration": json.dumps({"rowIdHighWaterMark": mark}),
        "removed": False,
    }
    return [*actions, {"domainMetadata": domain}]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _vector(dv: dict[str, Any] | None) -> dict[str, Any]:
    if dv is None:
        return {}
    descriptor = {"storageType": dv["storage"], "pathOrInlineDv": dv["path"], "sizeInBytes": dv["size"]}
    offset = {} if dv["offset"] is None else {"offset": dv["offset"]}
    return {"deletionVector": {**descriptor, **offset, "cardinality": dv["cardinality"]}}
