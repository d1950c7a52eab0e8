"""Tables whose columns change under their rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from holdfast import DeltaTable, Invalid
from holdfast.errors import TableError
from holdfast.schema.types import Struct
from holdfast.verbs.define.builder import IdentityGenerator
from tests.verbs.harbour import MAPPED, ROWS, WIDENS, features, harbour, ids, last, others_read, rows, state


def test_mapping_turned_on_leaves_names_in_files_and_lets_columns_be_renamed_and_dropped(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = harbour(path, plain=True)
    assert (state(path).protocol.min_reader_version, state(path).protocol.min_writer_version) == (1, 2)
    with pytest.raises(Invalid, match=r"setProperties\(\{'delta\.columnMapping\.mode': 'name'\}\)"):
        table.renameColumn("name", "title")
    with pytest.raises(Invalid, match="needs column mapping"):
        table.dropColumn("name")
    table.setProperties(MAPPED)
    now = state(path)
    assert (now.protocol.min_reader_version, now.protocol.min_writer_version) == (2, 5)
    assert [(f.name, f.physical_name, f.field_id) for f in now.snapshot.schema] == [
        ("id", "id", 1),
        ("name", "name", 2),
        ("size", "size", 3),
        ("s", "s", 4),
    ]
    assert now.snapshot.properties["delta.columnMapping.maxColumnId"] == "6"
    assert rows(table) == others_read(path) == sorted(ROWS.to_pylist(), key=str)
    with pytest.raises(Invalid, match="cannot become none"):
        table.setProperties({"delta.columnMapping.mode": "none"})


@pytest.mark.parametrize("late", [True, False], ids=["mapped later", "mapped from the start"])
def test_rename_and_drop_rewrite_nothing(tmp_path: Path, late: bool) -> None:
    path = tmp_path / "t"
    table = harbour(path, *([] if late else [MAPPED]))
    if late:
        table.setProperties(MAPPED)
    before = ids(table)
    files = state(path).snapshot.files.column("key").to_pylist()
    table.renameColumn("NAME", "the title")
    assert last(table) == ("RENAME COLUMN", {"oldColumnPath": "name", "newColumnPath": "the title"})
    table.renameColumn("s.x", "depth")
    table.dropColumn("size")
    assert last(table) == ("DROP COLUMNS", {"columns": '["size"]'})
    table.dropColumn("s.y")
    want = [{"id": r["id"], "the title": r["name"], "s": r["s"] and {"depth": r["s"]["x"]}} for r in ROWS.to_pylist()]
    assert rows(table) == others_read(path) == sorted(want, key=str)
    assert state(path).snapshot.files.column("key").to_pylist() == files
    assert ids(table) == before == [0, 1, 2]
    table.addColumns({"size": "string"})  # not the one that went
    table.append(pa.table({"id": [4], "the title": ["d"], "size": ["large"]}))
    assert {r["id"]: r["size"] for r in rows(table)} == {1: None, 2: None, 3: None, 4: "large"}
    assert rows(table) == others_read(path)
    assert [r["name"] for r in table.toArrow(["name"], version=1).to_pylist()] == ["a", "b", None]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.renameColumn("name", "ID"), "(?i)id"),
        (lambda t: t.renameColumn("nothing", "x"), "no column nothing"),
        (lambda t: t.renameColumn("s.x", "s.z"), "one name, not the path"),
        (lambda t: t.renameColumn("name", ""), "empty name"),
        (lambda t: t.dropColumn("s.nothing"), r"no column s\.nothing"),
        (lambda t: (t.dropColumn("s.x"), t.dropColumn("s.y")), "struct s has no column"),
        (lambda t: (t.setProperties({"delta.dataSkippingStatsColumns": "id,s.x"}), t.dropColumn("s.x")), "names it"),
        (lambda t: (t.clusterBy("s.x"), t.dropColumn("s")), "clustered by it"),
        (
            lambda t: (t.addConstraint("c", "size > 1"), t.renameColumn("size", "z")),
            r"constraint c \(size > 1\) depends",
        ),
        (lambda t: (t.addConstraint("c", "s.x > 1 OR s.x IS NULL OR TRUE"), t.dropColumn("s.y")), "depends"),
    ],
)
def test_columns_that_cannot_be_renamed_or_dropped(
    tmp_path: Path, change: Callable[[DeltaTable], object], said: str
) -> None:
    table = harbour(tmp_path / "t", MAPPED)
    with pytest.raises(TableError, match=said):
        change(table)


def test_partition_and_generation_sources_stay(tmp_path: Path) -> None:
    table = (
        DeltaTable.create()
        .location(tmp_path / "t")
        .addColumn("at", "timestamp")
        .addColumn("day", "date", generatedAlwaysAs="cast(at as date)")
        .addColumn("n", "int")
        .addColumn("p", "int")
        .partitionedBy("p")
        .property("delta.columnMapping.mode", "name")
        .property("delta.enableTypeWidening", "true")
        .execute()
    )
    with pytest.raises(Invalid, match=r"the generated column day \(cast\(at as date\)\) is made of it"):
        table.dropColumn("at")
    changes: list[Callable[[], object]] = [
        lambda: table.dropColumn("p"),
        lambda: table.changeColumnType("p", "bigint"),
    ]
    for change in changes:
        with pytest.raises(Invalid, match="partitioned by it"):
            change()
    with pytest.raises(Invalid, match="day depends on it"):
        table.changeColumnType("day", "timestamp_ntz")
    with pytest.raises(Invalid, match="cannot be clustered as well"):
        table.clusterBy("n")
    table.dropColumn("day")
    table.dropColumn("at")
    with pytest.raises(Invalid, match="partitioned by all its columns"):
        table.dropColumn("n")


def test_what_a_table_is_clustered_by_can_be_renamed(tmp_path: Path) -> None:
    table = harbour(tmp_path, MAPPED)
    table.clusterBy("id", "s.x")
    physical = state(tmp_path).snapshot.clustering_columns
    table.renameColumn("s", "t")
    table.renameColumn("t.x", "y2")
    table.renameColumn("id", "number")
    assert state(tmp_path).snapshot.clustering_columns == physical
    assert table.detailArrow()["clusteringColumns"].to_pylist() == [["number", "t.y2"]]


def test_columns_are_added_with_comments_and_the_features_their_types_need(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = harbour(path)
    table.addColumns([("seen", "timestamp_ntz", "local time"), ("s.z", "array<int>"), ("n", spark.LongType())])
    assert "timestampNtz" in features(path)
    operation, parameters = last(table)
    assert operation == "ADD COLUMNS"
    assert [c["column"]["name"] for c in json.loads(parameters["columns"])] == ["seen", "s.z", "n"]
    schema = state(path).snapshot.schema
    assert schema.names == ("id", "name", "size", "s", "seen", "n")
    assert schema.fields[4].metadata == {"comment": "local time"}
    found = table.toArrow().to_pylist()
    assert [r["seen"] for r in found] == [None] * 3
    assert [r["s"] and r["s"]["z"] for r in found] == [None] * 3
    assert rows(table) == others_read(path)
    table.append(pa.table({"id": [9], "n": [7]}))
    assert {r["id"]: r["n"] for r in rows(table)} == {1: None, 2: None, 3: None, 9: 7}
    for columns, said in (
        ([("ID", "int")], "(?i)id"),
        ([("t.z", "int")], "no column t"),
        ([("name.z", "int")], "only a struct takes"),
        ([("a b", "int")], "data files do not take"),
        ([("q", "struct<a: int not null>")], "must take nulls"),
        ([("q",)], r"\(name, type\)"),
        ([], "no column to add"),
        ({"q": 7}, "SQL text or a Spark type"),
    ):
        with pytest.raises(Invalid, match=said):
            table.addColumns(columns)


def test_types_only_widen_and_only_where_the_table_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = harbour(path)
    with pytest.raises(Invalid, match=r"delta\.enableTypeWidening=true"):
        table.changeColumnType("size", "bigint")
    with pytest.raises(Invalid, match=r"delta\.enableTypeWidening=true"):
        table.changeColumnType("s", "struct<x: double, y: string>")
    table.setProperties(WIDENS)
    table.changeColumnType("size", "bigint")
    operation, parameters = last(table)
    assert (operation, json.loads(parameters["column"])["type"]) == ("CHANGE COLUMN", "long")
    table.changeColumnType("s.x", "double")
    table.append(pa.table({"id": [4], "size": pa.array([2**40], pa.int64())}))
    assert "typeWidening" in features(path)
    assert [f.metadata.get("delta.typeChanges") for f in state(path).snapshot.schema][2] == [
        {"fromType": "integer", "toType": "long"}
    ]
    assert table.toArrow(["size"]).schema.field("size").type == pa.int64()
    assert {r["id"]: r["size"] for r in rows(table)} == {1: 10, 2: 20, 3: 30, 4: 2**40}
    assert [r["s"]["x"] for r in rows(table) if r["s"]] == [1.0, 2.0]
    assert table.toArrow(where="size = 20")["id"].to_pylist() == [2]
    assert ids(table) == [0, 1, 2, 3]
    for name, type_ in (("size", "int"), ("size", "string"), ("name", "int"), ("s", "struct<x: double>"), ("s", "int")):
        with pytest.raises(Invalid, match="only becomes a wider one"):
            table.changeColumnType(name, type_)
    table.addConstraint("small", "id < 100")
    with pytest.raises(Invalid, match="small depends on it"):
        table.changeColumnType("id", "decimal(20,0)")


def test_numbers_that_a_table_hands_out_keep_their_type(tmp_path: Path) -> None:
    builder = DeltaTable.create().location(tmp_path / "t").property("delta.enableTypeWidening", "true")
    table = builder.addColumn("n", "bigint", generatedAlwaysAs=IdentityGenerator()).addColumn("x", "int").execute()
    with pytest.raises(Invalid, match="it is an identity column"):
        table.changeColumnType("n", "decimal(20,0)")
    assert table.changeColumnType("n", "bigint").version is None


def test_comments_come_and_go(tmp_path: Path) -> None:
    table = harbour(tmp_path / "t", MAPPED)
    table.commentColumn("s.x", "metres")
    inner = state(tmp_path / "t").snapshot.schema.fields[3].type
    assert isinstance(inner, Struct)
    assert inner.fields[0].metadata["comment"] == "metres"
    assert inner.fields[0].field_id is not None
    table.commentColumn("s.x", None)
    inner = state(tmp_path / "t").snapshot.schema.fields[3].type
    assert isinstance(inner, Struct)
    assert "comment" not in inner.fields[0].metadata
    assert rows(table) == others_read(tmp_path / "t")
