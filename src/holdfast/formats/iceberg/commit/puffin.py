"""Deletion vectors in a Puffin file: one blob per data file, and a footer that says where each is.

1. A blob is framed as Delta frames it, and its place and size count the frame.
2. A vector is known by the data file it is for; the file that holds it may hold others.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from holdfast import __version__
from holdfast.rows import bitmap

_MAGIC = b"PFA1"
_POSITION_FIELD = 2147483645  # the reserved column of positions, which vectors are said to be about


@dataclass(frozen=True, slots=True)
class Blob:
    """Where a vector lies in its file."""

    offset: int
    size: int
    cardinality: int


def puffin(vectors: Sequence[tuple[str, BitMap64]]) -> tuple[bytes, tuple[Blob, ...]]:
    """A file with the vectors of these data files, in their order, and where each is."""
    data = bytearray(_MAGIC)
    blobs, told = [], []
    for path, positions in vectors:
        framed = bitmap.frame(bitmap.encode(positions))
        blob = Blob(len(data), len(framed), len(positions))
        data += framed
        blobs.append(blob)
        told.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_POSITION_FIELD],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": blob.offset,
                "length": blob.size,
                "properties": {"referenced-data-file": path, "cardinality": str(blob.cardinality)},
            }
        )
    footer = json.dumps({"blobs": told, "properties": {"created-by": f"Holdfast {__version__}"}}).encode()
    data += _MAGIC + footer + struct.pack("<i", len(footer)) + bytes(4) + _MAGIC
    return bytes(data), tuple(blobs)
