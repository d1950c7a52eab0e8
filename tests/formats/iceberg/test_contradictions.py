"""Manifests and lists that contradict each other, or the snapshot over them: refused, or found by a check."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from holdfast import IcebergTable
from holdfast.errors import Damaged
from holdfast.model.finding import FindingKind
from holdfast.storage.memory import MemoryStore
from holdfast.storage.open import open_location
from tests.formats.iceberg.avro_write import container
from tests.formats.iceberg.smith import ADDED, Smith, column, identity

NAMES = count()
COLUMNS = [column(1, "id"), column(2, "v", "string")]


def smith(version: int = 2, **more: Any) -> Smith:
    return Smith(f"memory://contradictions-{next(NAMES)}/t", COLUMNS, version=version, **more)


def with_deletes(version: int = 2) -> Smith:
    """Two files of three rows, and one row of the first deleted."""
    made = smith(version)
    first = made.data({"id": [1, 2, 3], "v": list("abc")})
    made.commit([first])
    made.commit([made.data({"id": [4, 5, 6], "v": list("def")})])
    deletes = made.vectors([(first, [1])]) if version == 3 else [made.positions([(first["file_path"], 1)])]
    made.commit(deletes=deletes, operation="delete")
    return made


def read(made: Smith) -> list[int]:
    return sorted(IcebergTable.forMetadata(None, made.metadata()).toArrow()["id"].to_pylist())


def overwrite(made: Smith, target: str, data: bytes) -> None:
    location = open_location(made.location)
    assert isinstance(location.store, MemoryStore)
    location.store.put(target.removeprefix(location.store.url).lstrip("/"), data)


def rewritten(made: Smith, manifest: dict[str, Any], entries: list[Any], notes: dict[str, str]) -> None:
    schema = made._entry_schema(manifest["partition_spec_id"])
    overwrite(made, manifest["manifest_path"], container(schema, entries, {"format-version": "2", **notes}))


@pytest.mark.parametrize("version", [2, 3])
def test_a_manifest_of_deletes_is_no_manifest_of_data(version: int) -> None:
    made = with_deletes(version)
    assert read(made) == [1, 3, 4, 5, 6]
    data, deletes = made._manifests[1], made._manifests[2]
    same = data["entries"]
    rewritten(made, deletes, same, {"content": "data", "partition-spec-id": "0"})
    with pytest.raises(Damaged, match="says that it lists b'data'"):
        read(made)
    findings = IcebergTable.forMetadata(None, made.metadata()).check().findings
    assert FindingKind.BAD_COMMIT in {finding.kind for finding in findings}
    rewritten(made, deletes, same, {})
    with pytest.raises(Damaged, match="lists other files among delete files"):
        read(made)
    rewritten(made, deletes, deletes["entries"], {})
    assert read(made) == [1, 3, 4, 5, 6], "a manifest that says nothing of itself is believed"
    rewritten(made, data, deletes["entries"], {})
    with pytest.raises(Damaged, match="lists delete files among data files"):
        read(made)


def test_a_manifest_of_another_spec_is_damaged() -> None:
    made = smith(specs=[[identity(1, "id")], [identity(2, "v", 1001)]])
    made.commit([made.data({"id": [1], "v": ["a"]}, partition={"id": 1})])
    assert read(made) == [1]
    manifest = made._manifests[0]
    for said, reason in (("1", "is of partition spec 1 where"), ("x", "says no partition spec"), ("9" * 99, "no part")):
        rewritten(made, manifest, manifest["entries"], {"content": "data", "partition-spec-id": said})
        with pytest.raises(Damaged, match=reason):
            read(made)
    assert manifest["entries"][0]["status"] == ADDED


@pytest.mark.parametrize("total", ["total-data-files", "total-delete-files"])
def test_a_list_that_lost_a_manifest_is_found_by_a_check(total: str) -> None:
    made = with_deletes()
    made.snapshots[-1]["summary"] |= {"total-data-files": "2", "total-delete-files": "1"}
    table = IcebergTable.forMetadata(None, made.metadata())
    assert table.check().clean
    lost = 0 if total == "total-data-files" else 2
    del made._manifests[lost]
    made.commit()
    made.snapshots[-1]["summary"] |= made.snapshots[-2]["summary"]
    table = IcebergTable.forMetadata(None, made.metadata())
    report = table.check()
    assert not report.clean
    (finding,) = [f for f in report.findings if f.kind is FindingKind.LOST_FILES]
    assert total in finding.what
    assert finding.repairable
    assert table.toArrow().num_rows == (3 if lost == 0 else 6), "others count wrong, so that reading goes on"


def test_a_summary_that_says_less_or_no_number_is_only_worth_knowing() -> None:
    made = with_deletes()
    for said in ("1", "-3", "many", "9" * 60, "²"):
        made.snapshots[-1]["summary"] |= {"total-data-files": said}
        report = IcebergTable.forMetadata(None, made.metadata()).check()
        assert report.clean
        assert [f.kind for f in report.findings] == [FindingKind.WRONG_SUMMARY]
