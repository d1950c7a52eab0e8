"""Writing tables of other engines that have IcebergCompat or shredded variants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast import DeltaTable
from holdfast.errors import Invalid, Unsupported
from holdfast.formats.delta.log.file_names import commit_name

SCHEMA = pa.schema([("p", pa.string()), ("id", pa.int64()), ("l", pa.list_(pa.int32()))])


def rows(*ids: int) -> pa.Table:
    return pa.table({"p": ["ab"[n % 2] for n in ids], "id": list(ids), "l": [[n] for n in ids]}, SCHEMA)


def promised(place: Path, version: int, *, active: bool = True, **properties: str) -> DeltaTable:
    """A table with a feature that Holdfast does not turn on, as another engine leaves it."""
    builder = DeltaTable.create(None).location(place).addColumns(SCHEMA).partitionedBy("p")
    properties = {
        "delta.columnMapping.mode": "name",
        "delta.enableDeletionVectors": str(version == 3).lower(),
        **properties,
    }
    for name, value in properties.items():
        builder = builder.property(name, value)
    builder.execute()
    log = place / "_delta_log"
    (first,) = [json.loads(line) for line in (log / commit_name(0)).read_text().splitlines() if '"metaData"' in line]
    (protocol,) = [json.loads(line) for line in (log / commit_name(0)).read_text().splitlines() if '"protocol"' in line]
    metadata: dict[str, Any] = first["metaData"]
    metadata["configuration"][f"delta.enableIcebergCompatV{version}"] = str(active).lower()
    schema = json.loads(metadata["schemaString"])
    for f in schema["fields"]:
        if f["name"] == "l":
            physical = f["metadata"]["delta.columnMapping.physicalName"]
            f["metadata"]["delta.columnMapping.nested.ids"] = {f"{physical}.element": 9}
    metadata["schemaString"] = json.dumps(schema)
    features = protocol["protocol"]
    features["minWriterVersion"] = 7
    supported = {*features.get("writerFeatures", ()), "columnMapping", f"icebergCompatV{version}"}
    features["writerFeatures"] = sorted(supported - ({"deletionVectors"} if version < 3 else set()))
    lines = [{"commitInfo": {"operation": "UPGRADE"}}, protocol, first]
    (log / commit_name(1)).write_text("\n".join(map(json.dumps, lines)))
    return DeltaTable.forPath(None, place)


def data_files(table: DeltaTable) -> list[pq.FileMetaData]:
    root = Path(table.handle.newest().snapshot.location.url.removeprefix("file://"))
    return [pq.read_metadata(root / key) for key in table.handle.newest().snapshot.files.column("key").to_pylist()]


def field_ids(footer: pq.FileMetaData) -> dict[str, int]:
    ids = {}

    def walk(fields: Any) -> None:
        for f in fields:
            ids[f.name] = int((f.metadata or {}).get(b"PARQUET:field_id", -1))
            walk([f.type.field(i) for i in range(f.type.num_fields)])

    walk(footer.schema.to_arrow_schema())
    return ids


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rows_are_written_as_promised(tmp_path: Path, version: int) -> None:
    tracking = {"delta.enableRowTracking": "true"} if version == 3 else {}
    table = promised(tmp_path / "t", version, **tracking)
    table.append(rows(1, 2, 3, 4))
    table.delete("id = 1")
    table.update("id = 2", {"id": "20"})
    merge = table.alias("t").merge(rows(4, 5), "t.id = s.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    table.optimize().executeCompaction()
    expected = [(3, "b", [3]), (4, "a", [4]), (5, "b", [5]), (20, "a", [2])]
    assert [(r["id"], r["p"], r["l"]) for r in table.toArrow().sort_by("id").to_pylist()] == expected
    state = table.handle.newest()
    partition = state.snapshot.schema.fields[0]
    for footer in data_files(table):
        own = [f.name for f in footer.schema.to_arrow_schema()]
        assert own.index(partition.physical_name) == 2, "behind the other columns"
        assert field_ids(footer)["element"] == 9
        carried = {n: i for n, i in field_ids(footer).items() if n.startswith("_row-")}
        assert set(carried.values()) <= ({2147483540, 2147483539} if version == 3 else {-1})
    files = state.snapshot.files
    assert files.num_records.null_count == 0
    if version < 3:
        assert files.column("dv").null_count == len(files)
    assert table.check().clean


@pytest.mark.parametrize("version", [2, 3])
def test_what_would_break_the_promise_is_refused_until_it_ends(tmp_path: Path, version: int) -> None:
    tracking = {"delta.enableRowTracking": "true"} if version == 3 else {}
    table = promised(tmp_path / "t", version, **{"delta.universalFormat.enabledFormats": "iceberg"}, **tracking)
    table.append(rows(1, 2))
    table.append(rows(3))
    message = f"promises icebergCompatV{version}"
    more = rows(4).append_column("m", pa.array([{"k": 1}], pa.struct([("k", pa.int32())])))
    for break_it in (
        lambda: table.append(more, mergeSchema=True),
        lambda: table.addColumns([("n", "int")]),
        lambda: table.dropColumn("l"),
        lambda: table.overwrite(rows(4).select(["p", "id"]), overwriteSchema=True),
        lambda: table.setProperties({"delta.enableChangeDataFeed": "true"}),
        lambda: table.setProperties({"delta.columnMapping.mode": "id"}),
    ):
        with pytest.raises((Unsupported, Invalid), match=f"{message}|columnMapping"):
            break_it()
    table.overwrite(rows(9))
    with pytest.raises(Unsupported, match=rf"{message}.*files of an earlier version.*universalFormat.enabledFormats"):
        table.restoreToVersion(2)
    table.setProperties({"mine": "x", f"delta.enableIcebergCompatV{version}": "true"})
    table.unsetProperties([f"delta.enableIcebergCompatV{version}", "delta.universalFormat.enabledFormats"])
    table.addColumns([("n", "int")])
    table.restoreToVersion(2)
    assert sorted(table.toArrow()["id"].to_pylist()) == [1, 2]


def test_a_promise_that_is_not_active_asks_nothing(tmp_path: Path) -> None:
    table = promised(tmp_path / "t", 2, active=False)
    table.append(rows(1, 2))
    table.addColumns([("n", "int")])
    assert all(footer.num_columns == 2 for footer in data_files(table)), "partition columns are not stored"


def test_shredded_tables_are_written_without_shredding(tmp_path: Path) -> None:
    place = tmp_path / "t"
    DeltaTable.create(None).location(place).addColumn("id", "bigint").addColumn("v", "variant").execute()
    log = place / "_delta_log"
    first = [json.loads(line) for line in (log / commit_name(0)).read_text().splitlines()]
    protocol = next(line for line in first if "protocol" in line)
    metadata = next(line for line in first if "metaData" in line)
    for side in ("readerFeatures", "writerFeatures"):
        protocol["protocol"][side] = sorted({*protocol["protocol"][side], "variantShredding"})
    metadata["metaData"]["configuration"]["delta.enableVariantShredding"] = "true"
    (log / commit_name(1)).write_text("\n".join(map(json.dumps, [{"commitInfo": {}}, protocol, metadata])))
    table = DeltaTable.forPath(None, place)
    table.append(pa.table({"id": [1]}))
    five = pa.array([{"value": b"\x0c\x05", "metadata": b"\x01\x00\x00"}], table.toArrow().schema.field("v").type)
    table.append(pa.table({"id": [2], "v": five}))
    table.update("id = 1", {"id": "10"})
    assert table.toArrow().sort_by("id").to_pylist() == [
        {"id": 2, "v": {"value": b"\x0c\x05", "metadata": b"\x01\x00\x00"}},
        {"id": 10, "v": None},
    ]
