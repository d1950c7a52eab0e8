"""Bitmaps with array, bitmap and run containers, on both sides of 2**32."""

from __future__ import annotations

from hypothesis.strategies import SearchStrategy, builds, integers, lists, one_of, sampled_from
from pyroaring import BitMap64

_STARTS = one_of(
    integers(0, 1 << 18),
    sampled_from([(1 << 32) - 700, 1 << 32, (5 << 32) + 65_000, (1 << 63) - (1 << 17)]),
)
_PIECES = builds(range, _STARTS, integers(1, 60_000), sampled_from([1, 1, 2, 7, 64, 1000])).map(
    lambda piece: range(piece.start, piece.start + piece.stop, piece.step)
)


def bitmaps(*, below: int = 1 << 63) -> SearchStrategy[BitMap64]:
    """Unions of a few arithmetic progressions and lone positions, all below a limit."""
    pieces = _PIECES.filter(lambda piece: piece.stop <= below)
    lone = integers(0, min(below, 1 << 40) - 1)
    return builds(_union, lists(pieces, max_size=4), lists(lone, max_size=6))


def _union(pieces: list[range], lone: list[int]) -> BitMap64:
    bitmap = BitMap64(lone)
    for piece in pieces:
        bitmap |= BitMap64(piece)
    return bitmap
