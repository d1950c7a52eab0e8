"""Clones have the rows of their source under ids of their own, and go their own way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from holdfast import DeltaTable, Invalid, Unsupported, env
from holdfast.errors import MissingFile
from holdfast.formats.delta.state import is_table, load
from holdfast.schema.properties import MATERIALIZED_ROW_COMMIT_VERSION, MATERIALIZED_ROW_ID
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.verbs.define.clone import CloneOptions, clone
from tests.support.damage import append, copied, created, opened, sample
from tests.support.depth import examples
from tests.support.faulty import CountingStore, every_fault

kinds = pytest.mark.parametrize("shallow", [True, False], ids=["shallow", "deep"])


def cloned(
    store: ObjectStore, *, shallow: bool, replace: bool = False, version: int | None = None, **more: str
) -> DeltaTable:
    source = load(Location(store, "t"), version=version)
    clone(source, Location(store, "c"), CloneOptions(shallow, replace, more), env.system())
    return opened(store, "c")


def values(table: DeltaTable, version: int | None = None) -> list[tuple[Any, ...]]:
    rows = table.toArrow(version=version).to_pylist()
    return sorted((row["id"], row["v"]) for row in rows)


def ids(table: DeltaTable) -> dict[int, int]:
    return {row["id"]: row["_row_id"] for row in table.toArrow(metadata=["_row_id"]).to_pylist()}


@kinds
def test_a_clone_has_the_rows_and_ids_of_its_own(shallow: bool) -> None:
    store = sample()
    source = opened(store)
    table = cloned(store, shallow=shallow)
    assert values(table) == values(source)
    assert table.version == 0
    assert table.historyArrow().column("operation").to_pylist() == ["CLONE"]
    versions = table.toArrow(metadata=["_row_commit_version"])["_row_commit_version"].to_pylist()
    assert set(versions) == {0}, "a row of a clone was changed when the clone was made"
    assert len(set(ids(table).values())) == len(values(table))
    assert table.check().findings == ()
    mine, theirs = load(Location(store, "c")).snapshot, load(Location(store, "t")).snapshot
    for name in (MATERIALIZED_ROW_ID, MATERIALIZED_ROW_COMMIT_VERSION):
        assert mine.properties[name] != theirs.properties[name]
    assert mine.schema == theirs.schema
    below = [meta.key for meta in store.list_all("c") if "_delta_log" not in meta.key]
    assert bool(below) != shallow


@kinds
def test_a_clone_and_its_source_go_their_own_ways(shallow: bool) -> None:
    store = sample()
    before = values(opened(store))
    table = cloned(store, shallow=shallow)
    table.update("id = 1", {"v": "'mine'"})
    table.delete("id = 2")
    append(table, range(90, 92))
    assert values(opened(store)) == before
    opened(store).delete("id > 5")
    assert (90, "a") in values(table)
    assert (7, "a") in values(table)
    assert table.check().clean
    table.optimize(targetRows=1000).executeCompaction()
    assert table.check().clean
    kept = ids(table)
    assert sorted(kept) == [row[0] for row in values(table)]


def test_a_deep_clone_needs_its_source_no_more() -> None:
    store = sample()
    expected = values(opened(store))
    cloned(store, shallow=False)
    for meta in list(store.list_all("t")):
        store.delete(meta.key)
    assert values(opened(store, "c")) == expected
    assert opened(store, "c").check().clean


def test_a_clone_of_a_clone() -> None:
    store = sample()
    cloned(store, shallow=True)
    source = load(Location(store, "c"))
    for shallow, place in ((True, "d"), (False, "e")):
        clone(source, Location(store, place), CloneOptions(shallow, False, {}), env.system())
        assert values(opened(store, place)) == values(opened(store))
        assert opened(store, place).check().findings == ()
    for meta in list(store.list_all("t")):
        store.delete(meta.key)
    assert values(opened(store, "e"))
    with pytest.raises(MissingFile):
        values(opened(store, "d"))


@kinds
def test_an_earlier_version(shallow: bool) -> None:
    store = sample()
    assert values(cloned(store, shallow=shallow, version=2)) == values(opened(store), version=2)


@kinds
def test_cloning_again_touches_what_differs(shallow: bool) -> None:
    store = sample()
    table = cloned(store, shallow=shallow)
    first = ids(table)
    source = opened(store)
    source.delete("id = 20")
    append(source, range(50, 53))
    counting = CountingStore(store)
    again = cloned(counting, shallow=shallow, replace=True)
    assert values(again) == values(source)
    assert {n: i for n, i in ids(again).items() if n < 50} == {n: i for n, i in first.items() if n != 20}
    assert min(i for n, i in ids(again).items() if n >= 50) > max(first.values())
    added = [key for verb, key in counting.keys if verb.startswith("put") and key.endswith(".zstd.parquet")]
    assert len(added) == (0 if shallow else 1)
    assert again.check().clean
    assert cloned(store, shallow=shallow, replace=True).version == again.version


def test_a_clone_over_another_table_keeps_its_mark() -> None:
    store, other = sample(), MemoryStore("other")
    mine = created(other)
    append(mine, range(30))
    clone(load(Location(store, "t")), Location(other, "t"), CloneOptions(False, True, {}), env.system())
    assert values(opened(other)) == values(opened(store))
    assert min(ids(opened(other)).values()) == 30
    assert opened(other).check().clean
    assert len(values(opened(other), version=1)) == 30


def test_what_is_refused() -> None:
    store = sample()
    with pytest.raises(Invalid, match="itself"):
        clone(load(Location(store, "t")), Location(store, "t"), CloneOptions(True, True, {}), env.system())
    cloned(store, shallow=True)
    with pytest.raises(Invalid, match="replace=True"):
        cloned(store, shallow=True)
    with pytest.raises(Unsupported, match="purge"):
        clone(load(Location(store, "t")), Location(MemoryStore("x"), "c"), CloneOptions(True, False, {}), env.system())
    with pytest.raises(Invalid, match=r"delta\.appendOnly"):
        cloned(store, shallow=True, replace=True, **{"delta.appendOnyl": "true"})


def test_properties_are_set_and_kept() -> None:
    store = sample()
    table = cloned(store, shallow=False, **{"delta.appendOnly": "true"})
    properties = load(Location(store, "c")).snapshot.properties
    assert properties["delta.appendOnly"] == "true"
    assert properties["delta.checkpointInterval"] == "3"
    with pytest.raises(Invalid, match="appends"):
        table.delete()


def test_a_table_without_ids_can_be_cloned_into_one_with() -> None:
    store = MemoryStore()
    table = created(store, {"delta.enableRowTracking": "false"})
    append(table, range(4))
    table.delete("id = 2")
    assert cloned(store, shallow=True, **{"delta.enableRowTracking": "true"}).check().clean
    assert ids(opened(store, "c")) == {0: 0, 1: 1, 3: 3}


_step = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 5)),
    st.tuples(st.just("delete"), st.integers(2, 5)),
    st.tuples(st.just("update"), st.integers(2, 5)),
    st.tuples(st.just("compact"), st.integers(5, 40)),
    st.tuples(st.just("clone"), st.just(0)),
)


@examples(12)
@given(st.lists(_step, min_size=2, max_size=8), st.booleans(), st.booleans())
def test_a_clone_follows_its_source(steps: list[tuple[str, int]], shallow: bool, partitioned: bool) -> None:
    store = MemoryStore()
    table = created(store, partitioned=partitioned)
    first = 0
    for verb, n in [*steps, ("clone", 0)]:
        match verb:
            case "append":
                append(table, range(first, first + n), "a b" if n % 2 else "ü%/x")
                first += n
            case "delete":
                table.delete(f"id % {n} = 0")
            case "update":
                table.update(f"id % {n} = 1", {"v": "'u'"})
            case "compact":
                table.optimize(targetRows=n).executeCompaction()
            case _:
                made = cloned(store, shallow=shallow, replace=True)
                assert values(made) == values(table)
                assert made.check().clean, str(made.check())


@kinds
def test_a_fault_anywhere_leaves_the_clone_there_or_not(shallow: bool) -> None:
    template = MemoryStore()
    table = created(template)
    append(table, range(4))
    table.delete("id = 1")

    def check(store: ObjectStore) -> None:
        if is_table(Location(store, "c")):
            assert values(opened(store, "c")) == [(0, "a"), (2, "a"), (3, "a")]
            assert opened(store, "c").check().clean
        else:
            assert values(cloned(store, shallow=shallow)) == [(0, "a"), (2, "a"), (3, "a")]
        assert len(values(opened(store))) == 3

    assert every_fault(lambda store: cloned(store, shallow=shallow), check, make=lambda: copied(template)) > 10


@pytest.mark.on_disk
@kinds
def test_delta_rs_reads_clones(tmp_path: Path, shallow: bool) -> None:
    source = str(tmp_path / "a b")
    table = DeltaTable.create(None).location(source).addColumn("id", "long").addColumn("v", "string").execute()
    append(table, range(6))
    table.delete("id = 1")
    table.clone(str(tmp_path / "c"), isShallow=shallow)
    peer = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(tmp_path / "c")))
    assert sorted(pa.table(peer.execute("select id from t"))["id"].to_pylist()) == [0, 2, 3, 4, 5]


@kinds
def test_spark_reads_clones(spark: SparkSession, tmp_path: Path, shallow: bool) -> None:
    source = str(tmp_path / "a b")
    table = DeltaTable.create(None).location(source).addColumn("id", "long").addColumn("v", "string").execute()
    append(table, range(6))
    table.delete("id = 1")
    made = DeltaTable.forPath(spark, source).clone(f"delta.`{tmp_path / 'c d'}`", isShallow=shallow)
    assert isinstance(made, DeltaTable)
    assert values(made) == values(table)
    assert sorted(row.id for row in made.toDF().collect()) == [0, 2, 3, 4, 5]
    made.delete("id = 2")
    assert made.scan(["id"], metadata=["_row_id"]).count() == 4
    earlier = DeltaTable.forPath(None, source).cloneAtVersion(1, str(tmp_path / "e"), isShallow=shallow)
    assert len(values(earlier)) == 6
    moment = DeltaTable.forPath(None, source).historyArrow(1)["timestamp"][0].as_py()
    now = DeltaTable.forPath(None, source).cloneAtTimestamp(moment, str(tmp_path / "f"), isShallow=shallow)
    assert len(values(now)) == 5
