"""Features taken out of tables: the rows stay, the traces go, and who knows less can read what is left."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import DeltaTable, Invalid
from holdfast.engines.local.engine import LocalEngine
from holdfast.env import Env, system
from holdfast.errors import ProtocolChanged, TableError
from holdfast.formats.delta.log.actions import Protocol
from holdfast.formats.delta.protocol.downgrade import PROTECTION, without
from holdfast.formats.delta.protocol.features import WRITABLE, reader_features, table_features
from holdfast.formats.delta.state import DeltaState, load
from holdfast.model.mutation import TableDefinition
from holdfast.schema.properties import PROTECTED_BEFORE
from holdfast.schema.types import LONG, STRING, Field, Struct
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.storage.open import open_location
from holdfast.verbs.define import drop_feature as dropping
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.define.drop_feature import drop_feature_support
from holdfast.verbs.dml.delete_update import ExecutionContext
from holdfast.verbs.dml.write import make
from holdfast.verbs.open.delta_handle import DeltaHandle
from holdfast.verbs.open.versions import pin
from tests.support.depth import examples
from tests.support.faulty import FaultyWrites, every_fault

DAY_MS = 86_400_000
ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "v": [f"v{n}" for n in range(10)]})
EVERYTHING = {
    "delta.enableRowTracking": "true",
    "delta.enableDeletionVectors": "true",
    "delta.checkpointPolicy": "v2",
    "delta.columnMapping.mode": "name",
    "delta.enableTypeWidening": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.feature.vacuumProtocolCheck": "supported",
}


def made(at: Path | Location, *properties: dict[str, str], columns: str = "id bigint, v string") -> DeltaTable:
    """A table of ten rows in two files, without those of id 3 and 7."""
    builder = DeltaTable.create().location(str(at)).property("holdfast.plain", "true")
    for column in columns.split(", "):
        builder = builder.addColumn(*column.split(" "))
    for each in properties:
        for key, value in each.items():
            builder = builder.property(key, value)
    table = builder.execute()
    table.append(ROWS.slice(0, 5))
    table.append(ROWS.slice(5))
    table.delete("id IN (3, 7)")
    return table


def state(path: Path) -> DeltaState:
    return load(open_location(str(path)))


def rows(table: DeltaTable, version: int | None = None) -> list[dict[str, Any]]:
    return sorted(table.toArrow(version=version).to_pylist(), key=lambda row: row["id"])


def operations(table: DeltaTable) -> list[str]:
    return list(reversed(table.historyArrow().column("operation").to_pylist()))


def log(path: Path) -> list[dict[str, Any]]:
    files = sorted((path / "_delta_log").glob("*[0-9].json"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


LEFT = [row for row in ROWS.to_pylist() if row["id"] not in (3, 7)]


def test_deletion_vectors_go_with_their_feature_and_old_versions_stay(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {"delta.enableDeletionVectors": "true"})
    hidden = table.version
    done = table.dropFeatureSupport("deletionVectors")
    now = state(tmp_path / "t")
    assert done.version == table.version == now.version
    assert now.protocol == Protocol(1, 7, None, ("appendOnly", PROTECTION, "invariants"))
    assert now.metadata.properties == {"delta.requireCheckpointProtectionBeforeVersion": str(done.version)}
    assert operations(table)[-4:] == ["UNSET TBLPROPERTIES", "REORG", "Deletion Vector Tombstones", "DROP FEATURE"]
    assert not now.snapshot.files.column("dv").drop_null()
    assert rows(table) == rows(table, hidden) == LEFT
    assert rows(table, 1) == ROWS.slice(0, 5).to_pylist()
    assert deltalake.DeltaTable(str(tmp_path / "t")).to_pyarrow_table().num_rows == 8
    there = {int(file.name[:20]) for file in (tmp_path / "t/_delta_log").glob("*.checkpoint.parquet")}
    assert {done.version - 1, done.version} <= there
    table.delete("id = 0")
    assert rows(table) == LEFT[1:]
    assert not table.check().findings


def test_the_files_of_old_vectors_are_said_to_have_gone(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {"delta.enableDeletionVectors": "true"})
    table.dropFeatureSupport("deletionVectors")
    vectors = {file.name for file in (tmp_path / "t").glob("deletion_vector_*.bin")}
    told = [line["remove"] for line in log(tmp_path / "t") if line.get("remove", {}).get("path", "").endswith(".bin")]
    assert {each["path"] for each in told} == vectors
    assert all(each["dataChange"] is False and "size" not in each for each in told)
    table.vacuum()
    assert vectors <= {file.name for file in (tmp_path / "t").iterdir()}


def test_row_ids_go_with_row_tracking(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"})
    table.optimize().executeCompaction()
    table.createIndex("id")
    with pytest.raises(Invalid, match="while rowTracking needs it"):
        table.dropFeatureSupport("domainMetadata")
    table.dropFeatureSupport("rowTracking")
    now = state(tmp_path / "t")
    assert "rowTracking" not in table_features(now.protocol)
    assert not any("owTracking" in name for name in now.metadata.properties)
    assert now.snapshot.files.column("base_row_id").null_count == len(now.snapshot.files)
    assert not now.domains
    assert not any(
        "holdfast" in name for tags in now.snapshot.files.column("tags").to_pylist() for name, _ in tags or ()
    )
    assert operations(table)[-3:] == ["SET TBLPROPERTIES", "ROW TRACKING UNBACKFILL", "DROP FEATURE"]
    assert rows(table) == LEFT
    assert table.toArrow(where="id = 4").num_rows == 1
    table.dropFeatureSupport("domainMetadata")
    table.enableRowTracking()
    ids = table.toArrow(metadata=["_row_id"]).column("_row_id").to_pylist()
    assert len(set(ids)) == 8
    assert max(ids) < 10
    assert not table.check().findings


def test_a_table_goes_back_to_an_old_version_of_the_protocol(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {"delta.enableRowTracking": "true"})
    table.dropFeatureSupport("rowTracking")
    table.dropFeatureSupport("domainMetadata")
    assert state(tmp_path / "t").protocol == Protocol(1, 2)
    table.addConstraint("some", "id >= 0")
    with pytest.raises(Invalid, match="constraints some: drop them first"):
        table.dropFeatureSupport("checkConstraints")
    table.dropConstraint("some")
    table.dropFeatureSupport("checkConstraints")
    assert state(tmp_path / "t").protocol == Protocol(1, 2)


def test_columns_are_known_by_their_names_again(tmp_path: Path) -> None:
    path = tmp_path / "t"
    builder = DeltaTable.create().location(str(path)).addColumn("id", "bigint").addColumn("v", "string")
    builder = builder.addColumn("p", "string").partitionedBy("p").property("delta.columnMapping.mode", "name")
    table = builder.execute()
    for part in ("x", "y"):
        table.append(ROWS.append_column("p", pa.array([part] * 10)))
    table.renameColumn("v", "w")
    table.renameColumn("p", "q")
    table.addColumns({"gone": "int"})
    table.append(pa.table({"id": [99], "w": ["z"], "q": ["x"], "gone": pa.array([1], pa.int32())}))
    table.dropColumn("gone")
    table.delete("id = 5")
    before = table.toArrow(metadata=["_row_id", "_row_commit_version"]).sort_by("_row_id")
    table.dropFeatureSupport("columnMapping")
    now = state(path)
    assert "columnMapping" not in table_features(now.protocol)
    assert {f.name: dict(f.metadata) for f in now.snapshot.schema.fields} == {"id": {}, "w": {}, "q": {}}
    assert before == table.toArrow(metadata=["_row_id", "_row_commit_version"]).sort_by("_row_id")
    for key in now.snapshot.files.column("key").to_pylist():
        stored = pq.read_schema(path / key).names
        assert [name for name in stored if not name.startswith("_row")] == ["id", "w"]
    table.addColumns({"gone": "int"})
    assert table.toArrow(["gone"]).column("gone").null_count == 19
    assert rows(table, 3)[0].keys() == {"id", "w", "p"}
    assert not table.check().findings


def test_names_that_no_file_can_have_keep_column_mapping(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {"delta.columnMapping.mode": "name"})
    table.renameColumn("v", "`a b`")
    with pytest.raises(TableError, match="a b"):
        table.dropFeatureSupport("columnMapping")
    assert "columnMapping" in table_features(state(tmp_path / "t").protocol)


def test_only_files_of_old_types_are_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "t"
    builder = DeltaTable.create().location(str(path)).property("delta.enableTypeWidening", "true")
    table = builder.addColumn("id", "int").addColumn("xs", "array<int>").addColumn("s", "struct<d: date>").execute()
    old = pa.table({"id": pa.array([1], pa.int32()), "xs": pa.array([[1, 2]], pa.list_(pa.int32()))})
    table.append(old)
    table.append(pa.table({"id": pa.array([2], pa.int32())}))
    table.changeColumnType("id", "bigint")
    table.append(pa.table({"id": pa.array([2**40], pa.int64())}))
    young = state(path).snapshot.files.column("key").to_pylist()[-1]
    before = rows(table)
    table.dropFeatureSupport("typeWidening")
    now = state(path)
    assert young in now.snapshot.files.column("key").to_pylist()
    assert rows(table) == before
    assert all(
        pq.read_schema(path / key).field("id").type == pa.int64()
        for key in now.snapshot.files.column("key").to_pylist()
    )
    assert not any(f.metadata for f in now.snapshot.schema.fields)
    assert "typeWidening" not in table_features(now.protocol)
    assert not table.check().findings


def test_every_feature_goes_in_any_order(tmp_path: Path) -> None:
    table = made(tmp_path / "t", EVERYTHING)
    table.addConstraint("some", "id >= 0")
    table.dropConstraint("some")
    names = sorted(set(table_features(state(tmp_path / "t").protocol)) - {"appendOnly", "invariants", "domainMetadata"})
    assert {"v2Checkpoint", "inCommitTimestamp", "vacuumProtocolCheck", "checkConstraints"} <= set(names)
    for name in [*names, "domainMetadata"]:
        table.dropFeatureSupport(name)
        assert rows(table) == LEFT
        assert rows(DeltaTable.forPath(None, tmp_path / "t")) == LEFT
    assert table_features(state(tmp_path / "t").protocol) == ("appendOnly", PROTECTION, "invariants")
    assert not reader_features(state(tmp_path / "t").protocol)
    assert deltalake.DeltaTable(str(tmp_path / "t")).to_pyarrow_table().num_rows == 8
    assert not table.check().findings


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("deletionVectrs", r"did you mean deletionVectors\?"),
        ("delta.enableDeletionVectors", "is a property and no feature"),
        ("columnMapping", "has no feature columnMapping to drop"),
        ("appendOnly", "appendOnly cannot be dropped: every version"),
        ("clustering", "CLUSTER BY NONE"),
    ],
)
def test_what_stays_is_refused_in_a_sentence(tmp_path: Path, name: str, said: str) -> None:
    table = made(tmp_path / "t", {"delta.enableDeletionVectors": "true"})
    table.clusterBy("id")
    version = table.version
    with pytest.raises(TableError, match=said):
        table.dropFeatureSupport(name)
    assert table.version == version
    table.addConstraint("c", "id >= 0")
    with pytest.raises(Invalid, match="leave TRUNCATE HISTORY out"):
        table.dropFeatureSupport("checkConstraints", truncateHistory=True)


class _Later:
    """A clock that is set."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def env(self) -> Env:
        base = system()
        return replace(base, now_ms=lambda: base.now_ms() + self.ahead_ms)


def drop(table: DeltaTable, name: str, clock: _Later, *, truncate: bool = True) -> None:
    drop_feature_support(
        table.handle.newest(), name, ExecutionContext(LocalEngine(), clock.env(), "UTC"), truncate=truncate
    )


@pytest.mark.parametrize("name", ["deletionVectors", "v2Checkpoint", "columnMapping", "vacuumProtocolCheck"])
def test_with_history_truncated_nothing_is_left_of_a_feature(tmp_path: Path, name: str) -> None:
    table, clock = made(tmp_path / "t", EVERYTHING), _Later()
    if name != "vacuumProtocolCheck":
        for _ in range(2):
            with pytest.raises(Invalid, match=r"24 hours .* repeat this when they have expired"):
                drop(table, name, clock)
        clock.ahead_ms = 2 * DAY_MS
    drop(table, name, clock)
    now = state(tmp_path / "t")
    assert name not in table_features(now.protocol)
    assert PROTECTION not in table_features(now.protocol)
    assert rows(table) == LEFT
    assert (tmp_path / f"t/_delta_log/{0:020d}.json").exists() == (name == "vacuumProtocolCheck")


def test_the_protection_of_checkpoints_goes_with_what_it_protects(tmp_path: Path) -> None:
    table, clock = made(tmp_path / "t", {"delta.enableDeletionVectors": "true"}), _Later()
    drop(table, "deletionVectors", clock, truncate=False)
    with pytest.raises(Invalid, match="TRUNCATE HISTORY"):
        drop(table, PROTECTION, clock, truncate=False)
    with pytest.raises(Invalid, match="expired"):
        drop(table, PROTECTION, clock)
    clock.ahead_ms = 2 * DAY_MS
    drop(table, PROTECTION, clock)
    now = state(tmp_path / "t")
    assert now.protocol == Protocol(1, 2)
    assert not now.metadata.properties
    assert rows(table) == LEFT


def test_what_was_dropped_comes_back_with_the_version_that_had_it(tmp_path: Path) -> None:
    table = made(tmp_path / "t", EVERYTHING)
    hidden = table.version
    table.renameColumn("v", "w")
    for name in ("deletionVectors", "columnMapping", "rowTracking"):
        table.dropFeatureSupport(name)
    table.restoreToVersion(hidden)
    assert rows(table) == LEFT
    now = state(tmp_path / "t")
    assert {"deletionVectors", "columnMapping"} <= set(table_features(now.protocol))
    assert now.snapshot.files.column("base_row_id").null_count == len(now.snapshot.files)
    table.enableRowTracking()
    assert len(set(table.toArrow(metadata=["_row_id"]).column("_row_id").to_pylist())) == 8
    assert not table.check().findings


def test_history_stays_protected_whatever_the_table_becomes(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {"delta.enableDeletionVectors": "true"})
    done = table.dropFeatureSupport("deletionVectors")
    with pytest.raises(Invalid, match="kept by the table itself"):
        table.unsetProperties([PROTECTED_BEFORE])
    table.restoreToVersion(1)
    assert state(tmp_path / "t").metadata.properties[PROTECTED_BEFORE] == str(done.version)
    DeltaTable.replace().location(str(tmp_path / "t")).addColumn("n", "int").execute()
    assert state(tmp_path / "t").metadata.properties[PROTECTED_BEFORE] == str(done.version)


def test_domains_are_not_written_where_their_feature_went(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {"delta.feature.domainMetadata": "supported"})
    table.pin(1, "first")
    with pytest.raises(Invalid, match="pinned as first"):
        table.dropFeatureSupport("domainMetadata")
    table.unpin("first")
    read = table.handle.newest()
    table.dropFeatureSupport("domainMetadata")
    with pytest.raises(ProtocolChanged):
        pin(read, 1, "late", system())


@examples(100)
@given(st.frozensets(st.sampled_from(sorted(WRITABLE))), st.sampled_from(sorted(WRITABLE)))
def test_a_protocol_without_a_feature_has_all_others(names: frozenset[str], name: str) -> None:
    reading = names & reader_features(Protocol(3, 7, tuple(sorted(WRITABLE)), ()))
    before = Protocol(3, 7, tuple(sorted(reading)), tuple(sorted(names)))
    after = without(before, frozenset((name,)))
    assert set(table_features(after)) == names - {name}
    assert without(after, frozenset((name,))) == after


def test_another_writer_in_between_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t", {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"})
    real, written = dropping._FeatureDrop.attempt, list[str]()

    def beaten(self: Any, mutation: Any) -> int | None:
        if mutation.operation not in written:
            written.append(mutation.operation)
            DeltaTable.forPath(None, tmp_path / "t").append(pa.table({"id": [100 + len(written)], "v": ["late"]}))
        return real(self, mutation)

    monkeypatch.setattr(dropping._FeatureDrop, "attempt", beaten)
    table.dropFeatureSupport("columnMapping")
    assert written == ["REMOVE COLUMN MAPPING", "DROP FEATURE"]
    assert [row["id"] for row in rows(table)] == [*(row["id"] for row in LEFT), 101, 102]
    assert operations(table).count("REMOVE COLUMN MAPPING") == 1


FEATURES = ("deletionVectors", "rowTracking", "v2Checkpoint", "columnMapping", "typeWidening")


@cache
def _template() -> ObjectStore:
    store = MemoryStore()
    columns = Struct((Field("id", LONG), Field("v", STRING)))
    properties = {k: v for k, v in EVERYTHING.items() if not k.startswith("delta.feature")}
    make(
        Location(store, "t"),
        TableDefinition(columns, properties=properties),
        system(),
        mode=CreateMode.CREATE,
        plain=False,
    )
    table = _open(store)
    table.append(ROWS)
    table.delete("id IN (3, 7)")
    return store


def _open(store: ObjectStore) -> DeltaTable:
    return DeltaTable(DeltaHandle(None, load(Location(store, "t"))))


def _made() -> ObjectStore:
    template, store = _template(), MemoryStore()
    for found in template.list_all("t"):
        store.put(found.key, template.get(found.key))
    return store


@pytest.mark.parametrize("name", FEATURES)
def test_a_crash_at_any_moment_leaves_the_rows_and_repeating_goes_on(name: str) -> None:
    def check(store: ObjectStore) -> None:
        table = _open(store)
        assert rows(table) == LEFT
        if name in table_features(load(Location(store, "t")).protocol):
            table.dropFeatureSupport(name)
        assert name not in table_features(load(Location(store, "t")).protocol)
        assert rows(_open(store)) == LEFT

    assert every_fault(lambda store: _open(store).dropFeatureSupport(name), check, make=_made, faulty=FaultyWrites) > 5
