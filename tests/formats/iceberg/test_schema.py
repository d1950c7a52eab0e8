"""Columns resolved by field id: renamed, added, dropped, promoted, name-mapped, with defaults, from partitions."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast import IcebergTable, Unsupported
from holdfast.errors import Damaged
from tests.formats.iceberg.smith import Smith, column, identity
from tests.support.compare import assert_same_rows

NAMES = count()


def smith(columns: list[dict[str, Any]], root: str | None = None, **more: Any) -> Smith:
    return Smith(root or f"memory://schema-{next(NAMES)}/t", columns, **more)


def rows(builder: Smith, **asked: Any) -> list[dict[str, Any]]:
    got: list[dict[str, Any]] = IcebergTable.forMetadata(None, builder.metadata()).toArrow(**asked).to_pylist()
    return got


def evolved(root: str | None = None) -> Smith:
    """Two files: names swapped in between, a column dropped and one of its name added, types promoted, a default."""
    builder = smith([column(1, "a", "int"), column(2, "b", "string"), column(3, "c", "float")], root, version=3)
    builder.commit([builder.data({"a": pa.array([1], pa.int32()), "b": ["x"], "c": pa.array([0.5], pa.float32())})])
    builder.evolve(
        [
            column(1, "b", "long"),
            column(2, "a", "string"),
            column(4, "c", "double"),
            column(5, "d", "string", **{"initial-default": "old"}),
            column(6, "e", "decimal(9, 2)", **{"initial-default": "1.50"}),
        ]
    )
    later = {
        "b": [2**40],
        "a": ["y"],
        "c": [2.5],
        "d": pa.array([None], pa.string()),
        "e": pa.array([None], pa.decimal128(9, 2)),
    }
    builder.commit([builder.data(later)])
    return builder


def test_columns_are_found_by_id() -> None:
    assert sorted(map(str, rows(evolved()))) == sorted(
        map(
            str,
            [
                {"b": 1, "a": "x", "c": None, "d": "old", "e": pa.scalar("1.50").cast(pa.decimal128(9, 2)).as_py()},
                {"b": 2**40, "a": "y", "c": 2.5, "d": None, "e": None},
            ],
        )
    )


def test_on_spark_too(spark: SparkSession, tmp_path: Path) -> None:
    table = IcebergTable.forMetadata(spark, evolved(str(tmp_path / "t")).metadata())
    assert_same_rows(table.toDF().toArrow(), table.toArrow())
    assert table.scan(columns=["a"], where="d = 'old'").toArrow().to_pylist() == [{"a": "x"}]


def test_a_condition_on_a_promoted_or_added_column_prunes_soundly() -> None:
    builder = evolved()
    assert [r["a"] for r in rows(builder, where="b = 1")] == ["x"]
    assert [r["a"] for r in rows(builder, where="d = 'old'")] == ["x"]
    assert [r["a"] for r in rows(builder, where="c is null")] == ["x"]


def test_fields_of_structs() -> None:
    inner = {"type": "struct", "fields": [column(3, "x"), column(4, "y", "string")]}
    builder = smith([column(1, "id"), column(2, "s", inner)], version=3)
    stored = pa.StructArray.from_arrays(
        [pa.array([7])], fields=[pa.field("x", pa.int64(), metadata={"PARQUET:field_id": "3"})]
    )
    builder.commit([builder.data({"id": [1], "s": stored})])
    later = {"type": "struct", "fields": [column(4, "y", "string", **{"initial-default": "d"}), column(3, "renamed")]}
    builder.evolve([column(1, "id"), column(2, "s", later)])
    assert rows(builder) == [{"id": 1, "s": {"y": "d", "renamed": 7}}]


def mapped(root: str | None = None, *, mapping: bool = True) -> Smith:
    names = [{"field-id": 1, "names": ["ID", "id"]}, {"field-id": 2, "names": []}]
    properties = {"schema.name-mapping.default": json.dumps(names)} if mapping else {}
    builder = smith([column(1, "key"), column(2, "name", "string")], root, properties=properties)
    builder.commit([builder.data({"id": [1, 2], "name": ["a", "b"]}, ids={"id": 1, "name": 2}, with_ids=False)])
    return builder


def test_files_without_ids_are_read_by_the_name_mapping(spark: SparkSession, tmp_path: Path) -> None:
    assert rows(mapped()) == [{"key": 1, "name": None}, {"key": 2, "name": None}]
    table = IcebergTable.forMetadata(spark, mapped(str(tmp_path / "t")).metadata())
    assert_same_rows(table.toDF().toArrow(), table.toArrow())


def test_files_without_ids_and_no_mapping_are_refused() -> None:
    with pytest.raises(Damaged, match="no field ids"):
        rows(mapped(mapping=False))


def test_a_column_only_the_partition_has_is_filled_from_it(spark: SparkSession, tmp_path: Path) -> None:
    def make(root: str | None = None) -> Smith:
        builder = smith([column(1, "id"), column(2, "part", "string")], root, specs=[[identity(2, "p")]])
        builder.commit(
            [builder.data({"id": [1]}, partition={"p": "a"}), builder.data({"id": [2]}, partition={"p": None})]
        )
        return builder

    expected = [{"id": 1, "part": "a"}, {"id": 2, "part": None}]
    assert rows(make()) == expected
    assert [r["id"] for r in rows(make(), where="part = 'a'")] == [1]
    table = IcebergTable.forMetadata(spark, make(str(tmp_path / "t")).metadata())
    assert sorted(table.toDF().toArrow().to_pylist(), key=str) == expected


def test_uuids_are_texts(spark: SparkSession, tmp_path: Path) -> None:
    builder = smith([column(1, "u", "uuid"), column(2, "n")], str(tmp_path / "t"))
    blobs = pa.array([bytes(range(16)), None, b"\xff" * 16], pa.binary(16))
    builder.commit([builder.data({"u": blobs, "n": [1, 2, 3]})])
    table = IcebergTable.forMetadata(spark, builder.metadata())
    expected = ["00010203-0405-0607-0809-0a0b0c0d0e0f", None, "ffffffff-ffff-ffff-ffff-ffffffffffff"]
    assert table.toArrow(where="n > 0")["u"].to_pylist() == expected
    assert table.scan(columns=["u"]).toArrow()["u"].to_pylist() == expected


@pytest.mark.parametrize("kind", ["timestamp_ns", "geometry", "no_such_type"])
def test_a_type_nobody_reads_is_refused_by_name(kind: str) -> None:
    with pytest.raises(Unsupported, match=rf"column x .*{kind}"):
        rows(smith([column(1, "x", kind)], version=3))


def test_deletes_of_files_that_lack_a_column(spark: SparkSession, tmp_path: Path) -> None:
    """A default counts before a filter of hidden rows, and a compared column may be gone from table and file alike."""
    builder = smith([column(1, "id"), column(2, "x")], str(tmp_path / "t"), version=3)
    first, second = builder.data({"id": [1, 2, 3]}), builder.data({"id": [4, 5], "x": [7, 8]})
    builder.commit([first, second])
    builder.commit(deletes=builder.vectors([(first, [0])]))
    builder.evolve([column(1, "id"), column(3, "d", "string", **{"initial-default": "old"})])
    builder.commit(deletes=[builder.equality({"x": 2}, {"x": [7]})])
    table = IcebergTable.forMetadata(spark, builder.metadata())
    got = table.scan(where="d = 'old'").toArrow()
    assert_same_rows(got, table.toArrow())
    assert sorted(got["id"].to_pylist()) == [2, 3, 5]
    assert table.toArrow(metadata=["_deleted"])["_deleted"].to_pylist() == [True, False, False, True, False]
