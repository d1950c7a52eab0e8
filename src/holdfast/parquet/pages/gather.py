"""Copies values of fixed width out of their pages, without decoding the pages.

In an uncompressed plain page without nulls the values are the last bytes, so the offset of a row's value can be
computed. The same holds for lists of one length, such as vectors.

1. A page is read this way only after its header and levels were checked: plain, as many bytes as it has values, no
   null, and for lists the same number of values in every row. The result is cached, because files never change.
2. Any other page (another encoding, optional parts in its header, a null) gives None, and the column is read another
   way.
3. Only types that Parquet stores as Arrow has them in memory are read this way.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.parquet.pages.footer import Node
from holdfast.parquet.pages.headers import are_full, bytes_at, plain_headers
from holdfast.parquet.pages.pagemap import Leaf, PageMap
from holdfast.parquet.pages.window import Window
from holdfast.schema.arrow import is_list

_INT32, _INT64, _FLOAT, _DOUBLE = 1, 2, 4, 5
_KINDS = {pa.int32(): _INT32, pa.date32(): _INT32, pa.int64(): _INT64, pa.float32(): _FLOAT, pa.float64(): _DOUBLE}
_PLAIN, _RLE, _BIT_PACKED = 0, 3, 4
_UNCOMPRESSED = 0
_LONGEST = 2**31 - 1  # values of one Arrow list column


def may_gather(pages: PageMap, node: Node) -> bool:
    """Whether the footer allows to gather a column; its pages are checked later."""
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


def value_of(pages: PageMap, node: Node, row: int, window: Window) -> pa.Array | None:
    """The value of one row, or None where its page does not allow it."""
    leaf = _leaf(pages, node)
    page = int(leaf.firsts.searchsorted(row, side="right")) - 1
    if not leaf.proven[page] and not _prove(pages, node, leaf, np.array([page]), window):
        return None
    length, element = int(leaf.proven[page]), _element(node)
    width = length * element.bit_width // 8
    start = int(leaf.starts[page])
    at = window.place(start) + int(leaf.stops[page]) - start - (int(leaf.firsts[page + 1]) - row) * width
    return _array(node, element, 1, length, bytes(window.view[at : at + width]))


def gathered(pages: PageMap, node: Node, wanted: NDArray[np.int64], window: Window) -> pa.Array | None:
    """The values of wanted rows, or None where some page does not allow it."""
    leaf = _leaf(pages, node)
    page = leaf.firsts.searchsorted(wanted, side="right") - 1
    lengths = leaf.proven[page]
    if not lengths.all():
        if not _prove(pages, node, leaf, np.unique(page[lengths == 0]), window):
            return None
        lengths = leaf.proven[page]
    length = int(lengths[0])
    if (lengths != length).any() or length * len(wanted) > _LONGEST:
        return None
    element = _element(node)
    width = length * element.bit_width // 8
    starts = leaf.starts[page]
    at = window.find(starts) + (leaf.stops[page] - starts) - (leaf.firsts[page + 1] - wanted) * width
    return _array(node, element, len(wanted), length, bytes_at(window.data, at, width))


def _array(node: Node, element: pa.DataType, rows: int, length: int, data: bytes | NDArray[np.uint8]) -> pa.Array:
    """A column from contiguous values, `length` of them per row."""
    values = pa.Array.from_buffers(element, rows * length, [None, pa.py_buffer(data)])
    if not is_list(node.type):
        return values
    offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * np.int32(length))
    return pa.Array.from_buffers(pa.list_(node.type.value_field), rows, [None, offsets], children=[values])


def _leaf(pages: PageMap, node: Node) -> Leaf:
    leaf = pages.leaf(node.leaf)
    assert leaf is not None, "a column that may be gathered has known pages"
    return leaf


def _prove(pages: PageMap, node: Node, leaf: Leaf, page_numbers: NDArray[np.int64], window: Window) -> bool:
    """Check pages, and remember those that can be gathered."""
    if len(page_numbers) == 1 and (length := _length_of_alike(leaf, int(page_numbers[0]), window)):
        leaf.proven[page_numbers] = length
        return True
    starts = window.find(leaf.starts[page_numbers])
    rows = leaf.firsts[page_numbers + 1] - leaf.firsts[page_numbers]
    ends = starts + leaf.stops[page_numbers] - leaf.starts[page_numbers]
    deepest = pages.levels[node.leaf]
    headers = plain_headers(window.data, starts, *deepest)
    if headers is None:
        return False
    behind, size, stored, values = headers
    length = int(values[0] // rows[0])
    levels = size - values * (_element(node).bit_width // 8)
    fits = (behind + size == ends).all() and (size == stored).all() and (levels >= 0).all()
    if not (fits and length > 0 and (values == rows * length).all() and (length == 1 or is_list(node.type))):
        return False
    # Pages of as many rows have the same levels, which are decoded once.
    for count, width in {*zip(rows.tolist(), levels.tolist(), strict=True)}:
        alike = behind[(rows == count) & (levels == width)]
        level_bytes = bytes_at(window.data, alike, width)
        if (level_bytes != level_bytes[0]).any():
            return False
        page_levels = (count, length, level_bytes[0].tobytes())
        if page_levels not in leaf.full_levels and not are_full(page_levels[2], count, length, *deepest):
            return False
        leaf.full_levels.add(page_levels)
    leaf.proven[page_numbers] = length
    first, end = int(starts[0]), int(behind[0] + levels[0])
    leaf.begins[int(rows[0]), int(ends[0]) - first] = window.data[first:end].tobytes(), length
    return True


def _length_of_alike(leaf: Leaf, page: int, window: Window) -> int:
    """The values per row of a page that has the first bytes of a proven one of as many rows and bytes; else 0."""
    first, end = leaf.firsts[page : page + 2].tolist()
    start, stop = int(leaf.starts[page]), int(leaf.stops[page])
    begin, length = leaf.begins.get((end - first, stop - start), (b"", 0))
    place = window.place(start)
    return length if window.view[place : place + len(begin)] == begin else 0


def _element(node: Node) -> pa.DataType:
    """The type of a column's values, which for a list is that of its elements."""
    return node.children[0].type if is_list(node.type) else node.type


def _kind(type_: pa.DataType) -> int | None:
    """The physical type that stores values of a type as they are in memory."""
    if pa.types.is_timestamp(type_):
        return None if type_.unit == "s" else _INT64
    return _KINDS.get(type_)
