"""Values of fixed width taken right out of their pages, without decoding these.

In a page that is neither compressed nor encoded, nor lacks a value, the values are its last bytes: a row's value lies
at a place that can be computed. The same holds for lists that all have the same length, such as vectors.

1. A page is used so only after its own header and levels were seen to say so: plain, as many bytes as it has values,
   no null, and for lists the same number of values in every row. A page that is proven stays so, since files never
   change.
2. Anything else (another encoding, a header with more in it, a null) is no error: the column is read another way.
3. Bytes are what Arrow would make of them: only types whose stored form is their form in memory.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.parquet import thrift
from holdfast.parquet.footer import Node, is_list
from holdfast.parquet.pagemap import Leaf, PageMap
from holdfast.parquet.window import Window

_INT32, _INT64, _FLOAT, _DOUBLE = 1, 2, 4, 5
_KINDS = {pa.int32(): _INT32, pa.date32(): _INT32, pa.int64(): _INT64, pa.float32(): _FLOAT, pa.float64(): _DOUBLE}
_PLAIN, _RLE, _BIT_PACKED = 0, 3, 4
_UNCOMPRESSED = 0
_LONGEST = 2**31 - 1  # values of one Arrow list column
_HEADER = 256  # bytes of a page that hold its header, unless that has long statistics
_NUMBER, _END = 0x15, 0  # how a field that follows its forerunner begins, and how a record ends


def may_gather(pages: PageMap, node: Node) -> bool:
    """Whether the footer lets values of a column be gathered; the pages themselves have the last word."""
    kind = _kind(_element(node))
    leaf = None if kind is None else pages.leaf(node.leaf)
    return leaf is not None and all(
        chunk.kind == kind
        and chunk.codec == _UNCOMPRESSED
        and not chunk.has_dictionary
        and chunk.encodings <= {_PLAIN, _RLE, _BIT_PACKED}
        for chunk in leaf.chunks
        if chunk is not None
    )


def gathered(pages: PageMap, node: Node, wanted: NDArray[np.int64], window: Window) -> pa.Array | None:
    """The values of wanted rows, or None where some page does not allow it."""
    leaf = pages.leaf(node.leaf)
    assert leaf is not None, "a column that may be gathered has known pages"
    page = np.searchsorted(leaf.firsts, wanted, side="right") - 1
    unknown = page[leaf.proven[page] == 0]
    if len(unknown) and not _prove(pages, node, leaf, np.unique(unknown), window):
        return None
    lengths = leaf.proven[page]
    length = int(lengths[0])
    if (lengths != length).any() or length * len(wanted) > _LONGEST:
        return None
    element = _element(node)
    width = length * element.bit_width // 8
    sizes = (leaf.stops - leaf.starts)[page]
    at = window.find(leaf.starts[page]) + sizes - (leaf.firsts[page + 1] - wanted) * width
    values = pa.Array.from_buffers(element, len(wanted) * length, [None, pa.py_buffer(_rows(window.data, at, width))])
    if not is_list(node.type):
        return values
    offsets = pa.py_buffer(np.arange(len(wanted) + 1, dtype=np.int32) * np.int32(length))
    return pa.Array.from_buffers(pa.list_(node.type.value_field), len(wanted), [None, offsets], children=[values])


def _prove(pages: PageMap, node: Node, leaf: Leaf, some: NDArray[np.int64], window: Window) -> bool:
    """See whether pages are as they must be; remember that they are."""
    starts = window.find(leaf.starts[some])
    deepest = pages.levels[node.leaf]
    headers = _headers(window.data, starts, *deepest)
    if headers is None:
        return False
    behind, size, values = headers
    rows = leaf.firsts[some + 1] - leaf.firsts[some]
    length = int(values[0] // rows[0])
    levels = size - values * (_element(node).bit_width // 8)
    fits = (behind + size == starts + (leaf.stops - leaf.starts)[some]).all() and (levels >= 0).all()
    if not (fits and length > 0 and (values == rows * length).all() and (length == 1 or is_list(node.type))):
        return False
    # Pages with as many rows have the same levels, which are looked into once.
    for count, width in {*zip(rows.tolist(), levels.tolist(), strict=True)}:
        alike = behind[(rows == count) & (levels == width)]
        found = _rows(window.data, alike, width)
        if (found != found[0]).any():
            return False
        said = (count, length, found[0].tobytes())
        if said not in leaf.seen and not _full(said[2], count, length, *deepest):
            return False
        leaf.seen.add(said)
    leaf.proven[some] = length
    return True


_Headers: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def _headers(data: NDArray[np.uint8], at: NDArray[np.int64], repetition: int, definition: int) -> _Headers | None:
    """Where the headers of pages end, the bytes behind them and their values; None unless all are plain data pages."""
    try:
        kind, size, stored, values, encoding, defined_by, repeated_by, ends = (_few if len(at) < 16 else _many)(
            data, at
        )
    except (ValueError, IndexError, KeyError, TypeError):
        return None
    plain = not kind.any() and (size == stored).all() and (encoding == _PLAIN).all()
    plain &= not definition or (defined_by == _RLE).all()
    plain &= not repetition or (repeated_by == _RLE).all()
    return (ends, size, values) if plain else None


def _few(data: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.int64]:
    """What headers say, read one by one."""
    found = []
    for place in at.tolist():
        header, length = thrift.record(data[place : place + _HEADER].tobytes(), 0)
        inner = header[5]
        if not isinstance(inner, dict):
            raise TypeError("the header of a data page has a record in it")
        said = (header[1], header[2], header[3], inner[1], inner[2], inner[3], inner[4], place + length)
        found.append(said)
    return np.array(found, np.int64).T


def _many(data: NDArray[np.uint8], at: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """What headers say, read all at once, as long as all of them have the same fields."""
    found = []
    for _ in range(3):  # type, size, size as stored
        at = _after(data, at, _NUMBER)
        number, at = thrift.varints(data, at)
        found.append(number)
    if (data[at] == _NUMBER).all():  # a checksum
        _, at = thrift.varints(data, at + 1)
        at = _after(data, at, 0x1C)
    else:
        at = _after(data, at, 0x2C)
    for _ in range(4):  # values, encoding, encodings of the levels
        at = _after(data, at, _NUMBER)
        number, at = thrift.varints(data, at)
        found.append(number)
    return [*found, _after(data, _after(data, at, _END), _END)]


def _after(data: NDArray[np.uint8], at: NDArray[np.int64], byte: int) -> NDArray[np.int64]:
    if (data[at] != byte).any():
        raise ValueError("a header is written otherwise")
    return at + 1


def _full(levels: bytes, rows: int, length: int, repetition: int, definition: int) -> bool:
    """Whether the levels before a page's values say: so many rows, each of so many values, none of them null."""
    count, at = rows * length, 0
    new_rows = np.arange(count) % length == 0
    for deepest, expected in (
        (repetition, np.where(new_rows, 0, repetition)),
        (definition, np.full(count, definition)),
    ):
        if deepest:
            size = int.from_bytes(levels[at : at + 4], "little")
            found = _decoded(levels[at + 4 : at + 4 + size], deepest.bit_length(), count)
            if found is None or not np.array_equal(found, expected):
                return False
            at += 4 + size
    return at == len(levels)


def _decoded(runs: bytes, bits: int, count: int) -> NDArray[np.int64] | None:
    """Levels from runs of one level and runs of packed ones; None where they are not as many as expected."""
    parts, at, left = [], 0, count
    try:
        while left > 0:
            header, at = thrift.varint(runs, at)
            if header & 1:
                packed = np.frombuffer(runs, np.uint8, (header >> 1) * bits, at)
                each = np.unpackbits(packed, bitorder="little").reshape(-1, bits)
                part = (each << np.arange(bits)).sum(axis=1)
                at += len(packed)
            else:
                part = np.full(min(header >> 1, left), runs[at])
                at += 1
            parts.append(part[:left])
            left -= len(part)
    except (ValueError, IndexError):
        return None
    return np.concatenate(parts) if at == len(runs) else None


def _rows(data: NDArray[np.uint8], at: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """So many bytes at each place, one place after the other."""
    if not width:
        return np.empty((len(at), 0), np.uint8)
    every: NDArray[np.void] = np.ndarray((len(data) - width + 1,), f"V{width}", data.data, strides=(1,))
    return every[at].view(np.uint8).reshape(len(at), width)


def _element(node: Node) -> pa.DataType:
    """The type of a column's values, which for a list is that of its elements."""
    return node.children[0].type if is_list(node.type) else node.type


def _kind(type_: pa.DataType) -> int | None:
    """The physical type that stores values of a type as they are in memory."""
    if pa.types.is_timestamp(type_):
        return None if type_.unit == "s" else _INT64
    return _KINDS.get(type_)
