"""The offsets and rows of the pages of a Parquet file, from its footer and page index.

1. A column whose page index has an unknown form has no map, nor has a file whose footer has: the plain reader reads
   them.
2. The pages of a mapped chunk follow each other without a gap from the first data page to the chunk's end, and hold the
   rows of the row group from the first to the last; the bytes before them are its dictionary.
3. The page index of a column is parsed when the column is first used.
4. Maps are cached by file, within a budget of memory; maps of memory stores are not, because two of these may have one
   name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from holdfast.parquet.pages import thrift
from holdfast.parquet.read import FileColumns, file_columns

TRAILER = 8  # the footer's length, then the magic
_BUDGET = 256 << 20  # bytes of all maps of a process
_LARGEST_INDEX = 64 << 20  # of one file; with more, pages are not worth reading one by one
_ENTRY = 1000
_PER_BYTE = 8  # bytes of memory that Arrow needs per byte of a footer, roughly
_LOCATION = (0x16, 0x15, 0x16)  # first bytes of the three fields of a page location


class Chunk(NamedTuple):
    """A column chunk in the footer; types, codecs and encodings have Parquet's numbers."""

    kind: int
    codec: int
    encodings: frozenset[int]
    values: int  # nulls among them
    start: int
    stop: int
    pages_at: int  # after the start where the chunk has a dictionary

    @property
    def has_dictionary(self) -> bool:
        return self.start < self.pages_at


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """The pages of one leaf through the whole file."""

    firsts: NDArray[np.int64]  # rows of the file; one more than there are pages, the last being the number of rows
    starts: NDArray[np.int64]  # bytes of the file
    stops: NDArray[np.int64]
    chunks: tuple[Chunk | None, ...]  # by row group; None where that has no rows
    proven: NDArray[np.int32]  # values per row of pages that `gather` has found to be plain, 0 of the others
    full_levels: set[tuple[int, int, bytes]] = field(
        default_factory=set
    )  # rows, values per row and levels of full pages
    # By rows and bytes (0: compressed) of a page without nulls: its first bytes, and its values per row.
    begins: dict[tuple[int, int], tuple[bytes, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class PageMap:
    """The parsed footer of a file."""

    columns: FileColumns
    levels: tuple[tuple[int, int], ...]  # maximum repetition and definition level of each leaf
    before: bytes  # of the footer, up to the number of rows
    after: bytes  # what a footer for some of the pages has behind its row groups
    starts: NDArray[np.int64]  # the first row of each row group, and the number of rows
    places: tuple[tuple[int, ...], ...]  # by row group and leaf: the offset of its metadata in `raw`
    raw: bytes  # the footer, up to the end of the row groups
    index: bytes  # the bytes before the footer, from `index_at` in the file on
    index_at: int
    parsed: dict[int, Leaf | None] = field(default_factory=dict)

    def leaf(self, number: int) -> Leaf | None:
        """The pages of a leaf; None where their index has an unknown form."""
        if number not in self.parsed:
            try:
                self.parsed[number] = self._leaf(number)
            except (ValueError, IndexError, KeyError, TypeError):
                self.parsed[number] = None
        return self.parsed[number]

    def _leaf(self, number: int) -> Leaf:
        chunks: list[Chunk | None] = []
        firsts, starts, stops = [], [], []
        for group, places in enumerate(self.places):
            row, end = self.starts[group : group + 2].tolist()
            if row == end:
                chunks.append(None)
                continue
            chunk, index = _chunk(self.raw, places[number], self.index_at)
            offsets, sizes, rows = page_locations(self.index[index])
            tiled = np.array_equal(offsets + sizes, np.append(offsets[1:], chunk.stop)) and (sizes > 0).all()
            inside = chunk.start <= offsets[0] and chunk.stop <= self.index_at + len(self.index)
            if not (tiled and inside and rows[0] == 0 and (np.diff(rows, append=end - row) > 0).all()):
                raise ValueError("the pages of a chunk do not tile it")
            chunks.append(chunk._replace(pages_at=int(offsets[0])))
            firsts.append(rows + row)
            starts.append(offsets)
            stops.append(offsets + sizes)
        firsts.append(self.starts[-1:])
        proven = np.zeros(sum(map(len, starts)), np.int32)
        return Leaf(np.concatenate(firsts), np.concatenate(starts), np.concatenate(stops), tuple(chunks), proven)


def load_page_map(read: Callable[[int, int], bytes], size: int, *, guess: int) -> PageMap | None:
    """The map of a file of `size` bytes, read by offset and length; None where the footer has an unknown form.

    Costs one read where footer and page index together have no more than `guess` bytes.
    """
    at = max(0, size - guess)
    tail = read(at, size - at)
    length = int.from_bytes(tail[-TRAILER:-4], "little")
    footer_at = size - TRAILER - length
    if len(tail) != size - at or tail[-4:] != b"PAR1" or footer_at < 4:
        return None
    if footer_at < at:
        at = max(0, footer_at - guess)
        tail = read(at, size - at)
    raw = tail[footer_at - at : -TRAILER]
    try:
        file = pq.ParquetFile(pa.BufferReader(tail), coerce_int96_timestamp_unit="us")
        before, raw, after, places, index_at = _parsed_footer(raw)
    except (ValueError, IndexError, pa.ArrowException, OSError):
        return None
    footer = file.metadata
    if len(places) != footer.num_row_groups or any(len(leaves) != footer.num_columns for leaves in places):
        return None
    if index_at is None or not 0 < footer_at - index_at < _LARGEST_INDEX:
        return None
    index = tail[index_at - at : footer_at - at] if index_at >= at else read(index_at, footer_at - index_at)
    starts = np.cumsum([0, *(footer.row_group(g).num_rows for g in range(footer.num_row_groups))])
    levels = tuple(
        (leaf.max_repetition_level, leaf.max_definition_level)
        for leaf in map(footer.schema.column, range(footer.num_columns))
    )
    return PageMap(file_columns(file), levels, before, after, starts, places, raw, index, index_at)


def page_locations(index: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Offset, size and first row of every page, from the offset index of a chunk."""
    if index[:1] != b"\x19":
        raise ValueError("an offset index begins with its pages")
    count, kind, at = thrift.sequence_header(index, 1)
    data = np.frombuffer(index, np.uint8)
    # A location has three fields, each of a byte that names it and a varint, and a byte that ends it: seven bytes
    # without the continuation bit. These bytes delimit all locations at once.
    ends = np.flatnonzero(data[at:] < 0x80)[: count * 7] + at
    if kind != thrift.STRUCT or not count or len(ends) != count * 7:
        raise ValueError("an offset index is cut short")
    marks = ends.reshape(count, 7)
    follows = np.append(at, marks[:-1, 6] + 1)
    regular = (marks[:, 0] == follows).all() and (data[marks[:, 6]] == 0).all()
    for i in range(3):
        regular &= (data[marks[:, 2 * i]] == _LOCATION[i]).all()
        regular &= (marks[:, 2 * i + 2] == marks[:, 2 * i + 1] + 1).all()
    if not regular:
        raise ValueError("page locations have another form than those of every known writer")
    offsets, sizes, firsts = (thrift.varints(data, marks[:, 2 * i] + 1)[0] for i in range(3))
    return offsets, sizes, firsts


class PageMaps:
    """A cache of the maps of files; the least recently used one is dropped first."""

    def __init__(self, budget: int = _BUDGET) -> None:
        self._budget = budget
        self._held = 0
        self._maps: OrderedDict[tuple[object, ...], PageMap | None] = OrderedDict()
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[PageMaps], tuple[int]]:
        return PageMaps, (self._budget,)  # in a task the cache starts empty

    def get(self, key: tuple[object, ...], make: Callable[[], PageMap | None]) -> PageMap | None:
        """The map cached under a key, created by `make` where there is none; that a file has no map is cached too."""
        with self._lock:
            if key in self._maps:
                self._maps.move_to_end(key)
                return self._maps[key]
        pages = make()
        with self._lock:
            if key not in self._maps:
                self._held += _size(pages)
            self._maps[key] = pages
            while self._held > self._budget:
                _, dropped = self._maps.popitem(last=False)
                self._held -= _size(dropped)
        return pages


def _size(pages: PageMap | None) -> int:
    """Bytes of memory, roughly."""
    return _ENTRY if pages is None else _ENTRY + len(pages.raw) * _PER_BYTE + len(pages.index) * 4


def _parsed_footer(raw: bytes) -> tuple[bytes, bytes, bytes, tuple[tuple[int, ...], ...], int | None]:
    """The footer before its row groups and up to their end, what Arrow needs of the rest, the offsets of its chunks,
    and the offset in the file of the first page index."""
    fields, _ = thrift.spans(raw, 0)
    if [number for number, _, _ in fields[:4]] != [1, 2, 3, 4]:
        raise ValueError("a footer has version, schema, rows and row groups first")
    (_, _, before), (_, groups, after) = fields[1], fields[3]
    count, _, at = thrift.sequence_header(raw, groups)
    places, firsts = [], []
    for _ in range(count):
        inside, at = thrift.spans(raw, at)
        columns = next(value for number, value, _ in inside if number == 1)
        chunk_places, index_at = _chunk_places(raw, columns)
        places.append(chunk_places)
        firsts += index_at
    rest = {number: (value, end) for number, value, end in fields[4:]}
    return raw[:before], raw[:after], _arrow_metadata(raw, rest), tuple(places), min(firsts, default=None)


def _arrow_metadata(raw: bytes, rest: Mapping[int, tuple[int, int]]) -> bytes:
    """The Arrow schema and the name of the writer, which are all that Arrow uses of the rest of a footer."""
    fields = []
    if 5 in rest:
        count, _, at = thrift.sequence_header(raw, rest[5][0])
        pairs = []
        for _ in range(count):
            pair, end = thrift.record(raw, at)
            pairs += [raw[at:end]] if pair.get(1) == b"ARROW:schema" else []
            at = end
        fields.append((1, thrift.LIST, thrift.sequence(thrift.STRUCT, pairs)))
    if 6 in rest:
        value, end = rest[6]
        fields.append((2, thrift.BINARY, raw[value:end]))
    return thrift.struct(*fields)


def _chunk_places(raw: bytes, at: int) -> tuple[tuple[int, ...], list[int]]:
    count, _, at = thrift.sequence_header(raw, at)
    places, firsts = [], []
    for _ in range(count):
        places.append(at)
        fields, at = thrift.spans(raw, at)
        firsts += [thrift.signed(raw, value)[0] for number, value, _ in fields if number == 4]
    return tuple(places), firsts


def _chunk(raw: bytes, at: int, index_at: int) -> tuple[Chunk, slice]:
    """A chunk, and the slice of its offset index behind `index_at`."""
    outer, _ = thrift.record(raw, at)
    if outer.keys() & {1, 8, 9}:
        raise ValueError("a chunk lies in another file, or is encrypted")
    facts, index, length = outer[3], _int(outer[4]) - index_at, _int(outer[5])
    if not isinstance(facts, dict) or not isinstance(encodings := facts[2], list) or index < 0 or length < 0:
        raise ValueError("a chunk is described by a record")
    data, dictionary = _int(facts[9]), _int(facts.get(11, 0))
    start = min(data, dictionary) if dictionary > 0 else data
    size = _int(facts[7])
    if start < 4 or size <= 0:
        raise ValueError("a chunk lies between the magic and the footer")
    encoded = frozenset(_int(e) for e in encodings)
    chunk = Chunk(_int(facts[1]), _int(facts[4]), encoded, _int(facts[5]), start, start + size, start)
    return chunk, slice(index, index + length)


def _int(value: thrift.Value) -> int:
    if not isinstance(value, int):
        raise TypeError("a number is expected")
    return value
