"""Indexes on a table that delta-spark changes too: after every commit of either, a lookup is what a scan finds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast import DeltaTable, between
from tests.interop.peer import Peer
from tests.support.depth import DEPTH

STEPS = 16
KEYS, GROUPS, WIDTH = 120, 5, 4
QUERIES = np.linspace(-3, 3, 3 * WIDTH, dtype=np.float32).reshape(3, WIDTH)


class Watched:
    """A table with a sorted, a bitmap and an exact vector index, in the hands of two engines."""

    def __init__(self, peer: Peer, path: Path, seed: int) -> None:
        self.peer, self.path, self.random = peer, path, random.Random(seed)
        builder = DeltaTable.create(None).location(str(path)).addColumn("k", "long").addColumn("g", "string")
        self.table = builder.addColumn("vec", "array<float>").execute()
        self.next = 0
        for _ in range(3):
            self.table.append(self._new(KEYS // 3))
        self.table.createIndex("k")
        self.table.createIndex("g", kind="bitmap")
        self.table.createIndex("vec", kind="vector", method="flat")

    def step(self) -> str:
        """One commit, by whoever is to make it; and what it was."""
        key, group = self.random.randrange(KEYS), f"g{self.random.randrange(GROUPS)}"
        theirs = {
            "UPDATE": f"UPDATE {{t}} SET g = '{group}' WHERE k % 9 = {key % 9}",
            "DELETE": f"DELETE FROM {{t}} WHERE k = {key}",
            "MERGE": f"MERGE INTO {{t}} t USING (SELECT {key} AS k, '{group}' AS g UNION ALL "
            f"SELECT {self.next + KEYS}, 'new') s ON t.k = s.k "
            "WHEN MATCHED THEN UPDATE SET vec = array(1.0F, 0.0F, 0.0F, 0.0F) "
            "WHEN NOT MATCHED THEN INSERT (k, g, vec) VALUES (s.k, s.g, array(0.0F, 2.0F, 0.0F, 0.0F))",
            "OPTIMIZE": "OPTIMIZE {t}",
            "RESTORE": f"RESTORE TABLE {{t}} TO VERSION AS OF {max(6, self.table.version - 2)}",
        }
        ours = {
            "update": lambda: self.table.update(f"k % 11 = {key % 11}", {"g": f"'{group}'"}),
            "delete": lambda: self.table.delete(f"k = {key}", mode="copy-on-write"),
            "append": lambda: self.table.append(self._new(4)),
            "compaction": lambda: self.table.optimize().executeCompaction(),
            "refresh": lambda: self.table.refreshIndex(self.random.choice(["k", "g", "vec"])),
        }
        what = self.random.choice([*theirs, *ours])
        if what in theirs:
            self.peer.statement(self.path, theirs[what].format(t=f"delta.`{self.path}`"))
        else:
            ours[what]()
        return what

    def check(self, after: str) -> None:
        """Every lookup, a range and the nearest rows, against a scan of the same version."""
        self.table.refresh()
        all_rows = self.table.toArrow(metadata=["_row_id"])
        rows = {row["_row_id"]: row for row in all_rows.to_pylist()}
        assert len(rows) == all_rows.num_rows, f"an id is there twice after {after}"

        def found(**by: Any) -> set[int]:
            ids: list[int] = self.table.lookup(columns=["k"], metadata=["_row_id"], **by)["_row_id"].to_pylist()
            assert len(ids) == len(set(ids)), f"a row is found twice after {after}"
            return set(ids)

        assert found(k=list(range(KEYS + 40))) == {i for i, row in rows.items() if row["k"] < KEYS + 40}, after
        assert found(k=between(30, 60)) == {i for i, row in rows.items() if 30 <= row["k"] <= 60}, after
        for group in [*(f"g{n}" for n in range(GROUPS)), "new"]:
            assert found(g=group) == {i for i, row in rows.items() if row["g"] == group}, (after, group)
        points = np.array([row["vec"] for row in rows.values()], np.float32)
        for query in QUERIES:
            exact = np.sort(np.linalg.norm(points - query, axis=1))[:5]
            told = self.table.nearest("vec", query, k=5, columns=["k"])["_distance"].to_numpy()
            assert np.allclose(told, exact, atol=1e-4), after

    def _new(self, count: int) -> pa.Table:
        keys = range(self.next, self.next + count)
        self.next += count
        draw = np.random.default_rng(self.next)
        vectors = [row.tolist() for row in draw.normal(size=(count, WIDTH)).astype(np.float32)]
        groups = [f"g{k % GROUPS}" for k in keys]
        return pa.table(
            {"k": pa.array(keys, pa.int64()), "g": groups, "vec": pa.array(vectors, pa.list_(pa.float32()))}
        )


def watch(peer: Peer, scratch: Path) -> str:
    """Let both engines change tables; gives what was compared. Raises where an index was wrong."""
    steps = 0
    for seed in range(2 * DEPTH):
        watched = Watched(peer, scratch / f"indexed-{seed}", seed)
        for _ in range(STEPS):
            watched.check(watched.step())
            steps += 1
    return f"{steps} commits"
