"""Manifests and manifest lists that contradict each other or the snapshot: refused, or found by a check."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from holdfast import IcebergTable
from holdfast.errors import Damaged
from holdfast.model.finding import FindingKind
from holdfast.storage.memory import MemoryStore
from holdfast.storage.open import open_location
from tests.formats.iceberg.avro_containers import container
from tests.formats.iceberg.smith import ADDED, Smith, column, identity

NAMES = count()
COLUMNS = [column(1, "id"), column(2, "v", "string")]


def smith(version: int = 2, **more: Any) -> Smith:
    return Smith(f"memory://contradictions-{next(NAMES)}/t", COLUMNS, version=version, **more)


def with_deletes(version: int = 2) -> Smith:
    """Two files of three rows, and one row of the first deleted."""
    builder = smith(version)
    first = builder.data({"id": [1, 2, 3], "v": list("abc")})
    builder.commit([first])
    builder.commit([builder.data({"id": [4, 5, 6], "v": list("def")})])
    deletes = builder.vectors([(first, [1])]) if version == 3 else [builder.positions([(first["file_path"], 1)])]
    builder.commit(deletes=deletes, operation="delete")
    return builder


def read(builder: Smith) -> list[int]:
    return sorted(IcebergTable.forMetadata(None, builder.metadata()).toArrow()["id"].to_pylist())


def overwrite(builder: Smith, target: str, data: bytes) -> None:
    location = open_location(builder.location)
    assert isinstance(location.store, MemoryStore)
    location.store.put(target.removeprefix(location.store.url).lstrip("/"), data)


def rewritten(builder: Smith, manifest: dict[str, Any], entries: list[Any], notes: dict[str, str]) -> None:
    schema = builder._entry_schema(manifest["partition_spec_id"])
    overwrite(builder, manifest["manifest_path"], container(schema, entries, {"format-version": "2", **notes}))


@pytest.mark.parametrize("version", [2, 3])
def test_a_manifest_of_deletes_is_no_manifest_of_data(version: int) -> None:
    builder = with_deletes(version)
    assert read(builder) == [1, 3, 4, 5, 6]
    data, deletes = builder._manifests[1], builder._manifests[2]
    same = data["entries"]
    rewritten(builder, deletes, same, {"content": "data", "partition-spec-id": "0"})
    with pytest.raises(Damaged, match="says that it lists b'data'"):
        read(builder)
    findings = IcebergTable.forMetadata(None, builder.metadata()).check().findings
    assert FindingKind.BAD_COMMIT in {finding.kind for finding in findings}
    rewritten(builder, deletes, same, {})
    with pytest.raises(Damaged, match="lists other files among delete files"):
        read(builder)
    rewritten(builder, deletes, deletes["entries"], {})
    assert read(builder) == [1, 3, 4, 5, 6], "a manifest that says nothing of itself is believed"
    rewritten(builder, data, deletes["entries"], {})
    with pytest.raises(Damaged, match="lists delete files among data files"):
        read(builder)


def test_a_manifest_of_another_spec_is_damaged() -> None:
    builder = smith(specs=[[identity(1, "id")], [identity(2, "v", 1001)]])
    builder.commit([builder.data({"id": [1], "v": ["a"]}, partition={"id": 1})])
    assert read(builder) == [1]
    manifest = builder._manifests[0]
    for said, reason in (("1", "is of partition spec 1 where"), ("x", "says no partition spec"), ("9" * 99, "no part")):
        rewritten(builder, manifest, manifest["entries"], {"content": "data", "partition-spec-id": said})
        with pytest.raises(Damaged, match=reason):
            read(builder)
    assert manifest["entries"][0]["status"] == ADDED


@pytest.mark.parametrize("total", ["total-data-files", "total-delete-files"])
def test_a_list_that_lost_a_manifest_is_found_by_a_check(total: str) -> None:
    builder = with_deletes()
    builder.snapshots[-1]["summary"] |= {"total-data-files": "2", "total-delete-files": "1"}
    table = IcebergTable.forMetadata(None, builder.metadata())
    assert table.check().clean
    lost = 0 if total == "total-data-files" else 2
    del builder._manifests[lost]
    builder.commit()
    builder.snapshots[-1]["summary"] |= builder.snapshots[-2]["summary"]
    table = IcebergTable.forMetadata(None, builder.metadata())
    report = table.check()
    assert not report.clean
    (finding,) = [f for f in report.findings if f.kind is FindingKind.LOST_FILES]
    assert total in finding.what
    assert finding.repairable
    assert table.toArrow().num_rows == (3 if lost == 0 else 6), "others count wrong, so that reading goes on"


def test_a_summary_that_says_less_or_no_number_is_only_worth_knowing() -> None:
    builder = with_deletes()
    for said in ("1", "-3", "many", "9" * 60, "²"):
        builder.snapshots[-1]["summary"] |= {"total-data-files": said}
        report = IcebergTable.forMetadata(None, builder.metadata()).check()
        assert report.clean
        assert [f.kind for f in report.findings] == [FindingKind.WRONG_SUMMARY]
