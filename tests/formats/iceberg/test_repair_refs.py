"""Repairs of branches and record counts; what tags keep; other engines read a repaired table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast import IcebergTable
from holdfast.errors import Damaged
from holdfast.model.finding import FindingKind
from tests.formats.iceberg.smith import Smith
from tests.formats.iceberg.test_defaults import registered
from tests.formats.iceberg.test_repair import ROWS, P, as_float, beside, file_of, hiding, ids, racing, smith
from tests.support.iceberg_peers import duckdb_connection, read_by_pyiceberg


def on_branch(table: IcebergTable, name: str, where: str | None = None) -> list[int]:
    return sorted(table.toArrow(version=name, where=where)["id"].to_pylist())


def branched(place: Path, version: int) -> tuple[Smith, IcebergTable]:
    """Rounded values on main, on a branch that went on, on one that stands where main does, and at two tags."""
    builder = smith(place, version)
    shared = file_of(builder, [1, 2], P)
    first = builder.commit([shared])
    builder.tag("old", first)
    builder.refs["dev"] = {"snapshot-id": first, "type": "branch", "max-ref-age-ms": 77_000}
    before = list(builder._manifests)
    own = file_of(builder, [5, 6, 7], P)
    builder.commit([own], hiding(builder, own, 0), branch="dev")
    builder.refs["dev"] |= {"max-ref-age-ms": 77_000, "min-snapshots-to-keep": 3}
    builder._manifests = before
    last = builder.commit([file_of(builder, [3], 0.5)])
    builder.tag("new", last)
    builder.refs["still"] = {"snapshot-id": last, "type": "branch"}
    builder.refs["main"]["max-snapshot-age-ms"] = 99_000
    return builder, registered(place, builder)


@pytest.mark.parametrize("version", [2, 3])
def test_every_branch_is_repaired_and_tags_are_named(tmp_path: Path, version: int) -> None:
    builder, table = branched(tmp_path, version)
    tags = {name: table.handle.newest().metadata.refs[name].snapshot_id for name in ("old", "new")}
    rows = {name: on_branch(table, name) for name in builder.refs}
    assert rows == {"old": [1, 2], "dev": [1, 2, 6, 7], "main": [1, 2, 3], "new": [1, 2, 3], "still": [1, 2, 3]}
    report = table.check()
    assert {finding.kind for finding in report.findings} == {FindingKind.WRONG_PARTITION}
    told = [(finding.what.split(":")[0], finding.repairable) for finding in report.findings]
    assert told.count(("on the branch dev", True)) == 3  # a shared file, its own, and its deletes
    assert told.count(("on the tag old", False)) == 1
    assert next((f.file, f.repairable) for f in report.findings) == (f"{builder.root}/data/f1.parquet", True)

    report = table.check(repair=True)
    assert sorted(text.partition(" (")[2].partition("version")[0] for text in report.repaired) == [
        "",
        "branch dev, ",
        "branch still, ",
    ]
    assert {name: on_branch(table, name) for name in builder.refs} == rows
    found = {name: on_branch(table, name, f"p = {P}") for name in builder.refs}
    assert found == {"old": [], "dev": [1, 2, 6, 7], "main": [1, 2], "new": [], "still": [1, 2]}
    assert {finding.what.split(":")[0] for finding in report.findings} == {"on the tag old", "on the tag new"}
    assert all("drop it, or make it anew" in finding.what for finding in report.findings)
    assert not any(finding.repairable for finding in report.findings)
    refs = table.handle.newest().metadata.refs
    assert {name: refs[name].snapshot_id for name in tags} == tags
    assert (refs["dev"].max_ref_age_ms, refs["dev"].min_snapshots_to_keep) == (77_000, 3)
    assert refs["main"].max_snapshot_age_ms == 99_000
    assert table.check(repair=True).repaired == ()
    table.append(pa.table({"id": [9], "p": [P]}, ROWS))
    assert table.handle.newest().metadata.refs["main"].max_snapshot_age_ms == 99_000
    if version > 2:
        numbers = table.toArrow(metadata=["_row_id"])["_row_id"].to_pylist()
        assert len(set(numbers)) == 4
        assert not {*numbers} & {
            *table.toArrow(version="dev", where="id > 4", metadata=["_row_id"])["_row_id"].to_pylist()
        }


def test_a_branch_that_moves_meanwhile_is_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, table = branched(tmp_path, 3)
    racing(monkeypatch, lambda: beside(table).append(pa.table({"id": [9], "p": [P]}, ROWS)))
    left = [finding for finding in table.check(repair=True).findings if not finding.kind.is_harmless]
    assert {finding.what.split(":")[0] for finding in left} == {"on the tag old", "on the tag new"}
    assert (on_branch(table, "main", f"p = {P}"), on_branch(table, "dev", f"p = {P}")) == ([1, 2, 9], [1, 2, 6, 7])


def test_files_of_a_branch_are_looked_at(tmp_path: Path) -> None:
    builder = smith(tmp_path, 2)
    builder.commit([file_of(builder, [1], 0.5)])
    before, lost = list(builder._manifests), file_of(builder, [2], 0.5)
    builder.refs["dev"] = dict(builder.refs["main"])
    builder.commit([lost, file_of(builder, [3], 0.5)], branch="dev")
    builder._manifests = before
    table = registered(tmp_path, builder)
    Path(lost["file_path"]).unlink()
    (finding,) = table.check().findings
    assert (finding.kind, finding.repairable) == (FindingKind.MISSING_FILE, True)
    assert finding.what.startswith("on the branch dev: data/")
    assert table.check(repair=True, dropMissing=True).clean
    assert (on_branch(table, "dev"), ids(table)) == ([1, 3], [1])


def miscounting(place: Path, version: int, said: int, **more: Any) -> tuple[IcebergTable, dict[str, Any]]:
    builder = smith(place, version)
    file = file_of(builder, [1, 2, 3], 0.5)
    wrong = file | {"record_count": said} | more
    builder.commit([wrong, file_of(builder, [4], 0.5)])
    builder.snapshots[-1]["summary"]["total-records"] = str(said + 1)
    return registered(place, builder), wrong


@pytest.mark.parametrize(("version", "said"), [(2, 2), (2, 9), (3, 9)])
def test_row_counts_that_no_id_depends_on_are_put_right(tmp_path: Path, version: int, said: int) -> None:
    table, _ = miscounting(tmp_path, version, said)
    with pytest.raises(Damaged, match=f"has 3 rows, and the table says that it has {said}"):
        table.toArrow()
    assert [(f.kind, f.repairable) for f in table.check().findings] == [(FindingKind.WRONG_COUNT, True)]
    report = table.check(repair=True)
    assert report.clean, report
    assert report.repaired[0].startswith("put the row counts of 1 files right")
    assert ids(table) == [1, 2, 3, 4]
    last = table.handle.newest().entry
    assert last is not None
    assert last.summary["total-records"] == "4"
    if version > 2:
        found = table.toArrow(metadata=["_row_id"]).sort_by("id")["_row_id"].to_pylist()
        assert found == [0, 1, 2, said]
    table.delete("id = 2")
    assert (ids(table), table.check().clean) == ([1, 3, 4], True)


def test_a_count_that_row_ids_went_on_from_stays_and_says_what_to_do(tmp_path: Path) -> None:
    table, file = miscounting(tmp_path, 3, 2)
    before = table.version
    report = table.check(repair=True)
    (finding,) = (f for f in report.findings if f.kind is FindingKind.WRONG_COUNT)
    assert (finding.repairable, report.repaired, table.version) == (False, (), before)
    assert "append the rows of the file anew" in finding.what
    rows = pq.read_table(file["file_path"]).select(["id", "p"])
    table.append(pa.table({name: rows[name] for name in rows.column_names}, ROWS))
    Path(file["file_path"]).rename(tmp_path / "aside.parquet")
    report = table.check(repair=True, dropMissing=True)
    assert report.clean, report
    assert ids(table) == [1, 2, 3, 4]


def test_the_count_of_a_file_that_was_overwritten_stays(tmp_path: Path) -> None:
    table, _ = miscounting(tmp_path, 2, 2, file_size_in_bytes=17)
    report = table.check(repair=True)
    assert {(f.kind, f.repairable) for f in report.findings} == {
        (FindingKind.WRONG_COUNT, False),
        (FindingKind.WRONG_SIZE, False),
    }
    assert report.repaired == ()


@pytest.mark.parametrize("version", [2, 3])
def test_duckdb_and_pyiceberg_read_a_repaired_table(tmp_path: Path, version: int) -> None:
    builder = smith(tmp_path, version)
    file = file_of(builder, [1, 2, 3], P)
    counted = file_of(builder, [5, 6], 0.25) | {"record_count": 8}
    builder.commit([file, file_of(builder, [4], 1e308), counted])
    builder.commit(deletes=[builder.positions([(file["file_path"], 1)], like=file, one=True)], operation="delete")
    table = registered(tmp_path, builder)
    report = table.check(repair=True)
    assert report.clean, report
    table.append(pa.table({"id": [7, 8], "p": [P, P]}, ROWS))
    table.delete("id = 8", mode="merge-on-read")
    path, expected = table.handle.newest().metadata_path, [1, 3, 4, 5, 6, 7]
    assert ids(table) == expected
    scan = f"from iceberg_scan('{path}')"
    theirs = duckdb_connection().execute(f"select id, p {scan} order by id").fetchall()
    assert theirs == [(1, P), (3, P), (4, 1e308), (5, 0.25), (6, 0.25), (7, P)]
    assert duckdb_connection().execute(f"select id {scan} where p = {P!r} order by id").fetchall() == [(1,), (3,), (7,)]
    assert duckdb_connection().execute(f"select count(*) {scan}").fetchall() == [(6,)]
    read = read_by_pyiceberg(Path(path.removeprefix("file://")), {})
    assert sorted(read["id"].to_pylist()) == expected
    # pyiceberg's decoder rounds doubles; it fills the partition's column from the tuple.
    assert {as_float(value) for value in read["p"].to_pylist()} == {as_float(v) for v in (P, 1e308, 0.25)}
