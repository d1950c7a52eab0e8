"""A transaction on an Iceberg table that has lost several attempts: others wait for the next one, and it lands."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import create_engine

from holdfast import IcebergTable
from holdfast.env import system
from holdfast.errors import ConcurrentWrite
from holdfast.formats.iceberg.catalog import pointer
from holdfast.formats.iceberg.format import IcebergFormat
from holdfast.verbs.commit import loop

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": [0] * len(ids)}, SCHEMA)


def opened(path: Path) -> IcebergTable:
    return IcebergTable.load(None, path / "c.db", "db.t")


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    made = IcebergTable.create(None, tmp_path / "c.db", "db.t", SCHEMA)
    made.append(rows(1, 2, 3))
    return made


def crowd(monkeypatch: pytest.MonkeyPatch, path: Path) -> list[threading.Thread]:
    """Let another writer append before each attempt of this thread's next transaction, in up to a second."""
    here, attempt = threading.get_ident(), IcebergFormat.attempt
    others: list[threading.Thread] = []

    def late(*given: Any) -> Any:
        if threading.get_ident() == here:
            other = threading.Thread(target=lambda: opened(path).append(rows(10 + len(others))))
            others.append(other)
            other.start()
            other.join(timeout=1)
        return attempt(*given)

    monkeypatch.setattr(IcebergFormat, "attempt", late)
    return others


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_after_some_losses_others_wait_for_an_attempt(
    table: IcebergTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    others = crowd(monkeypatch, tmp_path)
    done = table.update("id = 2", {"v": "7"}, mode=mode)
    assert done.attempts == loop.LOSSES_BEFORE_TURN + 1
    monkeypatch.undo()
    for other in others:
        other.join()
    read = {row["id"]: row["v"] for row in table.toArrow().to_pylist()}
    assert read == {1: 0, 2: 7, 3: 0, **{10 + n: 0 for n in range(1, len(others) + 1)}}


def test_a_conflict_within_a_turn_lets_others_go_on(
    table: IcebergTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "LOSSES_BEFORE_TURN", 1)
    attempt, other = IcebergFormat.attempt, opened(tmp_path)

    def late(*given: Any) -> Any:
        monkeypatch.setattr(IcebergFormat, "attempt", attempt)
        other.update("id = 2", {"v": "1"})
        return attempt(*given)

    monkeypatch.setattr(IcebergFormat, "attempt", late)
    with pytest.raises(ConcurrentWrite):
        table.update("id = 2", {"v": "2"})
    other.append(rows(9))  # nobody holds the pointer any more
    assert sorted(table.toArrow()["id"].to_pylist()) == [1, 2, 3, 9]


def test_who_waits_too_long_for_a_lock_has_lost_and_tries_again(
    table: IcebergTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog: Any = table.handle.source.catalog  # type: ignore[union-attr]
    monkeypatch.setattr(
        catalog, "engine", create_engine(f"sqlite:///{tmp_path / 'c.db'}", connect_args={"timeout": 0.05})
    )
    holder: Any = opened(tmp_path).handle.source
    with pointer.holding(holder.catalog, holder.identifier, system()) as hold:
        assert hold is not None
        with pointer.holding(catalog, "db.t", system()) as second:
            assert second is None
        release = threading.Timer(0.5, hold.rollback)
        release.start()
        done = table.append(rows(9))
        release.join()
    assert done.attempts > 1
    assert sorted(table.toArrow()["id"].to_pylist()) == [1, 2, 3, 9]


def test_a_reader_that_keeps_sqlite_from_committing_costs_an_attempt(
    table: IcebergTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "LOSSES_BEFORE_TURN", 0)
    catalog: Any = table.handle.source.catalog  # type: ignore[union-attr]
    monkeypatch.setattr(
        catalog, "engine", create_engine(f"sqlite:///{tmp_path / 'c.db'}", connect_args={"timeout": 0.05})
    )
    reader = sqlite3.connect(tmp_path / "c.db", check_same_thread=False, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM iceberg_tables").fetchall()
    release = threading.Timer(0.5, lambda: reader.execute("ROLLBACK"))
    release.start()
    done = table.append(rows(9))
    release.join()
    reader.close()
    assert done.attempts > 1
    assert sorted(table.toArrow()["id"].to_pylist()) == [1, 2, 3, 9]
