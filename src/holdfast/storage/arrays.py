"""Builds Arrow arrays from buffers, without `pa.array`.

`pa.array`, `to_numpy` and every plain value passed to a kernel make pyarrow import pandas where it is installed, which
is half of what opening the first table costs a process. Code that opens tables uses these functions instead.

1. The arrays equal those that `pa.array` makes of the same values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def strings(values: Sequence[str | None]) -> pa.Array:
    """Strings as an array."""
    texts = ["" if v is None else v for v in values]
    joined = "".join(texts)
    data = joined.encode()
    # Every character of ASCII text is one byte, so lengths need no second encoding.
    lengths = map(len, texts) if len(data) == len(joined) else (len(t.encode()) for t in texts)
    buffers = [_validity(values), pa.py_buffer(_offsets(lengths, len(texts))), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def longs(values: Sequence[int | None]) -> pa.Array:
    """Integers as an array of 64-bit integers."""
    numbers = np.fromiter((0 if v is None else v for v in values), np.int64, len(values))
    return pa.Array.from_buffers(pa.int64(), len(values), [_validity(values), pa.py_buffer(numbers)])


def maps(values: Sequence[Mapping[str, str | None] | None]) -> pa.Array:
    """Mappings of text to text as an array of maps."""
    offsets = _offsets((len(v) if v else 0 for v in values), len(values))
    entries = pa.StructArray.from_arrays(
        [
            strings(list(chain.from_iterable(v for v in values if v))),
            strings(list(chain.from_iterable(v.values() for v in values if v))),
        ],
        fields=[pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())],
    )
    buffers = [_validity(values), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.map_(pa.string(), pa.string()), len(values), buffers, children=[entries])


def positions(values: NDArray[np.int64]) -> pa.Array:
    """64-bit integers as an array, without a copy."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A chunked column as one array; a single chunk is not copied, as `combine_chunks` would."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def mask(values: NDArray[np.bool_]) -> pa.Array:
    """Booleans as an array."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def truths(values: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """An array of booleans without nulls as a numpy array."""
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    return np.concatenate([np.zeros(0, bool), *(_truths(chunk) for chunk in chunks)])


def _truths(values: pa.Array) -> NDArray[np.bool_]:
    assert values.null_count == 0, "a null is neither true nor false"
    packed = np.frombuffer(values.buffers()[1] or b"", np.uint8)
    return np.unpackbits(packed, bitorder="little")[values.offset : values.offset + len(values)].view(np.bool_)


def filled(values: pa.Array, otherwise: NDArray[np.int64]) -> NDArray[np.int64]:
    """64-bit integers, with those of `otherwise` where a value is null."""
    stored: NDArray[np.int64] = (values.fill_null(0) if values.null_count else values).to_numpy()
    return np.where(truths(values.is_null()), otherwise, stored) if values.null_count else stored


def plain_array(array: pa.Array) -> pa.Array:
    """An array without extension types and dictionaries around its values."""
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def null_mask(array: pa.Array) -> pa.Array | None:
    """Which values are null, as constructors of Arrow take it; None where none is."""
    return array.is_null() if array.null_count else None


def list_span(array: pa.Array) -> tuple[pa.Array, int, int]:
    """The offsets of lists or maps, shifted to begin at zero, and the start and length of their values."""
    if not len(array):
        return longs([0]).cast(pa.int32()), 0, 0
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    start, stop = int(offsets[0]), int(offsets[-1])
    shifted = pa.py_buffer(offsets - offsets[0])
    return pa.Array.from_buffers(pa.int32(), len(offsets), [None, shifted]), start, stop - start


def _validity(values: Sequence[object]) -> pa.Buffer | None:
    if None not in values:
        return None
    return _bits(np.fromiter((v is not None for v in values), bool, len(values)))


def _bits(values: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))


def _offsets(lengths: Iterable[int], count: int) -> NDArray[np.int32]:
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(np.fromiter(lengths, np.int64, count), out=ends[1:])
    assert ends[-1] < 2**31, "one array of strings has less than 2 GiB"
    return ends.astype(np.int32)
