"""Values that no column can hold: texts that are not UTF-8, times beyond 64 bits, files without a size."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast import DeltaTable, IcebergTable
from holdfast.errors import Damaged
from tests.formats.iceberg.smith import Smith, column

TEXT, NO_TEXT = b"unmistakable", b"\xff\xfemistakable"


def spoil(path: Path) -> None:
    """Overwrite every occurrence of a text by bytes of the same length that are not UTF-8."""
    data = path.read_bytes()
    assert TEXT in data
    path.write_bytes(data.replace(TEXT, NO_TEXT))


def table(root: Path, *, properties: dict[str, str] | None = None) -> DeltaTable:
    columns = pa.schema([("id", pa.int64()), ("s", pa.string())])
    made = DeltaTable.create(None).location(str(root / "t")).addColumns(columns)
    for name, value in {"delta.parquet.compression.codec": "uncompressed", **(properties or {})}.items():
        made = made.property(name, value)
    opened = made.execute()
    opened.append(
        pa.table({"id": range(300), "s": [TEXT.decode() if i == 7 else f"s{i}" for i in range(300)]}, columns)
    )
    return opened


@pytest.mark.parametrize("layout", ["default", "point"])
def test_a_text_of_a_data_file_is_utf_8(tmp_path: Path, layout: str) -> None:
    opened = table(tmp_path, properties={"holdfast.layout": "point"} if layout == "point" else {})
    (data,) = (tmp_path / "t").glob("*.parquet")
    spoil(data)
    fresh = DeltaTable.forPath(None, str(tmp_path / "t"))
    for read in (fresh.toArrow, lambda: fresh.take([7]), lambda: fresh.take([3, 7, 250])):
        with pytest.raises(Damaged, match=r"\.parquet cannot be read as a data file.*UTF8"):
            read()
    assert opened.take([8])["s"].to_pylist() == ["s8"]


def test_rows_of_a_file_whose_size_the_log_does_not_state(tmp_path: Path) -> None:
    opened = table(tmp_path)
    opened.createIndex("id")
    opened.update("id = 3", {"s": "'three'"})  # in a file whose rows carry their ids
    for commit in (tmp_path / "t/_delta_log").glob("*.json"):
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        for add in (line["add"] for line in lines if "add" in line):
            del add["size"]
        commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for checksum in (tmp_path / "t/_delta_log").glob("*.crc"):
        checksum.unlink()
    fresh = DeltaTable.forPath(None, str(tmp_path / "t"))
    assert fresh.toArrow(where="id = 3")["s"].to_pylist() == ["three"]
    assert fresh.lookup(id=[3, 4])["s"].to_pylist() == ["three", "s4"]
    assert fresh.take([3, 4])["s"].to_pylist() == ["three", "s4"]


def test_a_checkpoint_whose_paths_are_no_text_is_read_around(tmp_path: Path) -> None:
    opened = table(tmp_path, properties={"delta.checkpointInterval": "2"})
    opened.append(pa.table({"id": [1000], "s": ["last"]}))
    (checkpoint,) = (tmp_path / "t/_delta_log").glob("*.checkpoint*.parquet")
    actions = pq.read_table(checkpoint)
    adds = actions["add"].combine_chunks()
    fields = {adds.type.field(i).name: adds.field(i) for i in range(adds.type.num_fields)}
    paths = [None if path is None else path.encode() + b"\xff" for path in fields["path"].to_pylist()]
    fields["path"] = pa.array(paths, pa.binary()).view(pa.string())
    spoilt = pa.StructArray.from_arrays(list(fields.values()), list(fields), mask=adds.is_null())
    at = actions.column_names.index("add")
    pq.write_table(actions.set_column(at, "add", spoilt), checkpoint)
    assert DeltaTable.forPath(None, str(tmp_path / "t")).toArrow().num_rows == 301


def test_times_of_iceberg_metadata_fit_64_bits(tmp_path: Path) -> None:
    smith = Smith(str(tmp_path / "t"), [column(1, "id")])
    smith.commit([smith.data({"id": [1, 2]})])
    metadata = Path(smith.metadata())
    text = json.loads(metadata.read_text())
    text["snapshots"][0]["timestamp-ms"] = 2**70
    metadata.write_text(json.dumps(text))
    with pytest.raises(Damaged, match="9223372036854775807"):
        IcebergTable.forMetadata(None, str(metadata)).historyArrow()
