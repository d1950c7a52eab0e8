"""What the log knows of each file, brought to the file's rows.

Rows meet their file's facts in one broadcast join on the hash of the file's path, which Spark computes and this
module repeats (XXH64 with seed 42). Hidden rows travel in it as bits: an array of chunks of 64Ki rows, each an array
of words, so that asking for a bit is two look-ups and no chunk without a hidden row takes space.

1. Keys are distinct, checked here; two paths with one hash are refused, never mixed up.
2. A row whose file has no facts raises, in Spark: a path spelt otherwise than expected never hides or shows a row.
3. The filter of hidden rows is a barrier: no condition runs before it on a row that it hides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray
from pyroaring import BitMap64
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from holdfast.errors import LimitReached
from holdfast.rows.words import words
from holdfast.schema.types import LONG, Array, DataType, Field
from holdfast.spark.types import spark_struct

KEY = "__hf_key"
BASE = "__hf_base"
VERSION = "__hf_version"
CHUNKS = "__hf_chunks"
PATH = "__hf_path"
INDEX = "__hf_index"
_SPARK_SEED = 42


def facts_table(
    uris: Sequence[str],
    *,
    base: pa.Array | None = None,
    version: pa.Array | None = None,
    partition: Mapping[str, pa.Array] | None = None,
    hidden: Sequence[BitMap64 | None] | None = None,
) -> pa.Table:
    """One row per file: its key, and those facts that are asked for."""
    columns: dict[str, pa.Array] = {KEY: pa.array(_keys(uris))}
    if base is not None:
        columns[BASE] = base
    if version is not None:
        columns[VERSION] = version
    columns |= partition or {}
    if hidden is not None:
        columns[CHUNKS] = _chunks(hidden)
    return pa.table(columns)


def facts_schema(table: pa.Table, partition: Mapping[str, DataType]) -> StructType:
    """The Spark type of a facts table; `partition` gives the types of its partition values."""
    types = {KEY: LONG, BASE: LONG, VERSION: LONG, CHUNKS: Array(Array(LONG)), **partition}
    return spark_struct([Field(name, types[name]) for name in table.column_names])


def join_key() -> Column:
    """The key of a row's file, as `facts_table` makes it."""
    return F.xxhash64(F.col(PATH))


def known(value: Column) -> Column:
    """A fact of a row's file; raises where the file has none."""
    missing = F.concat(F.lit("Holdfast has no facts for the file "), F.col(PATH))
    return F.when(F.col(KEY).isNull(), F.raise_error(missing)).otherwise(value)


def barrier() -> Column:
    """Always true, and not deterministic: Spark moves no condition from above to below it."""
    return F.spark_partition_id() >= 0


def is_live() -> Column:
    """Whether a row is not hidden; a barrier as well."""
    index = F.col(INDEX)
    chunk = F.get(F.col(CHUNKS), F.shiftright(index, 16).cast("int"))
    word = F.get(chunk, F.shiftright(index.bitwiseAND(F.lit(0xFFFF)), 6).cast("int"))
    hidden = F.coalesce(F.getbit(word, index.bitwiseAND(F.lit(63)).cast("int")), F.lit(0))
    return known(hidden == 0) & barrier()


def _keys(uris: Sequence[str]) -> NDArray[np.int64]:
    keys = np.fromiter((xxhash.xxh64_intdigest(uri.encode(), _SPARK_SEED) for uri in uris), np.uint64, len(uris))
    if len(np.unique(keys)) != len(keys):
        raise LimitReached("two files of the table have paths with the same hash; compact one of them to read it")
    return keys.view(np.int64)


def _chunks(hidden: Sequence[BitMap64 | None]) -> pa.Array:
    """Per file an array of chunks, null where a chunk hides nothing; null for a file that hides nothing."""
    files, chunks, numbers = [0], [0], []
    present: list[bool] = []
    for bitmap in hidden:
        at = 0
        for number, bits in words(bitmap) if bitmap else ():
            gap = number - at
            present += [False] * gap + [True]
            chunks += [chunks[-1]] * gap
            chunks.append(chunks[-1] + len(bits))
            numbers.append(bits)
            at = number + 1
        files.append(len(present))
    flat = np.concatenate(numbers) if numbers else np.zeros(0, np.int64)
    inner = pa.ListArray.from_arrays(
        pa.array(chunks, pa.int32()), pa.array(flat), mask=pa.array([not p for p in present], pa.bool_())
    )
    return pa.ListArray.from_arrays(pa.array(files, pa.int32()), inner)
