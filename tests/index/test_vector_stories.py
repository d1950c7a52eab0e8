"""Random stories of a table with a vector index: the nearest rows are those a look at every row finds."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from holdfast import DeltaTable
from tests.index.foreign import append_by_hand, rewrite_by_hand, show_again_by_hand
from tests.support.depth import examples

fresh = itertools.count()
METHODS = ("auto", "flat", "ivf_flat", "ivf_sq8", "ivf_sqfp16", "hnsw")
METRICS = ("l2", "cosine", "dot")
CONDITIONS = (None, "g = 1", "k > 2 AND g < 2", "k = 3")
QUERIES = ([0.0, 0.0, 0.0], [1.0, -0.5, 2.0], [-40.0, 1.0, 0.5])

# Halves are added and multiplied without rounding, and few of them are often equally far.
vectors = st.none() | st.lists(st.sampled_from([0.0, 0.5, 1.0, -1.0, 2.5, 50.0, float("nan")]), min_size=3, max_size=3)
rows = st.fixed_dictionaries({"k": st.integers(0, 6), "g": st.integers(0, 2), "vec": vectors})
several = st.lists(rows, min_size=1, max_size=6)


class VectorStories(RuleBasedStateMachine):
    """Steps on one table; one object sees them all, and others commit beside it."""

    table: DeltaTable

    @initialize(
        element=st.sampled_from([pa.float32(), pa.float64()]),
        hides=st.booleans(),
        partitioned=st.booleans(),
        method=st.sampled_from(METHODS),
        metric=st.sampled_from(METRICS),
        first=several,
    )
    def begin(
        self,
        element: pa.DataType,
        hides: bool,
        partitioned: bool,
        method: str,
        metric: str,
        first: list[dict[str, Any]],
    ) -> None:
        self.schema = pa.schema([("k", pa.int64()), ("g", pa.int64()), ("vec", pa.list_(element))])
        self.path = f"memory://vectors/{next(fresh)}"
        self.metric, self.method = metric, method
        builder = DeltaTable.create(None).location(self.path).addColumns(self.schema)
        builder = builder.property("delta.enableDeletionVectors", str(hides).lower())
        (builder.partitionedBy("g") if partitioned else builder).execute()
        self.table = DeltaTable.forPath(None, self.path)
        self.append(first)
        self.create()

    def create(self) -> None:
        self.table.createIndex("vec", kind="vector", metric=self.metric, method=self.method)

    @rule(new=several)
    def append(self, new: list[dict[str, Any]]) -> None:
        self.table.append(self.rows(new))

    @rule(condition=st.sampled_from(CONDITIONS[1:]))
    def delete(self, condition: str) -> None:
        self.table.delete(condition)

    @rule(condition=st.sampled_from(CONDITIONS))
    def update(self, condition: str | None) -> None:
        """Another column: the vectors stay, and so do their rows' ids."""
        self.table.update(condition, {"k": "k + 1"})

    @rule(row=rows)
    def upsert(self, row: dict[str, Any]) -> None:
        merge = self.table.alias("t").merge(self.rows([row]), "t.k = s.k")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    @rule()
    def compact(self) -> None:
        self.table.optimize().executeCompaction()

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        self.table.restoreToVersion(data.draw(st.integers(1, self.table.version)))

    @rule(new=several)
    def append_by_another(self, new: list[dict[str, Any]]) -> None:
        append_by_hand(self.path, new)

    @rule()
    def rewrite_by_another(self) -> None:
        rewrite_by_hand(self.path)

    @rule()
    def show_again_by_another(self) -> None:
        show_again_by_hand(self.path)

    @precondition(lambda self: self.table.indexes())
    @rule()
    def refresh_index(self) -> None:
        self.table.refreshIndex("vec")

    @precondition(lambda self: self.table.indexes())
    @rule()
    def rebuild_index(self) -> None:
        self.table.rebuildIndex("vec")

    @rule()
    def make_index_anew(self) -> None:
        self.table.dropIndex("vec", ifExists=True)
        self.create()

    @invariant()
    def the_nearest_are_found(self) -> None:
        if hasattr(self, "table"):
            self.table.refresh()
            for where, k in zip(CONDITIONS, (4, 1, 100, 2), strict=True):
                compare(self.table, self.metric, k, where)

    def teardown(self) -> None:
        if not hasattr(self, "table"):
            return
        for version in range(max(1, self.table.version - 4), self.table.version + 1):
            compare(self.table, self.metric, 3, None, version)
        for info in self.table.indexes():
            assert self.table.verifyIndex(info.name).troubles == ()
            assert self.table.verifyIndex(info.name, sample=2).troubles == ()
            self.table.indexStats(info.name)

    def rows(self, rows: list[dict[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist(rows, self.schema)


def compare(table: DeltaTable, metric: str, k: int, where: str | None, version: int | None = None) -> None:
    rows = table.toArrow(where=where, version=version, metadata=["_row_id"]).to_pylist()
    wanted = [looked(rows, query, metric) for query in QUERIES]
    got = table.nearest("vec", QUERIES, k, where, version, metric=metric, metadata=["_row_id"])
    assert got.column_names == ["k", "g", "vec", "_row_id", "_query", "_distance"]
    numbers = np.array(got.column("_query").to_pylist(), int)
    assert (np.diff(numbers) >= 0).all()
    for at, all_rows in enumerate(wanted):
        agree(got.filter(pa.array(numbers == at)), all_rows, k, metric)
    alone = table.nearest("vec", QUERIES[1], k, where, version, metric=metric, metadata=["_row_id"], columns=["k"])
    assert alone.column_names == ["k", "_row_id", "_distance"]
    agree(alone, wanted[1], k, metric)


def agree(got: pa.Table, wanted: list[tuple[float, int]], k: int, metric: str) -> None:
    """Of angles the last digits depend on the order of operations, and with them who of two that are equal is first."""
    neighbours = list(zip(*(got.column(name).to_pylist() for name in ("_distance", "_row_id")), strict=True))
    if metric != "cosine":
        assert neighbours == wanted[:k]
        return
    known = {row_id: d for d, row_id in wanted}
    assert len({row_id for _, row_id in neighbours}) == len(neighbours)
    assert [d for d, _ in neighbours] == pytest.approx([d for d, _ in wanted[:k]])
    assert [d for d, _ in neighbours] == pytest.approx([known[row_id] for _, row_id in neighbours])


def looked(rows: list[dict[str, Any]], query: list[float], metric: str) -> list[tuple[float, int]]:
    """Distance and id of every row, the nearest first, a row at a time."""
    neighbours = []
    for row in rows:
        vector = None if row["vec"] is None else np.array(row["vec"], float)
        if vector is not None and not np.isnan(vector).any():
            neighbours.append((distance(vector, np.array(query), metric), row["_row_id"]))
    return sorted(neighbours)


def distance(vector: Any, query: Any, metric: str) -> float:
    match metric:
        case "l2":
            return float(np.sqrt(((vector - query) ** 2).sum()))
        case "dot":
            return float(-(vector * query).sum())
        case _:
            lengths = np.linalg.norm(vector) * np.linalg.norm(query)
            return 1.0 - float((vector * query).sum() / lengths) if lengths else 1.0


def test_the_nearest_rows_of_random_stories_are_those_a_scan_finds() -> None:
    run_state_machine_as_test(VectorStories, settings=settings(examples(8), stateful_step_count=10))
