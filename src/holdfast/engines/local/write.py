"""Writes rows into data files of a table from this process.

1. Rows of a table are written partition by partition, in the order they came; of a stream of batches, batch by batch.
2. Nothing refers to the files yet: an error leaves files nobody knows of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from holdfast.env import Env
from holdfast.model.mutation import STAGED
from holdfast.parquet.write import WriteSpec, file_names, write_batches
from holdfast.storage.location import Location
from holdfast.storage.sink import open_sink


def write_table(location: Location, data: pa.Table | Iterable[pa.RecordBatch], spec: WriteSpec, env: Env) -> pa.Table:
    """Write rows below a table's directory; gives the files, with the columns of STAGED."""
    sink = open_sink(location, env.now_ms)
    names = file_names(0, env.new_uuid, spec.codec)
    written = list(write_batches(_together(data, spec), spec, sink, names))
    return pa.Table.from_batches(written, STAGED)


def _together(data: pa.Table | Iterable[pa.RecordBatch], spec: WriteSpec) -> Iterator[pa.RecordBatch]:
    """Rows of one partition next to each other."""
    keys = [(name, "ascending") for name in spec.partition_columns]
    if isinstance(data, pa.Table):
        yield from (data.sort_by(keys) if keys else data).to_batches()
        return
    for batch in data:
        yield batch.sort_by(keys) if keys else batch
