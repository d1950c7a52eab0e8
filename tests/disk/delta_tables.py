"""Delta tables for the archive: everything Holdfast puts into a log or beside one.

A verb that is killed leaves what it leaves: leases, staged sources and files without a commit are made so.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast import DeltaTable
from holdfast.storage.local import LocalStore
from holdfast.verbs.define.builder import IdentityGenerator

KINDS: dict[str, dict[str, Any]] = {
    "append-only": {"kind": "append-only"},
    "append-only-deleted": {"kind": "append-only", "includeDeleted": True},
    "upsert": {"kind": "upsert"},
    "upsert-deleted": {"kind": "upsert", "includeDeleted": True},
    "min-delta": {"kind": "min-delta"},
    "min-delta-changed": {"kind": "min-delta", "dropUnchanged": True},
    "min-delta-keys": {"kind": "min-delta", "keys": ["n"]},
    "full-delta": {"kind": "full-delta"},
}
METHODS = ("flat", "ivf_flat", "ivf_sqfp16", "ivf_sq8", "ivf_pq", "hnsw")
VECTORS, WIDTH = 300, 4
IDS = ["_row_id", "_row_commit_version"]


def plain(rows: pa.Table) -> list[Any]:
    """Rows as JSON keeps them, in an order of their own."""
    return sorted(json.loads(json.dumps(rows.to_pylist(), default=str)), key=json.dumps)


def rows_at(table: DeltaTable, version: int | None = None) -> list[Any]:
    """All rows of a version, with their identity."""
    return plain(table.toArrow(version=version, metadata=IDS))


def killed(verb: Callable[[], object]) -> None:
    """Run a verb in a process that dies before the commit."""

    def run() -> None:
        create = LocalStore.put_if_absent

        def die(self: LocalStore, key: str, data: bytes) -> bool:
            if "/_delta_log/" in key and key.endswith(".json"):
                os._exit(9)
            return create(self, key, data)

        LocalStore.put_if_absent = die  # type: ignore[method-assign]
        verb()

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join()
    assert process.exitcode == 9, "the verb came as far as its commit"


def numbers(*values: int, **columns: Any) -> pa.Table:
    """Rows of the table of `rows_table`."""
    return pa.table({"n": pa.array(values, pa.int64()), **columns})


def rows_table(path: Path) -> dict[str, Any]:
    """Row tracking, deletion vectors, clustering, change data, column mapping, V2 checkpoints, a compacted log."""
    table = (
        DeltaTable.create(None)
        .location(path)
        .comment("rows of every kind")
        .addColumn("id", "bigint", generatedByDefaultAs=IdentityGenerator(10, 5))
        .addColumn("n", "bigint", nullable=False)
        .addColumn("g", "string", default="'none'")
        .addColumn("s", "struct<a: int, b: array<string>>")
        .addColumn("t", "timestamp", default="TIMESTAMP '2026-01-01 00:00:00'")
        .clusterBy("n")
        .property("delta.enableChangeDataFeed", "true")
        .property("delta.columnMapping.mode", "name")
        .property("delta.checkpointPolicy", "v2")
        .property("delta.checkpointInterval", "5")
        .property("delta.enableInCommitTimestamps", "true")
        .property("delta.feature.allowColumnDefaults", "supported")
        .property("delta.constraints.sign", "n >= 0")
        .execute()
    )
    nested = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
    table.append(numbers(*range(0, 20, 2), s=pa.array([{"a": n, "b": [str(n)]} for n in range(10)], nested)))
    table.append(numbers(*range(1, 20, 2), g=[f"g{n % 3}" for n in range(10)]), txn=("loader", 7))
    table.update("n % 5 = 0", {"g": "'five'"})
    table.delete("n % 7 = 6")
    table.optimize().executeCompaction()
    token_at = table.version
    tokens = {name: table.changes(1, token_at, **asked).resumeToken for name, asked in KINDS.items()}
    source = numbers(1, 2, 40, g=["merged", "merged", "new"])
    merge = table.alias("t").merge(source, "t.n = source.n").whenMatchedUpdate("source.n = 1", set={"g": "source.g"})
    merge.whenMatchedDelete().whenNotMatchedInsert(values={"n": "source.n", "g": "source.g"}).execute()
    table.update("n = 3", {"g": "'copied'"}, mode="copy-on-write")
    table.renameColumn("g", "label")
    table.addColumns([("extra", "int")])
    table.append(numbers(50, 51, extra=pa.array([1, None], pa.int32())))
    table.delete("n = 50")
    table.update("n = 51", {"extra": "extra"})
    table.compactLog(11, table.version)
    last = table.version
    return {
        "version": last,
        "rows": {str(version): rows_at(table, version) for version in range(1, last + 1)},
        "feed": plain(table.changeFeed(1, last).toArrow()),
        "changes": plain(table.changes(1, last).toArrow()),
        "tokens": tokens,
        "continued": {
            name: plain(table.changes(token_at + 1, last, **asked).toArrow()) for name, asked in KINDS.items()
        },
        "operations": table.historyArrow().column("operation").to_pylist(),
        "biography": [[event.version, event.operation] for event in table.biography(1).events],
        "log": sorted(str(f.relative_to(path / "_delta_log")) for f in (path / "_delta_log").rglob("*") if f.is_file()),
    }


def indexed_table(path: Path) -> dict[str, Any]:
    """An index of every kind, and rows that came and went after they were built."""
    points = np.random.default_rng(5).normal(size=(VECTORS, WIDTH)).astype(np.float32)
    builder = DeltaTable.create(None).location(path).addColumn("key", "bigint").addColumn("g", "string")
    for method in METHODS:
        builder = builder.addColumn(method, "array<float>")
    table = builder.execute()
    for part in range(3):
        table.append(indexed_rows(points, range(part, VECTORS, 3)))
    table.createIndex("key")
    table.createIndex(["g", "key"], name="both")
    table.createIndex("g", kind="bitmap", name="few")
    for method in METHODS:
        lists = {"lists": 2} if method.startswith("ivf") else {}
        table.createIndex(method, kind="vector", name=f"near_{method}", method=method, metric="cosine", **lists)
    table.delete("key = 4")
    table.append(indexed_rows(points[:2], [VECTORS, VECTORS + 1]))
    table.refreshIndex("key")
    table.update("key = 7", {"g": "'moved'"})
    return {
        "version": table.version,
        "rows": plain(table.toArrow(["key", "g"], metadata=IDS)),
        "indexes": {one.name: [one.kind, list(one.columns), one.version, one.entries] for one in table.indexes()},
        "point": points[9].tolist(),
    }


def indexed_rows(points: np.ndarray[Any, Any], keys: range | list[int]) -> pa.Table:
    """Rows of the table of `indexed_table`: every third key is in the same file."""
    vectors = pa.array([points[key % len(points)].tolist() for key in keys], pa.list_(pa.float32()))
    groups = [f"g{key % 4}" for key in keys]
    return pa.table({"key": pa.array(keys, pa.int64()), "g": groups, **dict.fromkeys(METHODS, vectors)})


def kept_table(path: Path) -> dict[str, Any]:
    """Pins, an erasure, what a vacuum says, and what killed processes leave: a lease, a staged source, loose files."""
    table = DeltaTable.create(None).location(path).addColumn("n", "bigint").addColumn("s", "string").execute()

    def some(*values: int) -> pa.Table:
        return pa.table({"n": pa.array(values, pa.int64()), "s": [f"row {n}" for n in values]})

    table.append(some(1, 2, 3))
    table.append(some(4, 5))
    table.update("n = 1", {"s": "'first'"}, mode="copy-on-write")
    table.pin(2, "audit")
    table.append(some(6, 7))
    table.update("n = 6", {"s": "'sixth'"}, mode="copy-on-write")
    table.vacuum(0, enforceRetention=False)
    table.append(some(8, 9))
    erased = table.erase("n = 8")
    merge = table.alias("t").merge(some(9, 10), "t.n = source.n").whenMatchedDelete().whenNotMatchedInsertAll()
    killed(merge.execute)
    killed(lambda: table.optimize(lease="crashed").executeCompaction())
    files = sorted(str(f.relative_to(path)) for f in (path / "_holdfast").rglob("*") if f.is_file())
    return {
        "version": table.version,
        "rows": rows_at(table),
        "pinned": rows_at(table, 2),
        "pins": table.pins(),
        "readable": list(map(list, table.readableVersions().spans)),
        "erasure": erased.id,
        "erased": str(erased),
        "beside": files,
    }


def applied_tables(root: Path) -> dict[str, Any]:
    """A table whose changes were applied to another, up to a version, by row id."""
    columns = pa.schema([("n", pa.int64()), ("s", pa.string())])
    origin = DeltaTable.create(None).location(root / "origin").addColumns(columns).execute()
    origin.append(pa.table({"n": [1, 2, 3], "s": ["a", "b", "c"]}, columns))
    applied = DeltaTable.create(None).location(root / "applied").addColumns(columns).execute()
    origin.changes(0, kind="min-delta").applyChanges(applied)
    origin.update("n = 2", {"s": "'changed'"})
    origin.delete("n = 3")
    return {"origin": plain(origin.toArrow(metadata=["_row_id"])), "applied": plain(applied.toArrow())}
