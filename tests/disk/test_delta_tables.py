"""Delta tables of an earlier version: read at every version, looked up through their indexes, changed, cleaned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast import DeltaTable, between
from holdfast.errors import TableError, UnknownVersion
from tests.disk.delta_tables import KINDS, METHODS, numbers, plain, rows_at
from tests.disk.unpacked import expected, on_disk, without_rows


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    return on_disk("delta", tmp_path)


def opened(path: Path) -> DeltaTable:
    return DeltaTable.forPath(None, path)


def test_every_version_and_its_changes(tables: Path) -> None:
    table, known = opened(tables / "rows"), expected("delta", "rows")
    assert table.version == known["version"]
    assert {version: rows_at(table, int(version)) for version in known["rows"]} == known["rows"]
    assert plain(table.changeFeed(1, table.version).toArrow()) == known["feed"]
    assert plain(table.changes(1, table.version).toArrow()) == known["changes"]
    assert table.historyArrow().column("operation").to_pylist() == known["operations"]
    assert [[event.version, event.operation] for event in table.biography(1).events] == known["biography"]
    assert table.check().clean


def test_checkpoints_sidecars_and_compacted_commits_answer_alone(tables: Path) -> None:
    """Without the commits that they stand for, they say the same rows."""
    log, known = tables / "rows" / "_delta_log", expected("delta", "rows")
    for version in (*range(10), 11):
        (log / f"{version:020}.json").unlink()
    assert rows_at(opened(tables / "rows")) == known["rows"][str(known["version"])]
    assert len(list((log / "_sidecars").iterdir())) == 2


def test_the_table_goes_on(tables: Path) -> None:
    table, known = opened(tables / "rows"), expected("delta", "rows")
    before = known["rows"][str(known["version"])]
    table.append(numbers(60), txn=("loader", 7))
    assert table.version == known["version"], "the table notes that it has this batch"
    table.append(numbers(60), txn=("loader", 8))
    (new,) = [row for row in rows_at(table) if row["n"] == 60]
    assert new["label"] == "none", "the default"
    assert new["id"] > max(row["id"] for row in before), "the identity goes on"
    assert new["_row_id"] > max(row["_row_id"] for rows in known["rows"].values() for row in rows)
    table.update("n = 60", {"label": "'changed'"})
    table.optimize().executeCompaction()
    assert [row["_row_id"] for row in rows_at(table) if row["n"] == 60] == [new["_row_id"]]
    old = {row["_row_id"]: row for row in rows_at(table)}
    assert [old[row["_row_id"]] for row in before] == before
    with pytest.raises(TableError, match="sign"):
        table.append(numbers(-1))
    assert table.check().clean


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_goes_on_where_it_was_taken(tables: Path, kind: str) -> None:
    table, known = opened(tables / "rows"), expected("delta", "rows")
    changes = table.changes(resume=known["tokens"][kind], **KINDS[kind])
    assert plain(changes.toArrow()) == known["continued"][kind]
    table.append(numbers(70))
    (later,) = table.changes(resume=changes.resumeToken, **KINDS[kind]).toArrow().to_pylist()
    assert (later["n"], later["_change_type"]) == (70, "insert")


def test_applied_changes_go_on_and_come_once(tables: Path) -> None:
    known = expected("delta", "applied")
    origin, applied = opened(tables / "origin"), opened(tables / "applied")
    assert plain(applied.toArrow()) == known["applied"]
    origin.changes(0, kind="min-delta").applyChanges(applied)
    assert plain(applied.toArrow().rename_columns(["n", "s", "_row_id"])) == known["origin"]
    version = applied.version
    origin.changes(0, kind="min-delta").applyChanges(applied)
    assert applied.version == version


def spoil_other_files(path: Path, key: int) -> None:
    """Make the data files unreadable that were there before the indexes and do not hold a key."""
    rows = opened(path).toArrow(["key"], metadata=["_file"], version=3).to_pylist()
    names = {row["_file"].rpartition("/")[2] for row in rows if row["key"] % 3 != key % 3}
    assert len(names) == 2
    for file in (next(path.rglob(name)) for name in names):
        file.write_bytes(without_rows(file.read_bytes()))


def test_lookups_go_through_the_indexes(tables: Path) -> None:
    path, known = tables / "indexed", expected("delta", "indexed")
    rows = {row["key"]: row for row in known["rows"]}
    told = {one.name: [one.kind, list(one.columns), one.version, one.entries] for one in opened(path).indexes()}
    assert told == known["indexes"]
    spoil_other_files(path, 3)
    table = opened(path)
    with pytest.raises(TableError):
        table.toArrow(["key"])
    metadata = ["_row_id", "_row_commit_version"]

    def looked_up(**by: Any) -> list[Any]:
        return plain(table.lookup(columns=["key", "g"], metadata=metadata, **by))

    assert looked_up(key=3) == [rows[3]], "the other files cannot be scanned, so an index finds the one it is in"
    assert looked_up(key=[6, 9, 300]) == plain(pa.Table.from_pylist([rows[6], rows[9], rows[300]]))
    assert looked_up(g="g3", key=between(3, 3)) == [rows[3]]
    assert looked_up(key=12, g="g0") == [rows[12]]


def test_indexes_are_right_and_go_on(tables: Path) -> None:
    path, known = tables / "indexed", expected("delta", "indexed")
    table = opened(path)
    for name in known["indexes"]:
        assert table.verifyIndex(name).is_right, name
    table.append(table.toArrow(where="key = 5").set_column(0, "key", pa.array([400])))
    for name, (_, _, version, entries) in known["indexes"].items():
        segments = {one.name: one.segments for one in table.indexes()}[name]
        info = table.refreshIndex(name)
        assert info.version > version
        assert info.entries > entries, "what was there stays"
        assert info.segments >= segments
        assert table.verifyIndex(name).is_right
    for key, count in ((4, 0), (7, 1), (300, 1), (400, 1)):
        assert table.lookup(key=key).num_rows == count
    assert sorted(table.lookup(g="moved").column("key").to_pylist()) == [7]


@pytest.mark.parametrize("method", METHODS)
def test_nearest_rows_come_from_the_index(tables: Path, method: str) -> None:
    table, point = opened(tables / "indexed"), expected("delta", "indexed")["point"]
    plan = table.explainNearest(method, point)
    assert (plan.index, plan.method, plan.entries) == (f"near_{method}", method, 300)
    nearest = table.nearest(method, point, k=3, columns=["key"], nprobe=2 if method.startswith("ivf") else None)
    assert nearest.column("key").to_pylist()[0] == 9
    version = table.version
    table.append(table.toArrow(where="key = 9").set_column(0, "key", pa.array([400])))
    assert {9, 400} <= set(table.nearest(method, point, k=3, columns=["key"]).column("key").to_pylist())
    assert table.version == version + 1


def test_pins_hold_and_are_released(tables: Path) -> None:
    table, known = opened(tables / "kept"), expected("delta", "kept")
    assert table.pins() == known["pins"]
    assert rows_at(table) == known["rows"]
    assert plain(table.toArrow(version="audit", metadata=["_row_id", "_row_commit_version"])) == known["pinned"]
    table.vacuum(0, enforceRetention=False)
    assert plain(table.toArrow(version="audit", metadata=["_row_id", "_row_commit_version"])) == known["pinned"]
    table.unpin("audit")
    assert table.pins() == {}
    table.vacuum(0, enforceRetention=False)
    with pytest.raises(UnknownVersion, match="vacuum"):
        table.toArrow(version=2)
    assert rows_at(table) == known["rows"]


def test_a_vacuum_says_which_versions_it_took(tables: Path) -> None:
    table, known = opened(tables / "kept"), expected("delta", "kept")
    assert list(map(list, table.readableVersions().spans)) == known["readable"]
    (lost,) = {5} - {v for first, last in known["readable"] for v in range(first, last + 1)}
    with pytest.raises(UnknownVersion, match="vacuum"):
        table.toArrow(version=lost)


def test_a_lease_is_respected_until_it_ends(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tables / "kept"
    (lease,) = (path / "_holdfast" / "lease").iterdir()
    written = json.loads(lease.read_text())
    assert written["holder"] == "crashed"
    clock = written["untilMs"] - 1000
    monkeypatch.setattr("time.time_ns", lambda: clock * 1_000_000)
    assert opened(path).optimize(lease="another").executeCompaction().held == 1
    clock += 2000
    done = opened(path).optimize(lease="another").executeCompaction()
    assert (done.held, len(done.versions)) == (0, 1)
    assert not list(lease.parent.iterdir())


def test_what_killed_processes_left_is_cleaned(tables: Path) -> None:
    path, known = tables / "kept", expected("delta", "kept")
    table = opened(path)
    (staged,) = (path / "_holdfast" / "stage").iterdir()
    paths = table.vacuum(0, enforceRetention=False).paths
    assert str(staged.relative_to(path)) in paths
    assert not staged.exists()
    assert all((path / name).exists() for name in known["beside"] if "/erasures/" in name)
    assert rows_at(table) == known["rows"]
    assert table.check().clean


def test_an_erasure_is_followed_up(tables: Path) -> None:
    table, known = opened(tables / "kept"), expected("delta", "kept")
    (report,) = table.erasures()
    assert (report.id, str(report)) == (known["erasure"], known["erased"])
    assert not table.erasureStatus(report.id).is_clean
    table.vacuum(0, enforceRetention=False)
    assert table.erasureStatus(report.id).is_clean
    assert table.erasures()[0].proof is not None
