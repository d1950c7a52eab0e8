"""Rows to write: directories of plain Parquet files, which every engine reads as its input.

1. The same arguments give the same rows, and what is there already is not written again.
2. Rows come in no order, least of all in that of their partition: a task has rows of every partition.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tables import once

FILES = 8
PARTITION = "part"

_STRETCH = 1 << 18
_POOLS = {"country": 50, "status": 6, "city": 5_000, "street": 50_000, "comment": 20_000}
_KEYS = pa.array([f"key {n}" for n in range(20)])


def numbers(random: np.random.Generator, first: int, count: int) -> dict[str, pa.Array]:
    """Ten flat columns of numbers."""
    longs = {f"n{n}": pa.array(random.integers(0, 10 ** (n + 2), count)) for n in range(5)}
    doubles = {f"x{n}": pa.array(np.round(random.gamma(2, 50, count), 2)) for n in range(3)}
    small = pa.array(random.integers(0, 5_000, count, np.int32))
    return {"id": pa.array(np.arange(first, first + count)), **longs, **doubles, "store": small}


def strings(random: np.random.Generator, first: int, count: int) -> dict[str, pa.Array]:
    """Six columns of text, one of them all different, and a number."""
    texts = {name: _texts(random, name, distinct, count) for name, distinct in _POOLS.items()}
    reference = pa.array(np.char.mod("%016x", random.integers(0, 2**62, count)))
    return {"id": pa.array(np.arange(first, first + count)), **texts, "reference": reference}


def nested(random: np.random.Generator, first: int, count: int) -> dict[str, pa.Array]:
    """A struct, a list and a map, and a number."""
    place = pa.StructArray.from_arrays(
        [pa.array(random.random(count)), pa.array(random.random(count)), _texts(random, "city", 5_000, count)],
        ["x", "y", "city"],
    )
    items = pa.ListArray.from_arrays(*_parts(random, count, 5, lambda n: pa.array(random.integers(0, 10**9, n))))
    ends, weights = _parts(random, count, 3, lambda n: pa.array(random.random(n)))
    # Keys of one map follow each other, so that they are different.
    keys = _KEYS.take(pa.array(np.arange(len(weights)) % len(_KEYS)))
    weighed = pa.MapArray.from_arrays(ends, keys, weights)
    return {"id": pa.array(np.arange(first, first + count)), "place": place, "items": items, "weights": weighed}


def _partitioned(random: np.random.Generator, first: int, count: int, *, partitions: int) -> dict[str, pa.Array]:
    """Numbers and a text, and the column to partition by."""
    return {
        "id": pa.array(np.arange(first, first + count)),
        "amount": pa.array(np.round(random.gamma(2, 50, count), 2)),
        "customer": pa.array(random.integers(0, 10**7, count)),
        "city": _texts(random, "city", 5_000, count),
        PARTITION: pa.array(random.integers(0, partitions, count, np.int32)),
    }


KINDS: dict[str, Callable[[np.random.Generator, int, int], dict[str, pa.Array]]] = {
    "numbers": numbers,
    "strings": strings,
    "nested": nested,
    "1,000 partitions": partial(_partitioned, partitions=1_000),
    "100 partitions": partial(_partitioned, partitions=100),
}


def source(root: Path, kind: str, *, rows: int) -> Path:
    """A directory of Parquet files with so many rows of a kind."""
    return once(
        root / f"rows-{rows}" / kind.replace(",", "").replace(" ", "-"), lambda place: _write(place, kind, rows)
    )


def _write(place: Path, kind: str, rows: int) -> None:
    each = rows // FILES
    for number in range(FILES):
        random = np.random.default_rng([number, rows])
        writer = None
        for start in range(0, each, _STRETCH):
            made = pa.table(KINDS[kind](random, number * each + start, min(_STRETCH, each - start)))
            writer = writer or pq.ParquetWriter(place / f"part-{number:05d}.parquet", made.schema, compression="snappy")
            writer.write_table(made)
        if writer is not None:
            writer.close()


def _texts(random: np.random.Generator, name: str, distinct: int, count: int) -> pa.Array:
    pool = pa.array([f"{name} {n * 2_654_435_761 % 2**32:x}" + " and more" * (n % 3) for n in range(distinct)])
    return pool.take(pa.array(random.integers(0, distinct, count)))


def _parts(
    random: np.random.Generator, count: int, most: int, make: Callable[[int], pa.Array]
) -> tuple[pa.Array, pa.Array]:
    """Offsets of lists of up to so many elements, and their elements."""
    ends = np.concatenate([[0], np.cumsum(random.integers(0, most, count, endpoint=True))]).astype(np.int32)
    return pa.array(ends), make(int(ends[-1]))
