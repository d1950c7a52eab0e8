"""Races of one large rewrite with many small changes: 50,000 rows in `make test`, 5M in `make soak`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from holdfast import DeltaTable
from holdfast.verbs.open import open_table
from tests.support.depth import DEPTH

ROWS = 50_000 * DEPTH
DELETED, UPDATED = range(1, 21), range(101, 121)
_fresh = count()


def _clustered() -> tuple[DeltaTable, DeltaTable]:
    """Rows in no order, in ten files of a table that is to be in order; opened by two writers."""
    path = f"memory://races-at-size/{next(_fresh)}"
    columns = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    table = DeltaTable.create(None).location(path).addColumns(columns).clusterBy("k").execute()
    for keys in np.array_split(np.random.default_rng(7).permutation(ROWS), 10):
        table.append(pa.table({"k": keys, "v": np.zeros(len(keys), np.int64)}))
    return table, DeltaTable.forPath(None, path)


def _check(table: DeltaTable, ids: dict[int, int]) -> None:
    rows = table.toArrow(metadata=["_row_id"])
    assert rows.num_rows == ROWS - len(DELETED)
    assert pc.count_distinct(rows["k"]).as_py() == rows.num_rows
    assert pc.count_distinct(rows["_row_id"]).as_py() == rows.num_rows
    changed = rows.filter(pc.not_equal(rows["v"], 0))
    assert dict(zip(changed["k"].to_pylist(), changed["v"].to_pylist(), strict=True)) == {k: k for k in UPDATED}
    assert not pc.any(pc.is_in(rows["k"], value_set=pa.array(DELETED))).as_py()
    kept = rows.filter(pc.less(rows["k"], 200))
    assert all(ids[k] == id_ for k, id_ in zip(kept["k"].to_pylist(), kept["_row_id"].to_pylist(), strict=True))


def _ids(table: DeltaTable) -> dict[int, int]:
    rows = table.toArrow(where="k < 200", metadata=["_row_id"])
    return dict(zip(rows["k"].to_pylist(), rows["_row_id"].to_pylist(), strict=True))


def _before_commit(monkeypatch: pytest.MonkeyPatch, others: Callable[[], None]) -> None:
    commit, waiting = open_table.commit, [others]

    def late(*given: Any, **named: Any) -> Any:
        if waiting:
            waiting.pop()()
        return commit(*given, **named)

    monkeypatch.setattr(open_table, "commit", late)


@pytest.mark.hypothesis  # what goes deeper in `make soak`
def test_a_recluster_that_loses_to_forty_changes_commits_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table, other = _clustered()
    ids, version = _ids(table), table.version

    def changes() -> None:
        for k in DELETED:
            other.delete(f"k = {k}")
        for k in UPDATED:
            other.update(f"k = {k}", {"v": "k"})

    _before_commit(monkeypatch, changes)
    done = table.optimize().executeCompaction()
    assert (len(done.versions), done.lost) == (1, ())
    assert done.versions == (version + 41,)
    assert done.metrics["numRemovedFiles"] == 10
    _check(table, ids)


@pytest.mark.hypothesis
def test_forty_changes_that_lose_to_a_recluster_all_land() -> None:
    table, other = _clustered()
    ids, version = _ids(table), table.version
    with ExitStack() as begun:
        for k in DELETED:
            begun.enter_context(table.transaction()).delete(f"k = {k}")
        for k in UPDATED:
            begun.enter_context(table.transaction()).update(f"k = {k}", {"v": "k"})
        done = other.optimize().executeCompaction()
        assert done.versions == (version + 1,)
    assert table.version == version + 41
    _check(table, ids)


@pytest.mark.hypothesis
def test_an_update_survives_a_hundred_appends_that_do_not_match(monkeypatch: pytest.MonkeyPatch) -> None:
    table, other = _clustered()
    nothing = pa.table({"k": [-1, ROWS + 1], "v": [1, 1]})
    _before_commit(monkeypatch, lambda: [other.append(nothing) for _ in range(100)] and None)
    done = table.update("k = 7", {"v": "70"})
    assert done.attempts == 2
    assert table.toArrow(where="k = 7")["v"].to_pylist() == [70]
