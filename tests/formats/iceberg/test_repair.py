"""Repairs of Iceberg tables: partition values become exact, and nothing else changes."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from holdfast import IcebergTable
from holdfast.errors import Invalid, Unavailable
from holdfast.formats.iceberg.commit.manifest_writer import ManifestWriter
from holdfast.formats.iceberg.format import IcebergFormat
from holdfast.model.finding import FindingKind
from tests.formats.iceberg.smith import Entry, Smith, column
from tests.formats.iceberg.test_defaults import registered

P = 2.222
NEXT = float(np.nextafter(P, 3))  # another double, and the same float
ROWS = pa.schema([("id", pa.int64()), ("p", pa.float64())])


def as_float(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float64(value).astype(np.float32))


def smith(place: Path, version: int) -> Smith:
    spec = [{"name": "p", "transform": "identity", "source-id": 2, "field-id": 1000}]
    return Smith(str(place / "t"), [column(1, "id"), column(2, "p", "double")], specs=[spec], version=version)


def file_of(builder: Smith, ids: list[int], p: float, *, rounded: bool = True) -> Entry:
    return builder.data({"id": ids, "p": [p] * len(ids)}, partition={"p": as_float(p) if rounded else p})


def misplaced(entry: Entry) -> Entry:
    """Where deletes of a file were put by who read its value as a float."""
    return {**entry, "partition": {"p": as_float(entry["partition"]["p"])}}


def hiding(builder: Smith, file: Entry, at: int) -> list[Entry]:
    """What hides one row of a file: a vector, or a file of position deletes."""
    place = misplaced(file)
    return (
        builder.vectors([(place, [at])])
        if builder.version > 2
        else [builder.positions([(file["file_path"], at)], like=place, one=True)]
    )


def entries_of(table: IcebergTable) -> dict[tuple[str, Any], dict[str, Any]]:
    """All live entries of the newest snapshot as fastavro reads them, by file and offset."""
    state, found = table.handle.newest(), {}
    for manifest in state.contents.manifests:
        data = Path(manifest.path.removeprefix("file://")).read_bytes()
        for entry in fastavro.reader(io.BytesIO(data)):
            assert isinstance(entry, dict)
            if entry["status"] != 2:
                file = entry["data_file"]
                found[file["file_path"], file.get("content_offset")] = entry
    return found


def beside(table: IcebergTable) -> IcebergTable:
    """The same table, as another process opens it."""
    source = table.handle.source
    assert source is not None
    return IcebergTable.load(None, source.catalog, "db.t")


def ids(table: IcebergTable, where: str | None = None) -> list[int]:
    return sorted(table.toArrow(where=where)["id"].to_pylist())


def stored(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def damaged(place: Path, version: int) -> IcebergTable:
    """Two files of one partition, deletes there, a value beyond all floats, one that is a float, and an exact one."""
    builder = smith(place, version)
    first, second = file_of(builder, [1, 2, 3], P), file_of(builder, [4, 5], P)
    builder.commit([first, file_of(builder, [6], 1e308), file_of(builder, [7], 0.5)])
    builder.commit([second, file_of(builder, [8], 1 / 3, rounded=False)])
    builder.commit(deletes=[*hiding(builder, first, 1), *hiding(builder, second, 0)], operation="delete")
    return registered(place, builder)


@pytest.mark.parametrize("version", [2, 3])
def test_rounded_values_become_exact_and_nothing_else_changes(tmp_path: Path, version: int) -> None:
    table = damaged(tmp_path, version)
    before, files, version_before = entries_of(table), stored(tmp_path), table.version
    named = ["_row_id", "_last_updated_sequence_number"] if version > 2 else []
    rows = table.toArrow(metadata=named).sort_by("id")
    sequences = dict(
        zip(*(table.handle.newest().snapshot.files.column(n).to_pylist() for n in ("path", "sequence")), strict=True)
    )
    report = table.check()
    assert {finding.kind for finding in report.findings} == {FindingKind.WRONG_PARTITION}
    assert sorted(finding.repairable for finding in report.findings) == [True] * 5
    assert stored(tmp_path) == files, "a check writes nothing"
    assert (table.version, ids(table, f"p = {P}"), ids(table, "p = 1e308")) == (version_before, [], [])

    report = table.check(repair=True)
    assert report.clean, report
    assert not report.findings
    assert report.repaired == (f"gave 5 files the partition values that they have (version {table.version})",)
    assert ids(table, f"p = {P}") == [1, 3, 5]
    assert ids(table, "p = 1e308") == [6]
    assert table.toArrow(metadata=named).sort_by("id") == rows
    after = entries_of(table)
    assert after.keys() == before.keys()
    found = table.handle.newest().snapshot.files
    assert dict(zip(*(found.column(n).to_pylist() for n in ("path", "sequence")), strict=True)) == sequences
    for name, entry in after.items():
        old = before[name]
        value = old["data_file"]["partition"]["p"]
        exact = {as_float(P): P, math.inf: 1e308}.get(value, value)
        assert entry["data_file"]["partition"]["p"] == exact
        same = ("file_path", "record_count", "lower_bounds", "upper_bounds", "referenced_data_file", "content")
        assert [entry["data_file"].get(n) for n in same] == [old["data_file"].get(n) for n in same]
        assert entry["snapshot_id"] == old["snapshot_id"]
    retold = [entry for entry in after.values() if entry["data_file"]["partition"]["p"] in (P, 1e308)]
    assert {entry["status"] for entry in retold} == {0}
    assert all(files[path] == data for path, data in stored(tmp_path).items() if path in files and "c.db" not in path)
    last = table.handle.newest().entry
    assert last is not None
    assert last.operation == "replace"
    assert table.check(repair=True).repaired == ()

    table.delete(f"p = {P} and id = 3", mode="merge-on-read")
    table.delete("p = 1e308")
    table.append(pa.table({"id": [9], "p": [P]}, ROWS))
    assert ids(table) == [1, 5, 7, 8, 9]
    assert table.check().clean


@pytest.mark.parametrize(("version", "single"), [(2, True), (2, False), (3, True)])
def test_deletes_that_are_stranded_apply_again(tmp_path: Path, version: int, single: bool) -> None:
    builder = smith(tmp_path, version)
    file, other = (file_of(builder, numbers, P, rounded=False) for numbers in ([1, 2], [3, 4]))
    builder.commit([file, other])
    paths = [(file["file_path"], 0), (other["file_path"], 1)]
    builder.commit(deletes=hiding(builder, file, 0) if single else [builder.positions(paths, like=misplaced(file))])
    table = registered(tmp_path, builder)
    assert not table.check().clean
    report = table.check(repair=True)
    assert report.clean, report
    assert ids(table) == ([2, 3, 4] if single else [2, 3])
    last = table.handle.newest().entry
    assert last is not None
    assert last.operation == "overwrite", "rows go"


def test_changes_tell_of_rows_that_go_with_a_repair(tmp_path: Path) -> None:
    builder = smith(tmp_path, 3)
    files = [file_of(builder, numbers, P, rounded=False) for numbers in ([1, 2], [3, 4])]
    builder.commit(files)
    gone = [(files[0]["file_path"], 0), (files[1]["file_path"], 1)]
    builder.commit(
        deletes=[builder.positions(gone[:1], like=files[0]), builder.positions(gone, like=misplaced(files[0]))]
    )
    table = registered(tmp_path, builder)
    assert ids(table) == [2, 3, 4]
    assert table.check(repair=True).clean
    result = table.changes(table.version).toArrow()
    assert result.select(["id", "_change_type"]).to_pylist() == [{"id": 4, "_change_type": "delete"}]


def test_entries_keep_the_snapshot_that_they_inherited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Smith._manifest

    def silent(self: Smith, content: int, spec: int, entries: list[Entry], *args: int) -> Entry:
        return write(self, content, spec, [{**entry, "snapshot_id": None} for entry in entries], *args)

    monkeypatch.setattr(Smith, "_manifest", silent)
    builder = smith(tmp_path, 2)
    first = builder.commit([file_of(builder, [1], P)])
    table = registered(tmp_path, builder)
    assert [entry["snapshot_id"] for entry in entries_of(table).values()] == [None]
    assert table.check(repair=True).clean
    assert [entry["snapshot_id"] for entry in entries_of(table).values()] == [first]


def bounded(entry: Entry, p: float) -> Entry:
    bounds = [{"key": 2, "value": struct.pack("<d", p)}]
    return {**entry, "lower_bounds": bounds, "upper_bounds": bounds}


@pytest.mark.parametrize("is_proved", [True, False])
def test_deletes_by_value_go_along_only_where_they_say_whose_they_are(tmp_path: Path, is_proved: bool) -> None:
    builder = smith(tmp_path, 2)
    file = file_of(builder, [1, 2], P)
    builder.commit([file, file_of(builder, [3], 1e308)])
    gone = builder.equality({"id": 1}, {"id": [1]}, like=file)
    if is_proved:
        gone = bounded(builder.equality({"id": 1, "p": 2}, {"id": [1], "p": [P]}, like=file), P)
    builder.commit(deletes=[gone])
    table = registered(tmp_path, builder)
    report = table.check(repair=True)
    assert ids(table) == [2, 3], "deleted rows stay deleted"
    assert ids(table, "p = 1e308") == [3]
    assert report.clean is is_proved
    assert ids(table, f"p = {P}") == ([2] if is_proved else [])
    if not is_proved:
        assert [(f.file, f.repairable) for f in report.findings] == [(file["file_path"], False)]
        assert "whose they are" in report.findings[0].what
        table.update("id = 2", {"p": "p"})
        assert table.check().clean


def test_files_stay_where_deletes_are_about_two_values(tmp_path: Path) -> None:
    builder = smith(tmp_path, 2)
    one, other = file_of(builder, [1, 2], P), file_of(builder, [3, 4], NEXT)
    alone = file_of(builder, [5, 6], NEXT)
    builder.commit([one, other, alone])
    both = builder.positions([(one["file_path"], 0), (other["file_path"], 1)], like=one)
    builder.commit(deletes=[both, *hiding(builder, alone, 0)])
    table = registered(tmp_path, builder)
    report = table.check(repair=True)
    assert (report.repaired, report.clean, ids(table)) == ((), False, [2, 3, 6])
    assert not any(finding.repairable for finding in report.findings)


def test_two_values_of_one_float_part(tmp_path: Path) -> None:
    builder = smith(tmp_path, 3)
    one, other = file_of(builder, [1, 2], P), file_of(builder, [3, 4], NEXT)
    builder.commit([one, other])
    builder.commit(deletes=builder.vectors([(one, [0]), (other, [1])]))
    table = registered(tmp_path, builder)
    assert table.check(repair=True).clean
    assert (ids(table, f"p = {P}"), ids(table, f"p = {NEXT!r}")) == ([2], [3])


def test_what_nothing_proves_is_left(tmp_path: Path) -> None:
    builder = smith(tmp_path, 2)
    other = builder.data({"id": [1], "p": [7.5]}, partition={"p": 8.5})
    mixed = builder.data({"id": [2, 3], "p": [P, None]}, partition={"p": as_float(P)})
    builder.commit([other, mixed])
    table = registered(tmp_path, builder)
    before = table.version
    report = table.check(repair=True)
    assert [(f.kind, f.file, f.repairable) for f in report.findings] == [
        (FindingKind.WRONG_PARTITION, other["file_path"], False)
    ]
    assert (report.repaired, table.version) == ((), before)


@pytest.mark.parametrize("ids_of", [True, False])
def test_footers_tell_where_manifests_keep_no_bounds(tmp_path: Path, ids_of: bool) -> None:
    builder = smith(tmp_path, 2)
    mute = {"lower_bounds": None, "upper_bounds": None}
    rows = {"id": [1, 2, 3], "p": [P] * 3}
    file = builder.data(rows, partition={"p": as_float(P)}, with_ids=ids_of, group_rows=2) | mute
    mixed = builder.data({"id": [4, 5], "p": [0.25, 0.75]}, partition={"p": 0.5}) | mute
    builder.commit([file, mixed])
    builder.commit(deletes=[builder.equality({"id": 1, "p": 2}, {"id": [1], "p": [P]}, like=file)])
    table = registered(tmp_path, builder)
    assert table.check(deep=False).clean
    report = table.check()
    assert [finding.file for finding in report.findings][:1] == ([file["file_path"]] if ids_of else [])
    if ids_of:
        assert table.check(repair=True, deep=False).clean
        assert (ids(table, f"p = {P}"), ids(table)) == ([2, 3], [2, 3, 4, 5])


def racing(monkeypatch: pytest.MonkeyPatch, other: Callable[[], object]) -> None:
    """Let another writer come first, once."""
    attempt, pending = IcebergFormat.attempt, [other]

    def late(self: IcebergFormat, *args: Any) -> Any:
        if pending:
            pending.pop()()
        return attempt(self, *args)

    monkeypatch.setattr(IcebergFormat, "attempt", late)


@pytest.mark.parametrize("version", [2, 3])
def test_a_repair_that_loses_a_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    table = damaged(tmp_path, version)
    other = beside(table)

    def change() -> None:
        other.append(pa.table({"id": [10], "p": [P]}, ROWS))
        other.delete("id = 5", mode="merge-on-read")

    racing(monkeypatch, change)
    report = table.check(repair=True)
    assert report.clean, report
    assert len(report.repaired) == 1
    assert ids(table, f"p = {P}") == [1, 3, 10]
    assert ids(table) == [1, 3, 6, 7, 8, 10]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_change_that_a_repair_overtakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any) -> None:
    table = damaged(tmp_path, 3)
    racing(monkeypatch, lambda: beside(table).check(repair=True))
    table.delete("id = 3", mode=mode)
    assert ids(table, f"p = {P}") == [1, 5]
    assert table.check().clean


@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_fault_leaves_the_table_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    table = damaged(tmp_path, 3)
    before, entries, rows = table.version, entries_of(table), ids(table)
    put, puts = ManifestWriter.put, []

    def failing(self: ManifestWriter, path: str, data: bytes) -> None:
        puts.append(path)
        if len(puts) > at:
            raise Unavailable("the disk is gone")
        put(self, path, data)

    with monkeypatch.context() as patch:
        patch.setattr(ManifestWriter, "put", failing)
        with pytest.raises(Unavailable, match="the disk is gone"):
            table.check(repair=True)
    assert len(puts) == at + 1
    again = beside(table)
    assert (again.version, entries_of(again), ids(again)) == (before, entries, rows)
    assert again.check(repair=True).clean


def test_counts_and_marks_are_put_right(tmp_path: Path) -> None:
    builder = smith(tmp_path, 3)
    builder.commit([file_of(builder, [1, 2], 0.5)])
    builder._manifests[0]["added_rows_count"] = 5
    builder.commit([file_of(builder, [3], 0.5)])
    builder.snapshots[-1]["summary"]["total-records"] = "9"
    builder.next_row_id = 1
    table = registered(tmp_path, builder)
    report = table.check()
    assert {f.kind for f in report.findings if f.repairable} == {
        FindingKind.WRONG_COUNT,
        FindingKind.WRONG_SUMMARY,
        FindingKind.MARK_BELOW_DATA,
    }
    rows = table.toArrow(metadata=["_row_id"])["_row_id"].to_pylist()
    report = table.check(repair=True)
    assert len(report.repaired) == 3
    last = table.handle.newest().entry
    assert last is not None
    assert last.summary["total-records"] == "3"
    assert {f.kind for f in report.findings} == {FindingKind.WRONG_COUNT}, "what an older list says stays"
    assert not any(f.repairable for f in report.findings)
    table.append(pa.table({"id": [4], "p": [0.5]}, ROWS))
    now = table.toArrow(metadata=["_row_id"])["_row_id"].to_pylist()
    assert len(set(now)) == 4
    assert set(rows) < set(now)


@pytest.mark.parametrize("version", [2, 3])
def test_a_restore_to_before_a_repair_brings_files_back_with_their_deletes(tmp_path: Path, version: int) -> None:
    table = damaged(tmp_path, version)
    before, rows = table.version, ids(table)
    assert table.check(repair=True).clean
    exact = table.version
    table.delete("id = 3 or id = 5", mode="merge-on-read")
    for then in (before, exact):
        table.restoreToVersion(then)
        assert ids(table) == rows
    assert table.check().clean
    table.restoreToVersion(before)
    assert ids(table, f"p = {P}") == []
    assert table.check(repair=True).clean
    assert (ids(table), ids(table, f"p = {P}")) == (rows, [1, 3, 5])


@pytest.mark.parametrize("verb", ["append", "delete", "optimize", "repair"])
def test_a_manifest_that_its_list_counts_as_empty_keeps_its_files(tmp_path: Path, verb: str) -> None:
    builder = smith(tmp_path, 2)
    builder.commit([file_of(builder, [1, 2], 0.5)])
    builder._manifests[0] |= {"added_files_count": 0, "added_rows_count": 0}
    builder.commit([file_of(builder, [3, 4], 0.5)])
    table = registered(tmp_path, builder)
    assert ids(table) == [1, 2, 3, 4]
    match verb:
        case "append":
            table.append(pa.table({"id": [9], "p": [0.5]}, ROWS))
        case "delete":
            table.delete("id = 4")
        case "optimize":
            table.optimize().executeCompaction()
        case _:
            table.check(repair=True)
    assert set(ids(table)) - {9} == {1, 2, 3, *(() if verb == "delete" else (4,))}


def test_files_that_are_gone_are_let_go(tmp_path: Path) -> None:
    builder = smith(tmp_path, 3)
    lost = file_of(builder, [1, 2], P)
    builder.commit([lost, file_of(builder, [3], P)])
    builder.commit(deletes=hiding(builder, lost, 0))
    table = registered(tmp_path, builder)
    Path(lost["file_path"]).unlink()
    with pytest.raises(Invalid, match="repair=True"):
        table.check(dropMissing=True)
    assert [f.kind for f in table.check(repair=True).findings] == [FindingKind.MISSING_FILE]
    report = table.check(repair=True, dropMissing=True)
    assert report.clean
    assert "took 1 missing files" in report.repaired[0]
    assert ids(table, f"p = {P}") == [3]


def test_a_metadata_file_is_not_repaired(tmp_path: Path) -> None:
    builder = smith(tmp_path, 2)
    builder.commit([file_of(builder, [1], P)])
    with pytest.raises(Invalid, match="opened by its metadata file"):
        IcebergTable.forMetadata(None, builder.metadata()).check(repair=True)
