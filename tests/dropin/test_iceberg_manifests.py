"""SQL and frames of the drop-in read only those manifests of an Iceberg table that a condition allows."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast import IcebergTable
from holdfast.errors import TableError

MANIFESTS = 1_000


def in_many_manifests(spark: SparkSession, folder: Path) -> IcebergTable:
    """A table of two manifests and of 998 that are not there, of other partitions: who reads one of those fails."""
    table = IcebergTable.create(
        None, folder / "c.db", "db.t", "part long, v string", partitionedBy=["part"], location=folder / "t"
    )
    for part in range(2):
        table.append(pa.table({"part": pa.array([part, part], pa.int64()), "v": ["a", "b"]}))
    entry = table.handle.newest().entry
    assert entry is not None
    path = Path(str(entry.manifest_list).removeprefix("file://"))
    reader = fastavro.reader(io.BytesIO(path.read_bytes()))
    assert reader.writer_schema is not None
    manifests = [dict(row) for row in reader if isinstance(row, dict)]
    for part in range(2, MANIFESTS):
        bound = struct.pack("<q", part)
        place = {**manifests[0]["partitions"][0], "lower_bound": bound, "upper_bound": bound}
        manifests.append({**manifests[0], "manifest_path": f"{folder}/t/metadata/{part}.avro", "partitions": [place]})
    out = io.BytesIO()
    fastavro.writer(out, reader.writer_schema, manifests, metadata={k: str(v) for k, v in reader.metadata.items()})
    path.write_bytes(out.getvalue())
    return IcebergTable.load(spark, folder / "c.db", "db.t")


def test_a_condition_leaves_manifests_unread(spark: SparkSession, tmp_path: Path) -> None:
    table = in_many_manifests(spark, tmp_path)
    assert len(table.handle.newest().contents.manifests) == MANIFESTS
    with holdfast.enable(spark) as on:
        on.register("many", table)
        asked = [
            spark.sql("SELECT v FROM many WHERE part = 1"),
            spark.sql("WITH m AS (SELECT * FROM many) SELECT m.v FROM m WHERE m.part BETWEEN 1 AND 1"),
            spark.table("many").where("part = 1").select("v"),
            spark.table("many").filter(F.col("part") == 1).select("v"),
        ]
        for frame in asked:
            assert sorted(row.v for row in frame.collect()) == ["a", "b"]
        assert table.lookup(part=1)["v"].to_pylist() == ["a", "b"]
        assert len(table.handle.state.contents.read) == 1, "one of a thousand"
        with pytest.raises(TableError):
            spark.sql("SELECT v FROM many WHERE v = 'a'").collect()
