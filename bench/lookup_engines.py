"""The engines of `lookup.py`, each in a process of its own: the first argument says which.

Imports stand inside the functions, because a process must load its own engine only. Every call that is measured gives
its seconds; `check` is a number that must be the same for all engines, made of what was found.

1. `build` makes the table with its indexes, `open` opens it, and both are told apart from what follows.
2. All engines hold the table open between calls, as a service would.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import lookup_rows
from engine import serve

_COLUMNS = {"all": None, "narrow": ["id", "s"], "vectors": ["vec"]}


def _timed(run: Callable[[], Any], check: Callable[[Any], Any]) -> dict[str, Any]:
    start = perf_counter()
    found = run()
    return {"seconds": perf_counter() - start, "check": check(found)}


def _each(values: list[int], run: Callable[[int], Any]) -> dict[str, Any]:
    """Values asked for one after the other, and the time of one."""
    done = _timed(lambda: [run(value) for value in values], lambda tables: sum(map(_sum, tables)))
    return {**done, "seconds": done["seconds"] / len(values)}


def _sum(table: Any) -> int:
    """Of the numbers found; of their count where they were not asked for."""
    return sum(table.column("id").to_pylist()) if "id" in table.column_names else int(table.num_rows)


def _sizes(directory: Path) -> dict[Path, int]:
    """The files below a directory, and how long each is."""
    return {path: path.stat().st_size for path in directory.rglob("*") if path.is_file()}


def _more(before: dict[Path, int], after: dict[Path, int]) -> int:
    """Bytes of files that are new or longer; a file that was made shorter or is gone counts nothing."""
    return sum(max(size - before.get(path, 0), 0) for path, size in after.items())


def holdfast() -> dict[str, Callable[..., Any]]:
    """The point layout, a btree on the number and a vector index, on the local engine."""
    import numpy as np
    import pyarrow as pa

    from holdfast import DeltaTable

    held: dict[str, Any] = {}

    def lists(table: pa.Table) -> pa.Table:
        return table.set_column(2, "vec", table.column("vec").cast(pa.list_(pa.float32())))

    def build(path: str, rows: int) -> dict[str, float]:
        start = perf_counter()
        schema = lists(next(lookup_rows.stretches(1))).schema
        builder = DeltaTable.create(None).location(path).addColumns(schema).property("holdfast.layout", "point")
        table = builder.property("delta.enableDeletionVectors", "true").execute()
        for some in lookup_rows.stretches(rows):
            table.append(lists(some))
        written = perf_counter()
        table.createIndex("id")
        table.createIndex("vec", kind="vector")
        return {"seconds": perf_counter() - written, "write_s": written - start}

    def open_(path: str) -> dict[str, float]:
        start = perf_counter()
        held["table"] = DeltaTable.forPath(None, path)
        held["table"].refresh()
        held["path"] = path
        return {"seconds": perf_counter() - start}

    def ids() -> None:
        """The row id of every number, for takes."""
        found = held["table"].toArrow(["id"], metadata=["_row_id"])
        held["ids"] = dict(zip(found.column("id").to_pylist(), found.column("_row_id").to_pylist(), strict=True))

    def key(values: list[int]) -> dict[str, Any]:
        return _each(values, lambda value: held["table"].lookup(id=value))

    def keys(values: list[int]) -> dict[str, Any]:
        return _timed(lambda: held["table"].lookup(id=values), _sum)

    def take(values: list[int], columns: str) -> dict[str, Any]:
        wanted = [held["ids"][value] for value in values]
        return _timed(lambda: held["table"].take(wanted, columns=_COLUMNS[columns]), _sum)

    def near(query: list[float]) -> dict[str, Any]:
        run = partial(held["table"].nearest, "vec", query, 10, columns=["id"])
        return _timed(run, lambda t: t.column("id").to_pylist())

    def exact(queries: list[list[float]]) -> list[list[int]]:
        """The nearest rows of each query, by looking at all."""
        found = held["table"].toArrow(["id", "vec"])
        ids = found.column("id").to_numpy()
        flat = found.column("vec").combine_chunks().flatten().to_numpy()
        vectors = flat.reshape(len(ids), lookup_rows.LENGTH)
        squares = np.einsum("ij,ij->i", vectors, vectors)
        nearest = []
        for query in np.array(queries, np.float32):
            near = np.argpartition(squares - 2 * (vectors @ query), 40)[:40]
            distance = np.square(vectors[near].astype(np.float64) - query).sum(axis=1)
            nearest.append(ids[near[np.argsort(distance)[:10]]].tolist())
        return nearest

    def update(values: list[int], seed: int) -> None:
        source = lists(lookup_rows.table_of(np.array(values), seed=seed, text="changed"))
        held["table"].alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().execute()

    def compact() -> dict[str, Any]:
        before = _sizes(Path(held["path"], "_holdfast", "index"))
        held["table"].optimize(materializeDeletionsThreshold=0.0).executeCompaction()
        return {"index_bytes": _more(before, _sizes(Path(held["path"], "_holdfast", "index")))}

    def add(first: int, count: int, seed: int) -> dict[str, float]:
        held["table"].append(lists(lookup_rows.table_of(np.arange(first, first + count), seed=seed)))
        held["table"].refresh()
        return refresh()

    def refresh() -> dict[str, float]:
        start = perf_counter()
        held["table"].refreshIndex("id")
        held["table"].refreshIndex("vec")
        return {"seconds": perf_counter() - start}

    return {
        "build": build,
        "open": open_,
        "ids": ids,
        "key": key,
        "keys": keys,
        "take": take,
        "near": near,
        "exact": exact,
        "update": update,
        "compact": compact,
        "add": add,
        "refresh": refresh,
    }


def lance() -> dict[str, Callable[..., Any]]:
    """Stable row ids, a BTREE on the number and IVF_RQ on the vector, refined until its recall is ours."""
    import lance as engine
    import numpy as np

    held: dict[str, Any] = {"near": {"nprobes": 20, "refine_factor": 5}}

    def build(path: str, rows: int) -> dict[str, float]:
        start = perf_counter()
        schema = next(lookup_rows.stretches(1)).schema
        batches = (batch for some in lookup_rows.stretches(rows) for batch in some.to_batches())
        engine.write_dataset(batches, path, schema=schema, enable_stable_row_ids=True, max_rows_per_file=1_000_000)
        written = perf_counter()
        dataset = engine.dataset(path)
        dataset.create_scalar_index("id", "BTREE")
        dataset.create_index("vec", index_type="IVF_RQ", metric="L2", num_partitions=max(1, rows // 8192))
        return {"seconds": perf_counter() - written, "write_s": written - start}

    def open_(path: str) -> dict[str, float]:
        start = perf_counter()
        held["table"] = engine.dataset(path)
        held["path"] = path
        return {"seconds": perf_counter() - start}

    def ids() -> None:
        found = held["table"].to_table(columns=["id"], with_row_id=True)
        held["ids"] = dict(zip(found.column("id").to_pylist(), found.column("_rowid").to_pylist(), strict=True))

    def key(values: list[int]) -> dict[str, Any]:
        return _each(values, lambda value: held["table"].to_table(filter=f"id = {value}"))

    def keys(values: list[int]) -> dict[str, Any]:
        where = f"id in ({', '.join(map(str, values))})"
        return _timed(lambda: held["table"].to_table(filter=where), _sum)

    def take(values: list[int], columns: str) -> dict[str, Any]:
        wanted = [held["ids"][value] for value in values]
        return _timed(lambda: held["table"]._take_rows(wanted, _COLUMNS[columns]), _sum)

    def near(query: list[float]) -> dict[str, Any]:
        asked = {"column": "vec", "q": np.array(query, np.float32), "k": 10, **held["near"]}
        run = partial(held["table"].to_table, columns=["id"], nearest=asked)
        return _timed(run, lambda t: t.column("id").to_pylist())

    def deeper() -> bool:
        """Search more closely; False where that has been done."""
        if held["near"]["nprobes"] >= 100:
            return False
        held["near"] = {"nprobes": held["near"]["nprobes"] + 20, "refine_factor": 10}
        return True

    def update(values: list[int], seed: int) -> None:
        source = lookup_rows.table_of(np.array(values), seed=seed, text="changed")
        held["table"].merge_insert("id").when_matched_update_all().execute(source)

    def compact() -> dict[str, Any]:
        before = _sizes(Path(held["path"], "_indices"))
        held["table"].optimize.compact_files(materialize_deletions_threshold=0.0)
        return {"index_bytes": _more(before, _sizes(Path(held["path"], "_indices")))}

    def add(first: int, count: int, seed: int) -> dict[str, float]:
        held["table"].insert(lookup_rows.table_of(np.arange(first, first + count), seed=seed))
        return refresh()

    def refresh() -> dict[str, float]:
        start = perf_counter()
        held["table"].optimize.optimize_indices()
        return {"seconds": perf_counter() - start}

    return {
        "build": build,
        "open": open_,
        "ids": ids,
        "key": key,
        "keys": keys,
        "take": take,
        "near": near,
        "deeper": deeper,
        "update": update,
        "compact": compact,
        "add": add,
        "refresh": refresh,
    }


def duckdb() -> dict[str, Callable[..., Any]]:
    """A scan of the very Parquet files that Holdfast wrote."""
    import duckdb as engine

    held: dict[str, Any] = {}

    def open_(path: str) -> dict[str, float]:
        start = perf_counter()
        held["connection"] = engine.connect()
        held["files"] = f"read_parquet('{path}/*.parquet')"
        return {"seconds": perf_counter() - start}

    def key(values: list[int]) -> dict[str, Any]:
        return _each(values, lambda value: asked(f"id = {value}"))

    def keys(values: list[int]) -> dict[str, Any]:
        return _timed(lambda: asked(f"id in ({', '.join(map(str, values))})"), _sum)

    def asked(where: str) -> Any:
        return held["connection"].execute(f"select * from {held['files']} where {where}").to_arrow_table()

    return {"open": open_, "key": key, "keys": keys}


if __name__ == "__main__":
    serve({"holdfast": holdfast, "lance": lance, "duckdb": duckdb}[sys.argv[1]]())
