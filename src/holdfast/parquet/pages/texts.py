"""Texts of single rows taken out of their pages, without decoding the texts of other rows.

In a plain page every text stands behind its length, so that of a row is found by stepping over those before it. Pages
are unpacked first; the steps are then made for the rows of all files and columns at once.

1. A page is used so only where its own header says that it is plain, it has the size it claims when unpacked, and its
   levels tell which rows are null. Anything else is no error: the column is read another way.
2. A text that is found lies inside its page.
3. Bytes are what Arrow would make of them: no text is looked into.
4. Only short pages are read so, and only where few of their texts are wanted; else decoding them is quicker.
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
from holdfast.parquet.pages.headers import plain_header, plain_headers
from holdfast.parquet.pages.levels import decoded
from holdfast.parquet.pages.pagemap import Leaf, PageMap
from holdfast.parquet.pages.window import Window
from holdfast.storage.arrays import positions

Numbers: TypeAlias = NDArray[np.int64]
Page: TypeAlias = bytes | memoryview

_TYPES = (pa.string(), pa.binary())
_BYTE_ARRAY = 6
_UNCOMPRESSED, _SNAPPY = 0, 1
_PLAIN, _RLE, _BIT_PACKED = 0, 3, 4
_LENGTH, _WIDTH = "<I", 4  # what stands before a text, and before levels
_MOST_ROWS = 512  # of a page: so many steps at most
_MOST_BYTES = 64 << 10  # of a page, unpacked
_MOST_IN_ALL = 16 << 20  # of the pages of one column
_DENSE = 4  # wanted texts of a page
_LONGEST_NUMBER = 10  # bytes
_LARGEST = 1 << 30  # bytes of all pages together


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """Unpacked pages of one column, and where in them, put behind each other, each text that is wanted is sought."""

    type: pa.DataType
    pages: Sequence[Page]
    size: int  # of all pages
    starts: Numbers  # where the first text of its page stands
    ends: Numbers  # where its page ends
    before: Numbers  # texts before it
    null: NDArray[np.bool_] | None  # of each wanted row; those that are have no text here. None: no row is


def may_step(pages: PageMap, node: Node) -> bool:
    """Whether the footer lets texts of a column be found by steps; the pages themselves have the last word."""
    leaf = pages.leaf(node.leaf) if node.type in _TYPES else None
    if leaf is None or np.diff(leaf.firsts).max(initial=0) > _MOST_ROWS:
        return False
    chunks = [chunk for chunk in leaf.chunks if chunk is not None]
    return {chunk.codec for chunk in chunks} in ({_UNCOMPRESSED}, {_SNAPPY}) and all(
        chunk.kind == _BYTE_ARRAY and not chunk.has_dictionary and chunk.encodings <= {_PLAIN, _RLE, _BIT_PACKED}
        for chunk in chunks
    )


def text_of(pages: PageMap, node: Node, row: int, window: Window) -> pa.Array | None:
    """The text of one row; None where its page does not allow it."""
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
    body = _body(leaf, packed, header.size)
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
    """The pages of a column that hold wanted rows, which ascend; None where one of them does not allow it."""
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
    bodies = _bodies(leaf, window, behind, sizes, stored) if fits.all() and sizes.sum() <= _MOST_IN_ALL else None
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
    """The wanted rows of each column; None where a page is not as it must be."""
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
    assert leaf is not None, "a column whose texts are found by steps has known pages"
    return leaf


def _is_packed(leaf: Leaf) -> bool:
    return next(chunk.codec for chunk in leaf.chunks if chunk is not None) != _UNCOMPRESSED


def _body(leaf: Leaf, packed: memoryview, size: int) -> Page | None:
    """A page as it is when unpacked; None where it does not come out as long as it should."""
    if not _is_packed(leaf):
        return bytes(packed) if len(packed) == size else None
    try:
        if thrift.varint(bytes(packed[:_LONGEST_NUMBER]), 0)[0] != size:  # Snappy tells it first
            return None
        unpack: bytes = pa.Codec("snappy").decompress(packed, size, asbytes=True)
    except (pa.ArrowException, OSError, ValueError, IndexError):
        return None
    return unpack


def _bodies(leaf: Leaf, window: Window, behind: Numbers, sizes: Numbers, stored: Numbers) -> list[Page] | None:
    """The same of many pages."""
    view = window.view
    packed: list[Page] = [view[a:b] for a, b in zip(behind.tolist(), (behind + stored).tolist(), strict=True)]
    if not _is_packed(leaf):
        return packed if (sizes == stored).all() else None
    unpack = pa.Codec("snappy").decompress
    try:
        # Snappy tells the length first, as a number that counts; it is read here as one with a sign.
        if (thrift.varints(window.data, behind)[0] != (sizes >> 1 ^ -(sizes & 1))).any():
            return None
        return [unpack(page, size, asbytes=True) for page, size in zip(packed, sizes.tolist(), strict=True)]
    except (pa.ArrowException, OSError, ValueError, IndexError):
        return None


def _levels(
    leaf: Leaf, bodies: Sequence[Page], rows: Sequence[int]
) -> tuple[list[int], dict[int, NDArray[np.bool_]]] | None:
    """Where the texts of pages begin, and which rows have one, of pages where not all have."""
    begin, present = [], {}
    for number, (body, count) in enumerate(zip(bodies, rows, strict=True)):
        known, _ = leaf.begins.get((count, 0), (b"", 0))
        if known and body[: len(known)] == known:
            begin.append(len(known))
            continue
        at = _WIDTH + int.from_bytes(body[:_WIDTH], "little")
        found = decoded(bytes(body[_WIDTH:at]), 1, count)
        if found is None:
            return None
        begin.append(at)
        if found.all():
            leaf.begins[count, 0] = bytes(body[:at]), 1
        else:
            present[number] = found.astype(np.bool_)
    return begin, present


def _nulls(number: Numbers, before: Numbers, present: Mapping[int, NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Which rows are null, given the page and the place in it of each; of the others, count only texts before them."""
    null = np.zeros(len(number), np.bool_)
    for page, has in present.items():
        here = slice(*np.searchsorted(number, (page, page + 1)))
        null[here] = ~has[before[here]]
        before[here] = np.cumsum(has)[before[here]] - 1
    return null


def _step(data: Page, at: Numbers, before: Numbers) -> Numbers:
    """Move each place on by so many texts; gives where the text ends to which that leads."""
    lengths: NDArray[np.uint32] = np.ndarray((max(len(data) - _WIDTH + 1, 0),), "<u4", data, strides=(1,))
    order = np.argsort(-before, kind="stable")
    moving = at[order]
    steps = int(before[order[0]]) if len(order) else 0
    for count in np.searchsorted(-before[order], -np.arange(steps)).tolist():  # rows with more texts before them
        some = moving[:count]
        some += lengths[some]
        some += _WIDTH
    at[order] = moving
    stops: Numbers = at + lengths[at] + _WIDTH
    return stops


def _array(column: Texts, data: Page, bounds: NDArray[np.int32]) -> pa.Array:
    """Texts between bounds, which ascend, and nulls where there are such."""
    count = len(bounds)
    if not count:
        assert column.null is not None, "a row that is not null has a text"
        return pa.nulls(len(column.null), column.type)
    # Between each text and the next one lies what is not wanted, as if it were a text as well.
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    array = pa.Array.from_buffers(column.type, 2 * count - 1, buffers)
    if column.null is None:
        return array.take(positions(np.arange(0, 2 * count, 2)))
    return array.take(pa.array(2 * np.cumsum(~column.null) - 2, mask=column.null))
