"""The plain reader as the judge of rows taken by position."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from holdfast.parquet.pages.take import Pick, Taking
from holdfast.parquet.read import FileTask, ReadSpec, output_schema, read_batches
from holdfast.schema.from_arrow import struct_of
from holdfast.schema.types import Struct
from holdfast.storage.base import ObjectStore


def stored(table: pa.Table, **options: Any) -> bytes:
    """A Parquet file with an index of its pages."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **{"write_page_index": True, **options})
    return sink.getvalue()


def spec_of(schema: Struct | pa.Schema, **more: Any) -> ReadSpec:
    """All columns, and where each row lies."""
    fields = schema.fields if isinstance(schema, Struct) else struct_of(schema).fields
    return ReadSpec(fields=fields, **{"metadata": {"_row_index": "at"}, **more})


def expected(data: bytes, spec: ReadSpec, task: FileTask, positions: NDArray[np.int64]) -> pa.Table:
    """The same rows by the plain reader."""
    whole = pa.Table.from_batches(list(read_batches(pa.BufferReader(data), spec, task)), schema=output_schema(spec))
    return whole.take(pa.array(positions))


def taken(
    store: ObjectStore, data: bytes, spec: ReadSpec, positions: NDArray[np.int64], *, key: str, task: FileTask
) -> pa.Table:
    """Rows of a file that is put into a store first."""
    store.put(key, data)
    got = Taking(spec).rows([Pick(store, key, task, positions)])
    got.validate(full=True)
    return got
