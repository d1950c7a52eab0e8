"""Some pages of a file, put together as a file of its own that Arrow reads.

The pages that hold the rows asked for are copied behind each other, with a footer that says of them what the file's own
footer says of all pages: same schema, same writer, so that Arrow makes the same of them.

1. A cut is the least stretches of rows that hold the wanted ones and begin and end with a page in every leaf of the
   column; so all leaves of a column have the same rows.
2. Columns cut alike share a row group; pages that need a dictionary share one only with those of their own chunk.
3. A chunk's pages come in the order of the file, its dictionary first; nothing else of it comes along.
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
_MUCH = 64 << 20  # bytes; beyond, row groups are decoded one by one
_BY_DICTIONARY = (2, 8)  # encodings, as Parquet numbers them
_LONG_DICTIONARY, _FEW_PAGES = 16 << 10, 32  # where looking whether a dictionary is needed costs less than decoding it
_HEADER = 256  # bytes of a page that hold its header, unless that has long statistics


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """The stretches of rows of one column that hold the wanted rows."""

    node: Node
    leaves: tuple[Leaf, ...]
    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    groups: NDArray[np.int64]  # the row group of each stretch

    @property
    def size(self) -> int:
        """The bytes of all pages that are to be read."""
        return sum(int((stops - starts).sum()) for starts, stops in self._pages())

    def heaviest(self) -> int:
        """The most bytes of pages that are to be read of one row group."""
        sizes = sum(stops - starts for starts, stops in self._pages())
        return int(np.bincount(self.groups, sizes).max())

    def stretches(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The bytes of the file that are needed, dictionaries among them: where they start and stop."""
        starts, stops = zip(*(_bytes(leaf, self.lows, self.highs, self.groups) for leaf in self.leaves), strict=True)
        return np.concatenate(starts), np.concatenate(stops)

    def _pages(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        return [_pages(leaf, self.lows, self.highs) for leaf in self.leaves]


def cut(pages: PageMap, node: Node, wanted: NDArray[np.int64]) -> Cut | None:
    """How to cut a column for sorted rows; None where its pages are not known."""
    leaves = []
    for number in range(node.leaf, node.leaf + node.leaves):
        leaf = pages.leaf(number)
        if leaf is None:
            return None
        leaves.append(leaf)
    bounds = reduce(np.intersect1d, (leaf.firsts for leaf in leaves))
    stretch = np.searchsorted(bounds, wanted, side="right") - 1
    stretch = stretch[np.append(True, stretch[1:] != stretch[:-1])]
    lows, highs = bounds[stretch], bounds[stretch + 1]
    # Row groups lie apart in the file, so a stretch ends with its own.
    apart = (lows[1:] != highs[:-1]) | (pages.starts[np.searchsorted(pages.starts, lows[1:])] == lows[1:])
    lows, highs = lows[np.append(True, apart)], highs[np.append(apart, True)]
    return Cut(node, tuple(leaves), lows, highs, np.searchsorted(pages.starts, lows, side="right") - 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Strip:
    """Columns that have a row group in common."""

    nodes: tuple[Node, ...]
    leaves: dict[int, Leaf]
    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    groups: NDArray[np.int64]  # of each stretch

    @property
    def rows(self) -> int:
        return int((self.highs - self.lows).sum())


def spliced(pages: PageMap, cuts: Sequence[Cut], wanted: NDArray[np.int64], window: Window) -> dict[str, pa.Array]:
    """The wanted rows of some columns, by name."""
    found: dict[str, list[pa.Array]] = {}
    much = sum(each.size for each in cuts) > _MUCH
    strips = list(_strips(cuts, apart=much))
    for some in [[strip] for strip in strips] if much else [strips]:
        for strip, table in zip(some, _decoded(pages, some, window), strict=True):
            if table.num_rows != strip.rows:
                raise ValueError("pages hold other rows than their index says")
            index = positions(_index(strip, wanted))
            for node in strip.nodes:
                found.setdefault(node.name, []).extend(table.column(node.name).take(index).chunks)
    return {name: chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) for name, chunks in found.items()}


def _decoded(pages: PageMap, strips: Sequence[_Strip], window: Window) -> Iterator[pa.Table]:
    """The rows of strips, which are made the row groups of one file."""
    body: list[bytes | memoryview] = [MAGIC]
    groups = []
    at = len(MAGIC)
    for strip in strips:
        parts, described = _row_group(pages, strip, window, at)
        at += sum(map(len, parts))
        body += parts
        groups.append(described)
    body.append(_footer(pages, groups, sum(strip.rows for strip in strips)))
    file = pq.ParquetFile(pa.BufferReader(b"".join(body)), coerce_int96_timestamp_unit="us")
    for number, strip in enumerate(strips):
        yield file.reader.read_row_group(number, column_indices=list(strip.leaves), use_threads=False)


def _strips(cuts: Sequence[Cut], *, apart: bool) -> Iterator[_Strip]:
    """What is read together; `apart`: never more than one row group."""
    alike: dict[tuple[bytes, bytes, bool], list[Cut]] = {}
    for each in cuts:
        joins = not apart and _can_join(each)
        alike.setdefault((each.lows.tobytes(), each.highs.tobytes(), joins), []).append(each)
    for (_, _, joins), together in alike.items():
        first = together[0]
        nodes = tuple(each.node for each in together)
        leaves = {each.node.leaf + i: leaf for each in together for i, leaf in enumerate(each.leaves)}
        of_group = [first.groups == group for group in np.unique(first.groups)]
        for part in [np.ones(len(first.lows), bool)] if joins else of_group:
            yield _Strip(nodes, leaves, first.lows[part], first.highs[part], first.groups[part])


def _can_join(each: Cut) -> bool:
    """Whether pages of several chunks may follow each other."""
    groups = np.unique(each.groups).tolist()
    for leaf in each.leaves:
        chunks = [_known(leaf, group) for group in groups]
        if any(chunk.has_dictionary or chunk.codec != chunks[0].codec for chunk in chunks):
            return False
    return True


def _row_group(pages: PageMap, strip: _Strip, window: Window, at: int) -> tuple[list[memoryview], bytes]:
    """The bytes of the chunks of a row group, which begin at a place of the new file, and its description."""
    view = window.view
    parts: list[memoryview] = []
    columns = []
    total = 0
    groups = np.unique(strip.groups).tolist()
    for number in range(len(pages.places[0])):
        leaf = strip.leaves.get(number)
        if leaf is None:
            columns.append(_NOTHING)
            continue
        first = _known(leaf, groups[0])
        starts, stops = _bytes(leaf, strip.lows, strip.highs, strip.groups)
        if first.has_dictionary and not _looks_up(leaf, first, strip, window):
            first = first._replace(start=first.pages_at)
            starts, stops = starts[1:], stops[1:]
        places = window.find(starts)
        new = [view[a:b] for a, b in zip(places.tolist(), (places + stops - starts).tolist(), strict=True)]
        size = int((stops - starts).sum())
        values = strip.rows if not pages.levels[number][0] else sum(_known(leaf, group).values for group in groups)
        columns.append(_column(first, values, size, at))
        parts += new
        at += size
        total += size
    described = thrift.struct(
        (1, thrift.LIST, thrift.sequence(thrift.STRUCT, columns)),
        (2, thrift.I64, thrift.number(total)),
        (3, thrift.I64, thrift.number(strip.rows)),
    )
    return parts, described


def _looks_up(leaf: Leaf, chunk: Chunk, strip: _Strip, window: Window) -> bool:
    """Whether some page needs its chunk's dictionary: where values hardly repeat, writers give it up after a while."""
    ends = _page_numbers(leaf, strip.lows, strip.highs)
    pages = np.concatenate([np.arange(first, end) for first, end in zip(*ends, strict=True)])
    if chunk.pages_at - chunk.start < _LONG_DICTIONARY or len(pages) > _FEW_PAGES:
        return True
    for place in window.find(leaf.starts[pages]).tolist():
        try:
            header, _ = thrift.record(bytes(window.view[place : place + _HEADER]), 0)
        except (ValueError, IndexError):
            return True
        # The records of a data page in its first and its second form, and their encodings.
        encodings = [inner.get(at) for number, at in ((5, 2), (8, 4)) if isinstance(inner := header.get(number), dict)]
        if not encodings or encodings[0] in _BY_DICTIONARY:
            return True
    return False


def _column(chunk: Chunk, values: int, size: int, at: int) -> bytes:
    """What the new footer says of a chunk whose bytes begin at a place."""
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
    # Fields are numbered by their distance from the one before, so two that follow each other fit anywhere.
    footer = pages.before + changed[:-1] + pages.after
    return footer + len(footer).to_bytes(4, "little") + MAGIC


def _bytes(
    leaf: Leaf, lows: NDArray[np.int64], highs: NDArray[np.int64], groups: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the dictionaries and then the pages of stretches of rows start and stop in the file."""
    chunks = [chunk for group in np.unique(groups) if (chunk := _known(leaf, group)).has_dictionary]
    starts, stops = _pages(leaf, lows, highs)
    if not chunks:
        return starts, stops
    return np.append([c.start for c in chunks], starts), np.append([c.pages_at for c in chunks], stops)


def _pages(
    leaf: Leaf, lows: NDArray[np.int64], highs: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the pages of stretches of rows start and stop in the file."""
    first, end = _page_numbers(leaf, lows, highs)
    return leaf.starts[first], leaf.stops[end - 1]


def _page_numbers(
    leaf: Leaf, lows: NDArray[np.int64], highs: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first page of each stretch of rows, and the one behind it."""
    return np.searchsorted(leaf.firsts, lows), np.searchsorted(leaf.firsts, highs)


def _index(strip: _Strip, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which rows of a strip are the wanted ones it has."""
    inside = wanted[np.searchsorted(wanted, strip.lows[0]) : np.searchsorted(wanted, strip.highs[-1])]
    lengths = strip.highs - strip.lows
    stretch = np.searchsorted(strip.lows, inside, side="right") - 1
    index: NDArray[np.int64] = inside + (np.cumsum(lengths) - lengths - strip.lows)[stretch]
    return index


def _known(leaf: Leaf, group: int) -> Chunk:
    chunk = leaf.chunks[group]
    assert chunk is not None, "a row group that has a wanted row has pages"
    return chunk
