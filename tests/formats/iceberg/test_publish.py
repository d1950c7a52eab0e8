"""Publishing: other engines, refusals, races, lost history, columns, and the map of versions."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from holdfast import Conflict, DeltaTable, IcebergTable, Invalid, NoRowIdentity, Unsupported
from holdfast.errors import Damaged
from holdfast.model.publication import MOST, Publishing, Stretch, publication_of
from holdfast.schema.types import Array, Field, Primitive, Struct
from holdfast.storage import open as opening
from holdfast.storage.memory import MemoryStore
from holdfast.verbs.publish import publish as publishing
from holdfast.verbs.publish.mutation import brought, located
from tests.formats.iceberg.rest import rest_catalog
from tests.support.depth import examples
from tests.support.faulty import CountingStore
from tests.support.iceberg_peers import duckdb_connection, read_by_pyiceberg

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
LINEAGE = ["_row_id", "_last_updated_sequence_number"]


def rows(*ids: int, v: str = "a") -> pa.Table:
    return pa.table({"id": list(ids), "v": [v] * len(ids)}, SCHEMA)


def delta(path: Path, *ids: int, spark: SparkSession | None = None, **properties: str) -> DeltaTable:
    builder = DeltaTable.create(None).location(str(path)).addColumns(SCHEMA)
    for name, value in properties.items():
        builder = builder.property(f"delta.{name.replace('_', '.')}", value)
    table = builder.execute()
    if ids:
        table.append(rows(*ids))
    return DeltaTable.forPath(spark, path)


def iceberg(place: Path, like: Any, name: str = "t", **how: Any) -> IcebergTable:
    table: IcebergTable = IcebergTable.createLike(None, place / "catalog.db", f"db.{name}", like, **how)
    return table


def row_dicts(table: DeltaTable | IcebergTable) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.toArrow(metadata=["_row_id"]).sort_by("_row_id").to_pylist()
    return found


def test_other_engines_read_the_same_rows_and_ids(tmp_path: Path) -> None:
    source = delta(tmp_path / "source", *range(20))
    target = iceberg(tmp_path, source, partitionedBy=["bucket(4, id)"])
    source.publish(target)
    source.update("id % 3 = 0", {"v": "'z'"})
    source.delete("id = 7")
    source.append(rows(30, 31))
    source.optimize().executeCompaction()
    assert source.publish(target).versions == (2, 5)
    ours = target.toArrow(metadata=LINEAGE).sort_by("_row_id")
    path = target.handle.newest().metadata_path.removeprefix("file://")
    columns = ", ".join(["id", "v", *LINEAGE])
    theirs = duckdb_connection().execute(f"select {columns} from iceberg_scan('{path}')").to_arrow_table()
    assert theirs.sort_by("_row_id").to_pylist() == ours.to_pylist()
    plain = read_by_pyiceberg(Path(path), {}).sort_by("id").to_pylist()
    assert plain == ours.select(["id", "v"]).sort_by("id").to_pylist()
    assert ours.select(["id", "v", "_row_id"]).to_pylist() == row_dicts(source)


def test_ids_that_are_given_out_there_are_no_others(tmp_path: Path) -> None:
    source = delta(tmp_path / "source", *range(5))
    source.delete("id > 1")
    target = iceberg(tmp_path, source)
    source.publish(target)
    target.append(rows(99))
    native = pc.max(target.toArrow(metadata=["_row_id"])["_row_id"]).as_py()
    assert native > 4
    back = DeltaTable.createLike(None, tmp_path / "back", target)
    target.publish(back)
    back.append(rows(100))
    assert pc.max(back.toArrow(metadata=["_row_id"])["_row_id"]).as_py() > native


def test_the_life_of_a_row_there(tmp_path: Path) -> None:
    source = delta(tmp_path / "source", *range(5))
    target = iceberg(tmp_path, source)
    back = DeltaTable.createLike(None, tmp_path / "back", target)
    for step in (
        lambda: None,
        lambda: source.update("id = 2", {"v": "'z'"}),
        lambda: source.optimize().executeCompaction(),
        lambda: source.delete("id = 2"),
        lambda: source.restoreToVersion(2),
    ):
        step()
        source.publish(target)
        target.publish(back)
    for table in (target, back):
        life = table.biography(2)
        assert [event.what.value for event in life.events] == ["born", "changed", "deleted", "restored"]
        assert {event.operation for event in life.events} == {"PUBLISH"}
        assert life.alive
        assert not table.biography(6).events
        assert table.check().clean


def test_a_version_without_a_change_is_noted_once(tmp_path: Path) -> None:
    source = delta(tmp_path / "source", 1)
    source.append(rows(2))
    target = iceberg(tmp_path, source)
    source.publish(target)
    source.optimize().executeCompaction()
    done = source.publish(target)
    assert (done.versions, done.inserted, done.updated, done.deleted, done.files) == ((3, 3), 0, 0, 0, 0)
    assert source.publish(target).version is None
    assert [len(row_dicts(t)) for t in (source, target)] == [2, 2]


def test_a_rest_catalog_counts_past_the_mark(tmp_path: Path) -> None:
    source = delta(tmp_path / "source", *range(6))
    source.delete("id > 0")
    with rest_catalog(tmp_path) as (catalog, server):
        target = IcebergTable.createLike(None, catalog, "db.t", source)
        server.lost = 1
        assert source.publish(target).inserted == 1
        assert target.handle.newest().metadata.next_row_id == 7
        source.append(rows(9))
        source.publish(target)
        assert target.handle.newest().metadata.next_row_id == 8
        assert row_dicts(target) == row_dicts(source)


def test_only_files_that_may_hold_a_changed_row_are_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = MemoryStore("opened")
    monkeypatch.setattr(opening, "_memory_store", lambda name: store)
    catalog = load_catalog("opened", type="in-memory", warehouse="memory://opened/there")
    source = DeltaTable.create(None).location("memory://opened/here").addColumns(SCHEMA).execute()
    target = IcebergTable.createLike(None, catalog, "db.t", source)
    for first in range(0, 50, 10):
        source.append(rows(*range(first, first + 10)))
        source.publish(target)
    source.update("id = 23", {"v": "'z'"})
    store = counting = CountingStore(store)
    source, target = DeltaTable.forPath(None, "memory://opened/here"), IcebergTable.load(None, catalog, "db.t")
    assert source.publish(target).updated == 1
    opened = {key for verb, key in counting.keys if verb.startswith("get") and key.endswith(".parquet")}
    assert [sum(key.startswith(where) for key in opened) for where in ("there", "here")] == [1, 2]
    assert row_dicts(target) == row_dicts(source)


@pytest.mark.everywhere
def test_publishing_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    source = delta(tmp_path / "source", *range(40))
    target = iceberg(tmp_path, source, partitionedBy=["truncate(10, id)"])
    source.publish(target)
    back = DeltaTable.createLike(None, tmp_path / "back", target)
    assert IcebergTable.load(spark, tmp_path / "catalog.db", "db.t").publish(back).inserted == 40
    source.update("id % 4 = 0", {"v": "'z'"})
    source.delete("id < 5")
    source.append(pa.table({"id": [50, 51], "v": ["n", None]}, SCHEMA))
    done = DeltaTable.forPath(spark, tmp_path / "source").publish(target)
    assert (done.inserted, done.updated, done.deleted) == (2, 8, 5)
    assert row_dicts(target) == row_dicts(source)
    assert target.publish(back).version == 2
    assert row_dicts(back) == row_dicts(source)


def test_what_is_no_copy_is_refused(tmp_path: Path) -> None:
    source, other = delta(tmp_path / "source", 1, 2), delta(tmp_path / "other", 1)
    target = iceberg(tmp_path, source)
    target.append(rows(7))
    with pytest.raises(Invalid, match="not published to it"):
        source.publish(target)
    assert source.publish(target, afresh=True).inserted == 2
    with pytest.raises(Invalid, match="is another table"):
        other.publish(target)
    target.delete("id = 1")
    source.append(rows(3))
    with pytest.raises(Conflict, match=r"\(DELETE\) changed rows"):
        source.publish(target)
    source.publish(target, afresh=True)
    assert row_dicts(target) == row_dicts(source)
    with pytest.raises(Invalid, match="into itself"):
        source.publish(DeltaTable.forPath(None, tmp_path / "source"))
    with pytest.raises(Invalid, match="not a dict"):
        source.publish({})


def test_tables_without_ids_are_refused(tmp_path: Path) -> None:
    source = delta(tmp_path / "source", 1, enableRowTracking="false")
    target = iceberg(tmp_path, source)
    with pytest.raises(NoRowIdentity, match="enableRowTracking"):
        source.publish(target)
    older = IcebergTable.create(None, tmp_path / "catalog.db", "db.older", SCHEMA, formatVersion=2)
    with pytest.raises(NoRowIdentity, match="upgrade"):
        delta(tmp_path / "tracked", 1).publish(older)


@pytest.mark.parametrize("partitioned", [False, True])
def test_every_type_goes_over_and_back(tmp_path: Path, partitioned: bool) -> None:
    moment = datetime.datetime(2026, 11, 16, 9, 30, 15, 123456)
    inner = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
    columns: dict[str, tuple[pa.DataType, Any]] = {
        "flag": (pa.bool_(), True),
        "tiny": (pa.int8(), -3),
        "small": (pa.int16(), 300),
        "whole": (pa.int32(), 70_000),
        "big": (pa.int64(), 1 << 60),
        "single": (pa.float32(), 0.5),
        "real": (pa.float64(), -1e300),
        "money": (pa.decimal128(12, 2), decimal.Decimal("-12.34")),
        "vast": (pa.decimal128(38, 10), decimal.Decimal("12345678901234567890.1234567891")),
        "day": (pa.date32(), moment.date()),
        "at": (pa.timestamp("us", "UTC"), moment.replace(tzinfo=datetime.UTC)),
        "clock": (pa.timestamp("us"), moment),
        "text": (pa.string(), "ä b/c"),
        "blob": (pa.binary(), b"\x00\xff"),
        "several": (pa.list_(inner), [{"x": 1, "y": ["p", None]}, None]),
        "by name": (pa.map_(pa.string(), inner), [("k", {"x": None, "y": []})]),
        "nested": (pa.struct([("in", inner), ("n", pa.int64())]), {"in": {"x": 2, "y": None}, "n": 7}),
    }
    schema = pa.schema([("id", pa.int64()), *((name, type_) for name, (type_, _) in columns.items())])
    full = {"id": 1, **{name: value for name, (_, value) in columns.items()}}
    mapped = {"delta.columnMapping.mode": "name"}
    builder = DeltaTable.create(None).location(str(tmp_path / "source")).addColumns(schema)
    source = builder.property(*next(iter(mapped.items()))).execute()
    source.append(pa.Table.from_pylist([full, {"id": 2}], schema))
    target = iceberg(tmp_path, source, partitionedBy=["day(at)", "truncate(3, text)", "money"] if partitioned else [])
    by = ["day", "flag"] if partitioned else []
    back = DeltaTable.createLike(None, tmp_path / "back", target, partitionedBy=by, properties=mapped)
    for id_, change in enumerate(("id = 1", "id = 2"), start=3):
        source.publish(target)
        target.publish(back)
        assert row_dicts(source) == row_dicts(target) == row_dicts(back)
        source.update(change, {"big": "coalesce(big, 0) + 1"})
        source.append(pa.Table.from_pylist([{**full, "id": id_}], schema))


def test_a_type_that_cannot_go_over_is_refused_by_name(tmp_path: Path) -> None:
    path = str(tmp_path / "source")
    source = DeltaTable.create(None).location(path).addColumn("id", "long").addColumn("doc", "variant").execute()
    with pytest.raises(Unsupported, match="the column doc is variant"):
        iceberg(tmp_path, source)


def test_a_type_that_delta_does_not_have_is_refused_by_name(tmp_path: Path) -> None:
    inner = Struct((Field("opens", Array(Primitive("time"))),))
    schema = Struct((Field("id", Primitive("long")), Field("s", inner)))
    source = IcebergTable.create(None, tmp_path / "catalog.db", "db.source", schema)
    with pytest.raises(Unsupported, match=r"the column s\.opens is time, which a Delta table cannot have"):
        DeltaTable.createLike(None, tmp_path / "back", source)
    source.append(pa.table({"id": [1]}))
    with pytest.raises(Unsupported, match=r"the column s\.opens is time"):
        source.publish(delta(tmp_path / "other"))
    copy = iceberg(tmp_path, source, "copy")
    source.publish(copy)
    source.update("id = 1", {"id": "2"})
    assert source.publish(copy).updated == 1
    assert row_dicts(copy) == row_dicts(source)


class Meanwhile:
    """Something that happens to the target once, right before a publication is committed."""

    def __init__(self, patch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
        self.stored = 0

        def interrupted(*args: Any) -> Any:
            patch.setattr(publishing, "located", located)
            happens()
            return located(*args)

        def counted(*args: Any) -> Any:
            self.stored += 1
            return brought(*args)

        patch.setattr(publishing, "located", interrupted)
        patch.setattr(publishing, "brought", counted)


@pytest.fixture(params=["iceberg", "delta"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Any]:
    """A table and its copy in the other format, or the other way round, each one version behind."""
    source: Any = delta(tmp_path / "source", *range(6))
    target: Any = iceberg(tmp_path, source)
    source.publish(target)
    if request.param == "delta":
        source, target = target, DeltaTable.createLike(None, tmp_path / "back", target)
        source.publish(target)
    source.update("id = 1", {"v": "'z'"})
    return source, target


def test_of_two_publishers_one_finds_nothing_to_do(pair: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = pair
    Meanwhile(monkeypatch, lambda: source.publish(target))
    assert source.publish(target).version is None
    assert row_dicts(target) == row_dicts(source)


def test_a_publisher_goes_on_from_where_another_came(pair: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = pair
    older = source.version
    source.delete("id = 2")
    Meanwhile(monkeypatch, lambda: source.publish(target, upto=older))
    done = source.publish(target)
    assert (done.inserted, done.updated, done.deleted) == (0, 0, 1)
    assert row_dicts(target) == row_dicts(source)


def test_a_compaction_meanwhile_costs_no_file(pair: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = pair
    source.publish(target)
    source.delete("id = 4")
    meanwhile = Meanwhile(monkeypatch, lambda: target.purge())
    assert source.publish(target).deleted == 1
    assert meanwhile.stored == 1
    assert row_dicts(target) == row_dicts(source)


def test_a_stranger_meanwhile_is_a_conflict(pair: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = pair
    Meanwhile(monkeypatch, lambda: target.append(rows(77)))
    with pytest.raises(Conflict, match="WRITE"):
        source.publish(target)


def test_lost_history_is_told_and_made_up_for(tmp_path: Path) -> None:
    source = delta(tmp_path / "source", *range(6))
    target = iceberg(tmp_path, source)
    source.publish(target)
    source.delete("id = 1")
    source.optimize().executeCompaction()
    source.purge()
    source.setProperties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    source.vacuum(0)
    with pytest.raises(Invalid, match="afresh=True"):
        source.publish(target)
    assert source.publish(target, afresh=True).versions == (0, source.version)
    assert row_dicts(target) == row_dicts(source)
    source.delete("id = 2")
    assert source.publish(target).deleted == 1


def test_rows_that_somebody_gave_other_ids_are_found_out(
    pair: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = pair
    monkeypatch.setattr(type(target.handle.open()), "changed_since", lambda *_: None)
    target.delete("id = 1")
    with pytest.raises(Damaged, match=r"1 rows .* and 0 rows"):
        source.publish(target)


@pytest.mark.parametrize("kind", ["name", "id", "iceberg"])
def test_columns_that_are_no_longer_the_same(tmp_path: Path, kind: str) -> None:
    mapping = {"delta.columnMapping.mode": "name" if kind == "iceberg" else kind}
    source = delta(tmp_path / "source", 1, 2, columnMapping_mode=mapping["delta.columnMapping.mode"])
    target: Any = iceberg(tmp_path, source)
    if kind != "iceberg":
        target = DeltaTable.createLike(None, tmp_path / "copy", source, properties=mapping)
    source.publish(target)
    source.renameColumn("v", "w")
    with pytest.raises(Invalid, match="called w since it was published"):
        source.publish(target)
    target.renameColumn("v", "w")
    source.addColumns({"more": "struct<a: bigint, b: string>"})
    source.append(pa.table({"id": [3], "w": ["x"], "more": [{"a": 1, "b": "b"}]}))
    assert source.publish(target).inserted == 1
    assert row_dicts(target) == row_dicts(source)
    source.dropColumn("w")
    with pytest.raises(Invalid, match=r"does not have \(w\)"):
        source.publish(target)
    source.addColumns({"w": "string"})
    with pytest.raises(Invalid, match=r"the column w .* is another one"):
        source.publish(target)
    assert source.publish(target, afresh=True).inserted == 3
    assert row_dicts(target) == row_dicts(source)


def test_columns_of_an_iceberg_table_come_with_its_snapshots(tmp_path: Path) -> None:
    source = IcebergTable.create(None, tmp_path / "catalog.db", "db.source", SCHEMA)
    source.append(rows(1, 2))
    mapping = {"delta.columnMapping.mode": "name"}
    target = DeltaTable.createLike(None, tmp_path / "copy", source, properties=mapping)
    source.publish(target)
    source.renameColumn("v", "w")
    source.addColumns({"more": "bigint"})
    assert source.publish(target).version is None
    source.append(pa.table({"id": [3], "w": ["x"], "more": [1]}))
    with pytest.raises(Invalid, match="called w since it was published"):
        source.publish(target)
    target.renameColumn("v", "w")
    assert source.publish(target).inserted == 1
    assert row_dicts(target) == row_dicts(source)
    source.dropColumn("more")
    source.addColumns({"more": "bigint"})
    source.append(pa.table({"id": [4], "w": ["x"], "more": [1]}))
    with pytest.raises(Invalid, match=r"the column more .* is another one"):
        source.publish(target)
    source.publish(target, afresh=True)
    assert row_dicts(target) == row_dicts(source)


def test_a_wider_type_is_wider_there_too(tmp_path: Path) -> None:
    builder = DeltaTable.create(None).location(str(tmp_path / "source")).addColumn("n", "int").addColumn("s", "short")
    source = builder.property("delta.enableTypeWidening", "true").execute()
    source.append(pa.table({"n": pa.array([1], pa.int32()), "s": pa.array([1], pa.int16())}))
    target = iceberg(tmp_path, source)
    source.publish(target)
    source.changeColumnType("n", "bigint")
    source.changeColumnType("s", "int")
    source.append(pa.table({"n": pa.array([1 << 40], pa.int64()), "s": pa.array([1 << 20], pa.int32())}))
    assert source.publish(target).inserted == 1
    assert row_dicts(target) == row_dicts(source)
    assert [f["type"] for f in target.handle.newest().metadata.schema_of(None, "")["fields"]] == ["long", "int"]


@examples(50)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=MOST + 30))
def test_versions_find_the_commit_that_brought_them(lengths: list[int]) -> None:
    before: tuple[Stretch, ...] = ()
    last, at = -1, 0
    for n, length in enumerate(lengths):
        last, at = last + length, 10 + 3 * n
        found = Publishing("t", "here", last, before).landed(at)
        assert publication_of(found.rendered(), where="a test") == found
        before = found.stretches
    assert len(before) == min(len(lengths), MOST)
    assert [s.first for s in before] == [0, *(s.last + 1 for s in before[:-1])]
    assert (found.version, found.at(last), found.at(last + 1)) == (last, at, None)
    for stretch in before:
        assert found.at(stretch.first) == found.at(stretch.last) == stretch.at
        assert found.versions(stretch.at) == (stretch.first, stretch.last)
