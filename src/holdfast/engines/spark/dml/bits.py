"""Collects row positions as bits that Spark sets itself, so that no row goes through Python."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.engines.spark.types import named
from holdfast.rows.bitsets import CHUNK_BITS, of_bitsets

CHUNK, BITS, ROWS = "__hf_chunk", "__hf_bits", "__hf_rows"


def bits_of(rows: DataFrame, file: str, position: str, *by: str) -> DataFrame:
    """A row for every stretch of a file that has some: its bits, and how many rows they were made of."""
    chunk = F.floor(named(position) / F.lit(CHUNK_BITS)).alias(CHUNK)
    bits = F.bitmap_construct_agg(F.pmod(named(position), F.lit(CHUNK_BITS))).alias(BITS)
    return rows.groupBy(*by, file, chunk).agg(bits, F.count("*").alias(ROWS))


def positions_of(bits: pa.Table, file: str, keys: pa.ChunkedArray) -> dict[str, BitMap64]:
    """The bits of each file as a bitmap; `keys` are the files by number, and a stretch comes once."""
    return {keys[number].as_py(): rows for number, rows in bitmaps_of(bits, file).items()}


def bitmaps_of(bits: pa.Table, file: str) -> dict[int, BitMap64]:
    """The bits of each file as a bitmap, by the file's number; a stretch comes once."""
    bits = bits.sort_by(file)
    files, numbers = bits.column(file).to_numpy(), bits.column(CHUNK).to_numpy()
    bitmaps = {}
    for part in np.split(np.arange(len(files)), np.flatnonzero(np.diff(files)) + 1):
        if len(part):
            chunks = np.frombuffer(b"".join(bits.column(BITS).take(part).to_pylist()), np.uint8)
            bitmaps[int(files[part[0]])] = of_bitsets(numbers[part], chunks.reshape(len(part), -1))
    return bitmaps
