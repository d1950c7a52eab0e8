"""Identity partitions on doubles stay exact when manifests are rewritten; a check finds rounded ones."""

from __future__ import annotations

import io
from itertools import count
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from holdfast import IcebergTable
from holdfast.model.finding import FindingKind
from tests.formats.iceberg.smith import Smith, column
from tests.formats.iceberg.test_defaults import registered

ROWS = pa.schema([("id", pa.int64()), ("p", pa.float64())])
VALUES = [2.222, 1e308, 1 / 3]
NAMES = count()


def tuples_in(folder: Path) -> list[float]:
    """The partition values of live data files in all manifests, as fastavro reads them."""
    found = []
    for path in folder.glob("metadata/*-m*.avro"):
        entries: list[Any] = list(fastavro.reader(io.BytesIO(path.read_bytes())))
        found += [e["data_file"]["partition"]["p"] for e in entries if e["status"] != 2]
    return found


@pytest.mark.parametrize("version", [2, 3])
def test_doubles_survive_changes_and_rewrites_of_manifests(tmp_path: Path, version: int) -> None:
    place = tmp_path / "t"
    table = IcebergTable.create(
        None, tmp_path / "c.db", "db.t", ROWS, formatVersion=version, location=str(place), partitionedBy=["p"]
    )
    table.append(pa.table({"id": [1, 2, 3, 4], "p": [*VALUES, 2.222]}, ROWS))
    table.append(pa.table({"id": [5], "p": [1e308]}, ROWS))
    table.delete("id = 3", mode="copy-on-write")
    table.delete("p = 2.222 and id = 1", mode="merge-on-read")
    again = IcebergTable.load(None, tmp_path / "c.db", "db.t")
    assert again.toArrow(where="p = 2.222")["id"].to_pylist() == [4]
    assert sorted(again.toArrow(where="p = 1e308")["id"].to_pylist()) == [2, 5]
    assert set(tuples_in(place)) <= set(VALUES)
    assert again.check().clean
    assert again.delete("p = 1e308") is not None
    assert again.toArrow()["id"].to_pylist() == [4]


def smith(root: str | None = None) -> Smith:
    spec = [{"name": "p", "transform": "identity", "source-id": 2, "field-id": 1000}]
    return Smith(root or f"memory://rounded-{next(NAMES)}/t", [column(1, "id"), column(2, "p", "double")], specs=[spec])


def test_rounded_values_are_found() -> None:
    builder = smith()
    whole = builder.data({"id": [1, 2], "p": [2.222, 2.222]}, partition={"p": 2.222})
    rounded = builder.data({"id": [3], "p": [2.222]}, partition={"p": 2.2219998836517334})
    builder.commit([whole, rounded])
    report = IcebergTable.forMetadata(None, builder.metadata()).check()
    assert [(finding.kind, finding.file) for finding in report.findings] == [
        (FindingKind.WRONG_PARTITION, rounded["file_path"])
    ]
    assert not report.clean


def test_deletes_of_a_rounded_partition_are_found() -> None:
    builder = smith()
    file = builder.data({"id": [1, 2], "p": [2.222, 2.222]}, partition={"p": 2.222})
    builder.commit([file])
    builder.commit(
        deletes=[builder.positions([(file["file_path"], 0)], like={**file, "partition": {"p": 2.2219998836517334}})]
    )
    kinds = {finding.kind for finding in IcebergTable.forMetadata(None, builder.metadata()).check().findings}
    assert FindingKind.WRONG_PARTITION in kinds


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_what_the_finding_says_puts_it_right(tmp_path: Path, mode: Any) -> None:
    builder = smith(str(tmp_path / "t"))
    builder.commit([builder.data({"id": [3], "p": [2.222]}, partition={"p": 2.2219998836517334})])
    table = registered(tmp_path, builder)
    assert [finding.kind for finding in table.check().findings] == [FindingKind.WRONG_PARTITION]
    table.update("id = 3", {"p": "p"}, mode=mode)
    assert table.check().clean
    assert table.toArrow(where="p = 2.222")["id"].to_pylist() == [3]
