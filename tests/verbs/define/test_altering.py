"""Tables whose properties, constraints, clustering and features change under their rows."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast import DeltaTable, Invalid
from holdfast.engines.local.incoming import LocalRows
from holdfast.env import system
from holdfast.errors import ConcurrentWrite, ConstraintViolated, TableError, UnknownColumn, Unsupported
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.state import load
from holdfast.model.mutation import TableDefinition
from holdfast.schema.types import LONG, STRING, Field, Struct
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.verbs.define import columns as alter_columns
from holdfast.verbs.define.alter import DeltaAlteration
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.write import WriteOptions, make, write
from holdfast.verbs.open.delta import open_delta
from holdfast.verbs.open.delta_handle import DeltaHandle
from tests.support.faulty import every_fault
from tests.verbs.harbour import MAPPED, ROWS, features, harbour, ids, last, others_read, rows, state


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
        DeltaAlteration(seen, system()).set_properties({"delta.enableRowTracking": "true"})
    assert DeltaAlteration(seen, system()).set_properties({"owner": "me"}).attempts == 2


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
        DeltaAlteration(seen, system()).add_constraint("c", "id > 0")
    with pytest.raises(ConstraintViolated, match="id=-5"):
        table.addConstraint("c", "id > 0")


def test_two_changes_of_one_table_do_not_both_win(tmp_path: Path) -> None:
    table = harbour(tmp_path / "t", MAPPED)
    seen = state(tmp_path / "t")
    table.renameColumn("name", "title")
    with pytest.raises(ConcurrentWrite, match="changed the table's schema or properties"):
        open_delta(seen).commit(alter_columns.drop_columns(DeltaFormat.definition_of(seen), ["name"]), system())
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
        DeltaAlteration(seen, system()).set_properties({"owner": "me"})
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
    shape = TableDefinition(Struct((Field("id", LONG), Field("name", STRING))), (), {"delta.checkpointInterval": "3"})

    def harbour_in_memory() -> ObjectStore:
        env, store = system(), MemoryStore()
        made = make(Location(store, "t"), shape, env, mode=CreateMode.CREATE, plain=False)
        write(open_delta(made), LocalRows(ROWS.select(["id", "name"]), env), WriteOptions(), env)
        return store

    def run(store: ObjectStore) -> None:
        env, location = system(), Location(store, "t")
        DeltaAlteration(load(location), env).set_properties(MAPPED)
        DeltaAlteration(load(location), env).rename_column("name", "title")

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
