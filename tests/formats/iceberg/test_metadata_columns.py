"""Metadata columns on both engines, in the cases that other engines got wrong."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast import IcebergTable, Invalid, NoRowIdentity
from holdfast.engines.spark.scan.scratch import Scratch
from holdfast.errors import Damaged, Unsupported
from tests.formats.iceberg.smith import Entry, Smith, column, identity
from tests.support.compare import assert_same_rows
from tests.support.gateway import address

NAMES = count()
COLUMNS = [column(1, "id"), column(2, "part", "string"), column(3, "day", "date")]
ALL = ["_file", "_pos", "_spec_id", "_partition", "_deleted"]
LINEAGE = ["_row_id", "_last_updated_sequence_number"]


def smith(version: int = 2, root: str | None = None, **more: Any) -> Smith:
    return Smith(root or f"memory://columns-{next(NAMES)}/t", more.pop("columns", COLUMNS), version=version, **more)


def opened(builder: Smith, spark: SparkSession | None = None) -> IcebergTable:
    return IcebergTable.forMetadata(spark, builder.metadata())


def many(builder: Smith, rows: int, *, start: int = 0, **more: Any) -> Entry:
    """A file of many small row groups."""
    return builder.data({"id": pa.array(np.arange(start, start + rows))}, group_rows=50, **more)


Reader = tuple[str, Callable[[Smith], Callable[..., pa.Table]]]


def in_memory() -> Reader:
    return f"memory://columns-{next(NAMES)}/t", lambda made: opened(made).toArrow


@pytest.fixture(params=["local", "spark"])
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Reader:
    """Where to make a table, and how to read it: in this process, and by Spark."""
    if request.param == "local":
        return in_memory()
    spark = request.getfixturevalue("spark")
    return address(tmp_path / "a table"), lambda made: lambda **asked: opened(made, spark).scan(**asked).toArrow()


@pytest.mark.everywhere
def test_positions_are_absolute_under_row_groups_filters_and_deletes(reader: Reader) -> None:
    root, read = reader
    builder = smith(3, root)
    files = [many(builder, 1000), many(builder, 1000, start=1000)]
    builder.commit(files)
    builder.commit(deletes=builder.vectors([(files[0], range(0, 1000, 7)), (files[1], [999])]))
    got = read(builder)(columns=["id"], where="id >= 730 and id < 1010", metadata=["_pos", "_file", "_row_id"])
    ids = got["id"].to_pylist()
    assert sorted(ids) == [i for i in range(730, 1010) if i >= 1000 or i % 7]
    assert got["_pos"].to_pylist() == [i % 1000 for i in ids]
    assert got["_row_id"].to_pylist() == ids
    assert got["_file"].to_pylist() == [files[i // 1000]["file_path"] for i in ids]


def test_the_file_is_spelled_as_the_manifest_does(reader: Reader) -> None:
    root, read = reader
    builder = smith(2, root)
    names = ["data/a b.parquet", "data/c%20d.parquet", "data/e+f#g.parquet", "data/größe.parquet"]
    files = [builder.data({"id": [n]}, name=name) for n, name in enumerate(names)]
    builder.commit(files)
    got = read(builder)(columns=["id"], metadata=["_file", "_pos"])
    assert dict(zip(got["id"].to_pylist(), got["_file"].to_pylist(), strict=True)) == {
        n: f["file_path"] for n, f in enumerate(files)
    }


def test_deleted_rows_are_told_where_they_are_asked_for(reader: Reader) -> None:
    root, read = reader
    builder = smith(2, root)
    file, other = builder.data({"id": [1, 2, 3, 4]}), builder.data({"id": [5]})
    builder.commit([file, other])
    builder.commit(deletes=[builder.positions([(file["file_path"], 0)]), builder.equality({"id": 1}, {"id": [4, 5]})])
    assert sorted(read(builder)(columns=["id"])["id"].to_pylist()) == [2, 3]
    got = read(builder)(columns=["id"], metadata=["_deleted", "_pos"])
    assert dict(zip(got["id"].to_pylist(), got["_deleted"].to_pylist(), strict=True)) == {
        1: True,
        2: False,
        3: False,
        4: True,
        5: True,
    }


@pytest.mark.everywhere
def test_lineage_is_inherited_stored_and_kept(reader: Reader) -> None:
    root, read = reader
    builder = smith(3, root)
    first, second = builder.data({"id": [1, 2, 3]}), builder.data({"id": [4, 5]})
    builder.commit([first, second])
    moved = builder.data({"id": [2, 3, 9]}, row_ids=[1, 2, None], updated=[None, 1, None])
    builder.commit([moved], drop=[first], operation="overwrite")
    got = read(builder)(columns=["id"], metadata=LINEAGE)
    rows = {r["id"]: (r["_row_id"], r["_last_updated_sequence_number"]) for r in got.to_pylist()}
    # Row 4 and 5 keep what their manifest gave before it was written anew; the moved file took the ids from 5 on.
    assert rows == {4: (3, 1), 5: (4, 1), 2: (1, 2), 3: (2, 1), 9: (7, 2)}


def test_pruning_a_file_does_not_renumber_the_next() -> None:
    root, read = in_memory()
    builder = smith(3, root)
    builder.commit([builder.data({"id": [1, 2, 3]}), builder.data({"id": [10, 11, 12]})])
    assert read(builder)(columns=["id"], where="id >= 10", metadata=["_row_id"])["_row_id"].to_pylist() == [3, 4, 5]


def test_a_file_without_a_first_row_id_has_no_lineage_whatever_it_stores() -> None:
    root, read = in_memory()
    builder = smith(3, root)
    builder.commit([builder.data({"id": [1, 2]}, row_ids=[7, 8], updated=[1, 1])], manifest_ids=False)
    got = read(builder)(columns=["id"], metadata=LINEAGE)
    assert got["_row_id"].to_pylist() == got["_last_updated_sequence_number"].to_pylist() == [None, None]


def test_a_first_row_id_on_a_delete_manifest_is_not_looked_at() -> None:
    builder = smith(3)
    file = builder.data({"id": [1, 2]})
    builder.commit([file])
    builder.commit(deletes=builder.vectors([(file, [0])]))
    for manifest in builder._manifests:
        if manifest["content"] == 1:
            manifest["first_row_id"] = 40
    builder.commit([builder.data({"id": [3]})])
    got = opened(builder).toArrow(columns=["id"], metadata=["_row_id"])
    assert got.to_pylist() == [{"id": 2, "_row_id": 1}, {"id": 3, "_row_id": 2}]


def test_rows_of_older_formats_have_no_ids() -> None:
    builder = smith(2)
    builder.commit([builder.data({"id": [1]})])
    with pytest.raises(NoRowIdentity, match="format version 3"):
        opened(builder).toArrow(metadata=["_row_id"])


def test_user_columns_called_pos_and_file_path_are_left_alone() -> None:
    root, read = in_memory()
    builder = smith(2, root, columns=[column(1, "id"), column(2, "pos"), column(3, "file_path", "string")])
    file = builder.data({"id": [1, 2], "pos": [70, 71], "file_path": ["x", "y"]})
    builder.commit([file])
    builder.commit(deletes=[builder.positions([(file["file_path"], 0)])])
    got = read(builder)(metadata=["_pos", "_file"]).to_pylist()
    assert got == [{"id": 2, "pos": 71, "file_path": "y", "_pos": 1, "_file": file["file_path"]}]


def test_a_user_column_of_the_same_name_needs_another_name() -> None:
    builder = smith(2, columns=[column(1, "_file", "string")])
    builder.commit([builder.data({"_file": ["mine"]})])
    with pytest.raises(Invalid, match="another name"):
        opened(builder).toArrow(metadata=["_file"])
    got = opened(builder).toArrow(metadata={"_file": "path"}).to_pylist()
    assert got[0]["_file"] == "mine"
    assert got[0]["path"].endswith(".parquet")


class TestPartition:
    """The union over all specs."""

    def test_tuples_of_every_spec_in_one_struct(self, reader: Reader) -> None:
        root, read = reader
        specs = [[identity(2, "part")], [identity(2, "renamed"), identity(3, "day_day", 1001, "day")], []]
        builder = smith(2, root, specs=specs)
        builder.commit([builder.data({"id": [1]}, partition={"part": "a"})])
        builder.commit(
            [
                builder.data({"id": [2]}, partition={"renamed": None, "day_day": 19000}, spec=1),
                builder.data({"id": [3]}, spec=2),
            ]
        )
        got = read(builder)(columns=["id"], metadata=["_partition", "_spec_id"])
        assert [f.name for f in got.schema.field("_partition").type] == ["renamed", "day_day"]
        rows = {r["id"]: (r["_spec_id"], r["_partition"]) for r in got.to_pylist()}
        day = rows[2][1].pop("day_day")
        assert str(day) == "2022-01-08"
        assert rows == {
            1: (0, {"renamed": "a", "day_day": None}),
            2: (1, {"renamed": None}),
            3: (2, {"renamed": None, "day_day": None}),
        }

    def test_void_keeps_the_type_and_gives_the_name(self) -> None:
        specs = [[identity(2, "part")], [identity(2, "gone", transform="void")]]
        builder = smith(2, specs=specs)
        builder.commit([builder.data({"id": [1]}, partition={"part": "a"})])
        got = opened(builder).toArrow(columns=["id"], metadata=["_partition"])
        assert got.to_pylist() == [{"id": 1, "_partition": {"gone": "a"}}]

    def test_a_dropped_source_is_left_out_and_its_deletes_still_count(self) -> None:
        builder = smith(2, specs=[[identity(2, "part")], []])
        file = builder.data({"id": [1, 2]}, partition={"part": "a"})
        other = builder.data({"id": [3, 4]}, partition={"part": "b"})
        builder.commit([file, other])
        builder.commit(deletes=[builder.equality({"id": 1}, {"id": [1, 3]}, like=file)])
        builder.evolve([COLUMNS[0], COLUMNS[2]])
        got = opened(builder).toArrow(columns=["id"], metadata=["_partition"])
        assert got.to_pylist() == [
            {"id": 2, "_partition": None},
            {"id": 3, "_partition": None},
            {"id": 4, "_partition": None},
        ]

    def test_no_field_at_all_is_null_and_not_an_empty_struct(self) -> None:
        root, read = in_memory()
        builder = smith(2, root)
        builder.commit([builder.data({"id": [1]})])
        assert read(builder)(columns=["id"], metadata=["_partition"])["_partition"].null_count == 1

    def test_an_unknown_transform_is_refused_even_of_a_dropped_column(self) -> None:
        builder = smith(2, specs=[[identity(2, "z", transform="zorder")], []])
        builder.evolve(COLUMNS[:1])
        with pytest.raises(Unsupported, match="zorder"):
            opened(builder)

    def test_one_id_for_two_things_is_refused(self) -> None:
        builder = smith(2, specs=[[identity(2, "part")], [identity(3, "day")]])
        with pytest.raises(Damaged, match="1000"):
            opened(builder)


def test_metadata_alone_reads_no_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = smith(3, str(tmp_path / "t"))
    file = many(builder, 100_000)
    builder.commit([file])
    # Everything between the first four bytes and the footer is made unreadable.
    path = Path(file["file_path"])
    data = bytearray(path.read_bytes())
    footer = int.from_bytes(data[-8:-4], "little") + 8
    data[4:-footer] = b"\0" * (len(data) - 4 - footer)
    path.write_bytes(bytes(data))
    got = opened(builder).toArrow(
        columns=[], metadata=["_file", "_pos", "_spec_id", "_partition", "_deleted", "_row_id"]
    )
    assert got.num_rows == 100_000
    assert got["_pos"].to_numpy().tolist() == list(range(100_000))


@pytest.mark.parametrize("way", ["joined by number", "joined by path"])
def test_every_way_to_bring_facts_of_files_to_rows(
    way: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "joined by number":
        monkeypatch.setattr("holdfast.engines.spark.scan.native._LOOKED_UP_AT_MOST", 0)
    if way == "joined by path":
        monkeypatch.setattr(Scratch, "is_free", False)
    builder = smith(3, str(tmp_path / "t"), specs=[[], [identity(1, "p")]])
    many = 35 if way == "joined by number" else 2  # more than are named to Spark one by one
    files = [builder.data({"id": [n, n + 100]}, partition={"p": n}, spec=1) for n in range(many)]
    builder.commit(files)
    builder.commit(
        deletes=[*builder.vectors([(files[0], [1])]), builder.equality({"id": 1}, {"id": [1]}, like=files[1])]
    )
    table = opened(builder, spark)
    got = table.scan(metadata=[*ALL, *LINEAGE]).toArrow()
    assert_same_rows(got, table.toArrow(metadata=[*ALL, *LINEAGE]))
    assert table.toDF().count() == got.num_rows - 2
    assert "filter of hidden rows" in str(table.explain())
