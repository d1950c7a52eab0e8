"""Delete files that differ from their manifest entry are Damaged; deletes are never left out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast import IcebergTable
from holdfast.errors import Damaged, TableError
from holdfast.model.finding import FindingKind
from tests.formats.iceberg.smith import FILE_PATH, POS, Entry, Smith, _field, column

NAMES = count()
Shape = Callable[[str], pa.Table]


def smith(root: str | None = None, version: int = 2) -> Smith:
    return Smith(
        root or f"memory://delete-files-{next(NAMES)}/t", [column(1, "id"), column(2, "v", "string")], version=version
    )


def stored(builder: Smith, entry: Entry, table: pa.Table) -> Entry:
    """The delete file written again with other columns or rows, its manifest entry as it was but for the size."""
    name = entry["file_path"].removeprefix(f"{builder.location}/").removeprefix(f"file://{builder.root}/")
    path, size = builder._parquet(name, table)
    assert path == entry["file_path"]
    return {**entry, "file_size_in_bytes": size}


def positions(
    path: Any, pos: Any, ids: tuple[int | None, int | None] = (FILE_PATH, POS), names: str = "file_path pos"
) -> pa.Table:
    fields = [
        pa.field(name, array.type) if number is None else _field(name, array.type, number)
        for name, array, number in zip(names.split(), (path, pos), ids, strict=True)
    ]
    return pa.Table.from_arrays([path, pos], schema=pa.schema(fields))


def texts(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


def longs(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int64())


WRONG: dict[str, Shape] = {
    "no position": lambda path: positions(texts(path, path), longs(0, 1)).select(["file_path"]),
    "no path": lambda path: positions(texts(path, path), longs(0, 1)).select(["pos"]),
    "columns of other ids": lambda path: positions(texts(path, path), longs(0, 1), ids=(7, 8)),
    "columns of other names and no ids": lambda path: positions(texts(path, path), longs(0, 1), (None, None), "a b"),
    "a position that is a text": lambda path: positions(texts(path, path), texts("0", "1")),
    "a path that is a number": lambda path: positions(longs(1, 2), longs(0, 1)),
    "fewer rows": lambda path: positions(texts(path), longs(0)),
    "no rows": lambda path: positions(texts(), longs()),
    "more rows": lambda path: positions(texts(path, path, path), longs(0, 1, 2)),
    "a position below zero": lambda path: positions(texts(path, path), longs(0, -1)),
}


def table_of(builder: Smith, shape: Shape | None) -> IcebergTable:
    file = builder.data({"id": [1, 2, 3], "v": list("abc")})
    builder.commit([file])
    entry = builder.positions([(file["file_path"], 0), (file["file_path"], 1)])
    builder.commit(deletes=[entry if shape is None else stored(builder, entry, shape(file["file_path"]))])
    return IcebergTable.forMetadata(None, builder.metadata())


def test_position_deletes_as_they_should_be() -> None:
    assert table_of(smith(), None).toArrow()["id"].to_pylist() == [3]


def test_names_do_where_there_are_no_ids_and_rows_without_a_place_are_passed_over() -> None:
    plain = table_of(smith(), lambda path: positions(texts(path, path), longs(0, 1), (None, None)))
    assert plain.toArrow()["id"].to_pylist() == [3]
    nulls = table_of(smith(), lambda path: positions(texts(path, None), longs(0, None)))
    assert nulls.toArrow()["id"].to_pylist() == [2, 3]


@pytest.mark.parametrize("what", WRONG)
def test_position_deletes_that_are_not_what_the_manifest_says(what: str) -> None:
    table = table_of(smith(), WRONG[what])
    with pytest.raises(Damaged, match=r"parquet"):
        table.toArrow()
    assert FindingKind.BAD_VECTOR in {finding.kind for finding in table.check().findings}


def by_value(builder: Smith, rows: list[int], said: int) -> IcebergTable:
    builder.commit([builder.data({"id": [1, 2, 3], "v": list("abc")})])
    builder.commit(deletes=[{**builder.equality({"id": 1}, {"id": rows}), "record_count": said}])
    return IcebergTable.forMetadata(None, builder.metadata())


def test_equality_deletes_of_another_number_of_rows() -> None:
    with pytest.raises(Damaged, match=r"has 1 rows"):
        by_value(smith(), [1], 2).toArrow()
    assert by_value(smith(), [1, 2], 2).toArrow()["id"].to_pylist() == [3]
    more = by_value(smith(), [1, 2], 1)
    assert more.toArrow()["id"].to_pylist() == [3]
    assert [finding.kind for finding in more.check().findings] == [FindingKind.WRONG_COUNT]


def test_equality_deletes_that_lack_what_they_compare_are_noted() -> None:
    builder = smith()
    builder.commit([builder.data({"id": [1, 2, 3], "v": list("abc")})])
    entry = builder.equality({"id": 1}, {"id": [1]})
    builder.commit(deletes=[{**entry, "equality_ids": [2]}])
    report = IcebergTable.forMetadata(None, builder.metadata()).check()
    assert report.clean
    assert [finding.kind for finding in report.findings] == [FindingKind.BLIND_DELETES]
    assert "2" in report.findings[0].what


@pytest.mark.parametrize("said", [0, 1, 3])
def test_vectors_of_another_count_than_the_manifest_says(said: int) -> None:
    builder = smith(version=3)
    file = builder.data({"id": [1, 2, 3], "v": list("abc")})
    builder.commit([file])
    (vector,) = builder.vectors([(file, [0, 1])])
    builder.commit(deletes=[{**vector, "record_count": said}])
    with pytest.raises(Damaged, match="puffin"):
        IcebergTable.forMetadata(None, builder.metadata()).toArrow()


@pytest.mark.everywhere
def test_spark_refuses_them_too(spark: SparkSession, tmp_path: Path) -> None:
    builder = smith(str(tmp_path / "positions"))
    table_of(builder, WRONG["fewer rows"])
    with pytest.raises(TableError, match=r"has 1 rows"):
        IcebergTable.forMetadata(spark, builder.metadata("v2.metadata.json")).toDF().collect()
    other = smith(str(tmp_path / "values"))
    by_value(other, [1], 2)
    with pytest.raises(TableError, match=r"has 1 rows"):
        IcebergTable.forMetadata(spark, other.metadata("v2.metadata.json")).toDF().collect()


def test_files_without_row_ids_are_normal_in_a_table_that_was_upgraded() -> None:
    builder = smith(version=3)
    builder.commit([builder.data({"id": [1, 2], "v": ["a", "b"]})], manifest_ids=False)
    builder.commit([builder.data({"id": [3], "v": ["c"]})])
    report = IcebergTable.forMetadata(None, builder.metadata()).check()
    assert report.clean, report
    assert not report.findings
