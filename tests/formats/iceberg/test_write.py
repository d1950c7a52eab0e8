"""Written Iceberg tables, read by other engines: evolved specs, nested columns, lineage, clean-up."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType

from holdfast import IcebergTable
from holdfast.errors import Invalid, Unsupported
from tests.support.gateway import address
from tests.support.iceberg_peers import duckdb_connection

NESTED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("s", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.string())])))])),
        ("m", pa.map_(pa.string(), pa.list_(pa.int64()))),
        ("d", pa.decimal128(9, 2)),
        ("t", pa.timestamp("us", "UTC")),
    ]
)


def opened(tmp_path: Path) -> Catalog:
    return load_catalog("c", type="sql", uri=f"sqlite:///{tmp_path}/cat.db", warehouse=address(tmp_path))


def nested(*ids: int) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "id": i,
                "s": {"a": i, "b": [{"c": f"x{i}"}, None]} if i % 2 else None,
                "m": [("k", [i, None])],
                "d": None if i == 3 else decimal.Decimal("1.25"),
                "t": datetime.datetime(2024, 1, 1 + i, tzinfo=datetime.UTC),
            }
            for i in ids
        ],
        NESTED,
    )


def duck(table: IcebergTable, columns: str = "*") -> list[dict[str, Any]]:
    path = table.handle.newest().metadata_path.removeprefix("file://")
    found = duckdb_connection().execute(f"select {columns} from iceberg_scan('{path}') order by id")
    rows: list[dict[str, Any]] = found.to_arrow_table().to_pylist()
    return rows


def data_files(table: IcebergTable) -> list[str]:
    return sorted(
        path.removeprefix("file://") for path in table.handle.newest().snapshot.files.column("path").to_pylist()
    )


@pytest.mark.parametrize("version", [2, 3])
def test_field_ids_are_at_every_depth(tmp_path: Path, version: int) -> None:
    table = IcebergTable.create(
        None, tmp_path / "c.db", "db.t", NESTED, partitionedBy=["day(t)"], formatVersion=version
    )
    table.append(nested(1, 2, 3))
    table.update("id = 2", {"d": "3.5"})
    assert duck(table) == table.toArrow().sort_by("id").to_pylist()
    for path in data_files(table):
        shown = str(pq.ParquetFile(path).schema_arrow)
        assert "field_id" in str(pq.read_schema(path).field("id").metadata)
        leaves = pq.ParquetFile(path).metadata.schema
        assert len(leaves) == shown.count("PARQUET:field_id") - _groups(pq.read_schema(path))


def _groups(schema: pa.Schema) -> int:
    """Fields that are no leaf, each of which has an id too."""

    def count(type_: pa.DataType) -> int:
        if pa.types.is_struct(type_):
            return 1 + sum(count(f.type) for f in type_.fields)
        if pa.types.is_list(type_):
            return 1 + count(type_.value_type)
        if pa.types.is_map(type_):
            return 1 + count(type_.key_type) + count(type_.item_type)
        return 0

    return sum(count(f.type) for f in schema)


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_are_of_the_spec_of_their_files(tmp_path: Path, version: int) -> None:
    catalog = opened(tmp_path)
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("kind", pa.string())])
    made = IcebergTable.create(None, catalog, "db.t", schema, partitionedBy=["kind"], formatVersion=2)
    day = datetime.date(2024, 5, 1)

    def rows(*ids: int) -> pa.Table:
        return pa.table({"id": list(ids), "day": [day] * len(ids), "kind": ["a", "b"] * (len(ids) // 2)}, schema)

    made.append(rows(0, 1, 2, 3))
    with catalog.load_table("db.t").update_spec() as update:
        update.remove_field("kind")
        update.add_field("day", DayTransform(), "day_day")
    table = IcebergTable.load(None, catalog, "db.t")
    table.append(rows(4, 5, 6, 7))
    if version == 3:
        assert table.upgrade() == 3
    table.delete("id in (1, 2, 5)", mode="merge-on-read")
    table.delete("id = 6", mode="merge-on-read")
    deletes = table.handle.newest().contents.deletes
    assert sorted(deletes.table["spec_id"].to_pylist()) == [0, 0, 1]
    assert [row["id"] for row in duck(table)] == [0, 3, 4, 7]
    table.update("id = 0", {"kind": "'z'"}, mode="merge-on-read")
    assert [(row["id"], row["kind"]) for row in duck(table)] == [(0, "z"), (3, "b"), (4, "a"), (7, "b")]
    found = table.toArrow(metadata=["_spec_id", "_partition"]).sort_by("id").to_pylist()
    assert [row["_spec_id"] for row in found] == [1, 0, 1, 1]
    assert found[0]["_partition"] == {"kind": None, "day_day": day}


@pytest.mark.parametrize("version", [2, 3])
def test_what_pyiceberg_wrote_is_changed(tmp_path: Path, version: int) -> None:
    catalog = opened(tmp_path)
    catalog.create_namespace("db")
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    theirs = catalog.create_table("db.t", schema)
    theirs.append(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}))
    theirs.append(pa.table({"id": [4, 5], "v": ["d", "e"]}))
    table = IcebergTable.load(None, catalog, "db.t")
    if version == 3:
        table.setProperties({"format-version": "3"})
    source = pa.table({"id": [2, 9], "v": ["m", "n"]}, schema)
    merge = table.alias("t").merge(source, "t.id = s.id", mode="merge-on-read").whenMatchedUpdateAll()
    merge.whenNotMatchedInsertAll().execute()
    table.delete("id = 4")
    assert [(r["id"], r["v"]) for r in duck(table)] == [(1, "a"), (2, "m"), (3, "c"), (5, "e"), (9, "n")]
    if version == 2:
        theirs = catalog.load_table("db.t")
        theirs.append(pa.table({"id": [10], "v": ["z"]}))
        assert sorted(theirs.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 5, 9, 10]
        assert len(table.toArrow()) == 6


def test_one_vector_per_file_that_holds_all_positions(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", schema, formatVersion=2)
    table.append(pa.table({"id": list(range(10))}, schema))
    table.delete("id = 1", mode="merge-on-read")
    assert table.handle.newest().contents.deletes.positions.num_rows == 1
    table.upgrade()
    table.delete("id = 2", mode="merge-on-read")
    deletes = table.handle.newest().contents.deletes
    assert (deletes.positions.num_rows, deletes.vectors.num_rows) == (0, 1)
    assert deletes.vectors["record_count"].to_pylist() == [2]
    table.delete("id in (3, 4)", mode="merge-on-read")
    deletes = table.handle.newest().contents.deletes
    assert deletes.vectors["record_count"].to_pylist() == [4]
    summary = table.handle.newest().entry.summary  # type: ignore[union-attr]
    assert (summary["added-dvs"], summary["removed-dvs"], summary["total-delete-files"]) == ("1", "1", "1")
    table.delete("id >= 5", mode="merge-on-read")
    table.delete(None, mode="merge-on-read")
    assert (
        len(table.toArrow()),
        len(table.handle.newest().snapshot.files),
        len(table.handle.newest().contents.deletes),
    ) == (0, 0, 0)


def test_compaction_keeps_lineage_and_drops_deletes(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", schema, partitionedBy=["p"])
    for start in (0, 4, 8):
        table.append(pa.table({"id": list(range(start, start + 4)), "p": ["a", "b"] * 2}, schema))
    table.delete("id in (0, 1)", mode="merge-on-read")
    table.update("id = 5", {"id": "50"}, mode="merge-on-read")
    columns = "id, _row_id, _last_updated_sequence_number"
    before = duck(table, columns)
    done = table.optimize().executeCompaction()
    assert (len(done.versions), done.bins) == (1, 2), "one commit for both partitions"
    assert duck(table, columns) == before
    assert len(table.handle.newest().snapshot.files) == 2
    assert not len(table.handle.newest().contents.deletes)
    assert table.historyArrow()["operation"].to_pylist()[:2] == ["replace", "overwrite"]
    assert table.optimize().executeCompaction().versions == ()
    done = table.optimize().executeZOrderBy("id")
    assert (len(done.versions), done.bins) == (1, 2), "and so where rows are put in order"
    assert duck(table, columns) == before


def test_a_purge_goes_by_the_size_that_the_table_wants(tmp_path: Path) -> None:
    for size, files in ((None, 1), ("400", 2)):
        own = {} if size is None else {"write.target-file-size-bytes": size}
        table = IcebergTable.create(None, tmp_path / "c.db", f"db.t{size}", "id long", properties=own)
        for first in (0, 3):
            table.append(pa.table({"id": pa.array(range(first, first + 3), pa.int64())}))
        table.delete("id in (0, 3)", mode="merge-on-read")
        table.purge()
        assert len(table.handle.newest().snapshot.files) == files


def test_overwrites(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", schema)
    table.append(pa.table({"id": [1, 2, 3], "v": ["a"] * 3}, schema))
    kept = table.toArrow(where="id = 1", metadata=["_row_id"])["_row_id"].to_pylist()
    table.overwrite(pa.table({"id": [20], "v": ["b"]}, schema), replaceWhere="id > 1 AND id < 100")
    assert [(r["id"], r["v"]) for r in duck(table)] == [(1, "a"), (20, "b")]
    assert table.toArrow(where="id = 1", metadata=["_row_id"])["_row_id"].to_pylist() == kept
    table.overwrite(pa.table({"id": [7], "v": ["c"]}, schema))
    assert [r["id"] for r in duck(table)] == [7]
    assert len(table.toArrow(version=int(table.historyArrow()["version"][1].as_py()))) == 2


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", schema)
    with pytest.raises(Invalid, match="already"):
        IcebergTable.create(None, tmp_path / "c.db", "db.t", schema)
    with pytest.raises(Invalid, match="no way to partition"):
        IcebergTable.create(None, tmp_path / "c.db", "db.u", schema, partitionedBy=["weekday(id)"])
    with pytest.raises(Invalid, match="no column"):
        IcebergTable.create(None, tmp_path / "c.db", "db.u", schema, partitionedBy=["x"])
    with pytest.raises(Invalid, match="metadata file"):
        IcebergTable.forMetadata(None, table.handle.newest().metadata_path).append(pa.table({"id": [1]}))
    with pytest.raises(Invalid, match="mode is one of"):
        table.delete("id = 1", mode="quickly")
    with pytest.raises(Invalid, match="cannot become 2"):
        table.upgrade(2)
    table.setProperties({"write.format.default": "orc"})
    with pytest.raises(Unsupported, match="orc"):
        table.append(pa.table({"id": [1]}))
    table.unsetProperties(["write.format.default"])
    table.append(pa.table({"id": [1]}))
    assert json.loads(Path(table.handle.newest().metadata_path.removeprefix("file://")).read_text())["next-row-id"] == 1


def test_a_column_that_was_renamed_and_one_that_was_added(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    table = IcebergTable.create(None, catalog, "db.t", schema, formatVersion=2, partitionedBy=["v"])
    table.append(pa.table({"id": [1, 2], "v": ["a", "b"]}, schema))
    with catalog.load_table("db.t").update_schema() as update:
        update.rename_column("v", "w")
        update.add_column("n", IntegerType())
    with catalog.load_table("db.t").update_spec() as update:
        update.add_field("id", IdentityTransform(), "id_part")
    table.update("w = 'a'", {"n": "7"}, mode="copy-on-write")
    table.append(pa.table({"id": [3], "w": ["c"], "n": pa.array([1], pa.int32())}))
    assert [(r["id"], r["w"], r["n"]) for r in duck(table)] == [(1, "a", 7), (2, "b", None), (3, "c", 1)]


def test_a_delete_by_bounds_leaves_nan_alone(tmp_path: Path) -> None:
    """Bounds say nothing of NaN, which is larger than every number: a file is not gone because its bounds are."""
    catalog = opened(tmp_path)
    catalog.create_namespace("db")
    theirs = catalog.create_table("db.t", pa.schema([("id", pa.int64()), ("x", pa.float64())]))
    theirs.append(pa.table({"id": [1, 2, 3], "x": [1.0, float("nan"), 3.0]}))
    table = IcebergTable.load(None, catalog, "db.t")
    assert table.toArrow(where="x > 100")["id"].to_pylist() == [2]
    table.delete("x <= 5")
    assert table.toArrow()["id"].to_pylist() == [2]


def test_small_manifests_are_written_together(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    few = {"commit.manifest.min-count-to-merge": "3"}
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", schema, partitionedBy=["p"], properties=few)
    columns, seen = "id, _row_id, _last_updated_sequence_number", dict[int, dict[str, Any]]()
    for at in range(8):
        table.append(pa.table({"id": [at, at + 100], "p": ["a", None]}, schema))
        assert len(table.handle.newest().contents.manifests) <= 4
        now = {row["id"]: row for row in duck(table, columns)}
        assert len(now) == 2 * at + 2
        assert {i: now[i] for i in seen} == seen
        seen = now


def test_directories_are_spelled_as_other_writers_spell_them(tmp_path: Path) -> None:
    kinds = [None, "a", "b/ä %2F=+", "null"]
    schema = pa.schema([("id", pa.int64()), ("the kind", pa.string())])
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", schema, partitionedBy=["`the kind`"])
    table.append(pa.table({"id": range(len(kinds)), "the kind": kinds}, schema))
    theirs = load_catalog("holdfast", type="sql", uri=f"sqlite:///{tmp_path}/c.db").load_table("db.t")
    spelled = {theirs.spec().partition_to_path(Record(kind), theirs.schema()) for kind in kinds}
    assert {Path(path).parent.name for path in data_files(table)} == spelled
    assert sorted(row["the kind"] or "" for row in duck(table)) == sorted(kind or "" for kind in kinds)
