"""Both formats have one façade: a verb is defined once, and what only one format has is listed with the reason."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast import DeltaTable, IcebergTable
from holdfast.errors import Invalid, Unsupported
from holdfast.table.table import Table
from holdfast.verbs.changefeed.apply import SOURCE_ROW_ID

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "v": ["a", "b", "c"]})

ONLY_DELTA = {
    "addConstraint, dropConstraint": "the Iceberg format has no CHECK constraints",
    "setColumnDefault, dropColumnDefault": "Holdfast reads the defaults of Iceberg columns and does not set them",
    "addFeatureSupport, dropFeatureSupport": "the Iceberg format has versions and no features; upgrade() raises it",
    "enableRowTracking": "an Iceberg table has row ids from format version 3 on; upgrade() raises it",
    "clusterBy": "an Iceberg table has a sort order, which Holdfast does not write",
    "changeFeed": "only Delta records a change data feed",
    "streamChanges, mergeStream": "streams follow a Delta log",
    "transaction, transact": "an overlay of several verbs is written for Delta commits",
    "pin, unpin, pins": "Iceberg has branches and tags",
    "vacuum, readableVersions": "Iceberg's own maintenance expires snapshots and deletes orphan files",
    "erase, erasureStatus, erasures": "old copies of rows are found by a walk through a Delta log",
    "compactLog, generate": "about files of a Delta log",
    "clone, cloneAtVersion, cloneAtTimestamp": "a clone is another Delta log over the same files",
    "describe, detail, detailArrow": "delta-spark's DESCRIBE DETAIL, and what goes with it",
    "takeDF, lookupDF, refresh": "only a Delta table pins a version that rows are looked up in",
    "nearest, nearestDF, explainNearest, recall": "an Iceberg table has no vector indexes",
    "renameIndex, indexStats": "an Iceberg table keeps an index in a property of its name",
    "forPath, forName, isDeltaTable, convertToDelta": "how a Delta table is opened, or made of files",
    "createIfNotExists, replace, createOrReplace": "delta-spark's builders",
}
ONLY_ICEBERG = {
    "load, forMetadata": "how an Iceberg table is opened: from a catalog, or from a metadata file",
    "upgrade, formatVersion": "only Iceberg numbers the versions of its format",
    "location": "its metadata may spell it otherwise than the path it was opened by",
}
CONSTRUCTORS = {  # which each format defines itself
    "create": "Delta describes a table by delta-spark's builder, Iceberg names a catalog",
    "createLike": "a Delta table is at a path, an Iceberg table in a catalog",
}


def listed(reasons: dict[str, str]) -> set[str]:
    return {name for names in reasons for name in names.split(", ")}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_what_one_format_lacks_is_listed_with_the_reason() -> None:
    assert public(DeltaTable) - public(IcebergTable) == listed(ONLY_DELTA)
    assert public(IcebergTable) - public(DeltaTable) == listed(ONLY_ICEBERG)


def test_a_verb_of_both_is_defined_once() -> None:
    shared = public(DeltaTable) & public(IcebergTable)
    own = {name for name in shared if name in vars(DeltaTable) or name in vars(IcebergTable)}
    assert own == CONSTRUCTORS.keys()
    assert shared - own == public(Table)
    assert DeltaTable.__bases__ == IcebergTable.__bases__ == (Table,)


@pytest.mark.parametrize("name", sorted(public(Table)))
def test_a_shared_verb_has_one_signature_and_is_documented(name: str) -> None:
    verbs = [inspect.getattr_static(kind, name) for kind in (DeltaTable, IcebergTable)]
    functions = [verb.fget if isinstance(verb, property) else verb for verb in verbs]
    assert inspect.signature(functions[0]) == inspect.signature(functions[1])
    assert inspect.getdoc(functions[0])
    signature = inspect.signature(functions[0])
    assert signature.return_annotation is not inspect.Signature.empty
    arguments = [each for each in signature.parameters.values() if each.name != "self"]
    assert all(each.annotation is not inspect.Parameter.empty for each in arguments)


def delta(path: Path) -> DeltaTable:
    made = DeltaTable.create(None).location(str(path / "delta")).addColumns(ROWS.schema)
    made = made.property("delta.columnMapping.mode", "name").property("delta.enableTypeWidening", "true")
    return made.execute()


def iceberg(path: Path) -> IcebergTable:
    return IcebergTable.create(None, path / "catalog.db", "db.t", ROWS.schema)


both = pytest.mark.parametrize("make", [delta, iceberg])
Make = Callable[[Path], Table]


@both
def test_changes_of_columns_and_properties_say_what_they_committed(make: Make, tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(ROWS)
    for change in (
        lambda: table.addColumns({"n": "int"}),
        lambda: table.changeColumnType("n", "long"),
        lambda: table.commentColumn("n", "a number"),
        lambda: table.renameColumn("n", "m"),
        lambda: table.dropColumn("m"),
        lambda: table.setProperties({"owner": "me"}),
        lambda: table.unsetProperties(["owner"]),
    ):
        assert change().version == table.version
    assert table.unsetProperties(["owner"], ifExists=True) is not None
    with pytest.raises(Invalid, match="no property owner"):
        table.unsetProperties(["owner"])
    assert table.commentColumn("v", None).version is None, "true already"
    assert table.toArrow().column_names == ["id", "v"]


@both
def test_an_earlier_spelling_of_an_argument_is_accepted_with_a_warning(make: Make, tmp_path: Path) -> None:
    table: Any = make(tmp_path)
    with pytest.warns(DeprecationWarning, match="renameColumn") as warned:
        table.renameColumn(old="v", new="w")
    assert [str(each.message).split(";")[0] for each in warned] == [
        "renameColumn(old=) is now name=",
        "renameColumn(new=) is now newName=",
    ]
    with pytest.raises(TypeError, match="one argument"), warnings.catch_warnings(action="ignore"):
        table.renameColumn(old="v", name="v", newName="x")
    assert table.toArrow().column_names == ["id", "w"]


@both
def test_rows_are_overwritten_by_the_way_that_is_asked_for(make: Make, tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(ROWS)
    table.overwrite(ROWS.slice(0, 1), replaceWhere="id = 1", mode="copy-on-write")
    assert sorted(table.toArrow()["id"].to_pylist()) == [1, 2, 3]
    with pytest.raises(Invalid, match="mode is for overwrites with replaceWhere"):
        table.overwrite(ROWS, mode="copy-on-write")


def test_an_iceberg_table_refuses_what_only_delta_overwrites_by(tmp_path: Path) -> None:
    table = iceberg(tmp_path)
    for how in ({"replaceUsing": ["id"]}, {"replaceOn": "id = 1"}, {"overwriteSchema": True}):
        with pytest.raises(Unsupported, match="for Delta tables"):
            table.overwrite(ROWS, **how)  # type: ignore[arg-type]


@both
def test_a_table_is_restored_to_a_version_by_its_name(make: Make, tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(ROWS)
    first = table.version
    if isinstance(table, DeltaTable):
        table.pin(first, "before")
    table.delete("id < 3")
    table.restoreToVersion("before" if isinstance(table, DeltaTable) else first)
    assert sorted(table.toArrow(metadata=["_row_id"])["_row_id"].to_pylist()) == [0, 1, 2]


@both
def test_changes_are_applied_by_row_ids_to_a_table_of_either_format(make: Make, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    source, target = delta(tmp_path / "source"), make(tmp_path)
    source.append(ROWS)
    source.changes(0).applyChanges(target)
    source.delete("id = 2")
    source.changes(0).applyChanges(target)
    assert sorted(target.toArrow()[SOURCE_ROW_ID].to_pylist()) == [0, 2]


def test_changes_of_an_iceberg_table_have_no_token(tmp_path: Path) -> None:
    table = iceberg(tmp_path)
    table.append(ROWS)
    changes = table.changes(table.version)
    assert changes.toArrow().num_rows == 3
    with pytest.raises(Unsupported, match="no resume token"):
        _ = changes.resumeToken
    with pytest.raises(Unsupported, match="no resume token"):
        table.changes(resume="hf1.x")
    with pytest.raises(Invalid, match="ids of snapshots"):
        table.changes("2024-05-01")
    assert table.take([0], timestamp="2100-01-01")["id"].to_pylist() == [1]
