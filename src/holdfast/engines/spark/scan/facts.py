"""Joins facts about files, such as base row ids and deletion vectors, to the files' rows.

A row knows its file by a key: its number in a numbered list, or the hash of its path, which Spark computes and this
module repeats (XXH64 with seed 42). Facts that are one number per file are looked up in an array by file number;
everything else comes by one broadcast join on the key. Hidden rows travel as bits: per file an array of chunks of
64Ki rows, each an array of words, so that asking for a bit is two look-ups and a chunk without hidden rows takes no
space.

1. Keys are distinct, checked here; two paths with one hash are refused, never mixed up.
2. A row whose file has no facts raises, in Spark: a file known otherwise than expected never hides or shows a row.
3. The filter of hidden rows is a barrier: no condition runs before it on a row that it hides.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray
from pyroaring import BitMap64
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from holdfast.engines.spark.types import spark_struct
from holdfast.errors import LimitReached
from holdfast.rows.distinct import distinct
from holdfast.rows.words import words
from holdfast.schema.types import LONG, Array, DataType, Field

KEY = "__hf_key"
BASE = "__hf_base"
VERSION = "__hf_version"
PLACE = "__hf_place"  # number of the file in its plan
SHOWN = "__hf_shown"  # what a file is called where that is not Spark's own spelling
SPEC = "__hf_spec"
SIZE = "__hf_size"
MODIFIED = "__hf_modified"
BLOCK_START = "__hf_block_start"  # where the part of a file begins that a task reads
BLOCK_LENGTH = "__hf_block_length"
SEQUENCE = "__hf_sequence"
GROUP = "__hf_group"
GONE = "__hf_gone"  # flag of a row that is gone by its values, where it is told of and not taken out
CHUNKS = "__hf_chunks"
PATH = "__hf_path"
NUMBER = "__hf_number"
INDEX = "__hf_index"
STORED_INDEX = "_tmp_metadata_row_index"  # a column of this name in a read schema is filled with row positions
_SPARK_SEED = 42

# Expressions are written as SQL: each call of a function of PySpark's costs some trips to the JVM.
_BARRIER = "spark_partition_id() >= 0"
_POSITION = (
    f"coalesce({INDEX}, cast(raise_error('Spark gave no row positions; this version of it cannot be used to read the "
    "table') AS bigint))"
)


def facts_table(
    keys: NDArray[np.int64],
    *,
    base: pa.Array | None = None,
    version: pa.Array | None = None,
    place: pa.Array | None = None,
    more: Mapping[str, pa.Array] | None = None,
    hidden: Sequence[BitMap64 | None] | None = None,
) -> pa.Table:
    """One row per file: its key, and those facts that are asked for."""
    columns: dict[str, pa.Array] = {KEY: pa.array(keys)}
    if base is not None:
        columns[BASE] = base
    if version is not None:
        columns[VERSION] = version
    if place is not None:
        columns[PLACE] = place
    columns |= more or {}
    if hidden is not None:
        columns[CHUNKS] = _chunks(hidden)
    return pa.table(columns)


def facts_schema(table: pa.Table, more: Mapping[str, DataType]) -> StructType:
    """The Spark type of a facts table; `more` gives the types of what is particular to a scan."""
    types = {KEY: LONG, BASE: LONG, VERSION: LONG, PLACE: LONG, CHUNKS: Array(Array(LONG)), **more}
    return spark_struct([Field(name, types[name]) for name in table.column_names])


def row_key(*, numbered: bool) -> Column:
    """The key of a row's file."""
    return F.expr(NUMBER if numbered else f"xxhash64({PATH})")


def known(name: str, *, numbered: bool) -> Column:
    """A joined fact of a row's file; raises where the file has none."""
    return F.expr(f"CASE WHEN {KEY} IS NULL THEN {_unknown(numbered)} ELSE {name} END")


def by_number(values: pa.Array) -> Column:
    """A fact that is one number per file, in the order of the list; raises where the file has none."""
    array = f"from_json('{json.dumps(values.to_pylist())}', 'array<bigint>')"  # one per file; folded when planned
    return F.expr(
        f"CASE WHEN {NUMBER} >= 0 AND {NUMBER} < {len(values)} THEN get({array}, cast({NUMBER} AS int)) "
        f"ELSE cast({_unknown(True)} AS bigint) END"
    )


def position() -> Column:
    """The physical position of a row in its file; raises where Spark gave none."""
    return F.expr(_POSITION)


def barrier() -> Column:
    """Always true, and not deterministic: Spark moves no condition from above to below it."""
    return F.expr(_BARRIER)


def is_live(*, numbered: bool) -> Column:
    """Whether a row is not hidden; a barrier as well."""
    chunk = f"get({CHUNKS}, cast(shiftright({_POSITION}, 16) AS int))"
    word = f"get({chunk}, cast(shiftright({_POSITION} & 65535, 6) AS int))"
    hidden = f"coalesce(getbit({word}, cast({_POSITION} & 63 AS int)), 0)"
    return F.expr(f"(CASE WHEN {KEY} IS NULL THEN {_unknown(numbered)} ELSE {hidden} = 0 END) AND {_BARRIER}")


def is_hidden(*, numbered: bool) -> Column:
    """Whether a row is hidden, where hidden rows are wanted too."""
    return ~is_live(numbered=numbered)


def _unknown(numbered: bool) -> str:
    file = f"'number ', {NUMBER}" if numbered else PATH
    return f"raise_error(concat('Holdfast has no facts for the file ', {file}))"


def hashed(uris: Sequence[str]) -> NDArray[np.int64]:
    """The keys of files by the hash of their paths, as Spark computes it."""
    keys = np.fromiter((xxhash.xxh64_intdigest(uri.encode(), _SPARK_SEED) for uri in uris), np.uint64, len(uris))
    if len(distinct(keys)) != len(keys):
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
