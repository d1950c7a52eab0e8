"""Versions that a vacuum took, and what comes back while one runs."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import ConcurrentDeleteRead, UnknownVersion
from holdfast.formats.delta.history.vacuums import INFO
from holdfast.formats.delta.log.file_names import commit_name
from holdfast.formats.delta.state import load
from holdfast.verbs.maintain import restore as restoring
from holdfast.verbs.maintain.vacuum import vacuum
from holdfast.verbs.open import open_table
from tests.support.faulty import CountingStore
from tests.verbs.days import Days, opened, rows_of


def test_an_old_version_says_which_vacuum_took_it(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    for n in (1, 2):
        days.append(n)
        days.table.delete(f"id = {n}")
        days.pass_days(8)
        days.table.vacuum()
    first, second = 3, 7
    assert str(days.table.readableVersions()) == "0, 2 to 4, 6 to 8"
    with pytest.raises(
        UnknownVersion, match=f"version 1 of .* vacuum of version {first} at 2023.* 168 hours"
    ) as caught:
        days.table.toArrow(version=1)
    assert caught.value.version == 1
    with pytest.raises(UnknownVersion, match=f"vacuum of version {second}"):
        days.table.restoreToVersion(5)
    assert rows_of(days.table, 2) == []


def test_the_vacuum_of_another_engine_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    days.append(1)
    days.table.delete()
    days.pass_days(8)
    days.table.vacuum()
    log = days.location.key("_delta_log")
    days.location.store.put(f"{log}/{INFO}", b'{"latestCommitVersionOutsideOfRetentionWindow":2}\n')
    start = days.location.store.get(f"{log}/{commit_name(3)}").replace(b"versionsLost", b"x")
    days.location.store.put(f"{log}/{commit_name(3)}", start)
    with pytest.raises(UnknownVersion, match="vacuum of version 3"):
        days.table.toArrow(version=1)
    days.location.store.put(f"{log}/{INFO}", b"{}\n")  # a full one of delta-spark leaves no version
    with pytest.raises(UnknownVersion, match="vacuum of version 3"):
        days.table.toArrow(version=1)


def test_the_newest_and_unvacuumed_tables_cost_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    for n in range(3):
        days.append(n)
    store = CountingStore(days.location.store)
    table = opened(store)
    store.keys.clear()
    table.toArrow()
    assert not any(INFO in key for _, key in store.keys)
    table.toArrow(version=1)
    assert [verb for verb, key in store.keys if INFO in key] == ["get"]


def test_files_that_come_back_while_a_vacuum_starts_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    days.append(1)
    days.table.delete()
    days.pass_days(8)
    stale = load(days.location)
    other = opened(days.location.store)

    def restores(*given: Any, **named: Any) -> Any:
        monkeypatch.undo()
        other.restoreToVersion(1)
        return real(*given, **named)

    real = open_table.commit
    monkeypatch.setattr(open_table, "commit", restores)
    done = vacuum(stale, days.env)
    assert done.paths == []
    assert rows_of(opened(days.location.store))[0][0] == 1


def test_a_restore_yields_to_a_vacuum_that_came_first(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    days.append(1)
    days.table.delete()
    days.pass_days(8)
    stale = load(days.location)

    def vacuums(*given: Any, **named: Any) -> Any:
        monkeypatch.undo()
        vacuum(load(days.location), days.env)
        return real(*given, **named)

    real = open_table.commit
    monkeypatch.setattr(open_table, "commit", vacuums)
    with pytest.raises(ConcurrentDeleteRead, match="deletes files of old versions"):
        restoring.restore(stale, days.env, version=1)
