"""Copies the pages that hold wanted rows into a small Parquet file in memory, which Arrow decodes.

The footer of the new file has the schema and the writer of the original one, so that Arrow decodes the pages alike.

1. A cut is the smallest set of row ranges that holds the wanted rows and whose ends are ends of pages in every leaf of
   the column; so all leaves of a column have the same rows.
2. Columns with equal cuts share a row group; pages that need a dictionary share one only with those of their own chunk.
3. A chunk's dictionary and pages are copied in the order of the file, and nothing else of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from holdfast.parquet.pages import thrift
from holdfast.parquet.pages.footer import Node
from holdfast.parquet.pages.pagemap import Chunk, Leaf, PageMap
from holdfast.parquet.pages.window import Window
from holdfast.storage.arrays import positions

MAGIC = b"PAR1"
_LARGE = 64 << 20  # bytes; beyond, row groups are decoded one by one
_BY_DICTIONARY = (2, 8)  # encodings, as Parquet numbers them
# Checking whether pages need their dictionary costs less than decoding one of so many bytes, for so few pages.
_LONG_DICTIONARY, _FEW_PAGES = 16 << 10, 32
_HEADER = 256  # bytes at the start of a page that hold its header, unless that has long statistics


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """The row ranges of one column that hold the wanted rows."""

    node: Node
    leaves: tuple[Leaf, ...]
    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    groups: NDArray[np.int64]  # the row group of each range

    @property
    def size(self) -> int:
        """The bytes of all pages to read."""
        return sum(int((stops - starts).sum()) for starts, stops in self._pages())

    def heaviest(self) -> int:
        """The most bytes of pages to read in one row group."""
        sizes = sum(stops - starts for starts, stops in self._pages())
        return int(np.bincount(self.groups, sizes).max())

    def byte_ranges(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Starts and stops of the needed bytes of the file, with dictionaries."""
        starts, stops = zip(*(_bytes(leaf, self.lows, self.highs, self.groups) for leaf in self.leaves), strict=True)
        return np.concatenate(starts), np.concatenate(stops)

    def _pages(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        return [_pages(leaf, self.lows, self.highs) for leaf in self.leaves]


def cut(pages: PageMap, node: Node, wanted: NDArray[np.int64]) -> Cut | None:
    """The cut of a column for sorted rows; None where its pages are not mapped."""
    leaves = []
    for number in range(node.leaf, node.leaf + node.leaves):
        leaf = pages.leaf(number)
        if leaf is None:
            return None
        leaves.append(leaf)
    bounds = reduce(np.intersect1d, (leaf.firsts for leaf in leaves))
    pieces = np.searchsorted(bounds, wanted, side="right") - 1
    pieces = pieces[np.append(True, pieces[1:] != pieces[:-1])]
    lows, highs = bounds[pieces], bounds[pieces + 1]
    # Pages of different row groups are not adjacent in the file, so a range ends with its row group.
    apart = (lows[1:] != highs[:-1]) | (pages.starts[np.searchsorted(pages.starts, lows[1:])] == lows[1:])
    lows, highs = lows[np.append(True, apart)], highs[np.append(apart, True)]
    return Cut(node, tuple(leaves), lows, highs, np.searchsorted(pages.starts, lows, side="right") - 1)


@dataclass(frozen=True, slots=True, eq=False)
class _RowGroup:
    """Columns that share a row group of the new file."""

    nodes: tuple[Node, ...]
    leaves: dict[int, Leaf]
    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    groups: NDArray[np.int64]  # the original row group of each range

    @property
    def rows(self) -> int:
        return int((self.highs - self.lows).sum())


def spliced(pages: PageMap, cuts: Sequence[Cut], wanted: NDArray[np.int64], window: Window) -> dict[str, pa.Array]:
    """The wanted rows of some columns, by name."""
    chunks_by_name: dict[str, list[pa.Array]] = {}
    is_large = sum(each.size for each in cuts) > _LARGE
    new_groups = list(_row_groups(cuts, apart=is_large))
    for batch in [[group] for group in new_groups] if is_large else [new_groups]:
        for group, table in zip(batch, _decoded(pages, batch, window), strict=True):
            if table.num_rows != group.rows:
                raise ValueError("pages hold other rows than their index says")
            index = positions(_index(group, wanted))
            for node in group.nodes:
                chunks_by_name.setdefault(node.name, []).extend(table.column(node.name).take(index).chunks)
    return {
        name: chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) for name, chunks in chunks_by_name.items()
    }


def _decoded(pages: PageMap, new_groups: Sequence[_RowGroup], window: Window) -> Iterator[pa.Table]:
    """The rows of each row group, decoded from one new file."""
    body: list[bytes | memoryview] = [MAGIC]
    descriptions = []
    at = len(MAGIC)
    for group in new_groups:
        parts, description = _row_group(pages, group, window, at)
        at += sum(map(len, parts))
        body += parts
        descriptions.append(description)
    body.append(_footer(pages, descriptions, sum(group.rows for group in new_groups)))
    file = pq.ParquetFile(pa.BufferReader(b"".join(body)), coerce_int96_timestamp_unit="us")
    for number, group in enumerate(new_groups):
        yield file.reader.read_row_group(number, column_indices=list(group.leaves), use_threads=False)


def _row_groups(cuts: Sequence[Cut], *, apart: bool) -> Iterator[_RowGroup]:
    """The row groups of the new file; `apart`: each holds pages of one original row group."""
    alike: dict[tuple[bytes, bytes, bool], list[Cut]] = {}
    for each in cuts:
        can_join = not apart and _can_join(each)
        alike.setdefault((each.lows.tobytes(), each.highs.tobytes(), can_join), []).append(each)
    for (_, _, can_join), cuts_alike in alike.items():
        first = cuts_alike[0]
        nodes = tuple(each.node for each in cuts_alike)
        leaves = {each.node.leaf + i: leaf for each in cuts_alike for i, leaf in enumerate(each.leaves)}
        of_group = [first.groups == group for group in np.unique(first.groups)]
        for part in [np.ones(len(first.lows), bool)] if can_join else of_group:
            yield _RowGroup(nodes, leaves, first.lows[part], first.highs[part], first.groups[part])


def _can_join(each: Cut) -> bool:
    """Whether pages of several chunks may follow each other."""
    groups = np.unique(each.groups).tolist()
    for leaf in each.leaves:
        chunks = [_chunk(leaf, group) for group in groups]
        if any(chunk.has_dictionary or chunk.codec != chunks[0].codec for chunk in chunks):
            return False
    return True


def _row_group(pages: PageMap, new_group: _RowGroup, window: Window, at: int) -> tuple[list[memoryview], bytes]:
    """The bytes of a row group's chunks, which begin at an offset of the new file, and its entry in the footer."""
    view = window.view
    parts: list[memoryview] = []
    columns = []
    total = 0
    groups = np.unique(new_group.groups).tolist()
    for number in range(len(pages.places[0])):
        leaf = new_group.leaves.get(number)
        if leaf is None:
            columns.append(_NOTHING)
            continue
        first = _chunk(leaf, groups[0])
        starts, stops = _bytes(leaf, new_group.lows, new_group.highs, new_group.groups)
        if first.has_dictionary and not _needs_dictionary(leaf, first, new_group, window):
            first = first._replace(start=first.pages_at)
            starts, stops = starts[1:], stops[1:]
        places = window.find(starts)
        new = [view[a:b] for a, b in zip(places.tolist(), (places + stops - starts).tolist(), strict=True)]
        size = int((stops - starts).sum())
        values = new_group.rows if not pages.levels[number][0] else sum(_chunk(leaf, group).values for group in groups)
        columns.append(_column(first, values, size, at))
        parts += new
        at += size
        total += size
    description = thrift.struct(
        (1, thrift.LIST, thrift.sequence(thrift.STRUCT, columns)),
        (2, thrift.I64, thrift.number(total)),
        (3, thrift.I64, thrift.number(new_group.rows)),
    )
    return parts, description


def _needs_dictionary(leaf: Leaf, chunk: Chunk, new_group: _RowGroup, window: Window) -> bool:
    """Whether some page needs its chunk's dictionary: writers stop using one whose values hardly repeat."""
    ends = _page_numbers(leaf, new_group.lows, new_group.highs)
    pages = np.concatenate([np.arange(first, end) for first, end in zip(*ends, strict=True)])
    if chunk.pages_at - chunk.start < _LONG_DICTIONARY or len(pages) > _FEW_PAGES:
        return True
    for place in window.find(leaf.starts[pages]).tolist():
        try:
            header, _ = thrift.record(bytes(window.view[place : place + _HEADER]), 0)
        except (ValueError, IndexError):
            return True
        # The headers of data pages of version 1 and 2, and their encodings.
        encodings = [inner.get(at) for number, at in ((5, 2), (8, 4)) if isinstance(inner := header.get(number), dict)]
        if not encodings or encodings[0] in _BY_DICTIONARY:
            return True
    return False


def _column(chunk: Chunk, values: int, size: int, at: int) -> bytes:
    """The entry in the new footer of a chunk whose bytes begin at an offset."""
    dictionary = ((11, thrift.I64, thrift.number(at)),) if chunk.has_dictionary else ()
    facts = thrift.struct(
        (1, thrift.I32, thrift.number(chunk.kind)),
        (2, thrift.LIST, thrift.sequence(thrift.I32, map(thrift.number, sorted(chunk.encodings)))),
        (3, thrift.LIST, thrift.sequence(thrift.BINARY, ())),
        (4, thrift.I32, thrift.number(chunk.codec)),
        (5, thrift.I64, thrift.number(values)),
        (6, thrift.I64, thrift.number(size)),
        (7, thrift.I64, thrift.number(size)),
        (9, thrift.I64, thrift.number(at + chunk.pages_at - chunk.start)),
        *dictionary,
    )
    return thrift.struct((2, thrift.I64, thrift.number(0)), (3, thrift.STRUCT, facts))


_NOTHING = _column(Chunk(0, 0, frozenset(), 0, 4, 4, 4), 0, 0, len(MAGIC))


def _footer(pages: PageMap, groups: Sequence[bytes], rows: int) -> bytes:
    """The footer of the new file, with its trailer."""
    changed = thrift.struct(
        (1, thrift.I64, thrift.number(rows)), (2, thrift.LIST, thrift.sequence(thrift.STRUCT, groups))
    )
    # Thrift numbers a field by its distance from the one before, so two consecutive ones fit anywhere.
    footer = pages.before + changed[:-1] + pages.after
    return footer + len(footer).to_bytes(4, "little") + MAGIC


def _bytes(
    leaf: Leaf, lows: NDArray[np.int64], highs: NDArray[np.int64], groups: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts and stops in the file of the dictionaries, and then the pages, of row ranges."""
    chunks = [chunk for group in np.unique(groups) if (chunk := _chunk(leaf, group)).has_dictionary]
    starts, stops = _pages(leaf, lows, highs)
    if not chunks:
        return starts, stops
    return np.append([c.start for c in chunks], starts), np.append([c.pages_at for c in chunks], stops)


def _pages(
    leaf: Leaf, lows: NDArray[np.int64], highs: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts and stops in the file of the pages of row ranges."""
    first, end = _page_numbers(leaf, lows, highs)
    return leaf.starts[first], leaf.stops[end - 1]


def _page_numbers(
    leaf: Leaf, lows: NDArray[np.int64], highs: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first page of each row range, and the one behind its last."""
    return np.searchsorted(leaf.firsts, lows), np.searchsorted(leaf.firsts, highs)


def _index(group: _RowGroup, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """The indexes of the wanted rows in a row group of the new file."""
    inside = wanted[np.searchsorted(wanted, group.lows[0]) : np.searchsorted(wanted, group.highs[-1])]
    lengths = group.highs - group.lows
    number = np.searchsorted(group.lows, inside, side="right") - 1
    index: NDArray[np.int64] = inside + (np.cumsum(lengths) - lengths - group.lows)[number]
    return index


def _chunk(leaf: Leaf, group: int) -> Chunk:
    chunk = leaf.chunks[group]
    assert chunk is not None, "a row group that has a wanted row has pages"
    return chunk
