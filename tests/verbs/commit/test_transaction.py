"""Several verbs in one commit: the same rows as verb by verb, each with the identity it had, told as one change."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from holdfast import DeltaTable, env
from holdfast.errors import (
    ConstraintViolated,
    Invalid,
    NoRowIdentity,
    NumbersTaken,
)
from holdfast.formats.delta.state import load
from holdfast.model.mutation import TableDefinition
from holdfast.schema.identity import identity_metadata
from holdfast.schema.types import LONG, STRING, Field, Struct
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.verbs.commit.transaction import Transaction
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.write import make
from holdfast.verbs.open.delta_handle import DeltaHandle
from tests.support.depth import examples
from tests.support.faulty import every_fault
from tests.verbs.transactions import (
    Verb,
    append,
    delete,
    found_in,
    merge,
    net_of,
    rows_of,
    run_all,
    told_at,
    tracked,
    update,
    values_in,
    verbs,
)


@examples(20)
@given(st.lists(verbs([None, "merge-on-read", "copy-on-write", "auto"]), max_size=5), st.booleans(), st.booleans())
def test_a_transaction_does_what_its_verbs_do_one_by_one(done: list[Verb], partitioned: bool, feed: bool) -> None:
    mapped = {"columnMapping.mode": "name" if partitioned else "none"}
    together, apart = (
        tracked(partitioned=partitioned, enableChangeDataFeed=str(feed).lower(), **mapped) for _ in range(2)
    )
    before, version = found_in(together), together.version
    with together.transaction() as t:
        for run in done:
            run(t)
            run(apart)
            assert values_in(t) == values_in(apart)
    after, singly = found_in(together), found_in(apart)
    assert values_in(together) == values_in(apart)
    kept = before.keys() & after.keys()
    assert kept == before.keys() & singly.keys()
    for id_ in kept:
        row, changed = after[id_]
        assert row == singly[id_][0]
        touched = singly[id_][1] > version
        assert changed == (version + 1 if touched else before[id_][1])
    assert all(id_ > max(before) for id_ in after.keys() - before.keys())
    assert together.version - version == (t.result.version is not None)
    if t.result.version is not None:
        net = net_of(before, after, version + 1)
        assert told_at(together.changes(version + 1, kind="min-delta").toArrow()) == net
        assert told_at(together.changes(version + 1).toArrow()) == net
        if feed:
            assert told_at(together.changeFeed(version + 1).toArrow()) == net
    assert together.check().clean


@examples(10)
@given(st.lists(verbs([None]), min_size=2, max_size=4))
def test_without_vectors_and_without_row_ids(done: list[Verb]) -> None:
    for properties in ({"enableDeletionVectors": "false"}, {"enableRowTracking": "false"}):
        together, apart = (tracked(files=1, **properties) for _ in range(2))
        with together.transaction() as t:
            for run in done:
                run(t)
                run(apart)
        assert values_in(together) == values_in(apart)


def test_a_row_that_comes_and_goes_was_never_there() -> None:
    table = tracked(enableChangeDataFeed="true")
    with table.transaction() as t:
        t.append(rows_of([100, 101, 102]))
        t.update("k = 101", {"v": "5"})
        t.update("k = 3", {"v": "1"})
        t.delete("k IN (100, 4)")
        t.update("k = 3", {"v": "v + 1"})
        t.update("k = 5", {"v": "9"})
        t.delete("k = 5")
    assert table.version == 3
    assert told_at(table.changeFeed(3).toArrow()) == sorted(
        [
            ("delete", (4, 0, "a")),
            ("delete", (5, 0, "b")),
            ("insert", (101, 5, "b")),
            ("insert", (102, 0, "a")),
            ("update_postimage", (3, 2, "b")),
            ("update_preimage", (3, 0, "b")),
        ]
    )
    assert t.result.metrics["numVerbs"] == 7


def test_what_amounts_to_nothing_is_not_committed() -> None:
    table = tracked()
    with table.transaction() as t:
        t.append(rows_of([100]))
        t.delete("k = 100")
    assert (t.result.version, table.version) == (None, 2)
    with table.transaction() as t:
        t.delete("k = 1000")
    assert t.result.version is None


def test_an_error_leaves_the_table_as_it_was() -> None:
    table = tracked()
    table.addConstraint("small", "v < 100")
    before, version = found_in(table), table.version
    with pytest.raises(ZeroDivisionError):
        run_all(table, delete("k < 5"), lambda t: 1 / 0)
    with table.transaction() as t:
        with pytest.raises(ConstraintViolated):
            t.update("k < 5", {"v": "1000"})
        t.delete("k = 0")
    assert table.version == version + 1
    assert found_in(table) == {id_: row for id_, row in before.items() if row[0][0] != 0}
    with pytest.raises(Invalid, match="within its block"):
        t.delete()
    with pytest.raises(Invalid, match="used once"), t:
        pass


def test_history_lists_the_verbs_and_what_the_user_said() -> None:
    table = tracked()
    with table.transaction(userMetadata="nightly", txn=("job", 4)) as t:
        t.append(rows_of([50]))
        t.delete("k = 1")
        t.merge(rows_of([50, 51], 1), "t.k = s.k").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    told = table.historyArrow(1).to_pylist()[0]
    assert (told["operation"], told["userMetadata"]) == ("TRANSACTION", "nightly")
    verbs = json.loads(dict(told["operationParameters"])["verbs"])
    assert [verb["operation"] for verb in verbs] == ["WRITE", "DELETE", "MERGE"]
    assert verbs[1:] == [
        {"operation": "DELETE", "predicate": ["k = 1"]},
        {
            "operation": "MERGE",
            "predicate": ["t.k = s.k"],
            "matchedPredicates": [{"actionType": "update"}],
            "notMatchedPredicates": [{"actionType": "insert"}],
            "notMatchedBySourcePredicates": [],
        },
    ]
    with table.transaction(txn=("job", 4)) as t:
        t.append(rows_of([60]))
    assert t.result.version is None
    assert len(values_in(table)) == 21


def test_columns_and_numbers_come_with_it() -> None:
    table = tracked()
    with table.transaction() as t:
        t.append(rows_of([50]).append_column("w", pa.array([1], pa.int64())), mergeSchema=True)
        t.update("k < 3", {"w": "k + 10"})
        source = pa.table({"k": pa.array([2, 60]), "x": pa.array(["n", "m"])})
        builder = t.merge(source, "t.k = s.k").withSchemaEvolution()
        builder.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        t.delete("w = 11")
    found = {row["k"]: (row["w"], row["x"]) for row in table.toArrow().to_pylist()}
    assert (found[0], found[2], found[5], found[50], found[60]) == (
        (10, None),
        (12, "n"),
        (None, None),
        (1, None),
        (None, "m"),
    )
    assert 1 not in found
    assert table.version == 3


def test_numbers_go_on_from_verb_to_verb_and_are_handed_out_once() -> None:
    fields = (Field("n", LONG, True, identity_metadata(start=1, step=1, explicit=False)), Field("k", LONG))
    location = Location(MemoryStore(), "t")
    made = make(location, TableDefinition(Struct(fields)), env.system(), mode=CreateMode.CREATE, plain=False)
    table, other = (DeltaTable(DeltaHandle(None, made)).alias("t") for _ in range(2))

    def work(t: Transaction) -> None:
        t.append(pa.table({"k": [1, 2]}))
        t.append(pa.table({"k": [3]}))
        merge = t.merge(pa.table({"k": [3, 4]}), "t.k = s.k").whenMatchedDelete()
        merge.whenNotMatchedInsert(values={"k": "s.k"}).execute()
        if other.version == 0:
            other.append(pa.table({"k": [9, 10]}))

    with pytest.raises(NumbersTaken):
        table.transact(work)
    table.transact(work)
    table.append(pa.table({"k": [5]}))
    assert sorted((row["n"], row["k"]) for row in table.toArrow().to_pylist()) == [
        (1, 9),
        (2, 10),
        (3, 1),
        (4, 2),
        (6, 4),
        (7, 5),
    ]


def test_other_engines_read_the_same(tmp_path: Path) -> None:
    table = tracked(path=str(tmp_path / "t"), partitioned=True)
    run_all(table, append([50, 51, 52]), delete("k = 51"), update("k IN (1, 50)", {"v": "9"}), merge([2, 3, 60], 4))
    peer = deltalake.DeltaTable(str(tmp_path / "t"))
    found = deltalake.QueryBuilder().register("t", peer).execute("select k, v, p from t").read_all()
    assert sorted((row["k"], row["v"], row["p"]) for row in pa.table(found).to_pylist()) == values_in(table)


def test_a_feed_without_row_ids_is_refused_where_rows_cannot_be_paired() -> None:
    table = tracked(enableChangeDataFeed="true", enableRowTracking="false")
    with table.transaction() as t:
        t.append(rows_of([50]))
        t.delete("k = 1")
    assert told_at(table.changeFeed(3).toArrow()) == [("delete", (1, 0, "b")), ("insert", (50, 0, "a"))]
    with table.transaction() as t:
        t.update("k = 2", {"v": "5"})
    assert len(told_at(table.changeFeed(4).toArrow())) == 2
    with pytest.raises(NoRowIdentity, match="enableRowTracking"):
        run_all(table, update("k = 2", {"v": "5"}), append([51]))
    assert table.version == 4


def test_pinned_sources_are_gone_when_it_ends() -> None:
    table = tracked()
    location = table.handle.newest().snapshot.location
    staged = lambda: [m.key for m in location.store.list_all(location.key("_holdfast/stage"))]  # noqa: E731
    with table.transaction() as t:
        merge([1, 50], 3)(t)
        assert staged()
    assert not staged()
    with pytest.raises(ZeroDivisionError):
        run_all(table, merge([1, 50], 3), lambda t: 1 / 0)
    assert not staged()


def test_a_plan_within_it_sees_the_verbs_before() -> None:
    table = tracked()
    with table.transaction() as t:
        t.delete("k < 5")
        begun = t.merge(rows_of(range(10), 1), "t.k = s.k").whenMatchedUpdateAll().whenNotMatchedInsertAll()
        t.delete("k = 5")
        assert begun.plan().rows["inserted"] == 6
        assert begun.execute().metrics["numTargetRowsInserted"] == 6
        with pytest.raises(Invalid, match="no ids yet"):
            t.update("k = 6", {"v": "2"}).rowIds()


@cache
def _template() -> ObjectStore:
    store = MemoryStore()
    shape = TableDefinition(
        Struct((Field("k", LONG), Field("v", LONG), Field("p", STRING))),
        properties={"delta.enableChangeDataFeed": "true"},
    )
    make(Location(store, "t"), shape, env.system(), mode=CreateMode.CREATE, plain=False)
    DeltaTable(DeltaHandle(None, load(Location(store, "t")))).append(rows_of(range(6)))
    return store


def test_every_fault_leaves_all_of_it_or_nothing() -> None:
    def made() -> ObjectStore:
        template, store = _template(), MemoryStore()
        for found in template.list_all("t"):
            store.put(found.key, template.get(found.key))
        return store

    def opened(store: ObjectStore) -> DeltaTable:
        return DeltaTable(DeltaHandle(None, load(Location(store, "t")))).alias("t")

    def run(store: ObjectStore) -> None:
        with opened(store).transaction() as t:
            t.append(rows_of([50, 51]))
            merge([2, 50], 3)(t)
            t.delete("k IN (3, 51)", mode="copy-on-write")

    whole = made()
    run(whole)
    allowed = [values_in(opened(made())), values_in(opened(whole))]
    assert allowed[0] != allowed[1]

    def check(store: ObjectStore) -> None:
        table = opened(store)
        assert values_in(table) == allowed[table.version - 1]
        found_in(table)

    assert every_fault(run, check, make=made) > 50


def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    plain = tracked(path=path, enableChangeDataFeed="true")
    before = found_in(plain)
    table = DeltaTable.forPath(spark, path).alias("t")
    with table.transaction() as t:
        t.append(spark.createDataFrame(rows_of([50, 51, 52], 7)))
        t.update("k IN (1, 50)", {"v": "v + 5"})
        begun = t.merge(spark.createDataFrame(rows_of([1, 2, 50, 60], 3)).alias("s"), "t.k = s.k")
        begun.whenMatchedUpdate(set={"v": "t.v + s.v"}).whenNotMatchedInsertAll().execute()
        t.delete("k IN (3, 51)", mode="copy-on-write")
        assert t.toDF().where("k = 50").collect()[0]["v"] == 15
        assert t.wouldConflict() is None
    after = found_in(plain)
    assert table.version == 3
    assert {row[0]: row[1] for row, _ in after.values()} == (
        {k: 0 for k in range(20) if k != 3} | {1: 8, 2: 3, 50: 15, 52: 7, 60: 3}
    )
    assert all(after[id_][0][0] == row[0] for id_, (row, _) in before.items() if id_ in after)
    assert sorted(row[0] for id_, (row, _) in after.items() if id_ not in before) == [50, 52, 60]
    assert {row[0] for row, version in after.values() if version == 3} == {1, 2, 50, 52, 60}
    assert told_at(plain.changeFeed(3).toArrow()) == net_of(before, after, 3)
    other = DeltaTable.forPath(None, path)
    with table.transaction() as t:
        t.update("k = 1", {"v": "100"})
        other.update("k = 4", {"v": "4"})
    assert {row[0]: row[1] for row, _ in found_in(plain).values() if row[0] in (1, 4)} == {1: 100, 4: 4}
