"""Decodes the repetition and definition levels at the start of a page."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.parquet.pages import thrift


def are_full(levels: bytes, rows: int, length: int, repetition: int, definition: int) -> bool:
    """Whether the levels of a page stand for `rows` rows of `length` values each, none of them null."""
    count, at = rows * length, 0
    new_rows = np.arange(count) % length == 0
    for deepest, expected in (
        (repetition, np.where(new_rows, 0, repetition)),
        (definition, np.full(count, definition)),
    ):
        if deepest:
            size = int.from_bytes(levels[at : at + 4], "little")
            actual = decoded(levels[at + 4 : at + 4 + size], deepest.bit_length(), count)
            if actual is None or not np.array_equal(actual, expected):
                return False
            at += 4 + size
    return at == len(levels)


def decoded(runs: bytes, bits: int, count: int) -> NDArray[np.int64] | None:
    """Levels from run-length and bit-packed runs; None where there are not `count` of them."""
    parts, at, remaining = [], 0, count
    try:
        while remaining > 0:
            header, at = thrift.varint(runs, at)
            if header & 1:
                size = (header >> 1) * bits
                if size > len(runs) - at:
                    return None
                packed = np.frombuffer(runs, np.uint8, size, at)
                unpacked = np.unpackbits(packed, bitorder="little").reshape(-1, bits)
                part = (unpacked << np.arange(bits)).sum(axis=1)
                at += len(packed)
            else:
                part = np.full(min(header >> 1, remaining), runs[at])
                at += 1
            parts.append(part[:remaining])
            remaining -= len(part)
    except (ValueError, IndexError):
        return None
    return np.concatenate(parts) if parts and at == len(runs) else None
