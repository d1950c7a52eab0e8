"""Vector indexes in this process: what is kept, what is found, what is refused."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from holdfast import DeltaTable
from holdfast.errors import Invalid, NoRowIdentity
from holdfast.index.vector import library as vector_library
from holdfast.index.vector.metric import Metric, Points, distances, nearest_rows
from holdfast.index.vector.options import FLAT_ROWS
from holdfast.storage.open import open_location
from tests.support.depth import examples

fresh = itertools.count()


def table_of(vectors: Any, *, element: pa.DataType | None = None, **columns: Any) -> DeltaTable:
    path = f"memory://vector/{next(fresh)}"
    rows = rows_of(vectors, element=element, **columns)
    DeltaTable.create(None).location(path).addColumns(rows.schema).execute()
    table = DeltaTable.forPath(None, path)
    table.append(rows)
    return table


def rows_of(vectors: Any, *, element: pa.DataType | None = None, **columns: Any) -> pa.Table:
    type_ = pa.list_(element or pa.float32())
    if isinstance(vectors, np.ndarray):
        flat = pa.array(vectors.ravel(), type_.value_type)
        lists = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]).cast(type_)
    else:
        lists = pa.array(vectors, type_)
    return pa.table({"id": pa.array(range(len(vectors)), pa.int64()), **columns, "vec": lists})


def clustered(count: int, length: int, seed: int = 0) -> Any:
    """Points around some centres, with noise that lies in fewer dimensions."""
    chance = np.random.default_rng(seed)
    centres = chance.normal(size=(100, length))
    basis = chance.normal(size=(max(2, length // 4), length)) / 2
    noise = chance.normal(size=(count, len(basis))) @ basis
    return (centres[chance.integers(0, 100, count)] + noise).astype(np.float32)


def index_files(table: DeltaTable) -> dict[str, int]:
    location = open_location(table.handle.newest().snapshot.location.url)
    return {meta.key: meta.size for meta in location.store.list_all(location.key("_holdfast/index"))}


# Distances


@examples(60)
@given(data=st.data(), metric=st.sampled_from(Metric), dtype=st.sampled_from([np.float32, np.float64]))
def test_the_nearest_rows_are_exact_whatever_the_numbers(data: st.DataObject, metric: Metric, dtype: Any) -> None:
    width = 32 if dtype == np.float32 else 64
    tame = st.sampled_from([0.0, 1.0, -1.0, 1.5, 1e-3])
    wild = st.floats(-(2.0**100), 2.0**100, width=width) | st.sampled_from([1e-38, 1e-44, 3e38])
    numbers = data.draw(st.sampled_from([tame, wild, tame | wild]))
    count = data.draw(st.integers(1, 30))
    vectors = data.draw(arrays(dtype, (count, 3), elements=numbers.map(dtype), fill=st.nothing()))
    query = data.draw(arrays(np.float64, (3,), elements=tame | wild, fill=st.nothing()))
    ids = np.random.default_rng(0).permutation(count)
    k = data.draw(st.integers(1, 10))
    (near,) = nearest_rows(Points(vectors, ids), query[None, :], k, metric)
    alone = [float(distances(vectors[at : at + 1], query, metric)[0]) for at in range(count)]
    wanted = sorted(zip(alone, ids.tolist(), strict=True))[:k]
    assert list(zip(near.distances.tolist(), near.ids.tolist(), strict=True)) == wanted


def test_metrics_are_what_they_are_called() -> None:
    vectors = np.array([[3.0, 4.0], [0.0, 0.0], [-1.0, 0.0]], np.float32)
    query = np.array([1.0, 0.0])
    assert distances(vectors, query, Metric.L2).tolist() == pytest.approx([20**0.5, 1.0, 2.0])
    assert distances(vectors, query, Metric.COSINE).tolist() == pytest.approx([0.4, 1.0, 2.0])
    assert distances(vectors, query, Metric.DOT).tolist() == [-3.0, 0.0, 1.0]


# Finding


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_the_default_finds_most_of_the_nearest(metric: str) -> None:
    table = table_of(clustered(FLAT_ROWS + 5000, 24))
    info = table.createIndex("vec", kind="vector", metric=metric)
    assert info.entries == FLAT_ROWS + 5000
    assert "ivf_sq8" in str(table.explainNearest("vec", [0.0] * 24))
    assert table.recall("vec", sample=2000) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ivf_flat", "ivf_sqfp16", "ivf_pq", "hnsw"])
def test_other_methods_find_most_of_the_nearest_too(method: str) -> None:
    table = table_of(clustered(3000, 16))
    table.createIndex("vec", kind="vector", method=method)
    assert table.recall("vec", sample=3000) >= 0.95
    assert table.verifyIndex("vec").troubles == ()


def test_a_condition_is_applied_before_the_search() -> None:
    vectors = clustered(6000, 16)
    group = pa.array(np.arange(6000) % 3)
    table = table_of(vectors, g=group)
    table.createIndex("vec", kind="vector", method="ivf_sq8")
    table.createIndex("id")
    near = table.nearest("vec", vectors[7], 20, where="g = 1")
    assert set(near.column("g").to_pylist()) == {1}
    exact = np.sort(np.linalg.norm(vectors[1::3].astype(float) - vectors[7].astype(float), axis=1))[:20]
    assert np.isin(np.round(exact, 6), np.round(near.column("_distance").to_numpy(), 6)).mean() >= 0.95
    few = table.nearest("vec", vectors[7], 20, where="id IN (7, 8, 5999) AND g > 0")
    assert few.column("id").to_pylist()[0] == 7
    assert sorted(few.column("id").to_pylist()) == [7, 8, 5999]
    assert table.nearest("vec", vectors[7], where="id = 6000").num_rows == 0


def test_several_queries_are_told_apart() -> None:
    table = table_of([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]])
    near = table.nearest("vec", np.array([[0.9, 0.0], [5.0, 4.0]]), 2, columns=["id"])
    assert near.to_pylist() == [
        {"id": 1, "_query": 0, "_distance": pytest.approx(0.1)},
        {"id": 0, "_query": 0, "_distance": pytest.approx(0.9)},
        {"id": 2, "_query": 1, "_distance": 1.0},
        {"id": 1, "_query": 1, "_distance": pytest.approx(32**0.5)},
    ]


@pytest.mark.parametrize("method", ["flat", "ivf_sq8", "hnsw"])
def test_a_deleted_row_never_appears_however_many_are_deleted(method: str) -> None:
    """All that is near is gone: what lies behind it is found nevertheless."""
    near, far = np.zeros((2000, 4), np.float32), np.full((40, 4), 9.0, np.float32)
    near += np.random.default_rng(0).normal(0, 0.1, near.shape)
    far += np.random.default_rng(1).normal(0, 0.1, far.shape)
    table = table_of(np.concatenate([near, far]))
    table.createIndex("vec", kind="vector", method=method)
    table.delete("id < 2000")
    hits = table.nearest("vec", [0.0] * 4, 10)
    assert hits.num_rows == 10
    assert min(hits.column("id").to_pylist()) >= 2000
    assert table.nearest("vec", [0.0] * 4, 100).num_rows == 40


@pytest.mark.parametrize("method", ["ivf_sq8", "ivf_pq", "ivf_sqfp16"])
@pytest.mark.parametrize("metric", ["l2", "dot"])
def test_vectors_beyond_what_was_trained_for_are_not_lost(method: str, metric: str) -> None:
    table = table_of(clustered(1000, 8), element=pa.float64())
    table.createIndex("vec", kind="vector", method=method, metric=metric)
    outliers = np.array([[1e3 * n] + [0.0] * 7 for n in range(1, 6)] + [[1e300] * 8, [70000.0] * 8])
    table.append(rows_of(outliers, element=pa.float64()))
    table.refreshIndex("vec")
    assert table.indexStats("vec").extra["flat"] >= 2
    assert table.verifyIndex("vec").troubles == ()
    for query in outliers:
        assert table.nearest("vec", query, 1, columns=["vec"], metric=metric).num_rows == 1
    if metric == "l2":
        for query in outliers:
            (nearest_row,) = table.nearest("vec", query, 1).to_pylist()
            assert (nearest_row["vec"], nearest_row["_distance"]) == (query.tolist(), 0.0)
    else:
        (nearest_row,) = table.nearest("vec", [1.0] + [0.0] * 7, 1).to_pylist()
        assert nearest_row["vec"][0] == 1e300


def test_null_vectors_and_such_that_are_no_numbers_are_never_near() -> None:
    table = table_of([[1.0, 1.0], None, [float("nan"), 0.0], [None, 1.0], [float("inf"), 1.0], [2.0, 2.0]])
    wanted = [0, 5]
    assert table.nearest("vec", [1.0, 1.0]).column("id").to_pylist() == wanted
    assert table.createIndex("vec", kind="vector").entries == 2
    assert table.nearest("vec", [1.0, 1.0]).column("id").to_pylist() == wanted
    assert table.verifyIndex("vec").troubles == ()


def test_an_empty_table_is_trained_when_rows_come() -> None:
    table = table_of(np.zeros((0, 2), np.float32))
    assert table.createIndex("vec", kind="vector", method="ivf_flat").entries == 0
    assert table.nearest("vec", [0.0, 0.0]).num_rows == 0
    table.append(rows_of(clustered(200, 2)))
    assert table.nearest("vec", [0.0, 0.0], 3).num_rows == 3
    assert table.refreshIndex("vec").entries == 200
    assert table.explainNearest("vec", [0.0, 0.0]).tail_rows == 0


# Life


def test_compaction_writes_no_byte_of_the_index_and_leaves_no_tail() -> None:
    vectors = clustered(600, 4)
    table = table_of(vectors[:500])
    table.createIndex("vec", kind="vector", method="ivf_sq8")
    table.append(rows_of(vectors[500:]))
    table.refreshIndex("vec")
    table.delete("id < 10")
    before, wanted = index_files(table), table.nearest("vec", vectors[3], 30)
    table.optimize().executeCompaction()
    table.purge()
    assert index_files(table) == before
    plan = table.explainNearest("vec", vectors[3])
    assert (plan.index, plan.tail_rows) == ("vec", 0)
    assert table.nearest("vec", vectors[3], 30).equals(wanted)


def test_refreshing_adds_segments_which_are_put_together_without_dead_entries() -> None:
    table = table_of(clustered(1000, 4))
    table.createIndex("vec", kind="vector", method="ivf_sq8")
    quantizers = {key for key in index_files(table) if key.endswith("ivf.faiss")}
    for step in range(6):
        table.append(rows_of(clustered(20, 4, seed=step)))
        table.delete("id < 5")
        table.refreshIndex("vec")
    info = table.indexes()[0]
    assert info.segments < 7
    assert {key for key in index_files(table) if key.endswith("ivf.faiss")} == quantizers
    assert info.entries < 1000 + 6 * 20
    assert table.verifyIndex("vec").troubles == ()
    assert table.recall("vec", sample=1000) >= 0.95
    table.delete("id > 10")
    table.append(rows_of(clustered(2, 4, seed=99)))
    assert table.refreshIndex("vec").entries < 100


def test_vectors_that_lie_elsewhere_make_it_train_again() -> None:
    table = table_of(clustered(1000, 4))
    table.createIndex("vec", kind="vector", method="ivf_flat")
    table.append(rows_of(clustered(500, 4, seed=5) * 7))
    table.refreshIndex("vec")
    assert "from the centres of their lists" in table.indexStats("vec").extra["outgrown"]
    quantizers = sum(key.endswith("ivf.faiss") for key in index_files(table))
    table.refreshIndex("vec")
    assert table.indexStats("vec").extra["outgrown"] is None
    assert sum(key.endswith("ivf.faiss") for key in index_files(table)) == quantizers + 1
    assert table.verifyIndex("vec").troubles == ()


def test_a_small_index_that_grew_gets_lists() -> None:
    table = table_of(clustered(10, 2))
    table.createIndex("vec", kind="vector")
    assert table.explainNearest("vec", [0.0, 0.0]).method == "flat"
    table.append(rows_of(clustered(2 * FLAT_ROWS + 1, 2)))
    table.refreshIndex("vec")
    table.refreshIndex("vec")
    assert table.explainNearest("vec", [0.0, 0.0]).method == "ivf_sq8"


def test_vacuum_takes_old_generations_and_leaves_what_segments_share() -> None:
    table = table_of(clustered(500, 4))
    table.createIndex("vec", kind="vector", method="ivf_sq8")
    table.rebuildIndex("vec")
    table.append(rows_of(clustered(20, 4, seed=3)))
    table.refreshIndex("vec")
    table.setProperties({"delta.deletedFileRetentionDuration": "interval 0 hours"})
    table.vacuum(0)
    assert sum(key.endswith("ivf.faiss") for key in index_files(table)) == 1
    again = DeltaTable.forPath(None, table.handle.newest().snapshot.location.url)
    assert again.explainNearest("vec", [0.0] * 4).index == "vec"
    assert again.verifyIndex("vec").troubles == ()


def test_what_is_damaged_is_not_believed() -> None:
    table = table_of(clustered(300, 4))
    wanted = table.nearest("vec", [0.0] * 4)
    table.createIndex("vec", kind="vector", method="ivf_sq8")
    location = open_location(table.handle.newest().snapshot.location.url)
    for key in index_files(table):
        kept = location.store.get(key)
        location.store.put(key, kept[:-1] + bytes([kept[-1] ^ 1]))
        again = DeltaTable.forPath(None, location.url)
        plan = again.explainNearest("vec", [0.0] * 4)
        assert plan.index is None, key
        assert "is not what was written" in str(plan), key
        assert again.nearest("vec", [0.0] * 4).equals(wanted)
        assert again.verifyIndex("vec").troubles, key
        location.store.put(key, kept)
    assert DeltaTable.forPath(None, location.url).explainNearest("vec", [0.0] * 4).index == "vec"


# Refusing


def test_vectors_of_another_length_are_refused_with_how_many() -> None:
    table = table_of([[1.0, 2.0], [1.0], [], None, [3.0, 4.0]])
    with pytest.raises(Invalid, match=r"2 rows have vectors of another length than 2 in vec"):
        table.createIndex("vec", kind="vector")
    with pytest.raises(Invalid, match=r"2 rows have vectors of another length than 2 in vec"):
        table.nearest("vec", [0.0, 0.0])
    table.delete("id = 1 OR id = 2")
    table.createIndex("vec", kind="vector")
    with pytest.raises(Invalid, match="vectors of vec have 2 elements, and a query for them has 3"):
        table.nearest("vec", [0.0, 0.0, 0.0])
    table.append(rows_of([[1.0, 2.0, 3.0]]))
    with pytest.raises(Invalid, match=r"1 row has a vector of another length than 2 in vec"):
        table.nearest("vec", [0.0, 0.0])
    with pytest.raises(Invalid, match=r"1 row has a vector of another length than 2 in vec"):
        table.refreshIndex("vec")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "ivf_rabitq"}, "method= of a vector index is one of auto, flat, ivf_flat"),
        ({"metric": "hamming"}, "metric= of a vector index is one of l2, cosine, dot"),
        ({"nlist": 4}, "no option 'nlist': it has metric, method, lists, groups, links"),
        ({"lists": 0}, "lists= of a vector index is a whole number"),
        ({"method": "flat", "lists": 4}, "lists= says nothing to a vector index of method 'flat'"),
        ({"groups": 2}, "groups= says nothing"),
        ({"method": "ivf_pq"}, "trained on at least 256 vectors, and the table has 2"),
    ],
)
def test_options_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    table = table_of([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(Invalid, match=message):
        table.createIndex("vec", kind="vector", **options)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"column": "id"}, "id holds no vectors"),
        ({"column": "vex"}, "did you mean vec"),
        ({"vector": "x"}, "a list of numbers"),
        ({"vector": [1.0, float("nan")]}, "not a finite number"),
        ({"vector": []}, "none is empty"),
        ({"k": 0}, "k= is a whole number from 1 on"),
        ({"nprobe": True}, "nprobe= is a whole number"),
        ({"metric": "l1"}, "metric= is one of l2, cosine, dot"),
    ],
)
def test_questions_are_refused_by_name(question: dict[str, Any], message: str) -> None:
    table = table_of([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(Invalid, match=message):
        table.nearest(**{"column": "vec", "vector": [0.0, 0.0], **question})


def test_a_column_of_the_answers_own_names_is_refused() -> None:
    table = table_of([[1.0, 2.0]], _distance=pa.array([1]))
    with pytest.raises(Invalid, match="a column _distance of its own"):
        table.nearest("vec", [0.0, 0.0])
    assert table.nearest("vec", [1.0, 2.0], columns=["id"]).to_pylist() == [{"id": 0, "_distance": 0.0}]


def test_an_index_is_about_one_column_of_vectors_of_rows_with_ids() -> None:
    table = table_of([[1.0, 2.0]])
    with pytest.raises(Invalid, match="about one column, not 2"):
        table.createIndex(["id", "vec"], kind="vector")
    with pytest.raises(Invalid, match="id holds no vectors"):
        table.createIndex("id", kind="vector")
    path = f"memory://vector/{next(fresh)}"
    builder = DeltaTable.create(None).location(path).addColumns(rows_of([[1.0]]).schema)
    builder.property("holdfast.plain", "true").execute()
    with pytest.raises(NoRowIdentity, match="enableRowTracking"):
        DeltaTable.forPath(None, path).nearest("vec", [1.0])


# The extra


def missing(name: str) -> Any:
    raise ImportError(f"No module named {name!r}")


def test_without_the_extra_a_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_library, "import_module", missing)
    table = table_of([[1.0, 2.0]])
    with pytest.raises(Invalid, match=r"pip install 'holdfast\[vector\]'"):
        table.createIndex("vec", kind="vector")
    table.createIndex("vec", kind="vector", method="flat")
    assert table.nearest("vec", [0.0, 0.0]).num_rows == 1


def test_who_has_not_the_extra_looks_at_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(clustered(300, 4))
    table.createIndex("vec", kind="vector", method="ivf_sq8")
    wanted = table.nearest("vec", [0.0] * 4, nprobe=100)
    monkeypatch.setattr(vector_library, "import_module", missing)
    alone = DeltaTable.forPath(None, table.handle.newest().snapshot.location.url)
    assert "pip install" in str(alone.explainNearest("vec", [0.0] * 4))
    assert alone.nearest("vec", [0.0] * 4).equals(wanted)


def test_nothing_loads_the_extra_before_it_is_needed() -> None:
    code = (
        "import sys, holdfast; holdfast.DeltaTable; import holdfast.verbs.index.nearest, holdfast.index.vector.kind;"
        "assert 'faiss' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
