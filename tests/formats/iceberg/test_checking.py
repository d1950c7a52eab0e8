"""The check of an Iceberg table finds each kind of damage; biographies of rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast import IcebergTable
from holdfast.errors import Invalid, NoRowIdentity, Unsupported
from holdfast.model.finding import FindingKind
from holdfast.plan.changefeed.biography import What
from holdfast.storage.open import open_location
from tests.formats.iceberg.equality_deletes import commit_equality_delete
from tests.formats.iceberg.smith import Smith, column

ROWS = pa.schema([("id", pa.int64()), ("v", pa.string())])
COLUMNS = [column(1, "id"), column(2, "v", "string")]
NAMES = count()


def made(path: Path, version: int = 3) -> IcebergTable:
    """A table with a history: hidden rows, moved rows, a delete by value."""
    table = IcebergTable.create(None, path / "c.db", "db.t", ROWS, formatVersion=version, location=str(path / "t"))
    table.append(pa.table({"id": [1, 2, 3, 4], "v": list("abcd")}, ROWS))
    table.delete("id = 1", mode="merge-on-read")
    table.append(pa.table({"id": [5, 6], "v": list("ef")}, ROWS))
    table.update("id = 5", {"v": "'x'"}, mode="copy-on-write")
    return table


def smith(version: int = 3) -> Smith:
    return Smith(f"memory://iceberg-check-{next(NAMES)}/t", COLUMNS, version=version)


def kinds(table: IcebergTable, **how: Any) -> list[FindingKind]:
    return sorted({finding.kind for finding in table.check(**how).findings}, key=lambda kind: kind.name)


def only(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda path: path.stat().st_mtime_ns)


def test_files_that_only_history_names_may_be_elsewhere(tmp_path: Path) -> None:
    smith = Smith(str(tmp_path / "t"), COLUMNS, version=2)
    old = smith.data({"id": [1], "v": ["a"]}) | {"file_path": "/elsewhere/x.parquet"}
    smith.commit([old])
    smith._manifests.clear()
    smith.commit([smith.data({"id": [2], "v": ["b"]})])
    smith.snapshots.insert(0, smith.snapshots[0] | {"snapshot-id": 7, "manifest-list": "s3://elsewhere/list.avro"})
    path = Path(smith.metadata())
    metadata = json.loads(path.read_text())
    metadata["metadata-log"] = [{"metadata-file": "s3://elsewhere/v0.json"}, {"metadata-file": 5}]
    metadata["statistics"] = [{"statistics-path": "/elsewhere/x.stats"}, {"statistics-path": 5}]
    path.write_text(json.dumps(metadata))
    report = IcebergTable.forMetadata(None, path).check()
    assert [(f.kind, f.version) for f in report.findings if not f.kind.is_harmless] == [(FindingKind.BAD_COMMIT, 7)]
    assert "allow_outside" in str(report)


@pytest.mark.parametrize("version", [2, 3])
def test_a_sound_table(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version)
    commit_equality_delete(table, pa.table({"id": [6]}))
    report = table.check()
    assert report.clean, report
    assert not report.findings
    assert f"version {table.version}" in str(report)
    (tmp_path / "t/data/left-behind.parquet").write_bytes(b"x")
    report = table.check(deep=False)
    assert report.clean
    assert [finding.kind for finding in report.findings] == [FindingKind.ORPHANS]
    assert "left-behind" in str(report)


def gone(pattern: str) -> Callable[[Path], None]:
    return lambda folder: only(folder, pattern).unlink()


def torn(pattern: str, data: bytes | None = None) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = only(folder, pattern)
        path.write_bytes(path.read_bytes()[:-3] if data is None else data)

    return damage


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (gone("metadata/snap-*.avro"), FindingKind.MISSING_COMMIT),
        (gone("metadata/*-m0.avro"), FindingKind.MISSING_COMMIT),
        (torn("metadata/*-m0.avro", b"nonsense"), FindingKind.BAD_COMMIT),
        (gone("data/*.puffin"), FindingKind.MISSING_VECTOR),
        (torn("data/*.puffin", b"PFA1" + bytes(200)), FindingKind.BAD_VECTOR),
        (gone("data/part-*.parquet"), FindingKind.MISSING_FILE),
        (torn("data/part-*.parquet"), FindingKind.WRONG_SIZE),
        (gone("data/*-equal.parquet"), FindingKind.MISSING_DELETES),
    ],
)
def test_damage_is_found(tmp_path: Path, damage: Callable[[Path], None], kind: FindingKind) -> None:
    table = made(tmp_path)
    commit_equality_delete(table, pa.table({"id": [6]}))
    damage(tmp_path / "t")
    report = IcebergTable.load(None, tmp_path / "c.db", "db.t").check()
    assert not report.clean
    assert kind in {finding.kind for finding in report.findings}
    assert {finding.kind for finding in report.findings if finding.repairable} <= {FindingKind.MISSING_FILE}


def test_an_older_snapshot_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    table = made(tmp_path)
    first = table.handle.newest().metadata.snapshots[0]
    Path((first.manifest_list or "").removeprefix("file://")).unlink()
    findings = table.check().findings
    assert [(finding.kind, finding.version) for finding in findings] == [
        (FindingKind.MISSING_COMMIT, first.snapshot_id)
    ]
    assert len(table.toArrow()) == 5


def test_row_ids_that_are_shared_and_a_count_that_is_behind() -> None:
    builder = smith()
    builder.commit([builder.data({"id": [1, 2], "v": ["a", "b"]})])
    builder.commit([builder.data({"id": [3, 4], "v": ["c", "d"]}, row_ids=[0, None], updated=[1, None])])
    table = IcebergTable.forMetadata(None, builder.metadata())
    assert kinds(table) == [FindingKind.DUPLICATE_IDS]
    assert kinds(table, deep=False) == [], "only files tell"
    builder.next_row_id = 3
    assert FindingKind.MARK_BELOW_DATA in kinds(IcebergTable.forMetadata(None, builder.metadata("v2.metadata.json")))


def test_a_vector_that_reaches_beyond_its_file_and_deletes_that_apply_to_nothing() -> None:
    builder = smith()
    file = builder.data({"id": [1, 2], "v": ["a", "b"]})
    builder.commit([file])
    builder.commit(deletes=builder.vectors([(file, [7])]), operation="delete")
    assert kinds(IcebergTable.forMetadata(None, builder.metadata())) == [FindingKind.BAD_VECTOR]
    idle = smith(2)
    file = idle.data({"id": [1, 2], "v": ["a", "b"]})
    idle.commit(deletes=[idle.equality({"id": 1}, {"id": [1]}), idle.positions([("nowhere", 1)], one=True)])
    idle.commit([file])
    report = IcebergTable.forMetadata(None, idle.metadata()).check()
    assert report.clean
    assert [(finding.kind, finding.count) for finding in report.findings] == [(FindingKind.IDLE_DELETES, 2)]


def test_counts_that_do_not_add_up() -> None:
    builder = smith(2)
    builder.commit([builder.data({"id": [1, 2], "v": ["a", "b"]})])
    builder._manifests[0]["added_rows_count"] = 5
    builder.commit([builder.data({"id": [3], "v": ["c"]})])
    builder.snapshots[-1]["summary"]["total-records"] = "9"
    wrong = kinds(IcebergTable.forMetadata(None, builder.metadata()))
    assert wrong == [FindingKind.WRONG_COUNT, FindingKind.WRONG_SUMMARY]
    short = smith(2)
    entry = short.data({"id": [1, 2], "v": ["a", "b"]})
    short.commit([{**entry, "record_count": 3}])
    assert kinds(IcebergTable.forMetadata(None, short.metadata())) == [FindingKind.WRONG_COUNT]
    behind = smith(2)
    behind.commit([behind.data({"id": [1], "v": ["a"]})])
    behind.sequence = 0
    behind.refs["lost"] = {"snapshot-id": 77, "type": "tag"}
    assert kinds(IcebergTable.forMetadata(None, behind.metadata())) == [
        FindingKind.BAD_COMMIT,
        FindingKind.MISSING_COMMIT,
    ]


def test_the_life_of_a_row(tmp_path: Path) -> None:
    table = made(tmp_path)
    ids = dict(zip(*table.toArrow(metadata=["_row_id"]).select(["id", "_row_id"]).to_pydict().values(), strict=True))
    table.append(pa.table({"id": list(range(10, 20)), "v": ["n"] * 10}, ROWS))
    table.optimize().executeCompaction()
    life = table.biography(ids[5])
    assert [(event.what, event.version) for event in life.events] == [
        (What.BORN, 3),
        (What.CHANGED, 4),
        (What.MOVED, 6),
    ]
    assert life.alive
    dead = table.biography(0)
    assert [(event.what, event.version, event.operation) for event in dead.events] == [
        (What.BORN, 1, "WRITE"),
        (What.DELETED, 2, "DELETE"),
    ]
    assert (dead.alive, len(dead.remains)) == (False, 1)
    for row in table.toArrow(metadata=["_row_id"]).to_pylist():
        assert table.biography(row["_row_id"]).alive
    with pytest.raises(Invalid, match="handed out"):
        table.biography(10_000)
    commit_equality_delete(table, pa.table({"id": [6]}))
    with pytest.raises(Unsupported, match="by value"):
        table.biography(ids[5])


def test_a_life_that_began_before_the_upgrade(tmp_path: Path) -> None:
    table = made(tmp_path, 2)
    with pytest.raises(NoRowIdentity, match="version 3"):
        table.biography(0)
    table.upgrade()
    table.delete("id = 3", mode="merge-on-read")
    row = table.toArrow(where="id = 5", metadata=["_row_id"])["_row_id"][0].as_py()
    life = table.biography(row)
    assert [event.what for event in life.events] == [What.SEEN]
    assert life.alive
    assert "begins with" in life.notes[0]


def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    made(tmp_path)
    table = IcebergTable.load(spark, tmp_path / "c.db", "db.t")
    assert table.check().findings == ()
    location = open_location(str(tmp_path / "t/data"))
    for meta in list(location.store.list_all(location.directory)):
        if meta.key.endswith(".puffin"):
            location.store.delete(meta.key)
    assert kinds(IcebergTable.load(spark, tmp_path / "c.db", "db.t")) == [FindingKind.MISSING_VECTOR]
