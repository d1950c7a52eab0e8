"""Finds the entries of a scalar segment by key: a sparse top level in memory, blocks decoded on demand.

    top (first and last key of each block)  ->  blocks that may hold a key  ->  their rows  ->  row ids and versions

1. A block is read and decoded once, and cached within a memory limit; page checksums are verified.
2. Counting the entries of an interval reads only the blocks at its ends.
3. A segment that contradicts its `meta.json` is Damaged.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.errors import Damaged
from holdfast.index.registry import SegmentRef
from holdfast.index.scalar.query import KeyQuery
from holdfast.index.segment import FileSum, get_file, read_meta
from holdfast.parquet.index_runs import ROW_ID, ROW_IDS, ROWS, VERSION, footer_sum
from holdfast.parquet.source import open_source
from holdfast.rows.keys import Interval, Numbers, SortedCodes, SortedTexts, keys_of
from holdfast.storage.base import NotFound
from holdfast.storage.error_mapping import parsing
from holdfast.storage.location import Location

TOP = "top.parquet"
MOST_BYTES = 1 << 29  # of decoded blocks, over all segments that share a cache

_FOOTER_GUESS = 1 << 16
_FEW = 64  # keys that are searched one by one
_ALIKE = 4  # entries per key, up to which rows are listed one by one


@dataclass(frozen=True, slots=True)
class Hits:
    """Entries: row ids, and the row commit versions they are valid for."""

    ids: Numbers
    versions: Numbers


@dataclass(frozen=True)
class EntryBlock:
    """One row group, decoded: null keys first, then the others in order."""

    nulls: int
    keys: SortedCodes | SortedTexts
    ids: Numbers | None  # None: bitmaps
    versions: Numbers
    bitmaps: pa.Array
    counts: Numbers | None
    weight: int
    table: pa.Table

    def hits(self, low: int, high: int) -> Hits:
        """The entries of the rows from `low` to `high`."""
        if self.ids is not None:
            return Hits(self.ids[low:high], self.versions[low:high])
        bitmaps = [
            BitMap64.deserialize(data) for data in self.bitmaps.slice(low, high - low).to_pylist()
        ]  # one per key
        ids = [np.frombuffer(ids.to_array(), np.uint64).astype(np.int64) for ids in bitmaps]
        versions = np.repeat(self.versions[low:high], [len(part) for part in ids])
        return Hits(np.concatenate([np.zeros(0, np.int64), *ids]), versions)

    def count(self, low: int, high: int) -> int:
        return high - low if self.counts is None else int(self.counts[low:high].sum())


class BlockCache:
    """An LRU cache of decoded blocks of all segments."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._blocks: OrderedDict[tuple[str, int], EntryBlock] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, key: tuple[str, int]) -> EntryBlock | None:
        with self._lock:
            block = self._blocks.get(key)
            if block is not None:
                self._blocks.move_to_end(key)
            return block

    def put(self, key: tuple[str, int], block: EntryBlock) -> None:
        with self._lock:
            if key not in self._blocks:
                self._weight += block.weight
            self._blocks[key] = block
            while self._weight > self._most and len(self._blocks) > 1:
                _, old = self._blocks.popitem(last=False)
                self._weight -= old.weight


@dataclass(frozen=True, slots=True)
class _BlockSpan:
    """Rows of one block; `high` None: to its end."""

    block: int
    low: int
    high: int | None


@dataclass(frozen=True, slots=True, eq=False)
class _SingleRows:
    """Single rows of one block, for many keys with about one entry each."""

    block: int
    rows: Numbers


@dataclass(frozen=True)
class SegmentHits:
    """The positions of a query's entries in one segment."""

    segment: Segment
    spans: tuple[_BlockSpan | _SingleRows, ...]
    count: int

    def hits(self) -> Hits:
        parts = [self.segment.hits(span) for span in self.spans]
        if len(parts) == 1:
            return parts[0]
        none = np.zeros(0, np.int64)
        ids, versions = ([none, *(getattr(part, name) for part in parts)] for name in ("ids", "versions"))
        return Hits(np.concatenate(ids), np.concatenate(versions))

    def tables(self) -> list[pa.Table]:
        """The entries with their keys, for a segment with an entry per row."""
        return [self.segment.rows(span) for span in self.spans]


class Segment:
    """An open scalar segment: its `meta.json` and top level are read and checked."""

    def __init__(self, location: Location, ref: SegmentRef, types: Sequence[pa.DataType], cache: BlockCache) -> None:
        self._location, self._ref, self._cache, self._keys = location, ref, cache, len(types)
        meta = read_meta(location, ref)
        self._files = meta.files
        self._names = [str(name) for name in meta.extra.get("runs", ())]
        self._where = f"{location.url}/{ref.directory}"
        if TOP not in meta.files:
            raise Damaged(f"{self._where} has no {TOP}", path=self._where)
        data = get_file(location, ref.directory, TOP, meta.files[TOP])
        with parsing(f"{self._where}/{TOP}", "cannot be read as Parquet", remedy="rebuild the index"):
            top = pq.read_table(pa.BufferReader(data))
        self._runs, self._numbers, self._rows, self._nulls, self._entries = (
            top.column(name).to_numpy() for name in ("run", "block", "rows", "nulls", "entries")
        )
        self._some = top.column("first").is_valid().to_numpy()
        firsts, lasts = top.column("first").combine_chunks(), top.column("last").combine_chunks()
        self._codes: tuple[Numbers, Numbers] | None = None
        if pa.types.is_integer(firsts.type):
            self._codes = firsts.fill_null(0).to_numpy(), lasts.fill_null(0).to_numpy()
        self._texts = firsts.to_pylist(), lasts.to_pylist()  # one per block
        self._open: dict[int, pq.ParquetFile] = {}
        self._lock = threading.Lock()

    @property
    def entries(self) -> int:
        return int(self._entries.sum())

    def find(self, query: KeyQuery) -> SegmentHits:
        """The positions of a query's entries."""
        spans = [*self._null_spans(query), *self._point_spans(query), *self._interval_spans(query)]
        return SegmentHits(self, tuple(spans), sum(self._count(span) for span in spans))

    def hits(self, span: _BlockSpan | _SingleRows) -> Hits:
        block = self._block(span.block)
        if isinstance(span, _SingleRows):
            assert block.ids is not None, "only entries are found one by one"
            return Hits(block.ids[span.rows], block.versions[span.rows])
        return block.hits(span.low, int(self._rows[span.block]) if span.high is None else span.high)

    def rows(self, span: _BlockSpan | _SingleRows) -> pa.Table:
        """The entries of some rows, with their keys."""
        table = self._block(span.block).table
        if isinstance(span, _SingleRows):
            return table.take(pa.array(span.rows))
        end = int(self._rows[span.block]) if span.high is None else span.high
        return table.slice(span.low, end - span.low)

    def blocks(self) -> Iterator[EntryBlock]:
        for number in range(len(self._rows)):
            yield self._block(number)

    def boundaries(self) -> tuple[list[object], list[int]]:
        """The first key that is not null of each block, and the number of its entries."""
        some = np.flatnonzero(self._some).tolist()
        firsts = self._codes[0].tolist() if self._codes is not None else self._texts[0]
        return [firsts[n] for n in some], [int(self._entries[n]) for n in some]

    def check(self) -> None:
        """Read all files and compare them with their checksums."""
        for name, sums in self._files.items():
            get_file(self._location, self._ref.directory, name, sums)

    def _count(self, span: _BlockSpan | _SingleRows) -> int:
        if isinstance(span, _SingleRows):
            return len(span.rows)
        if span.high is None and span.low == 0:
            return int(self._entries[span.block])
        block = self._block(span.block)
        return block.count(span.low, int(self._rows[span.block]) if span.high is None else span.high)

    def _null_spans(self, query: KeyQuery) -> list[_BlockSpan]:
        if not query.null:
            return []
        return [_BlockSpan(n, 0, int(self._nulls[n])) for n in np.flatnonzero(self._nulls).tolist()]

    def _point_spans(self, query: KeyQuery) -> list[_BlockSpan | _SingleRows]:
        if query.points is None or not len(query.points):
            return []
        spans: list[_BlockSpan | _SingleRows] = []
        for number, keys in self._blocks_with(query.points):
            block = self._block(number)
            lows, highs = block.keys.equal(keys)
            held = lows < highs
            lows, highs = lows[held] + block.nulls, highs[held] + block.nulls
            lengths = highs - lows
            if block.ids is not None and len(lows) > 1 and lengths.sum() <= _ALIKE * len(lows):
                behind = np.cumsum(lengths)
                spans.append(_SingleRows(number, np.arange(behind[-1]) + np.repeat(highs - behind, lengths)))
                continue
            spans += [_BlockSpan(number, low, high) for low, high in zip(lows.tolist(), highs.tolist(), strict=True)]
        return spans

    def _blocks_with(self, points: Any) -> Iterator[tuple[int, Any]]:
        """The blocks that may hold some of the keys, each with these keys."""
        if self._codes is not None:
            lows = np.searchsorted(points, self._codes[0], "left")
            highs = np.searchsorted(points, self._codes[1], "right")
            for number in np.flatnonzero(self._some & (lows < highs)).tolist():
                yield number, points[lows[number] : highs[number]]
            return
        if self._is_ascending and len(points) <= _FEW:
            yield from self._blocks_with_few(points)
            return
        sorted_points = SortedTexts(points)
        for number in np.flatnonzero(self._some).tolist():
            low, high = sorted_points.between(Interval(self._texts[0][number], self._texts[1][number] + b"\0"))
            if low < high:
                yield number, points.slice(low, high - low)

    @cached_property
    def _is_ascending(self) -> bool:
        """Whether blocks are in the order of their keys."""
        return bool(self._some.all()) and all(list(ends) == sorted(ends) for ends in self._texts)

    def _blocks_with_few(self, points: pa.Array) -> Iterator[tuple[int, pa.Array]]:
        """The same for blocks in order: by bisection, key by key."""
        firsts, lasts = self._texts
        blocks: dict[int, list[bytes]] = {}
        for key in points.to_pylist():
            for number in range(bisect_left(lasts, key), bisect_right(firsts, key)):
                blocks.setdefault(number, []).append(key)
        for number, keys in blocks.items():
            yield number, pa.array(keys, pa.binary())

    def _interval_spans(self, query: KeyQuery) -> list[_BlockSpan]:
        spans = []
        for interval in query.intervals:
            for number in np.flatnonzero(self._touched(interval)).tolist():
                if self._is_inside(number, interval):
                    spans.append(_BlockSpan(number, int(self._nulls[number]), None))
                    continue
                block = self._block(number)
                low, high = block.keys.between(interval)
                if low < high:
                    spans.append(_BlockSpan(number, low + block.nulls, high + block.nulls))
        return spans

    def _touched(self, interval: Interval) -> NDArray[np.bool_]:
        """The blocks that overlap an interval."""
        touched: NDArray[np.bool_] = self._some.copy()
        low: Any = interval.low
        high: Any = interval.high
        if self._codes is not None:
            if low is not None:
                touched &= self._codes[1] >= low
            if high is not None:
                touched &= self._codes[0] < high
            return touched
        for number in np.flatnonzero(touched).tolist():
            first, last = self._texts[0][number], self._texts[1][number]
            touched[number] = (low is None or last >= low) and (high is None or first < high)
        return touched

    def _is_inside(self, number: int, interval: Interval) -> bool:
        """Whether every non-null key of a block lies in an interval."""
        ends: tuple[Any, Any] = self._texts if self._codes is None else self._codes
        first, last = ends[0][number], ends[1][number]
        return (interval.low is None or first >= interval.low) and (interval.high is None or last < interval.high)

    def _block(self, number: int) -> EntryBlock:
        cache_key = (self._where, number)
        block = self._cache.get(cache_key)
        if block is None:
            block = self._decoded(number)
            self._cache.put(cache_key, block)
        return block

    def _decoded(self, number: int) -> EntryBlock:
        run, group = int(self._runs[number]), int(self._numbers[number])
        where = f"{self._where}/{self._names[run]}"
        with self._lock, parsing(where, remedy="rebuild the index"):  # one reader of a Parquet file at a time
            table = self._file(run).read_row_group(group, use_threads=False).combine_chunks()
        nulls = int(self._nulls[number])
        if table.num_rows != self._rows[number]:
            raise Damaged(f"{where} has {table.num_rows} rows in block {group}, not {self._rows[number]}", path=where)
        keys = keys_of([column.slice(nulls) for column in table.columns[: self._keys]])
        shaped = SortedTexts(keys.texts) if keys.codes is None else SortedCodes(keys.codes)
        versions = table.column(VERSION).to_numpy()
        if ROW_IDS in table.column_names:
            counts = table.column(ROWS).to_numpy()
            bitmaps = table.column(ROW_IDS).combine_chunks()
            return EntryBlock(nulls, shaped, None, versions, bitmaps, counts, table.nbytes, table)
        ids = table.column(ROW_ID).to_numpy()
        return EntryBlock(nulls, shaped, ids, versions, None, None, 2 * table.nbytes, table)

    def _file(self, run: int) -> pq.ParquetFile:
        if run not in self._open:
            name = self._names[run]
            sums = self._files.get(name)
            where = f"{self._where}/{name}"
            if sums is None:
                raise Damaged(f"{where} is not told of by its segment", path=where)
            _check_end(self._location, f"{self._ref.directory}/{name}", sums, where)
            source = open_source(self._location.store, self._location.key(self._ref.directory, name), sums.bytes)
            self._open[run] = pq.ParquetFile(source, page_checksum_verification=True)
        return self._open[run]


def _check_end(location: Location, key: str, sums: FileSum, where: str) -> None:
    """Check size and footer of a run; pages are checked when they are read."""
    store, name = location.store, location.key(key)
    try:
        size = store.head(name).size
    except NotFound as error:
        raise Damaged(f"{where} is not there, but the index refers to it", path=where) from error
    if size == sums.bytes:
        guess = min(size, _FOOTER_GUESS)
        end = store.get_range(name, size - guess, guess)
        length = int.from_bytes(end[-8:-4], "little") + 8
        if length > len(end):
            end = store.get_range(name, max(size - length, 0), length)
        if footer_sum(end) == sums.extra.get("footer"):
            return
    raise Damaged(f"{where} is not what was written", path=where, expected=f"{sums.bytes} bytes", found=f"{size}")
