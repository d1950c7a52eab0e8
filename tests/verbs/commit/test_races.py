"""What happens to a transaction that lost a race, row by row: what it read and what others did decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from holdfast import DeltaTable
from holdfast.errors import ConcurrentAppend, ConcurrentDeleteDelete, ConcurrentDeleteRead, ConcurrentWrite
from holdfast.formats.delta.history.commits import history
from holdfast.storage.open import open_location
from holdfast.verbs.commit.retry import Retry

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.int64())])
_fresh = count()

Verb = Callable[[DeltaTable], Any]


_paths: dict[int, str] = {}


def _table(rows: int = 10, files: int = 1, **properties: str) -> tuple[DeltaTable, DeltaTable]:
    """A table, opened by two writers."""
    path = f"memory://races/{next(_fresh)}"
    builder = DeltaTable.create(None).location(path).addColumns(COLUMNS)
    for name, value in properties.items():
        builder = builder.property(f"delta.{name}", value)
    table = builder.execute()
    for n in range(files):
        table.append(_rows(range(n * rows, (n + 1) * rows)))
    _paths[id(table)] = path
    return table, DeltaTable.forPath(None, path)


def _rows(keys: Any, v: int = 0) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "v": v} for k in keys], COLUMNS)


def _state(table: DeltaTable) -> dict[int, tuple[int, int]]:
    """By key: the value and the row id; every key once."""
    found = table.toArrow(metadata=["_row_id"]).to_pylist()
    made = {row["k"]: (row["v"], row["_row_id"]) for row in found}
    assert len(made) == len(found)
    assert len({row["_row_id"] for row in found}) == len(found)
    return made


def _upsert(keys: Any, v: int) -> Verb:
    def run(table: DeltaTable) -> Any:
        merge = table.alias("t").merge(_rows(keys, v), "t.k = source.k")
        return merge.whenMatchedUpdate(set={"v": "source.v"}).whenNotMatchedInsertAll().execute()

    return run


WRITERS: dict[str, tuple[Verb, Callable[[dict[int, int]], dict[int, int]]]] = {
    "delete": (lambda t: t.delete("k = 1"), lambda s: {k: v for k, v in s.items() if k != 1}),
    "delete, copying": (
        lambda t: t.delete("k = 1", mode="copy-on-write"),
        lambda s: {k: v for k, v in s.items() if k != 1},
    ),
    "update": (lambda t: t.update("k = 2", {"v": "20"}), lambda s: {**s, 2: 20}),
    "update, copying": (lambda t: t.update("k = 2", {"v": "20"}, mode="copy-on-write"), lambda s: {**s, 2: 20}),
    "merge": (_upsert([3, 103], 30), lambda s: {**s, 3: 30, 103: 30}),
    "append": (lambda t: t.append(_rows([200], 7)), lambda s: {**s, 200: 7}),
    "compact": (lambda t: t.optimize().executeCompaction(), lambda s: s),
    "purge": (lambda t: t.purge(), lambda s: s),
}
OTHERS: dict[str, tuple[Verb, Callable[[dict[int, int]], dict[int, int]]]] = {
    "delete": (lambda t: t.delete("k = 5"), lambda s: {k: v for k, v in s.items() if k != 5}),
    "delete, copying": (
        lambda t: t.delete("k = 5", mode="copy-on-write"),
        lambda s: {k: v for k, v in s.items() if k != 5},
    ),
    "update": (lambda t: t.update("k = 6", {"v": "60"}), lambda s: {**s, 6: 60}),
    "update, copying": (lambda t: t.update("k = 6", {"v": "60"}, mode="copy-on-write"), lambda s: {**s, 6: 60}),
    "merge": (_upsert([7, 107], 70), lambda s: {**s, 7: 70, 107: 70}),
    "append": (lambda t: t.append(_rows([300], 8)), lambda s: {**s, 300: 8}),
    "compact": (lambda t: t.optimize().executeCompaction(), lambda s: s),
    "purge": (lambda t: t.purge(), lambda s: s),
}


def _pairs() -> Iterator[Any]:
    for mine in WRITERS:
        for theirs in OTHERS:
            yield pytest.param(mine, theirs, id=f"{mine} after {theirs}")


@pytest.mark.parametrize(("mine", "theirs"), list(_pairs()))
def test_writers_of_different_rows_of_the_same_files_both_win(mine: str, theirs: str, meanwhile: Any) -> None:
    table, other = _table(files=3)
    table.delete("k = 9")  # something to purge
    before = _state(table)
    meanwhile(lambda: OTHERS[theirs][0](other))

    WRITERS[mine][0](table)

    after = _state(table)
    expected = WRITERS[mine][1](OTHERS[theirs][1]({k: v for k, (v, _) in before.items()}))
    assert {k: v for k, (v, _) in after.items()} == expected
    kept = before.keys() & after.keys()
    assert {k: after[k][1] for k in kept} == {k: before[k][1] for k in kept}


def _lose(table: DeltaTable, meanwhile: Any, mine: Verb, *theirs: Verb, other: DeltaTable) -> ConcurrentWrite:
    meanwhile(lambda: [run(other) for run in theirs])
    with pytest.raises(ConcurrentWrite) as caught:
        mine(table)
    return caught.value


def _set(k: str, v: int, mode: str | None = None) -> Verb:
    return lambda table: table.update(f"k = {k}", {"v": str(v)}, mode=mode)


def _drop(k: int, mode: str | None = None) -> Verb:
    return lambda table: table.delete(f"k = {k}", mode=mode)


def _compact(table: DeltaTable) -> None:
    done = table.optimize().executeCompaction()
    assert done.versions


MODES = ["merge-on-read", "copy-on-write"]


@pytest.mark.parametrize("theirs", MODES)
@pytest.mark.parametrize("mine", MODES)
def test_two_updates_of_one_row_conflict_and_name_it(mine: str, theirs: str, meanwhile: Any) -> None:
    table, other = _table()
    lost = _lose(table, meanwhile, _set("3", 1, mine), _set("3", 2, theirs), other=other)
    assert isinstance(lost, ConcurrentDeleteRead)
    assert (lost.version, lost.operation, lost.row_ids, lost.can_retry) == (2, "UPDATE", (3,), True)
    assert _state(table)[3] == (2, 3)


@pytest.mark.parametrize("also", [(), (_compact,)])
@pytest.mark.parametrize("theirs", MODES)
@pytest.mark.parametrize("mine", MODES)
def test_an_update_of_a_deleted_row_conflicts(mine: str, theirs: str, also: tuple[Verb, ...], meanwhile: Any) -> None:
    table, other = _table(files=3)
    lost = _lose(table, meanwhile, _set("3", 1, mine), _drop(3, theirs), *also, other=other)
    assert isinstance(lost, ConcurrentDeleteRead)
    assert lost.row_ids == (3,)
    assert 3 not in _state(table)


@pytest.mark.parametrize("also", [(), (_compact,)])
@pytest.mark.parametrize("theirs", MODES)
@pytest.mark.parametrize("mine", MODES)
def test_a_deleted_row_is_not_deleted_again(mine: str, theirs: str, also: tuple[Verb, ...], meanwhile: Any) -> None:
    table, other = _table(files=3)
    meanwhile(lambda: [run(other) for run in (_drop(3, theirs), *also)])
    done = table.delete("k IN (3, 4)", mode=mine)
    assert done.metrics["numDeletedRows"] == 1
    told = dict(history(open_location(_paths[id(table)]), limit=1)["operationMetrics"][0].as_py())
    assert told["numDeletedRows"] == "1"
    assert _state(table).keys() == set(range(30)) - {3, 4}


@pytest.mark.parametrize("mine", MODES)
def test_a_delete_of_a_row_that_changed_conflicts(mine: str, meanwhile: Any) -> None:
    table, other = _table()
    lost = _lose(table, meanwhile, _drop(3, mine), _set("3", 2), other=other)
    assert lost.row_ids == (3,)
    assert _state(table)[3] == (2, 3)


def test_a_row_that_moved_and_changed_is_not_taken_for_the_one_that_was_read(meanwhile: Any) -> None:
    table, other = _table(files=3)
    lost = _lose(table, meanwhile, _set("3", 1), _compact, _set("3", 2), _compact_all, other=other)
    assert lost.row_ids == (3,)
    assert _state(table)[3] == (2, 3)


def _compact_all(table: DeltaTable) -> None:
    assert table.purge().versions


def test_two_merges_that_insert_one_key_do_not_both_land(meanwhile: Any) -> None:
    table, other = _table()
    lost = _lose(table, meanwhile, _upsert([50], 1), _upsert([50], 2), other=other)
    assert isinstance(lost, ConcurrentAppend)
    assert _state(table)[50][0] == 2

    insert = lambda t: t.alias("t").merge(_rows([51], 1), "t.k = source.k").whenNotMatchedInsertAll().execute()  # noqa: E731
    lost = _lose(table, meanwhile, insert, lambda t: t.append(_rows([51], 9)), other=other)
    assert isinstance(lost, ConcurrentAppend)
    assert _state(table)[51][0] == 9


def test_a_row_that_a_merge_matched_and_left_alone_must_stay_as_it_was(meanwhile: Any) -> None:
    def mine(table: DeltaTable) -> Any:
        merge = table.alias("t").merge(_rows([3, 60], 1), "t.k = source.k")
        return merge.whenMatchedUpdate("t.v > 100", {"v": "source.v"}).whenNotMatchedInsertAll().execute()

    table, other = _table(files=3)
    lost = _lose(table, meanwhile, mine, _drop(3), other=other)
    assert isinstance(lost, ConcurrentDeleteRead)
    assert lost.row_ids == (3,)
    meanwhile(lambda: _compact(other))
    table.append(_rows([3]))
    mine(table)
    assert _state(table)[60][0] == 1


def test_rows_that_came_meanwhile_count_only_where_they_match(meanwhile: Any) -> None:
    table, other = _table()
    for n in range(5):  # bounds from -1000 to 1000 say nothing
        meanwhile(lambda: other.append(_rows([-1000, 1000])))
        table.update("k = 3", {"v": str(n)})
        other.delete("abs(k) = 1000") if n < 4 else None
    assert _state(table)[3][0] == 4
    lost = _lose(table, meanwhile, _set("3", 9), lambda t: t.append(_rows([3])), other=other)
    assert isinstance(lost, ConcurrentAppend)
    assert lost.row_ids


def test_a_phantom_is_found_behind_the_compaction_that_moved_it(meanwhile: Any) -> None:
    table, other = _table(files=3)
    lost = _lose(
        table, meanwhile, _set("109 OR k = 3", 9), lambda t: t.append(_rows(range(100, 110), 5)), _compact, other=other
    )
    assert isinstance(lost, ConcurrentAppend)


def test_a_restored_row_is_one_that_came(meanwhile: Any) -> None:
    table, other = _table()
    version = table.version
    table.delete("k = 3")
    lost = _lose(
        table, meanwhile, lambda t: t.delete("k IN (3, 5)"), lambda t: t.restoreToVersion(version), other=other
    )
    assert isinstance(lost, ConcurrentAppend)
    assert 3 in _state(table)
    table.delete("k = 3")
    meanwhile(lambda: other.restoreToVersion(version))
    table.delete("k = 4")
    assert _state(table).keys() == set(range(10)) - {4}


def test_isolation_levels(meanwhile: Any) -> None:
    table, other = _table(isolationLevel="WriteSerializable")
    meanwhile(lambda: other.append(_rows([3])))
    table.update("k = 3", {"v": "7"})  # as if before the append
    assert sorted(row["v"] for row in table.toArrow().to_pylist() if row["k"] == 3) == [0, 7]
    table, other = _table()
    meanwhile(lambda: _upsert([50], 2)(other))
    merge = table.alias("t").merge(_rows([50], 1), "t.k = source.k", isolation="SnapshotIsolation")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert sorted(row["v"] for row in table.toArrow().to_pylist() if row["k"] == 50) == [1, 2]


@pytest.mark.parametrize("condition", ["v < rand() + 2", "k = 3 AND current_date() > '2000-01-01'"])
def test_what_cannot_be_asked_again_is_not_rebased(condition: str, meanwhile: Any) -> None:
    from holdfast.plan.dml.repeatable import is_repeatable

    assert not is_repeatable([condition], [])
    assert is_repeatable(["k = 3"], ["current_timestamp()"])
    assert not is_repeatable(["k IN (SELECT k FROM t)"], [])


def test_without_row_ids_positions_do_where_files_stay(meanwhile: Any) -> None:
    table, other = _table(enableRowTracking="false")
    meanwhile(lambda: other.delete("k = 5"))
    table.delete("k = 4")
    assert sorted(row["k"] for row in table.toArrow().to_pylist()) == [0, 1, 2, 3, 6, 7, 8, 9]
    lost = _lose(table, meanwhile, _drop(3), lambda t: t.purge(), other=other)
    assert isinstance(lost, ConcurrentDeleteDelete)


def test_a_change_feed_never_tells_of_what_did_not_happen(meanwhile: Any) -> None:
    table, other = _table(enableChangeDataFeed="true")
    meanwhile(lambda: other.delete("k = 3"))
    done = table.delete("k IN (3, 4)", mode="copy-on-write")  # run again, because its change files tell of row 3
    assert done.metrics["numDeletedRows"] == 1
    told = table.changeFeed(3, 3).toArrow().to_pylist()
    assert [(row["k"], row["_change_type"]) for row in told] == [(4, "delete")]


def test_a_retry_runs_the_whole_operation_again(meanwhile: Any) -> None:
    table, other = _table()
    meanwhile(lambda: other.update("k = 3", {"v": "v + 10"}))
    done = table.update("k = 3", {"v": "v + 1"}, retry=3)
    assert done.version == 3
    assert _state(table)[3] == (11, 3)
    meanwhile(lambda: other.append(_rows([50], 10)))
    merge = table.alias("t").merge(_rows([50], 5), "t.k = source.k", retry=Retry(attempts=2, seconds=10))
    merge.whenMatchedUpdate(set={"v": "t.v + source.v"}).whenNotMatchedInsertAll().execute()
    assert _state(table)[50][0] == 15


@pytest.mark.parametrize("mine", [_set("3", 1), _set("3", 1, "copy-on-write"), _upsert([3, 50], 1)])
def test_rows_that_get_ids_meanwhile_keep_them(mine: Verb, meanwhile: Any) -> None:
    path = f"memory://races/{next(_fresh)}"
    properties = {"delta.enableRowTracking": "false", "delta.enableDeletionVectors": "true", "holdfast.plain": "true"}
    builder = DeltaTable.create(None).location(path).addColumns(COLUMNS)
    for name, value in properties.items():
        builder = builder.property(name, value)
    table = builder.execute()
    table.append(_rows(range(10)))
    other = DeltaTable.forPath(None, path)
    meanwhile(other.enableRowTracking)
    mine(table)  # run again: what it wrote carries no ids
    after = _state(table)
    assert after[3] == (1, 3)
    assert {k: after[k][1] for k in range(10)} == {k: k for k in range(10)}


def test_rows_that_came_are_told_without_ids_too(meanwhile: Any) -> None:
    table, other = _table(enableRowTracking="false")
    lost = _lose(table, meanwhile, _upsert([50], 1), lambda t: t.append(_rows([50], 2)), other=other)
    assert isinstance(lost, ConcurrentAppend)
    assert lost.row_ids == ()


def test_a_restore_is_run_again_where_rows_only_moved(meanwhile: Any) -> None:
    table, other = _table(files=3)
    version = table.version
    before = _state(table)
    table.delete("k = 3")
    meanwhile(lambda: _compact(other))
    table.restoreToVersion(version)
    assert _state(table) == before
    table.delete("k = 3")
    lost = _lose(
        table, meanwhile, lambda t: t.restoreToVersion(version), _compact, lambda t: t.delete("k = 4"), other=other
    )
    assert isinstance(lost, ConcurrentWrite)
    assert _state(table).keys() == set(range(30)) - {3, 4}


def test_rows_that_came_back_are_looked_at_without_ids_too(meanwhile: Any) -> None:
    table, other = _table(enableRowTracking="false")
    version = table.version
    table.delete("k = 3")
    meanwhile(lambda: other.restoreToVersion(version))
    table.delete("k = 4")
    assert sorted(row["k"] for row in table.toArrow().to_pylist()) == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_a_rewrite_is_run_again_where_rows_came_back_into_its_file(meanwhile: Any) -> None:
    table, other = _table()
    version = table.version
    before = _state(table)
    table.delete("k = 3")
    meanwhile(lambda: other.restoreToVersion(version))
    table.update("k = 4", {"v": "40"}, mode="copy-on-write")
    assert _state(table) == {**before, 4: (40, 4)}


@pytest.mark.parametrize("where", [None, "p = 'a'"])
def test_an_overwrite_takes_the_place_of_rows_that_moved(where: str | None, meanwhile: Any) -> None:
    columns = pa.schema([("k", pa.int64()), ("p", pa.string())])
    path = f"memory://races/{next(_fresh)}"
    table = DeltaTable.create(None).location(path).addColumns(columns).partitionedBy("p").execute()

    def rows(*keys: int) -> pa.Table:
        return pa.table({"k": pa.array(keys, pa.int64()), "p": ["a"] * len(keys)}, columns)

    table.append(rows(1))
    table.append(rows(2))
    table.append(pa.table({"k": pa.array([3], pa.int64()), "p": ["b"]}, columns))
    files = len(DeltaTable.forPath(None, path).toArrow(metadata=["_file"]).column("_file").unique())
    meanwhile(lambda: DeltaTable.forPath(None, path).optimize().executeCompaction())
    done = table.overwrite(rows(7), replaceWhere=where)
    assert (files, done.attempts, done.metrics["numFiles"]) == (3, 2, 1)
    assert sorted(table.toArrow().column("k").to_pylist()) == ([7] if where is None else [3, 7])
    meanwhile(lambda: DeltaTable.forPath(None, path).append(rows(9)))
    with pytest.raises(ConcurrentWrite):
        table.overwrite(rows(8), replaceWhere=where)
