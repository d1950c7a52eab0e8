"""Copies strings of single rows out of their pages, without decoding the strings of other rows.

In a plain page every string follows its length, so a row's string is found by stepping over those before it. Pages are
decompressed first; then numpy makes the steps for the rows of all files and columns together.

1. A page is read this way only where its header says that it is plain, it has the stated size when decompressed, and
   its levels say which rows are null. Any other page gives None, and the column is read another way.
2. A string lies inside its page.
3. Strings are not checked for UTF-8, as in Arrow.
4. Only short pages are read this way, and only if few of their strings are wanted; else decoding them is quicker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from struct import error as TooShort
from struct import unpack_from
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.parquet.pages import thrift
from holdfast.parquet.pages.footer import Node
from holdfast.parquet.pages.headers import decoded_levels, plain_header, plain_headers
from holdfast.parquet.pages.pagemap import Leaf, PageMap
from holdfast.parquet.pages.window import Window
from holdfast.storage.arrays import positions

Numbers: TypeAlias = NDArray[np.int64]
Page: TypeAlias = bytes | memoryview

_TYPES = (pa.string(), pa.binary())
_BYTE_ARRAY = 6
_UNCOMPRESSED, _SNAPPY = 0, 1
_PLAIN, _RLE, _BIT_PACKED = 0, 3, 4
_LENGTH, _WIDTH = "<I", 4  # the length before a string, and before levels
_MOST_ROWS = 512  # of a page, and so steps
_MOST_BYTES = 64 << 10  # of a page, decompressed
_MOST_IN_ALL = 16 << 20  # of the pages of one column
_DENSE = 4  # wanted strings of a page
_LONGEST_NUMBER = 10  # bytes
_LARGEST = 1 << 30  # bytes of all pages together


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """Decompressed pages of one column, and where in their concatenation the search for each wanted string begins."""

    type: pa.DataType
    pages: Sequence[Page]
    size: int  # of all pages
    starts: Numbers  # offset of the first string of its page
    ends: Numbers  # offset of the end of its page
    before: Numbers  # strings before it in its page
    null: NDArray[np.bool_] | None  # which wanted rows are null; they have no entry above. None: no row is


def may_step(pages: PageMap, node: Node) -> bool:
    """Whether the footer allows to step through a column's strings; its pages are checked later."""
    leaf = pages.leaf(node.leaf) if node.type in _TYPES else None
    if leaf is None or np.diff(leaf.firsts).max(initial=0) > _MOST_ROWS:
        return False
    chunks = [chunk for chunk in leaf.chunks if chunk is not None]
    return {chunk.codec for chunk in chunks} in ({_UNCOMPRESSED}, {_SNAPPY}) and all(
        chunk.kind == _BYTE_ARRAY and not chunk.has_dictionary and chunk.encodings <= {_PLAIN, _RLE, _BIT_PACKED}
        for chunk in chunks
    )


def text_of(pages: PageMap, node: Node, row: int, window: Window) -> pa.Array | None:
    """The string of one row; None where its page does not allow it."""
    leaf = _leaf(pages, node)
    page = int(leaf.firsts.searchsorted(row, side="right")) - 1
    first, end = leaf.firsts[page : page + 2].tolist()
    start, stop = int(leaf.starts[page]), int(leaf.stops[page])
    place, optional = window.place(start), pages.levels[node.leaf][1]
    header = plain_header(window.data, place, 0, optional)
    if header is None or header.values != end - first or header.size > _MOST_BYTES:
        return None
    if len(header.raw) + header.stored != stop - start:
        return None
    packed = window.view[place + len(header.raw) : place + stop - start]
    body = _decompressed(leaf, packed, header.size)
    levels = None if body is None else _levels(leaf, [body], [header.values]) if optional else ([0], {})
    if body is None or levels is None:
        return None
    (at,), present = levels
    before = row - first
    if present:
        if not present[0][before]:
            return pa.nulls(1, node.type)
        before = int(present[0][:before].sum())
    try:
        for _ in range(before):
            at += _WIDTH + unpack_from(_LENGTH, body, at)[0]
        last = at + _WIDTH + unpack_from(_LENGTH, body, at)[0]
    except TooShort:
        return None
    bounds = pa.py_buffer(np.array((at + _WIDTH, last), np.int32))
    return pa.Array.from_buffers(node.type, 1, [None, bounds, pa.py_buffer(body)]) if last <= len(body) else None


def unpacked(pages: PageMap, node: Node, wanted: Numbers, window: Window) -> Texts | None:
    """The pages of a column that hold wanted rows, which are sorted; None where one of them does not allow it."""
    leaf = _leaf(pages, node)
    page = leaf.firsts.searchsorted(wanted, side="right") - 1
    number = np.cumsum(np.append(False, page[1:] != page[:-1]))  # among the pages that are used
    used = page[np.append(True, number[1:] > number[:-1])]
    if len(wanted) >= _DENSE * len(used):
        return None
    optional = pages.levels[node.leaf][1]
    places = window.find(leaf.starts[used])
    headers = plain_headers(window.data, places, 0, optional)
    if headers is None:
        return None
    behind, sizes, stored, values = headers
    fits = (behind + stored == places + leaf.stops[used] - leaf.starts[used]) & (sizes <= _MOST_BYTES)
    fits &= values == leaf.firsts[used + 1] - leaf.firsts[used]
    bodies = (
        _all_decompressed(leaf, window, behind, sizes, stored) if fits.all() and sizes.sum() <= _MOST_IN_ALL else None
    )
    levels = None if bodies is None else _levels(leaf, bodies, values.tolist()) if optional else ([0], {})
    if bodies is None or levels is None:
        return None
    skipped, present = levels
    ends = np.cumsum(sizes)
    starts = ends - sizes + skipped
    before = wanted - leaf.firsts[page]
    null = _nulls(number, before, present) if present else None
    if null is not None:
        number, before = number[~null], before[~null]
    return Texts(node.type, bodies, int(ends[-1]), starts[number], ends[number], before, null)


def stepped(columns: Sequence[Texts]) -> list[pa.Array] | None:
    """The wanted rows of each column; None where a page is malformed."""
    pages = [page for column in columns for page in column.pages]
    data = pages[0] if len(pages) == 1 else b"".join(pages)
    if len(data) > _LARGEST:
        return None
    shifts = list(accumulate((column.size for column in columns), initial=0))
    shifted = list(zip(columns, shifts, strict=False))
    at = np.concatenate([column.starts + shift for column, shift in shifted])
    ends = np.concatenate([column.ends + shift for column, shift in shifted])
    before = np.concatenate([column.before for column in columns])
    try:
        stops = _step(data, at, before)
    except IndexError:
        return None
    if (stops > ends).any():
        return None
    bounds = np.stack((at + _WIDTH, stops), axis=1).astype(np.int32)
    lasts = accumulate(len(column.starts) for column in columns)
    return [_array(c, data, bounds[last - len(c.starts) : last]) for c, last in zip(columns, lasts, strict=True)]


def _leaf(pages: PageMap, node: Node) -> Leaf:
    leaf = pages.leaf(node.leaf)
    assert leaf is not None, "may_step is true of columns with mapped pages only"
    return leaf


def _is_compressed(leaf: Leaf) -> bool:
    return next(chunk.codec for chunk in leaf.chunks if chunk is not None) != _UNCOMPRESSED


def _decompressed(leaf: Leaf, packed: memoryview, size: int) -> Page | None:
    """A decompressed page; None where it has not the stated size."""
    if not _is_compressed(leaf):
        return bytes(packed) if len(packed) == size else None
    try:
        if thrift.varint(bytes(packed[:_LONGEST_NUMBER]), 0)[0] != size:  # Snappy stores the size first
            return None
        unpack: bytes = pa.Codec("snappy").decompress(packed, size, asbytes=True)
    except (pa.ArrowException, OSError, ValueError, IndexError):
        return None
    return unpack


def _all_decompressed(
    leaf: Leaf, window: Window, behind: Numbers, sizes: Numbers, stored: Numbers
) -> list[Page] | None:
    """Decompressed pages; None where one has not the stated size."""
    view = window.view
    packed: list[Page] = [view[a:b] for a, b in zip(behind.tolist(), (behind + stored).tolist(), strict=True)]
    if not _is_compressed(leaf):
        return packed if (sizes == stored).all() else None
    unpack = pa.Codec("snappy").decompress
    try:
        # Snappy stores the length first, as an unsigned varint, which is read here as a signed one.
        if (thrift.varints(window.data, behind)[0] != (sizes >> 1 ^ -(sizes & 1))).any():
            return None
        return [unpack(page, size, asbytes=True) for page, size in zip(packed, sizes.tolist(), strict=True)]
    except (pa.ArrowException, OSError, ValueError, IndexError):
        return None


def _levels(
    leaf: Leaf, bodies: Sequence[Page], rows: Sequence[int]
) -> tuple[list[int], dict[int, NDArray[np.bool_]]] | None:
    """Where the strings of each page begin, and by page with nulls which rows have one."""
    starts, present = [], {}
    for number, (body, count) in enumerate(zip(bodies, rows, strict=True)):
        prefix, _ = leaf.begins.get((count, 0), (b"", 0))
        if prefix and body[: len(prefix)] == prefix:
            starts.append(len(prefix))
            continue
        at = _WIDTH + int.from_bytes(body[:_WIDTH], "little")
        definition = decoded_levels(bytes(body[_WIDTH:at]), 1, count)
        if definition is None:
            return None
        starts.append(at)
        if definition.all():
            leaf.begins[count, 0] = bytes(body[:at]), 1
        else:
            present[number] = definition.astype(np.bool_)
    return starts, present


def _nulls(number: Numbers, before: Numbers, present: Mapping[int, NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Which rows are null, given page and index of each; `before` of the others becomes the strings before them."""
    nulls = np.zeros(len(number), np.bool_)
    for page, is_present in present.items():
        here = slice(*np.searchsorted(number, (page, page + 1)))
        nulls[here] = ~is_present[before[here]]
        before[here] = np.cumsum(is_present)[before[here]] - 1
    return nulls


def _step(data: Page, at: Numbers, before: Numbers) -> Numbers:
    """Move each offset forward by `before` strings, in place; returns where the string at the new offset ends."""
    lengths: NDArray[np.uint32] = np.ndarray((max(len(data) - _WIDTH + 1, 0),), "<u4", data, strides=(1,))
    order = np.argsort(-before, kind="stable")
    moving = at[order]
    steps = int(before[order[0]]) if len(order) else 0
    for count in np.searchsorted(-before[order], -np.arange(steps)).tolist():  # rows with more texts before them
        still_moving = moving[:count]
        still_moving += lengths[still_moving]
        still_moving += _WIDTH
    at[order] = moving
    stops: Numbers = at + lengths[at] + _WIDTH
    return stops


def _array(column: Texts, data: Page, bounds: NDArray[np.int32]) -> pa.Array:
    """A column of the strings between ascending bounds, and of nulls."""
    count = len(bounds)
    if not count:
        assert column.null is not None, "a row that is not null has a string"
        return pa.nulls(len(column.null), column.type)
    # The bytes between a string and the next one are an entry of the array too, which `take` leaves out.
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    array = pa.Array.from_buffers(column.type, 2 * count - 1, buffers)
    if column.null is None:
        return array.take(positions(np.arange(0, 2 * count, 2)))
    return array.take(pa.array(2 * np.cumsum(~column.null) - 2, mask=column.null))
