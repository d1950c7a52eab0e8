"""Reads single rows of data files by their positions.

1. The result equals that of `read_batches` for the same rows, in the requested order: pick by pick, and within a pick
   in the order of its positions, which may repeat.
2. Hidden rows are returned too: a caller that names a position has checked that its row is live.
3. A position beyond the end of a file is Damaged, with the file's name.
4. Where the file has a page index of a known form, only pages that hold a wanted row are read; other files, and row
   groups too large for memory, are read batch by batch, with the same result.
5. A remote file costs one read for its footer and page index, which is cached, and one for each range of pages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Lock

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.errors import Damaged
from holdfast.parquet.pages.footer import Node
from holdfast.parquet.pages.gather import gathered, may_gather, value_of
from holdfast.parquet.pages.pagemap import PageMap, PageMaps, load_page_map
from holdfast.parquet.pages.splice import Cut, cut, spliced
from holdfast.parquet.pages.texts import Texts, may_step, stepped, text_of, unpacked
from holdfast.parquet.pages.window import Mappings, Window, fetched, whole
from holdfast.parquet.read import (
    FileTask,
    ReadSpec,
    StoredColumns,
    blank,
    file_columns,
    naming_file,
    open_parquet,
    opened,
    output_schema,
    stored_batches,
)
from holdfast.parquet.source import open_source
from holdfast.storage.arrays import positions
from holdfast.storage.base import NotFound, ObjectStore

GUESS = 256 << 10  # bytes at the end of a remote file that mostly hold its footer and page index
_LARGEST = 256 << 20  # bytes of one row group; beyond, it is read batch by batch
_AHEAD = 256 << 20  # bytes of remote pages that are held at a time
_TOGETHER = 4096  # rows of files whose strings are found together
_CACHED = 256  # files whose columns are cached
_MAPS, _MAPPINGS = PageMaps(), Mappings()


@dataclass(frozen=True, slots=True, eq=False)
class Pick:
    """The positions of rows in one file."""

    store: ObjectStore
    key: str  # in the store
    task: FileTask
    positions: NDArray[np.int64]  # in any order, also more than once


class Taking:
    """Reads rows with the columns of a spec; caches per file what does not depend on the rows."""

    def __init__(self, spec: ReadSpec) -> None:
        self.spec = spec
        self.schema = output_schema(spec)
        self._columns: dict[str, _Columns] = {}  # by URI, the newest last
        self._lock = Lock()

    def rows(self, picks: Sequence[Pick], *, parallel: int = 32) -> pa.Table:
        """Rows of several files, in the requested order, with the columns of `output_schema(spec)`.

        From a remote store at most `parallel` ranges are read at a time.
        """
        nonempty = [pick for pick in picks if len(pick.positions)]
        if all(pick.store.url == "file://" for pick in nonempty):
            batches = [batch for group in _grouped(nonempty) for batch in self._local(group)]
        else:
            with ThreadPoolExecutor(parallel) as pool:
                batches = list(self._remote(nonempty, pool))
        return pa.Table.from_batches(batches, schema=self.schema)

    def _local(self, picks: Sequence[Pick]) -> list[pa.RecordBatch]:
        """The rows of local files."""
        readings: list[_Reading | None] = []
        for pick in picks:
            try:
                version, data = _MAPPINGS.get(f"/{pick.key}")
            except (OSError, ValueError):  # the plain reader raises the error for it
                readings.append(None)
                continue
            plan = self._planned(pick, _MAPS.get(("file://", pick.key, version), partial(_mapped, data)))
            readings.append(None if plan is None else _begin(plan, whole(data)))
        _find_texts([reading for reading in readings if reading is not None])
        return [self._finished(*each) for each in zip(picks, readings, strict=True)]

    def _remote(self, picks: Sequence[Pick], pool: Executor) -> Iterator[pa.RecordBatch]:
        """The rows of remote files; reads of all files are begun before the first one is decoded."""
        pending: deque[tuple[int, Callable[[], pa.RecordBatch]]] = deque()
        held = 0
        for pick, (pages, data) in zip(picks, pool.map(_fetched_map, picks), strict=True):
            size, wait = self._begun(pick, pages, data, pool)
            pending.append((size, wait))
            held += size
            while held > _AHEAD:
                size, wait = pending.popleft()
                held -= size
                yield wait()
        for _, wait in pending:
            yield wait()

    def _begun(
        self, pick: Pick, pages: PageMap | None, data: bytes | None, pool: Executor
    ) -> tuple[int, Callable[[], pa.RecordBatch]]:
        """Begin to read one file; returns the bytes to read, and a function that waits for the rows."""
        plan = self._planned(pick, pages)
        if plan is None:
            plain = pool.submit(self._finished, pick, None)
            return pick.task.size or 0, plain.result
        if data is None:
            starts, stops = plan.byte_ranges()
            size = int((stops - starts).sum())
            window = fetched(lambda at, length: pick.store.get_range(pick.key, at, length), starts, stops, pool)
        else:
            loaded = whole(np.frombuffer(data, np.uint8))
            size, window = len(data), lambda: loaded

        def wait() -> pa.RecordBatch:
            try:
                reading = _begin(plan, window())
            except (NotFound, ValueError):
                return self._finished(pick, None)
            _find_texts([reading])
            return self._finished(pick, reading)

        return size, wait

    def _finished(self, pick: Pick, reading: _Reading | None) -> pa.RecordBatch:
        with naming_file(pick.task.uri):
            rows = None if reading is None else _read(reading, self.schema)
            if rows is None:
                return _plain(self.spec, pick, self.schema)
            rows.validate(full=True)  # texts must be UTF-8
            return rows

    def _planned(self, pick: Pick, pages: PageMap | None) -> _Plan | None:
        """How to read a file by its pages; None where it must be read by row groups."""
        if pages is None or pick.task.format != "parquet":
            return None
        columns = self._columns.get(pick.task.uri)
        if columns is None or columns.task is not pick.task or columns.pages is not pages:
            columns = _columns(self.spec, pick.task, pages)
            with self._lock:
                self._columns[pick.task.uri] = columns
                if len(self._columns) > _CACHED:
                    del self._columns[next(iter(self._columns))]
        wanted, back = _ascending(pick.positions)
        _check(wanted, columns.rows, pick.task.uri)
        cuts = _cuts(pages, columns.others, wanted) if columns.others else ()
        if len(cuts) < len(columns.others):
            return None
        if sum(each.size for each in cuts) > _LARGEST and sum(each.heaviest() for each in cuts) > _LARGEST:
            return None
        return _Plan(columns, pick.positions, wanted, back, cuts)


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """The needed columns of one file, by the way each can be read."""

    task: FileTask
    pages: PageMap
    rows: int
    stored: StoredColumns
    gathers: tuple[Node, ...]
    steps: tuple[Node, ...]
    others: tuple[Node, ...]


def _columns(spec: ReadSpec, task: FileTask, pages: PageMap) -> _Columns:
    stored = StoredColumns(pages.columns, spec, task)
    nodes = stored.needed.values()
    gathers = tuple(node for node in nodes if may_gather(pages, node))
    steps = tuple(node for node in nodes if may_step(pages, node))
    others = tuple(node for node in nodes if node not in gathers and node not in steps)
    return _Columns(task, pages, int(pages.starts[-1]), stored, gathers, steps, others)


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """How to read the wanted rows of one file by its pages."""

    columns: _Columns
    requested: NDArray[np.int64]
    wanted: NDArray[np.int64]  # the requested positions in ascending order, each once
    back: NDArray[np.int64] | None  # indexes that turn `wanted` into `requested`; None: they are the same
    cuts: tuple[Cut, ...]  # of columns that are neither gathered nor stepped through

    def byte_ranges(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Starts and stops of the needed bytes of the file."""
        columns = self.columns
        cuts = (*self.cuts, *_cuts(columns.pages, (*columns.gathers, *columns.steps), self.wanted))
        if not cuts:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        starts, stops = zip(*(each.byte_ranges() for each in cuts), strict=True)
        return np.concatenate(starts), np.concatenate(stops)

    def as_requested(self, values: pa.Array) -> pa.Array:
        """The values of the wanted rows in the requested order."""
        return values if self.back is None else values.take(positions(self.back))


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """Rows of one file while they are read: finished columns by name, and strings still to be found."""

    plan: _Plan
    window: Window
    columns: dict[str, pa.Array]
    texts: dict[str, Texts]


def _begin(plan: _Plan, window: Window) -> _Reading:
    """Gather what can be gathered, and decompress the pages of strings."""
    stored, texts = plan.columns, dict[str, Texts | None]()
    if len(plan.requested) == 1:
        row = int(plan.requested[0])
        columns = {node.name: value_of(stored.pages, node, row, window) for node in stored.gathers}
        columns |= {node.name: text_of(stored.pages, node, row, window) for node in stored.steps}
    else:
        columns = {node.name: gathered(stored.pages, node, plan.requested, window) for node in stored.gathers}
        texts = {node.name: unpacked(stored.pages, node, plan.wanted, window) for node in stored.steps}
    return _Reading(
        plan,
        window,
        {name: values for name, values in columns.items() if values is not None},
        {name: pages for name, pages in texts.items() if pages is not None},
    )


def _find_texts(readings: Sequence[_Reading]) -> None:
    """Find the strings of all files together."""
    searches = [(reading, name, texts) for reading in readings for name, texts in reading.texts.items()]
    arrays = stepped([texts for _, _, texts in searches]) if searches else None
    for (reading, name, _), values in zip(searches, arrays or (), strict=arrays is not None):
        reading.columns[name] = reading.plan.as_requested(values)


def _read(reading: _Reading, schema: pa.Schema) -> pa.RecordBatch | None:
    """The rows, with missing columns spliced from pages; None where Arrow cannot read these."""
    plan, columns, arrays = reading.plan, reading.plan.columns, reading.columns
    if len(arrays) < len(columns.stored.needed):
        missing = [node for node in (*columns.gathers, *columns.steps) if node.name not in arrays]
        try:
            cuts = (*plan.cuts, *_cuts(columns.pages, missing, plan.wanted))
            parts = spliced(columns.pages, cuts, plan.wanted, reading.window)
        except (pa.ArrowException, OSError, ValueError):
            return None
        arrays |= {name: plan.as_requested(part) for name, part in parts.items()}
    names = list(columns.stored.needed)
    rows = pa.RecordBatch.from_arrays([arrays[name] for name in names], names) if names else blank(len(plan.requested))
    return columns.stored.output(rows, plan.requested, schema)


def _cuts(pages: PageMap, nodes: Iterable[Node], wanted: NDArray[np.int64]) -> tuple[Cut, ...]:
    return tuple(each for node in nodes if (each := cut(pages, node, wanted)) is not None)


def _grouped(picks: Sequence[Pick]) -> Iterator[Sequence[Pick]]:
    """Picks in their order, in groups of at most _TOGETHER rows, whose pages are in memory together."""
    group: list[Pick] = []
    rows = 0
    for pick in picks:
        if group and rows + len(pick.positions) > _TOGETHER:
            yield group
            group, rows = [], 0
        group.append(pick)
        rows += len(pick.positions)
    if group:
        yield group


def _mapped(data: NDArray[np.uint8]) -> PageMap | None:
    """The map of a local file."""
    return load_page_map(lambda at, length: data[at : at + length].tobytes(), len(data), guess=GUESS)


def _fetched_map(pick: Pick) -> tuple[PageMap | None, bytes | None]:
    """The map of a remote file, and all of its bytes where one read for the map returned them."""
    store, key = pick.store, pick.key
    reads: list[bytes] = []

    def read(at: int, length: int) -> bytes:
        reads.append(store.get_range(key, at, length))
        return reads[-1]

    def load() -> PageMap | None:
        try:
            size = store.head(key).size if pick.task.size is None else pick.task.size
            return load_page_map(read, size, guess=GUESS)
        except NotFound:
            return None

    # Two memory stores may have one name.
    is_cached = not store.url.startswith("memory://")
    pages = _MAPS.get((store.url, key, pick.task.size), load) if is_cached else load()
    return pages, reads[0] if len(reads) == 1 and len(reads[0]) == pick.task.size else None


def _plain(spec: ReadSpec, pick: Pick, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of one file by way of its row groups."""
    wanted, back = _ascending(pick.positions)
    source = open_source(pick.store, pick.key, pick.task.size)
    read = _of_groups if pick.task.format == "parquet" else _of_all
    columns, parts = read(source, spec, pick.task, wanted)
    if sum(part.num_rows for part in parts) < len(wanted):
        uri = pick.task.uri
        raise Damaged(f"{uri} holds fewer rows than its footer says; restore it, or write its rows anew", path=uri)
    rows = pa.concat_batches(parts)
    return columns.output(rows if back is None else rows.take(positions(back)), pick.positions, schema)


def _of_groups(
    source: pa.NativeFile, spec: ReadSpec, task: FileTask, wanted: NDArray[np.int64]
) -> tuple[StoredColumns, Sequence[pa.RecordBatch]]:
    """The wanted rows of a Parquet file, from the row groups that hold one."""
    with naming_file(task.uri):
        file = open_parquet(source)
    columns = StoredColumns(file_columns(file), spec, task)
    groups = range(file.metadata.num_row_groups)
    starts = np.cumsum([0, *(file.metadata.row_group(g).num_rows for g in groups)])
    _check(wanted, int(starts[-1]), task.uri)
    parts = []
    for group in np.unique(np.searchsorted(starts, wanted, side="right") - 1).tolist():
        batches = stored_batches(file, columns, task.uri, batch_rows=spec.batch_rows, groups=[group])
        parts += [chosen for _, chosen in _chosen(batches, int(starts[group]), wanted)]
    return columns, parts


def _of_all(
    source: pa.NativeFile, spec: ReadSpec, task: FileTask, wanted: NDArray[np.int64]
) -> tuple[StoredColumns, Sequence[pa.RecordBatch]]:
    """The wanted rows of a file of another format."""
    columns, batches = opened(source, spec, task)
    ends, parts = zip(*_chosen(batches(columns), 0, wanted), strict=True)
    _check(wanted, ends[-1], task.uri)
    return columns, parts


def _chosen(
    batches: Iterator[pa.RecordBatch], start: int, wanted: NDArray[np.int64]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The wanted rows of each batch, and the position behind it."""
    for batch in batches:
        end = start + batch.num_rows
        low, high = np.searchsorted(wanted, (start, end))
        yield end, batch.take(positions(wanted[low:high] - start))
        start = end


def _ascending(requested: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Positions in order, each once, and the indexes that restore the requested order; None where it is the same."""
    if (requested[1:] > requested[:-1]).all():
        return requested, None
    wanted, back = np.unique(requested, return_inverse=True)
    return wanted, back


def _check(wanted: NDArray[np.int64], rows: int, uri: str) -> None:
    """Refuse sorted positions that a file with so many rows does not have."""
    if wanted[0] < 0 or wanted[-1] >= rows:
        off = wanted[0] if wanted[0] < 0 else wanted[-1]
        raise Damaged(
            f"{uri} has {rows} rows, but its table refers to row {off} of it; restore the file",
            path=uri,
            expected=f"more than {off} rows",
            found=f"{rows} rows",
        )
