"""Tables whose properties, columns, constraints and clustering change under their rows."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from holdfast import DeltaTable, Invalid
from holdfast.delta.features import table_features
from holdfast.delta.state import DeltaState, load
from holdfast.env import system
from holdfast.errors import ConcurrentWrite, ConstraintViolated, TableError, UnknownColumn, Unsupported
from holdfast.model.mutation import Shape
from holdfast.ops import alter_columns
from holdfast.schema.types import LONG, STRING, Field, Struct
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.storage.open import open_location
from holdfast.table import altering
from holdfast.table.builder import IdentityGenerator, Mode
from holdfast.table.delta_dialect import DELTA
from holdfast.table.delta_handle import DeltaHandle
from holdfast.table.writing import How, LocalRows, land, make, write
from tests.support.faulty import every_fault

MAPPED = {"delta.columnMapping.mode": "name"}
WIDENS = {"delta.enableTypeWidening": "true"}
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "name": ["a", "b", None],
        "size": pa.array([10, 20, 30], pa.int32()),
        "s": pa.array(
            [{"x": 1, "y": "p"}, {"x": 2, "y": "q"}, None], pa.struct([("x", pa.int32()), ("y", pa.string())])
        ),
    }
)


def harbour(path: Path, *properties: dict[str, str], plain: bool = False) -> DeltaTable:
    """A table with three rows in one file."""
    builder = DeltaTable.create().location(path)
    for name, type_ in (("id", "bigint"), ("name", "string"), ("size", "int"), ("s", "struct<x: int, y: string>")):
        builder = builder.addColumn(name, type_)
    builder = builder.property("holdfast.plain", str(plain).lower())
    for given_ in properties:
        for key, value in given_.items():
            builder = builder.property(key, value)
    table = builder.execute()
    table.append(ROWS)
    return table


def state(path: Path) -> DeltaState:
    return load(open_location(str(path)))


def features(path: Path) -> set[str]:
    return set(table_features(state(path).protocol))


def rows(table: DeltaTable) -> list[dict[str, Any]]:
    return sorted(table.toArrow().to_pylist(), key=str)


def others_read(path: Path) -> list[dict[str, Any]]:
    table = deltalake.DeltaTable(str(path))
    found = deltalake.QueryBuilder().register("t", table).execute("select * from t").read_all()
    return sorted(pa.table(found).to_pylist(), key=str)


def ids(table: DeltaTable) -> list[int]:
    return sorted(table.toArrow(metadata=["_row_id"])["_row_id"].to_pylist())


def last(table: DeltaTable) -> tuple[str, dict[str, str]]:
    row = table.historyArrow(1).to_pylist()[0]
    return row["operation"], dict(row["operationParameters"])


def test_properties_are_set_and_unset_in_one_commit_each(tmp_path: Path) -> None:
    table = harbour(tmp_path / "t")
    done = table.setProperties({"delta.APPENDonly": "true", "owner": "me"})
    assert (done.version, done.attempts) == (2, 1)
    assert last(table)[0] == "SET TBLPROPERTIES"
    assert json.loads(last(table)[1]["properties"]) == {"delta.appendOnly": "true", "owner": "me"}
    assert state(tmp_path / "t").snapshot.properties["delta.appendOnly"] == "true"
    assert table.unsetProperties(["delta.appendOnly", "owner"]).version == 3
    assert last(table)[0] == "UNSET TBLPROPERTIES"
    assert not {"delta.appendOnly", "owner"} & state(tmp_path / "t").snapshot.properties.keys()
    assert rows(table) == others_read(tmp_path / "t")
    assert ids(table) == [0, 1, 2]


def test_what_is_true_already_is_not_committed(tmp_path: Path) -> None:
    table = harbour(tmp_path / "t", {"owner": "me"})
    assert table.setProperties({"owner": "me"}).version is None
    assert table.unsetProperties(["other"], ifExists=True).version is None
    assert table.dropConstraint("none", ifExists=True).version is None
    assert table.changeColumnType("size", "int").version is None
    assert table.commentColumn("size", None).version is None
    assert table.clusterBy().version is None
    assert table.addFeatureSupport("deletionVectors").version is None
    assert table.version == 1


def test_versions_of_the_protocol_may_be_asked_for_where_features_bring_them(tmp_path: Path) -> None:
    versions = {"delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}
    plain = harbour(tmp_path / "t", {"holdfast.plain": "true"})
    with pytest.raises(Invalid, match=r"at least \(2, 5\).*features need, \(1, 2\)"):
        plain.setProperties(versions)
    with pytest.raises(Invalid, match="whole number"):
        plain.setProperties({"delta.minReaderVersion": "two"})
    plain.setProperties({"delta.columnMapping.mode": "name", **versions})
    assert state(tmp_path / "t").protocol.min_writer_version == 5
    assert not versions.keys() & state(tmp_path / "t").snapshot.properties.keys()
    with pytest.raises(Invalid, match=r"at least \(0, 7\)"):
        harbour(tmp_path / "u", {"holdfast.plain": "true", "delta.minWriterVersion": "7"})
    harbour(tmp_path / "v", {"delta.minWriterVersion": "7"})


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"delta.appendonyl": "true"}, r"did you mean delta\.appendOnly"),
        ({"delta.columnMapping.maxColumnId": "9"}, "kept by the table itself"),
        ({"delta.constraints.c": "id > 0"}, r"use addConstraint\('c'"),
        ({"delta.columnMapping.mode": "id"}, "none and cannot become id"),
        ({"delta.enableIcebergCompatV2": "true"}, "does not set it itself"),
        ({"delta.rowTrackingSuspended": "true"}, "either on or suspended"),
        ({"delta.targetFileSize": "big"}, "must be a size"),
        ({"delta.feature.nonsense": "supported"}, "does not write tables with nonsense"),
        ({"holdfast.plain": "true"}, "when a table is made"),
        ({"delta.appendOnly": True}, "give it as text"),
    ],
)
def test_properties_that_cannot_be_set(tmp_path: Path, properties: dict[str, Any], said: str) -> None:
    table = harbour(tmp_path / "t")
    with pytest.raises(TableError, match=said):
        table.setProperties(properties)
    assert table.version == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("owner", "has no property owner"),
        ("delta.rowTracking.materializedRowIdColumnName", "kept by the table itself"),
        ("delta.columnMapping.mode", "name and cannot become none"),
        ("delta.constraints.big", r"use dropConstraint\('big'\)"),
        ("delta.feature.deletionVectors", r"use dropFeatureSupport\('deletionVectors'\)"),
        ("delta.appendonyl", "did you mean"),
    ],
)
def test_properties_that_cannot_be_unset(tmp_path: Path, name: str, said: str) -> None:
    table = harbour(tmp_path / "t", MAPPED)
    with pytest.raises(TableError, match=said):
        table.unsetProperties([name])


def test_row_tracking_is_turned_on_only_where_every_file_has_ids(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = harbour(path, plain=True)
    on = {"delta.enableRowTracking": "true"}
    with pytest.raises(Invalid, match=r"1 of the 1 files .* use enableRowTracking\(\)"):
        table.setProperties(on)
    table.addFeatureSupport("rowTracking")
    assert last(table)[0] == "UPGRADE PROTOCOL"
    assert features(path) >= {"rowTracking", "domainMetadata", "appendOnly", "invariants"}
    table.overwrite(ROWS)
    table.setProperties(on)
    assert ids(table) == [0, 1, 2]
    assert rows(table) == others_read(path)
    table.setProperties({"delta.enableRowTracking": "false"})
    table.append(ROWS)
    table.setProperties(on)
    assert ids(table) == [0, 1, 2, 3, 4, 5]


def test_row_tracking_is_not_turned_on_over_a_row_that_came_meanwhile(tmp_path: Path) -> None:
    table = DeltaTable.create().location(tmp_path / "t").addColumn("id", "bigint").property("holdfast.plain", "true")
    made = table.execute()
    seen = state(tmp_path / "t")
    made.append(pa.table({"id": [1]}))
    with pytest.raises(ConcurrentWrite):
        altering.set_properties(seen, {"delta.enableRowTracking": "true"}, system())
    assert altering.set_properties(seen, {"owner": "me"}, system()).attempts == 2


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


def test_a_constraint_holds_for_rows_there_and_to_come(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = harbour(path, plain=True)
    with pytest.raises(ConstraintViolated, match=r"named \(name <> 'z'\) is broken by the row name=null"):
        table.addConstraint("Named", "name <> 'z'")
    with pytest.raises(ConstraintViolated, match="size=10"):
        table.addConstraint("c", "size > 10")
    with pytest.raises(Unsupported, match="checked with Spark"):
        table.addConstraint("c", "size % 2 = 0")
    with pytest.raises(UnknownColumn, match="names length"):
        table.addConstraint("c", "length > 0")
    with pytest.raises(Invalid, match="is empty"):
        table.addConstraint("c", " ")
    assert table.version == 1
    table.addConstraint("Roomy", "size >= 10 AND (name IS NULL OR name <> 'z')")
    assert last(table)[1]["name"] == "roomy"
    assert state(path).protocol.min_writer_version == 3
    with pytest.raises(ConstraintViolated):
        table.append(pa.table({"id": [5], "size": pa.array([9], pa.int32())}))
    with pytest.raises(Invalid, match="already"):
        table.addConstraint("ROOMY", "id > 0")
    with pytest.raises(Invalid, match="it has roomy"):
        table.dropConstraint("rumi")
    table.dropConstraint("roomy")
    table.append(pa.table({"id": [5], "size": pa.array([9], pa.int32())}))
    assert rows(table) == others_read(path)


def test_a_constraint_is_not_added_over_a_row_that_came_meanwhile(tmp_path: Path) -> None:
    table = harbour(tmp_path / "t")
    seen = state(tmp_path / "t")
    table.append(pa.table({"id": [-5]}))
    with pytest.raises(ConcurrentWrite, match="added files that this transaction would have read"):
        altering.add_constraint(seen, "c", "id > 0", system())
    with pytest.raises(ConstraintViolated, match="id=-5"):
        table.addConstraint("c", "id > 0")


def test_two_changes_of_one_table_do_not_both_win(tmp_path: Path) -> None:
    table = harbour(tmp_path / "t", MAPPED)
    seen = state(tmp_path / "t")
    table.renameColumn("name", "title")
    with pytest.raises(ConcurrentWrite, match="changed the table's schema or properties"):
        land(seen, seen.snapshot.location, alter_columns.drop_columns(DELTA.shape_of(seen), ["name"]), system())
    assert "title" in state(tmp_path / "t").snapshot.schema.names


def test_clustering_follows_a_column_through_its_names(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = harbour(path, MAPPED)
    table.clusterBy("id", "s.x")
    assert features(path) >= {"clustering", "domainMetadata"}
    physical = state(path).snapshot.clustering_columns
    assert [len(p) for p in physical] == [1, 2]
    assert physical[0][0].startswith("col-")
    table.append(ROWS)
    table.clusterBy("size")
    assert last(table) == ("CLUSTER BY", {"oldClusteringColumns": "id,s.x", "newClusteringColumns": "size"})
    table.clusterBy()
    assert state(path).snapshot.clustering_columns == ()
    assert rows(table) == others_read(path)
    for names, said in ((("s",), "because it is struct"), (("id", "ID"), "twice"), (("zz",), "no column zz")):
        with pytest.raises(Invalid, match=said):
            table.clusterBy(*names)


def test_a_change_does_not_undo_the_clustering_that_came_meanwhile(tmp_path: Path) -> None:
    table = harbour(tmp_path / "t")
    table.clusterBy("id")
    seen = state(tmp_path / "t")
    table.clusterBy("size")
    with contextlib.suppress(ConcurrentWrite):
        altering.set_properties(seen, {"owner": "me"}, system())
    assert state(tmp_path / "t").snapshot.clustering_columns == (("size",),)


def test_features_are_added_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = harbour(path, plain=True)
    with pytest.raises(Unsupported, match="did you mean deletionVectors"):
        table.addFeatureSupport("deletionVector")
    table.addFeatureSupport("v2Checkpoint")
    assert features(path) == {"v2Checkpoint", "appendOnly", "invariants"}
    assert json.loads(last(table)[1]["newProtocol"])["minWriterVersion"] == 7
    table.setProperties({"delta.feature.deletionVectors": "supported"})
    assert "deletionVectors" in features(path)
    assert not any("feature" in name for name in state(path).snapshot.properties)
    assert rows(table) == others_read(path)


def test_a_fault_anywhere_leaves_the_table_before_or_after_a_change() -> None:
    shape = Shape(Struct((Field("id", LONG), Field("name", STRING))), (), {"delta.checkpointInterval": "3"})

    def harbour_in_memory() -> ObjectStore:
        env, store = system(), MemoryStore()
        made = make(Location(store, "t"), shape, env, mode=Mode.CREATE, plain=False)
        write(made, LocalRows(ROWS.select(["id", "name"]), env), How(), env, DELTA)
        return store

    def run(store: ObjectStore) -> None:
        env, location = system(), Location(store, "t")
        altering.set_properties(load(location), MAPPED, env)
        altering.rename_column(load(location), "name", "title", env)

    def check(store: ObjectStore) -> None:
        found = load(Location(store, "t"))
        assert found.version in (1, 2, 3)
        mapped = found.snapshot.properties.get("delta.columnMapping.mode") == "name"
        name = found.snapshot.schema.names[1]
        assert (mapped, name) == (found.version > 1, "title" if found.version == 3 else "name")
        there = DeltaTable(DeltaHandle(None, found)).toArrow(metadata=["_row_id"])
        assert there[name].to_pylist() == ["a", "b", None]
        assert there["_row_id"].to_pylist() == [0, 1, 2]

    assert every_fault(run, check, make=harbour_in_memory) > 30
