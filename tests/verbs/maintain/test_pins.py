"""Pins: versions that a vacuum must leave readable."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import DeltaTable
from holdfast.errors import Damaged, Invalid, UnknownVersion
from holdfast.formats.delta.checkpoint.writer import write_checkpoint
from holdfast.formats.delta.log.cleanup import clean_log
from holdfast.formats.delta.log.file_names import commit_name
from holdfast.formats.delta.state import load
from tests.verbs.days import Days, opened, rows_of


def test_pins_keep_files_and_log(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch, {"delta.logRetentionDuration": "interval 3 days"})
    days.append(1, 2)
    days.append(3)
    before = rows_of(days.table, 2)
    assert days.table.pin(2, "audit") == 2
    assert days.table.pin(2, "audit") == 2
    assert days.table.pin(None, "now") == 3
    assert days.table.pins() == {"audit": 2, "now": 3}
    with pytest.raises(Invalid, match=r"audit is version 2 of .* already"):
        days.table.pin(1, "audit")
    days.table.delete()
    days.pass_days(20)
    days.append(4)
    write_checkpoint(load(days.location), days.env)
    days.pass_days(20)
    days.append(5)
    clean_log(load(days.location), days.env)
    done = days.table.vacuum()
    assert done.paths == []
    assert [(k.pin, k.files) for k in done.kept] == [("audit", 2), ("now", 2)]
    assert "pin audit (version 2) keeps 2 files" in str(done)
    assert rows_of(days.table, 2) == before
    assert days.table.toArrow(version="audit").num_rows == len(before)
    with pytest.raises(UnknownVersion, match=r"no version of .* is pinned as 'adit': pinned are audit, now"):
        days.table.toArrow(version="adit")
    days.table.unpin("now")
    days.table.unpin("audit")
    assert days.table.pins() == {}
    assert "holdfast.pins" not in load(days.location).domains
    done = days.table.vacuum()
    assert len(done.paths) == 2
    with pytest.raises(UnknownVersion, match="vacuum"):
        days.table.toArrow(version=2)
    clean_log(load(days.location), days.env)
    with pytest.raises(UnknownVersion, match="is not in the log"):
        days.table.toArrow(version=2)


def test_pins_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pins made of one version of the table both land."""
    days = Days(monkeypatch)
    days.append(1)
    one, other = opened(days.location.store), opened(days.location.store)
    monkeypatch.setattr("holdfast.verbs.open.delta_handle.refresh", lambda state: state)
    one.pin(1, "a")
    other.pin(0, "b")
    assert opened(days.location.store).pins() == {"a": 1, "b": 0}


def test_pins_are_refused_where_they_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    anything: Any = 5
    with pytest.raises(Invalid, match="needs a name"):
        days.table.pin(0, anything)
    with pytest.raises(Invalid, match="whole number"):
        days.table.pin(anything and "audit", "x")
    with pytest.raises(UnknownVersion):
        days.table.pin(9, "x")
    with pytest.raises(Invalid, match="pinned are none"):
        days.table.unpin("x")
    plain = DeltaTable.create(None).location("memory://pins/plain").addColumn("id", "long")
    table = plain.property("holdfast.plain", "true").execute()
    with pytest.raises(Invalid, match=r"addFeatureSupport\('domainMetadata'\)"):
        table.pin(0, "x")
    table.addFeatureSupport("domainMetadata")
    assert table.pin(0, "x") == 0


def test_damaged_pins_stop_a_vacuum(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    days.table.pin(0, "x")
    key = days.location.key("_delta_log", commit_name(1))
    days.location.store.put(key, days.location.store.get(key).replace(b'\\"x\\":0', b'\\"x\\":{}'))
    with pytest.raises(Damaged, match=r"holdfast\.pins"):
        opened(days.location.store).vacuum()
