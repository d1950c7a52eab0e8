"""A transaction that loses one attempt after another: each loss costs what came since the one before, and what lands in
the end is right whatever came in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast import DeltaTable
from holdfast.errors import ConcurrentDeleteRead
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.state import load
from holdfast.formats.iceberg.format import IcebergFormat
from holdfast.storage.location import Location
from holdfast.storage.open import open_location
from holdfast.table.iceberg import IcebergTable
from holdfast.verbs.commit import loop
from holdfast.verbs.open.delta_handle import DeltaHandle
from tests.support.faulty import CountingStore

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.int64())])
Verb = Callable[[Any], Any]
Rows = dict[int, int]
_fresh = count()


def _rows(keys: Any, v: int = 0) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "v": v} for k in keys], COLUMNS)


def _table(**properties: str) -> tuple[DeltaTable, str]:
    path = f"memory://lost/{next(_fresh)}"
    builder = DeltaTable.create(None).location(path).addColumns(COLUMNS)
    for name, value in properties.items():
        builder = builder.property(f"delta.{name}", value)
    table = builder.execute()
    for n in range(3):
        table.append(_rows(range(n * 10, n * 10 + 10)))
    return table, path


def _state(table: Any) -> dict[int, tuple[int, int]]:
    """By key: the value and the row id; every key once."""
    found = table.toArrow(metadata=["_row_id"]).to_pylist()
    made = {row["k"]: (row["v"], row["_row_id"]) for row in found}
    assert len(made) == len(found) == len({row["_row_id"] for row in found})
    return made


@pytest.fixture
def before_attempts(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Arrange that others commit before one attempt after another of the next transaction; how many had their turn."""

    def arrange(*others: Callable[[], Any], kind: type = DeltaFormat) -> list[int]:
        attempt, waiting, ran = kind.attempt, list(others), [0]  # type: ignore[attr-defined]
        is_inner = [False]

        def late(*given: Any) -> Any:
            if waiting and not is_inner[0]:
                is_inner[0] = True
                waiting.pop(0)()
                is_inner[0] = False
                ran[0] += 1
            return attempt(*given)

        monkeypatch.setattr(kind, "attempt", late)
        monkeypatch.setattr(loop, "LOSSES_BEFORE_TURN", 10**6)  # the others commit in this thread: none may wait
        return ran

    return arrange


def _upsert(keys: Any, v: int) -> Verb:
    def run(table: DeltaTable) -> Any:
        merge = table.alias("t").merge(_rows(keys, v), "t.k = source.k")
        return merge.whenMatchedUpdate(set={"v": "source.v"}).whenNotMatchedInsertAll().execute()

    return run


MINE: dict[str, tuple[Verb, Callable[[Rows], Rows]]] = {
    "delete": (lambda t: t.delete("k IN (1, 11)"), lambda s: {k: v for k, v in s.items() if k not in (1, 11)}),
    "delete a file": (lambda t: t.delete("k < 10"), lambda s: {k: v for k, v in s.items() if k >= 10}),
    "update": (lambda t: t.update("k IN (2, 12)", {"v": "20"}), lambda s: {**s, 2: 20, 12: 20}),
    "update, copying": (
        lambda t: t.update("k = 2", {"v": "20"}, mode="copy-on-write"),
        lambda s: {**s, 2: 20},
    ),
    "merge": (_upsert([3, 13, 103], 30), lambda s: {**s, 3: 30, 13: 30, 103: 30}),
    "compact": (lambda t: t.optimize().executeCompaction(), lambda s: s),
}
THEIRS: dict[str, tuple[Verb, Callable[[Rows], Rows]]] = {
    "append": (lambda t: t.append(_rows([300], 8)), lambda s: {**s, 300: 8}),
    "update": (lambda t: t.update("k IN (14, 24)", {"v": "60"}), lambda s: {**s, 14: 60, 24: 60}),
    "compact": (lambda t: t.optimize().executeCompaction(), lambda s: s),
    "append again": (lambda t: t.append(_rows([301], 8)), lambda s: {**s, 301: 8}),
    "delete, copying": (
        lambda t: t.delete("k = 15", mode="copy-on-write"),
        lambda s: {k: v for k, v in s.items() if k != 15},
    ),
    "merge": (_upsert([16, 107], 70), lambda s: {**s, 16: 70, 107: 70}),
    "compact again": (lambda t: t.optimize().executeCompaction(), lambda s: s),
    "purge": (lambda t: t.purge(), lambda s: s),
}


@pytest.mark.parametrize("turn", [0, 3, 5])
@pytest.mark.parametrize("mine", list(MINE))
def test_a_transaction_follows_its_rows_from_attempt_to_attempt(mine: str, turn: int, before_attempts: Any) -> None:
    table, path = _table()
    before = _state(table)
    names = [*THEIRS][turn:] + [*THEIRS][:turn]
    other = DeltaTable.forPath(None, path)
    ran = before_attempts(*(lambda name=name: THEIRS[name][0](other) for name in names))

    MINE[mine][0](table)

    assert ran[0] >= 2
    expected = {k: v for k, (v, _) in before.items()}
    for name in names[: ran[0]]:
        expected = THEIRS[name][1](expected)
    after = _state(table)
    assert {k: v for k, (v, _) in after.items()} == MINE[mine][1](expected)
    kept = before.keys() & after.keys()
    assert {k: after[k][1] for k in kept} == {k: before[k][1] for k in kept}


def test_a_loss_costs_what_came_since_the_one_before(before_attempts: Any) -> None:
    losses = 30
    _, path = _table(checkpointInterval="1000")
    location = open_location(path)
    store = CountingStore(location.store)
    table = DeltaTable(DeltaHandle(None, load(Location(store, location.directory))))
    other = DeltaTable.forPath(None, path)
    before_attempts(*(lambda n=n: other.append(_rows([100 + n])) for n in range(losses)))
    store.keys.clear()

    done = table.update("k = 2", {"v": "20"})

    assert done.attempts == losses + 1
    read = Counter(key for verb, key in store.keys if verb == "get" and key.endswith(".json"))
    assert max(read.values()) <= 2  # whose it is, and what it did
    written = [key for verb, key in store.keys if verb == "put" and "deletion_vector" in key]
    assert len(written) == 1
    assert not [key for verb, key in store.keys if verb.startswith("list")]
    assert len(store.keys) < 10 * losses


def test_vectors_are_made_anew_where_the_file_hides_other_rows(before_attempts: Any) -> None:
    table, path = _table()
    other = DeltaTable.forPath(None, path)
    before_attempts(
        lambda: other.append(_rows([100])), lambda: other.delete("k = 3"), lambda: other.append(_rows([101]))
    )
    assert table.update("k = 2", {"v": "20"}).attempts == 4
    assert {k: v for k, (v, _) in _state(table).items() if k < 5} == {0: 0, 1: 0, 2: 20, 4: 0}


def test_a_row_that_is_deleted_and_restored_between_attempts_is_as_it_was(before_attempts: Any) -> None:
    table, path = _table()
    other = DeltaTable.forPath(None, path)
    version = table.version
    before_attempts(lambda: other.delete("k = 1"), lambda: other.restoreToVersion(version))
    assert table.delete("k IN (1, 2)").metrics["numDeletedRows"] == 2
    assert not _state(table).keys() & {1, 2}


def test_a_row_that_changes_after_several_losses_is_a_conflict(before_attempts: Any) -> None:
    table, path = _table()
    other = DeltaTable.forPath(None, path)
    compact = lambda: other.optimize().executeCompaction()  # noqa: E731
    before_attempts(lambda: other.append(_rows([100])), compact, lambda: other.update("k = 2", {"v": "5"}))
    with pytest.raises(ConcurrentDeleteRead) as caught:
        table.update("k = 2", {"v": "20"})
    assert (caught.value.operation, len(caught.value.row_ids)) == ("UPDATE", 1)
    assert _state(other)[2][0] == 5


def test_iceberg_follows_its_rows_from_attempt_to_attempt(tmp_path: Path, before_attempts: Any) -> None:
    table = IcebergTable.create(None, tmp_path / "catalog.db", "db.t", COLUMNS, formatVersion=3)
    for n in range(2):
        table.append(_rows(range(n * 10, n * 10 + 10)))
    other = IcebergTable.load(None, tmp_path / "catalog.db", "db.t")
    before = _state(table)
    ran = before_attempts(
        lambda: other.append(_rows([100])),
        lambda: other.update("k = 4", {"v": "60"}),
        lambda: other.optimize().executeCompaction(),
        lambda: other.append(_rows([101])),
        kind=IcebergFormat,
    )
    assert table.update("k IN (2, 12)", {"v": "20"}).attempts == 5
    after = _state(table)
    assert ran == [4]
    assert {k: v for k, (v, _) in after.items()} == {**dict.fromkeys([*range(20), 100, 101], 0), 4: 60, 2: 20, 12: 20}
    assert {k: after[k][1] for k in before} == {k: i for k, (_, i) in before.items()}
