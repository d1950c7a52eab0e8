"""Several verbs in one commit: the same rows as verb by verb, each with the identity it had, told as one change."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from holdfast import DeltaTable, env
from holdfast.delta.state import load
from holdfast.errors import (
    ConcurrentAppend,
    ConcurrentDeleteRead,
    ConcurrentWrite,
    ConstraintViolated,
    Invalid,
    NoRowIdentity,
    NumbersTaken,
)
from holdfast.model.mutation import Shape
from holdfast.schema.identity import identity_metadata
from holdfast.schema.types import LONG, STRING, Field, Struct
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.table import writing
from holdfast.table.builder import Mode
from holdfast.table.delta import _Latest
from holdfast.table.transaction import Transaction
from holdfast.table.writing import make
from tests.support.depth import examples
from tests.support.faulty import every_fault

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("p", pa.string())])
IDS = ["_row_id", "_row_commit_version"]
_fresh = count()

Verb = Callable[[Any], Any]  # on a table as on a transaction


def _rows(keys: Any, v: int = 0) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "v": v, "p": "ab"[k % 2]} for k in keys], COLUMNS)


def _table(files: int = 2, *, partitioned: bool = False, path: str = "", **properties: str) -> DeltaTable:
    path = path or f"memory://transactions/{next(_fresh)}"
    builder = DeltaTable.create(None).location(path).addColumns(COLUMNS)
    builder = builder.partitionedBy("p") if partitioned else builder
    for name, value in properties.items():
        builder = builder.property(f"delta.{name}", value)
    table = builder.execute()
    for n in range(files):
        table.append(_rows(range(n * 10, (n + 1) * 10)))
    return table.alias("t")


def _other(table: DeltaTable) -> DeltaTable:
    return DeltaTable.forPath(None, table._state().snapshot.location.url)


def _found(table: DeltaTable) -> dict[int, tuple[tuple[Any, ...], int]]:
    """By row id: the values and the version."""
    found = table.toArrow(metadata=IDS).to_pylist()
    made = {row["_row_id"]: ((row["k"], row["v"], row["p"]), row["_row_commit_version"]) for row in found}
    assert len(made) == len(found)
    return made


def _values(table: DeltaTable | Transaction) -> list[tuple[Any, ...]]:
    return sorted((row["k"], row["v"], row["p"]) for row in table.toArrow().to_pylist())


def _net(before: dict[int, Any], after: dict[int, Any], version: int) -> list[tuple[str, Any]]:
    """What a change feed must tell."""
    told = [("delete", row) for id_, (row, _) in before.items() if id_ not in after]
    told += [("insert", row) for id_, (row, _) in after.items() if id_ not in before]
    changed = [id_ for id_, (_, changed) in after.items() if id_ in before and changed == version]
    told += [("update_preimage", before[id_][0]) for id_ in changed]
    return sorted([*told, *(("update_postimage", after[id_][0]) for id_ in changed)])


def _told(rows: pa.Table) -> list[tuple[str, Any]]:
    return sorted((row["_change_type"], (row["k"], row["v"], row["p"])) for row in rows.to_pylist())


def _run(table: DeltaTable, *verbs: Verb) -> None:
    with table.transaction() as t:
        for run in verbs:
            run(t)


def append(keys: Sequence[int]) -> Verb:
    return lambda t: t.append(_rows(keys, 7))


def delete(condition: str, mode: str | None = None) -> Verb:
    return lambda t: t.delete(condition, mode=mode)


def update(condition: str, sets: dict[str, str], mode: str | None = None) -> Verb:
    return lambda t: t.update(condition, sets, mode=mode)


def merge(keys: Sequence[int], v: int, mode: str | None = None, *, drops: bool = False) -> Verb:
    def run(t: Any) -> Any:
        begun = t.merge(_rows(keys, v), "t.k = s.k", mode=mode)
        begun = begun.whenMatchedDelete("s.k % 3 = 0") if drops else begun
        return begun.whenMatchedUpdate(set={"v": "t.v + s.v"}).whenNotMatchedInsertAll().execute()

    return run


CONDITIONS = ["k < 5", "k % 4 = 1", "v > 0", "k >= 20", "p = 'a'", "v = 7 AND k % 2 = 0", "k = 77", "k IN (3, 13, 30)"]
SETS = [{"v": "v + 1"}, {"v": "k"}, {"p": "CASE p WHEN 'a' THEN 'b' ELSE 'a' END", "v": "v * 2 + 1"}]
KEYS = st.lists(st.integers(0, 35), min_size=1, max_size=6, unique=True)


def verbs(modes: Sequence[str | None]) -> st.SearchStrategy[Verb]:
    conditions, mode = st.sampled_from(CONDITIONS), st.sampled_from(modes)
    return st.one_of(
        st.builds(append, st.lists(st.integers(20, 60), max_size=4)),
        st.builds(delete, conditions, mode),
        st.builds(update, conditions, st.sampled_from(SETS), mode),
        st.builds(
            lambda keys, v, m, drops: merge(keys, v, m, drops=drops), KEYS, st.integers(1, 9), mode, st.booleans()
        ),
    )


@examples(20)
@given(st.lists(verbs([None, "merge-on-read", "copy-on-write", "auto"]), max_size=5), st.booleans(), st.booleans())
def test_a_transaction_does_what_its_verbs_do_one_by_one(done: list[Verb], partitioned: bool, feed: bool) -> None:
    mapped = {"columnMapping.mode": "name" if partitioned else "none"}
    together, apart = (
        _table(partitioned=partitioned, enableChangeDataFeed=str(feed).lower(), **mapped) for _ in range(2)
    )
    before, version = _found(together), together.version
    with together.transaction() as t:
        for run in done:
            run(t)
            run(apart)
            assert _values(t) == _values(apart)
    after, singly = _found(together), _found(apart)
    assert _values(together) == _values(apart)
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
        net = _net(before, after, version + 1)
        assert _told(together.changes(version + 1, kind="min-delta").toArrow()) == net
        assert _told(together.changes(version + 1).toArrow()) == net
        if feed:
            assert _told(together.changeFeed(version + 1).toArrow()) == net
    assert together.check().clean


@examples(10)
@given(st.lists(verbs([None]), min_size=2, max_size=4))
def test_without_vectors_and_without_row_ids(done: list[Verb]) -> None:
    for properties in ({"enableDeletionVectors": "false"}, {"enableRowTracking": "false"}):
        together, apart = (_table(files=1, **properties) for _ in range(2))
        with together.transaction() as t:
            for run in done:
                run(t)
                run(apart)
        assert _values(together) == _values(apart)


def test_a_row_that_comes_and_goes_was_never_there() -> None:
    table = _table(enableChangeDataFeed="true")
    with table.transaction() as t:
        t.append(_rows([100, 101, 102]))
        t.update("k = 101", {"v": "5"})
        t.update("k = 3", {"v": "1"})
        t.delete("k IN (100, 4)")
        t.update("k = 3", {"v": "v + 1"})
        t.update("k = 5", {"v": "9"})
        t.delete("k = 5")
    assert table.version == 3
    assert _told(table.changeFeed(3).toArrow()) == sorted(
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
    table = _table()
    with table.transaction() as t:
        t.append(_rows([100]))
        t.delete("k = 100")
    assert (t.result.version, table.version) == (None, 2)
    with table.transaction() as t:
        t.delete("k = 1000")
    assert t.result.version is None


def test_an_error_leaves_the_table_as_it_was() -> None:
    table = _table()
    table.addConstraint("small", "v < 100")
    before, version = _found(table), table.version
    with pytest.raises(ZeroDivisionError):
        _run(table, delete("k < 5"), lambda t: 1 / 0)
    with table.transaction() as t:
        with pytest.raises(ConstraintViolated):
            t.update("k < 5", {"v": "1000"})
        t.delete("k = 0")
    assert table.version == version + 1
    assert _found(table) == {id_: row for id_, row in before.items() if row[0][0] != 0}
    with pytest.raises(Invalid, match="within its block"):
        t.delete()
    with pytest.raises(Invalid, match="used once"), t:
        pass


def test_history_lists_the_verbs_and_what_the_user_said() -> None:
    table = _table()
    with table.transaction(userMetadata="nightly", txn=("job", 4)) as t:
        t.append(_rows([50]))
        t.delete("k = 1")
        t.merge(_rows([50, 51], 1), "t.k = s.k").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
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
        t.append(_rows([60]))
    assert t.result.version is None
    assert len(_values(table)) == 21


def test_columns_and_numbers_come_with_it() -> None:
    table = _table()
    with table.transaction() as t:
        t.append(_rows([50]).append_column("w", pa.array([1], pa.int64())), mergeSchema=True)
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
    made = make(location, Shape(Struct(fields)), env.system(), mode=Mode.CREATE, plain=False)
    table, other = (DeltaTable(None, _Latest(made)).alias("t") for _ in range(2))

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
    table = _table(path=str(tmp_path / "t"), partitioned=True)
    _run(table, append([50, 51, 52]), delete("k = 51"), update("k IN (1, 50)", {"v": "9"}), merge([2, 3, 60], 4))
    peer = deltalake.DeltaTable(str(tmp_path / "t"))
    found = deltalake.QueryBuilder().register("t", peer).execute("select k, v, p from t").read_all()
    assert sorted((row["k"], row["v"], row["p"]) for row in pa.table(found).to_pylist()) == _values(table)


def test_a_feed_without_row_ids_is_refused_where_rows_cannot_be_paired() -> None:
    table = _table(enableChangeDataFeed="true", enableRowTracking="false")
    with table.transaction() as t:
        t.append(_rows([50]))
        t.delete("k = 1")
    assert _told(table.changeFeed(3).toArrow()) == [("delete", (1, 0, "b")), ("insert", (50, 0, "a"))]
    with table.transaction() as t:
        t.update("k = 2", {"v": "5"})
    assert len(_told(table.changeFeed(4).toArrow())) == 2
    with pytest.raises(NoRowIdentity, match="enableRowTracking"):
        _run(table, update("k = 2", {"v": "5"}), append([51]))
    assert table.version == 4


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Arrange that others commit after the next transaction has read the table and written its rows."""

    def arrange(others: Callable[[], Any]) -> None:
        commit = writing.commit
        waiting = [others]

        def late(*given: Any, **named: Any) -> Any:
            if waiting:
                waiting.pop()()
            return commit(*given, **named)

        monkeypatch.setattr(writing, "commit", late)

    return arrange


MINE: dict[str, list[Verb]] = {
    "changes": [update("k = 1", {"v": "5"}), delete("k = 2"), update("k = 1", {"v": "v + 1"})],
    "copies": [update("k = 1", {"v": "5"}, "copy-on-write"), delete("k = 2", "copy-on-write")],
    "both": [append([50, 51]), merge([1, 52], 3), delete("k = 50"), delete("k = 3", "copy-on-write")],
    "appends": [append([50]), append([51])],
}
THEIRS: dict[str, Verb] = {
    "delete": delete("k = 5"),
    "update": update("k = 6", {"v": "60"}),
    "update, copying": update("k = 16", {"v": "60"}, "copy-on-write"),
    "append": append([70]),
    "merge": merge([15, 75], 1),
    "compact": lambda t: t.optimize(materializeDeletionsThreshold=0).executeCompaction(),
    "purge": lambda t: t.purge(),
}


@pytest.mark.parametrize("theirs", THEIRS)
@pytest.mark.parametrize("mine", MINE)
def test_writers_of_other_rows_do_not_stand_in_its_way(mine: str, theirs: str, meanwhile: Any) -> None:
    table, alone = _table(), _table()
    for each in (table, alone):
        each.delete("k = 9")
    before = _found(table)
    other = _other(table).alias("t")
    meanwhile(lambda: THEIRS[theirs](other))
    with table.transaction() as t:
        for run in MINE[mine]:
            run(t)
    assert t.result.attempts == 2
    for run in (THEIRS[theirs], *MINE[mine]):
        run(alone)
    after = _found(table)
    assert _values(table) == _values(alone)
    assert all(after[id_][0][0] == row[0] for id_, (row, _) in before.items() if id_ in after)
    assert table.check().clean


@examples(20)
@given(
    st.lists(verbs(["merge-on-read", "copy-on-write", "auto"]), min_size=1, max_size=4),
    st.lists(
        verbs(["merge-on-read", "copy-on-write"]) | st.sampled_from([THEIRS["compact"], THEIRS["purge"]]),
        min_size=1,
        max_size=2,
    ),
    st.booleans(),
)
def test_whatever_others_do_it_comes_after_them_or_not_at_all(mine: list[Verb], theirs: list[Verb], feed: bool) -> None:
    table, alone = (_table(enableChangeDataFeed=str(feed).lower()) for _ in range(2))
    for each in (table, alone):
        each.delete("k = 9")
    other = _other(table).alias("t")
    foreseen = lost = None
    try:
        with table.transaction() as t:
            for run in mine:
                run(t)
            for run in theirs:
                run(other)
                run(alone)
            foreseen = t.wouldConflict()
            before, version = _found(other), other.version
    except ConcurrentWrite as conflict:
        lost = conflict
    else:
        after = _found(table)
        if t.result.version is not None:  # else it changed nothing where it began, and stands before the others
            for run in mine:
                run(alone)
            net = _net(before, after, t.result.version)
            assert _told(table.changes(version + 1, version + 1).toArrow()) == net
            if feed:
                assert _told(table.changeFeed(version + 1, version + 1).toArrow()) == net
    assert str(lost) == str(foreseen)
    assert _values(table) == _values(alone)
    assert table.check().clean


LOST: dict[str, tuple[list[Verb], Verb, type[ConcurrentWrite]]] = {
    "a row of the second verb": (
        [delete("k = 1"), update("k = 2", {"v": "5"})],
        update("k = 2", {"v": "6"}),
        ConcurrentDeleteRead,
    ),
    "a row it copied before it changed it": (
        [delete("k = 1", "copy-on-write"), update("k = 2", {"v": "5"}, "copy-on-write")],
        update("k = 2", {"v": "6"}),
        ConcurrentDeleteRead,
    ),
    "a row it copied before it deleted it": (
        [update("k = 1", {"v": "1"}, "copy-on-write"), delete("k < 10"), append([50])],
        delete("k = 2"),
        ConcurrentDeleteRead,
    ),
    "a row it copied before it met it": (
        [delete("k = 1", "copy-on-write"), merge([2, 50], 1)],
        delete("k = 2"),
        ConcurrentDeleteRead,
    ),
    "a row the first verb would have taken": (
        [update("k = 70", {"v": "5"}), append([50])],
        append([70]),
        ConcurrentAppend,
    ),
    "a row the last verb would have taken": (
        [append([50]), delete("k = 1"), merge([70], 1)],
        merge([70], 2),
        ConcurrentAppend,
    ),
}


@pytest.mark.parametrize("case", LOST)
def test_a_race_for_one_row_is_lost_and_foreseen(case: str, meanwhile: Any) -> None:
    mine, theirs, kind = LOST[case]
    table = _table()
    other = _other(table).alias("t")
    foreseen: list[ConcurrentWrite | None] = []
    foresee: Verb = lambda t: foreseen.append(t.wouldConflict())  # noqa: E731
    with pytest.raises(ConcurrentWrite) as caught:
        _run(table, *mine, foresee, lambda _: theirs(other), foresee)
    assert foreseen[0] is None
    told = foreseen[1]
    assert told is not None
    assert isinstance(caught.value, kind)
    assert (type(told), str(told)) == (type(caught.value), str(caught.value))
    assert (table.version, caught.value.version) == (3, 3)
    assert "this TRANSACTION of" in str(told)


def test_deletes_that_others_did_too_are_left_out(meanwhile: Any) -> None:
    table = _table()
    other = _other(table)
    meanwhile(lambda: other.delete("k IN (1, 12)"))
    with table.transaction() as t:
        t.delete("k < 3")
        t.delete("k IN (12, 13)")
    assert t.result.metrics["numDeletedRows"] == 3
    assert [k for k, *_ in _values(table)] == [3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15, 16, 17, 18, 19]


def test_what_was_handed_out_counts_as_all_rows() -> None:
    table = _table()
    other = _other(table)
    with pytest.raises(ConcurrentAppend):
        _run(table, lambda t: t.append(_rows([len(t.toArrow()) + 100])), lambda _: other.append(_rows([70])))
    look: Verb = lambda t: t.toArrow(["k"], where="k = 2")  # noqa: E731
    with pytest.raises(ConcurrentWrite):
        _run(table, delete("k = 1"), look, lambda _: other.update("k = 15", {"v": "5"}))
    with table.transaction(isolation="WriteSerializable") as t:
        t.update("k = 1", {"v": "5"})
        other.append(_rows([1]))
    assert [row for row in _values(table) if row[0] == 1] == [(1, 0, "b"), (1, 5, "b")]


def test_transact_begins_anew_when_others_come_first() -> None:
    table = _table()
    other = _other(table)
    runs = count(1)

    def work(t: Transaction) -> None:
        t.update("k = 1", {"v": "v + 1"})
        t.append(_rows([len(t.toArrow()) + 100]))
        if next(runs) == 1:
            other.update("k = 1", {"v": "10"})
            other.append(_rows([70]))

    done = table.transact(work, retry=3, userMetadata="again")
    assert done.version == 5
    assert next(runs) == 3
    assert {k: v for k, v, _ in _values(table)}[1] == 11
    assert 121 in {k for k, *_ in _values(table)}
    runs = count(1)
    with pytest.raises(ConcurrentWrite):
        table.transact(work)


def test_pinned_sources_are_gone_when_it_ends() -> None:
    table = _table()
    location = table._state().snapshot.location
    staged = lambda: [m.key for m in location.store.list_all(location.key("_holdfast/stage"))]  # noqa: E731
    with table.transaction() as t:
        merge([1, 50], 3)(t)
        assert staged()
    assert not staged()
    with pytest.raises(ZeroDivisionError):
        _run(table, merge([1, 50], 3), lambda t: 1 / 0)
    assert not staged()


def test_a_plan_within_it_sees_the_verbs_before() -> None:
    table = _table()
    with table.transaction() as t:
        t.delete("k < 5")
        begun = t.merge(_rows(range(10), 1), "t.k = s.k").whenMatchedUpdateAll().whenNotMatchedInsertAll()
        t.delete("k = 5")
        assert begun.plan().rows["inserted"] == 6
        assert begun.execute().metrics["numTargetRowsInserted"] == 6
        with pytest.raises(Invalid, match="no ids yet"):
            t.update("k = 6", {"v": "2"}).rowIds()


@cache
def _template() -> ObjectStore:
    store = MemoryStore()
    shape = Shape(
        Struct((Field("k", LONG), Field("v", LONG), Field("p", STRING))),
        properties={"delta.enableChangeDataFeed": "true"},
    )
    make(Location(store, "t"), shape, env.system(), mode=Mode.CREATE, plain=False)
    DeltaTable(None, _Latest(load(Location(store, "t")))).append(_rows(range(6)))
    return store


def test_every_fault_leaves_all_of_it_or_nothing() -> None:
    def made() -> ObjectStore:
        template, store = _template(), MemoryStore()
        for found in template.list_all("t"):
            store.put(found.key, template.get(found.key))
        return store

    def opened(store: ObjectStore) -> DeltaTable:
        return DeltaTable(None, _Latest(load(Location(store, "t")))).alias("t")

    def run(store: ObjectStore) -> None:
        with opened(store).transaction() as t:
            t.append(_rows([50, 51]))
            merge([2, 50], 3)(t)
            t.delete("k IN (3, 51)", mode="copy-on-write")

    whole = made()
    run(whole)
    allowed = [_values(opened(made())), _values(opened(whole))]
    assert allowed[0] != allowed[1]

    def check(store: ObjectStore) -> None:
        table = opened(store)
        assert _values(table) == allowed[table.version - 1]
        _found(table)

    assert every_fault(run, check, make=made) > 50


def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    plain = _table(path=path, enableChangeDataFeed="true")
    before = _found(plain)
    table = DeltaTable.forPath(spark, path).alias("t")
    with table.transaction() as t:
        t.append(spark.createDataFrame(_rows([50, 51, 52], 7)))
        t.update("k IN (1, 50)", {"v": "v + 5"})
        begun = t.merge(spark.createDataFrame(_rows([1, 2, 50, 60], 3)).alias("s"), "t.k = s.k")
        begun.whenMatchedUpdate(set={"v": "t.v + s.v"}).whenNotMatchedInsertAll().execute()
        t.delete("k IN (3, 51)", mode="copy-on-write")
        assert t.toDF().where("k = 50").collect()[0]["v"] == 15
        assert t.wouldConflict() is None
    after = _found(plain)
    assert table.version == 3
    assert {row[0]: row[1] for row, _ in after.values()} == (
        {k: 0 for k in range(20) if k != 3} | {1: 8, 2: 3, 50: 15, 52: 7, 60: 3}
    )
    assert all(after[id_][0][0] == row[0] for id_, (row, _) in before.items() if id_ in after)
    assert sorted(row[0] for id_, (row, _) in after.items() if id_ not in before) == [50, 52, 60]
    assert {row[0] for row, version in after.values() if version == 3} == {1, 2, 50, 52, 60}
    assert _told(plain.changeFeed(3).toArrow()) == _net(before, after, 3)
    other = DeltaTable.forPath(None, path)
    with table.transaction() as t:
        t.update("k = 1", {"v": "100"})
        other.update("k = 4", {"v": "4"})
    assert {row[0]: row[1] for row, _ in _found(plain).values() if row[0] in (1, 4)} == {1: 100, 4: 4}
