"""Change queries where they are easily wrong: schema and identity that change on the way, rows that come back. Each
is told right, or refused with the version in the way."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdfast import DeltaTable
from holdfast.engines.local import changefeed as local_changes
from holdfast.errors import Invalid, NoRowIdentity, UnknownColumn
from holdfast.formats.delta.state import load
from holdfast.storage.open import open_location
from tests.support.tablesmith import Tablesmith
from tests.verbs.changing_rows import PLAIN, VECTORS, fresh, table, told, values


def test_a_new_column_is_null_in_rows_from_before_it() -> None:
    t = table(2)
    t.addColumns([("w", "long")])
    t.update("id = 0", {"w": "7"})
    assert told(t, 1) == [
        (0, "a", None, "insert", 1, 0),
        (1, "a", None, "insert", 1, 1),
        (0, "a", None, "update_preimage", 3, 0),
        (0, "a", 7, "update_postimage", 3, 0),
    ]
    assert told(t, 2, 2) == []


def test_columns_have_the_names_of_the_last_version() -> None:
    t = table(1, **{"delta.columnMapping.mode": "name"})
    t.renameColumn("v", "w")
    t.update("id = 0", {"w": "'z'"})
    t.addColumns([("v", "string")])
    changes = t.changes(1, kind="full-delta").toArrow()
    assert changes.column_names[:3] == ["id", "w", "v"]
    assert [(r["w"], r["v"]) for r in changes.to_pylist()] == [("a", None), ("a", None), ("z", None)]
    assert t.changes(1, 1).toArrow().column_names[:2] == ["id", "v"]


def test_a_dropped_column_is_gone_from_older_rows_too() -> None:
    t = table(1, **{"delta.columnMapping.mode": "name"})
    t.dropColumn("v")
    t.delete("id = 0")
    assert told(t, 1) == [(0, "insert", 1, 0), (0, "delete", 3, 0)]


def test_types_are_those_of_the_last_version() -> None:
    t = table(1, **{"delta.enableTypeWidening": "true"})
    t.changeColumnType("id", "long")
    t.update("id = 0", {"id": "5000000000"})
    changes = t.changes(1).toArrow()
    assert changes.schema.field("id").type == pa.int64()
    assert changes.column("id").to_pylist() == [0, 0, 5_000_000_000]


def test_a_schema_that_older_rows_do_not_fit_is_refused_by_version() -> None:
    t = table()
    t.overwrite(pa.table({"id": ["x"], "v": ["y"]}), overwriteSchema=True)
    t.append(pa.table({"id": ["z"], "v": ["y"]}))
    for kind in ("full-delta", "min-delta"):
        with pytest.raises(
            Invalid, match=r"version 2 .*column id became another type.*up to version 1 and from version 3"
        ):
            t.changes(1, kind=kind)
    assert told(t, 3) == [("z", "y", "insert", 3, 4)]
    assert len(told(t, 0, 1)) == 3


def test_other_partition_columns_are_refused_by_version() -> None:
    t = table(partition="id")
    DeltaTable.replace(None).location(load(open_location(_path(t))).snapshot.location.url).addColumn(
        "id", "integer"
    ).addColumn("v", "string").partitionedBy("v").execute()
    with pytest.raises(Invalid, match=r"version 2 .*partitioned by other columns"):
        t.changes(1)


def _path(t: DeltaTable) -> str:
    return repr(t).removeprefix("DeltaTable(").partition(",")[0]


def test_giving_ids_to_files_changes_no_row() -> None:
    t = table(**VECTORS)
    t.enableRowTracking()
    enabled = t.version
    t.update("id = 1", {"v": "'b'"})
    assert told(t, 2, enabled) == []
    changes = [(1, "a", "update_preimage", t.version, 1), (1, "b", "update_postimage", t.version, 1)]
    assert told(t, 2) == changes
    assert told(t, 2, kind="min-delta") == changes
    assert told(t, 1)[:3] == [(i, "a", "insert", 1, i) for i in range(3)]


def test_rows_that_left_before_there_were_ids_have_none() -> None:
    t = table(**VECTORS)
    t.append(values((9, "z")))
    t.delete("id = 9")
    t.delete("id = 0")
    t.enableRowTracking()
    t.delete("id = 1")
    assert told(t, 3) == [
        (9, "z", "delete", 3, None),
        (0, "a", "delete", 4, 0),
        (1, "a", "delete", t.version, 1),
    ]
    net = told(t, 3, kind="min-delta")
    assert sorted(r[:3] for r in net) == [(0, "a", "delete"), (1, "a", "delete"), (9, "z", "delete")]


def test_a_rewrite_before_there_were_ids_is_refused_by_version() -> None:
    t = table(**VECTORS)
    t.update("id = 1", {"v": "'b'"})
    t.enableRowTracking()
    t.update("id = 2", {"v": "'c'"})
    with pytest.raises(
        NoRowIdentity, match=r"version 2 \(UPDATE\) may have moved rows.*did not track rows then.*keys="
    ):
        t.changes(1)
    assert [r[2] for r in told(t, 3)] == ["update_preimage", "update_postimage"]
    assert [r[:4] for r in told(t, 2, keys=["id"])] == [
        (1, "a", "update_preimage", 2),
        (1, "b", "update_postimage", 2),
        (2, "a", "update_preimage", t.version),
        (2, "c", "update_postimage", t.version),
    ]


def test_a_writer_that_does_not_say_it_kept_ids_is_refused_by_version(tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path, schema=[("id", "long")])
    smith.append([{"id": 1}, {"id": 2}])
    smith.append([{"id": 3}])
    lost = smith.rewrite()
    smith.hide(0, [0])
    t = DeltaTable.forPath(None, tmp_path)
    for kind in ("append-only", "upsert", "min-delta", "full-delta"):
        with pytest.raises(NoRowIdentity, match=rf"version {lost} \(OPTIMIZE\).*writer did not say that it kept them"):
            t.changes(1, kind=kind)
    assert [r[:2] for r in told(t, lost + 1)] == [(1, "delete")]
    assert len(told(t, 1, lost - 1)) == 3
    assert [r[:2] for r in told(t, 2, kind="min-delta", keys=["id"])] == [(1, "delete"), (3, "insert")]


def test_a_restore_brings_hidden_rows_back() -> None:
    t = table()
    t.delete("id = 1")
    t.delete("id = 2")
    t.restoreToVersion(2)
    t.restoreToVersion(1)
    assert told(t, 4) == [(2, "a", "insert", 4, 2), (1, "a", "insert", 5, 1)]
    assert told(t, 2, kind="min-delta") == []
    assert told(t, 3, kind="min-delta") == [(1, "a", "insert", 5, 1)]
    both_ways = [(c, v, i) for _, _, c, v, i in told(t, 2)]
    assert both_ways == [("delete", 2, 1), ("delete", 3, 2), ("insert", 4, 2), ("insert", 5, 1)]


def test_a_row_that_leaves_again_after_it_came_back_is_told_each_time() -> None:
    t = table()
    t.delete("id = 1")
    t.restoreToVersion(1)
    t.delete("id = 1 OR id = 2")
    t.restoreToVersion(1)
    t.delete()
    found = [(c, v, i) for _, _, c, v, i in told(t, 2)]
    assert found == [
        ("delete", 2, 1),
        ("insert", 3, 1),
        ("delete", 4, 1),
        ("delete", 4, 2),
        ("insert", 5, 1),
        ("insert", 5, 2),
        *(("delete", 6, i) for i in range(3)),
    ]


def test_a_changed_file_that_comes_back_is_not_taken_for_a_change() -> None:
    t = table(2)
    t.update("id = 0", {"v": "'x'"})
    t.delete("id = 0")
    t.append(values((7, "z")))
    t.restoreToVersion(2)
    t.delete("id = 0")
    assert [r[:4] for r in told(t, 2) if r[3] > 3] == [
        (7, "z", "insert", 4),
        (0, "x", "insert", 5),
        (7, "z", "delete", 5),
        (0, "x", "delete", 6),
    ]


def test_the_same_row_again_is_another_row() -> None:
    t = table(1)
    t.delete("id = 0")
    t.append(values((0, "a")))
    assert told(t, 2, kind="min-delta") == [(0, "a", "delete", 3, 0), (0, "a", "insert", 3, 1)]
    assert told(t, 2, kind="min-delta", dropUnchanged=True) == told(t, 2, kind="min-delta")
    assert told(t, 2, kind="min-delta", keys=["id"]) == []


def test_an_update_to_the_same_values_is_an_update_unless_it_is_dropped() -> None:
    t = table(1)
    t.update("id = 0", {"v": "'a'"})
    assert [r[2] for r in told(t, 2)] == ["update_preimage", "update_postimage"]
    assert [r[2] for r in told(t, 2, kind="min-delta")] == ["update_preimage", "update_postimage"]
    assert told(t, 2, kind="min-delta", dropUnchanged=True) == []


def test_compaction_and_purge_are_no_changes() -> None:
    t = table()
    t.append(values((7, "b")))
    t.delete("id = 0")
    t.optimize(materializeDeletionsThreshold=0).executeCompaction()
    assert told(t, 4) == []
    assert told(t, 4, kind="min-delta") == []
    assert t.changes(4).bytesRead == 0


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_inserts_of_a_commit_that_also_updates_and_deletes(mode: str) -> None:
    t = table()
    source = values((1, "x"), (2, "gone"), (8, "new"))
    (
        t.alias("t")
        .merge(source, "t.id = s.id", mode=mode)
        .whenMatchedDelete("s.v = 'gone'")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute()
    )
    t.append(values((9, "short")))
    t.delete("id = 9")
    new = (8, "new", "insert", 4, t.toArrow(where="id = 8", metadata=["_row_id"])["_row_id"][0].as_py())
    assert told(t, 2, kind="append-only") == [new]
    assert sorted(r[:4] for r in told(t, 2, kind="append-only", includeDeleted=True)) == [
        (8, "new", "insert", 2),
        (9, "short", "insert", 3),
    ]
    assert sorted(r[:3] for r in told(t, 2, kind="upsert")) == [(1, "x", "update_postimage"), (8, "new", "insert")]
    assert [r[:3] for r in told(t, 2, kind="upsert", includeDeleted=True)] == [
        (1, "x", "update_postimage"),
        (2, "a", "delete"),
        (8, "new", "insert"),
    ]


def test_without_ids_vectors_and_whole_files_tell() -> None:
    t = table(**VECTORS)
    t.delete("id = 1")
    t.append(values((5, "b")))
    t.overwrite(values((6, "c")))
    assert [(*r[:4],) for r in told(t, 2)] == [
        (1, "a", "delete", 2),
        (5, "b", "insert", 3),
        *((i, v, "delete", 4) for i, v in ((0, "a"), (2, "a"), (5, "b"))),
        (6, "c", "insert", 4),
    ]
    assert {r[-1] for r in told(t, 2)} == {None}
    t.restoreToVersion(1)
    assert sorted(r[:3] for r in told(t, 5)) == [*((i, "a", "insert") for i in range(3)), (6, "c", "delete")]


@pytest.mark.parametrize("properties", [PLAIN, VECTORS])
def test_without_ids_an_update_needs_keys(properties: dict[str, str]) -> None:
    t = table(**properties)
    t.update("id = 1", {"v": "'b'"})
    t.append(values((1, "twice")))
    with pytest.raises(NoRowIdentity, match=r"version 2 \(UPDATE\).*enableRowTracking\(\) makes later changes exact"):
        t.changes(2)
    assert [r[:3] for r in told(t, 2, 2, keys=["ID"])] == [(1, "a", "update_preimage"), (1, "b", "update_postimage")]
    with pytest.raises(Invalid, match=r"keys=\[id\] do not identify a row: \{'id': 1\} has several"):
        t.changes(1, kind="min-delta", keys=["id"]).toArrow()
    with pytest.raises(UnknownColumn, match="no column 'nope'"):
        t.changes(2, keys=["nope"])


def test_without_ids_change_files_tell_what_an_update_did() -> None:
    t = table(**PLAIN, **{"delta.enableChangeDataFeed": "true"})
    t.update("id = 1", {"v": "'b'"})
    assert told(t, 2) == [(1, "a", "update_preimage", 2, None), (1, "b", "update_postimage", 2, None)]
    with pytest.raises(NoRowIdentity, match="version 2"):
        t.changes(2, kind="min-delta")


def test_keys_compare_nested_values_part_by_part() -> None:
    columns = pa.table(
        {
            "id": pa.array([1, 2, 3, 4], pa.int64()),
            "m": pa.array([[("k", 1.0)], [("k", float("nan"))], None, []], pa.map_(pa.string(), pa.float64())),
            "a": pa.array([[1, None], [], None, [3]], pa.list_(pa.int64())),
            "s": pa.array([{"x": [1]}, {"x": None}, None, {"x": []}], pa.struct([("x", pa.list_(pa.int64()))])),
        }
    )
    path = f"memory://change-traps/{next(fresh)}"
    builder = DeltaTable.create(None).location(path).addColumns(columns.schema)
    for name, value in PLAIN.items():
        builder = builder.property(name, value)
    t = builder.execute()
    t.append(columns)
    t.overwrite(columns)
    assert told(t, 2, keys=["id"]) == []
    changed = columns.set_column(2, "a", pa.array([[1, 2], [], None, [3]], pa.list_(pa.int64())))
    t.overwrite(changed)
    assert [(r[0], r[4]) for r in told(t, 3, keys=["id"])] == [(1, "update_preimage"), (1, "update_postimage")]


def test_names_that_changes_are_told_by_must_be_free() -> None:
    path = f"memory://change-traps/{next(fresh)}"
    t = DeltaTable.create(None).location(path).addColumn("_Change_Type", "string").execute()
    with pytest.raises(Invalid, match="column _Change_Type of its own"):
        t.changes(0)


def test_values_are_read_only_of_rows_that_did_not_merely_move(monkeypatch: pytest.MonkeyPatch) -> None:
    t = table(40)
    t.update("id = 7", {"v": "'seven'"})
    t.delete("id = 9")
    t.optimize(materializeDeletionsThreshold=0).executeCompaction()
    wide = t.changes(t.version - 2, kind="min-delta").plan
    monkeypatch.setattr(local_changes, "MANY", 1)
    changes = t.changes(t.version - 2, kind="min-delta")
    narrow = local_changes._without_moved(changes.plan)
    assert wide.left, "every row of both ends"
    assert (narrow.left, narrow.arrived) == ((), ())
    wanted = [r.files.num_records.to_pylist() for r in narrow.certain]
    hidden = [len(rows) for r in narrow.certain for rows in r.hidden.positions.values()]
    assert sum(map(sum, wanted)) - sum(hidden) == 3, "a row before and after, and one that is gone"
    assert [row["_change_type"] for row in changes.toArrow().to_pylist()] == [
        "update_preimage",
        "update_postimage",
        "delete",
    ]
