"""Turns chunks of bits, as Spark's bitmap aggregates return them, into a compressed bitmap.

1. Bit b of byte y of the chunk numbered n stands for position n * CHUNK_BITS + 8 * y + b.
2. Chunks come in any order, each once; one without a bit adds nothing.
3. The bitmap is built from whole containers, without a loop over positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

CHUNK_BITS = 32768

_HALF = CHUNK_BITS // 8  # bytes; two chunks are a container
_NO_RUNS = 12346
_LARGEST_ARRAY = 4096


def of_bitsets(numbers: NDArray[np.int64], chunks: NDArray[np.uint8]) -> BitMap64:
    """The positions in chunks; `chunks` has a row of bytes for each number."""
    keys, at = np.unique(numbers >> 1, return_inverse=True)
    containers = np.zeros((len(keys), 2, _HALF), np.uint8)
    containers[at, numbers & 1] = chunks
    bits = np.unpackbits(containers.reshape(len(keys), 2 * _HALF), axis=1, bitorder="little")
    counts = bits.sum(axis=1, dtype=np.int64)
    nonempty = np.flatnonzero(counts)
    buckets = [part for part in np.split(nonempty, np.flatnonzero(np.diff(keys[nonempty] >> 16)) + 1) if len(part)]
    parts = [pack("<q", len(buckets))]
    for bucket in buckets:
        parts.append(pack("<i", int(keys[bucket[0]] >> 16)))
        parts += _bucket(keys[bucket] & 0xFFFF, counts[bucket], bits[bucket])
    bitmap = BitMap64.deserialize(b"".join(parts))
    bitmap.run_optimize()
    return bitmap


def _bucket(keys: NDArray[np.int64], counts: NDArray[np.int64], bits: NDArray[np.uint8]) -> Iterator[bytes]:
    """A serialized 32-bit roaring bitmap without runs: the container count, keys, offsets and containers."""
    bodies = [
        np.flatnonzero(row).astype("<u2").tobytes()
        if count <= _LARGEST_ARRAY
        else np.packbits(row, bitorder="little").tobytes()
        for row, count in zip(bits, counts.tolist(), strict=True)
    ]
    yield pack("<II", _NO_RUNS, len(keys))
    yield np.stack((keys, counts - 1), axis=1).astype("<u2").tobytes()
    starts = 8 + 8 * len(keys) + np.concatenate(([0], np.cumsum([len(b) for b in bodies])[:-1]))
    yield starts.astype("<u4").tobytes()
    yield from bodies
