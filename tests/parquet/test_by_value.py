"""The reader travels to workers that have no Holdfast."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64
from pyspark import cloudpickle

import holdfast
from holdfast.parquet.read import FileTask, ReadSpec, read_batches
from holdfast.parquet.source import open_source
from holdfast.schema.types import Array, Decimal, Field, Primitive
from holdfast.storage.local import LocalStore

WORKER = """
import pickle, sys
sys.modules["holdfast"] = None  # importing it fails
read, open_source, store, key, spec, task = pickle.load(open(sys.argv[1], "rb"))
print([row for batch in read(open_source(store, key, None), spec, task) for row in batch.to_pylist()])
"""


def test_a_worker_without_holdfast_reads_a_file(tmp_path: Path) -> None:
    binary = pa.binary()
    field = pa.struct([("value", binary), ("typed_value", pa.int64())])
    shredded = pa.struct([("metadata", binary), ("value", binary), ("typed_value", pa.struct([("a", field)]))])
    variant = {"metadata": b"\x01\x01\x00\x01a", "value": None, "typed_value": {"a": {"value": None, "typed_value": 1}}}
    table = pa.table(
        {
            "v": pa.array([variant] * 3, shredded),
            "n": pa.array([[1], None, [2]], pa.list_(pa.int32())),
            "t": pa.array([-2 * 10**16] * 3, pa.timestamp("us", "UTC")),
        }
    ).replace_schema_metadata({"org.apache.spark.legacyDateTime": "", "org.apache.spark.timeZone": "UTC"})
    sink = io.BytesIO()
    pq.write_table(table, sink)
    (tmp_path / "data").write_bytes(sink.getvalue())
    fields = (
        Field("v", Primitive("variant")),
        Field("n", Array(Decimal(12, 1))),
        Field("t", Primitive("timestamp")),
        Field("p", Primitive("integer")),
        Field("missing", Primitive("string")),
    )
    spec = ReadSpec(fields, fields[3:4], metadata={"_row_id": "_row_id", "_partition": "_partition", "_file": "_file"})
    task = FileTask("file:/x", {"p": pa.scalar(4, pa.int32())}, BitMap64([1]).serialize(), 10, 1)
    key = str(tmp_path / "data")[1:]
    cloudpickle.register_pickle_by_value(holdfast)
    pickled = cloudpickle.dumps((read_batches, open_source, LocalStore(), key, spec, task))
    (tmp_path / "task").write_bytes(pickled)
    done = subprocess.run([sys.executable, "-c", WORKER, str(tmp_path / "task")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    here = [
        row for batch in read_batches(open_source(LocalStore(), key, None), spec, task) for row in batch.to_pylist()
    ]
    assert done.stdout.strip() == str(here)
    assert [row["_row_id"] for row in here] == [10, 12]
