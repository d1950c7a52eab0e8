"""Single rows of data files, by position.

1. What comes out equals what `read_batches` gives for the same rows, in the order asked: pick by pick, and within one
   in the order of its positions, which may repeat.
2. A position is physical, and what the task says is hidden has no say: who asks for a position has found its row.
3. A position that the file does not have is Damaged, with the file's name.
4. Only pages that hold a wanted row are read, where the file has an index of its pages and that is understood; other
   files, and row groups too large to be held, are read batch by batch. Which way never changes the answer.
5. A remote file costs one read for what its footer and page index say, once, and one for each stretch of pages.
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
import pyarrow.parquet as pq
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
    blamed_on,
    blank,
    opened,
    output_schema,
    shape_of,
    stored_batches,
)
from holdfast.parquet.source import open_source
from holdfast.storage.arrays import positions
from holdfast.storage.base import NotFound, ObjectStore

GUESS = 256 << 10  # bytes at the end of a remote file that mostly hold its footer and page index
_LARGEST = 256 << 20  # bytes of one row group; beyond, it is read batch by batch
_AHEAD = 256 << 20  # bytes of remote pages that are held at a time
_TOGETHER = 4096  # rows of files whose texts are found together
_KEPT = 256  # files whose columns are remembered
_MAPS, _MAPPINGS = PageMaps(), Mappings()


@dataclass(frozen=True, slots=True, eq=False)
class Pick:
    """Rows of one file."""

    store: ObjectStore
    key: str  # in the store
    task: FileTask
    positions: NDArray[np.int64]  # in any order, also more than once


class Taking:
    """How rows with some columns are taken; what does not depend on the rows is worked out once for each file."""

    def __init__(self, spec: ReadSpec) -> None:
        self.spec = spec
        self.schema = output_schema(spec)
        self._columns: dict[str, _Columns] = {}  # by URI, the last come last
        self._lock = Lock()

    def rows(self, picks: Sequence[Pick], *, parallel: int = 32) -> pa.Table:
        """Rows of several files, in the order asked, with the columns of `output_schema(spec)`.

        From a remote store at most `parallel` ranges are read at a time.
        """
        asked = [pick for pick in picks if len(pick.positions)]
        if all(pick.store.url == "file://" for pick in asked):
            found = [batch for some in _grouped(asked) for batch in self._local(some)]
        else:
            with ThreadPoolExecutor(parallel) as pool:
                found = list(self._remote(asked, pool))
        return pa.Table.from_batches(found, schema=self.schema)

    def _local(self, picks: Sequence[Pick]) -> list[pa.RecordBatch]:
        """The rows of files of this machine."""
        begun: list[_Reading | None] = []
        for pick in picks:
            try:
                version, data = _MAPPINGS.get(f"/{pick.key}")
            except (OSError, ValueError):  # the plain reader says what is wrong with it
                begun.append(None)
                continue
            plan = self._planned(pick, _MAPS.get(("file://", pick.key, version), partial(_mapped, data)))
            begun.append(None if plan is None else _begin(plan, whole(data)))
        _find_texts([reading for reading in begun if reading is not None])
        return [self._finished(*each) for each in zip(picks, begun, strict=True)]

    def _remote(self, picks: Sequence[Pick], pool: Executor) -> Iterator[pa.RecordBatch]:
        """The rows of files that come over a network: what all need is asked for before the first is decoded."""
        begun: deque[tuple[int, Callable[[], pa.RecordBatch]]] = deque()
        held = 0
        for pick, (pages, data) in zip(picks, pool.map(_fetched_map, picks), strict=True):
            size, answer = self._asked(pick, pages, data, pool)
            begun.append((size, answer))
            held += size
            while held > _AHEAD:
                size, answer = begun.popleft()
                held -= size
                yield answer()
        for _, answer in begun:
            yield answer()

    def _asked(
        self, pick: Pick, pages: PageMap | None, data: bytes | None, pool: Executor
    ) -> tuple[int, Callable[[], pa.RecordBatch]]:
        """Begin to read one file: how many bytes that may be, and what waits for its rows."""
        plan = self._planned(pick, pages)
        if plan is None:
            plain = pool.submit(self._finished, pick, None)
            return pick.task.size or 0, plain.result
        if data is None:
            starts, stops = plan.stretches()
            size = int((stops - starts).sum())
            window = fetched(lambda at, length: pick.store.get_range(pick.key, at, length), starts, stops, pool)
        else:
            in_hand = whole(np.frombuffer(data, np.uint8))
            size, window = len(data), lambda: in_hand

        def answer() -> pa.RecordBatch:
            try:
                reading = _begin(plan, window())
            except (NotFound, ValueError):
                return self._finished(pick, None)
            _find_texts([reading])
            return self._finished(pick, reading)

        return size, answer

    def _finished(self, pick: Pick, reading: _Reading | None) -> pa.RecordBatch:
        with blamed_on(pick.task.uri):
            found = None if reading is None else _read(reading, self.schema)
            return _plain(self.spec, pick, self.schema) if found is None else found

    def _planned(self, pick: Pick, pages: PageMap | None) -> _Plan | None:
        """How to read a file by its pages; None where it is to be read by row groups."""
        if pages is None or pick.task.format != "parquet":
            return None
        columns = self._columns.get(pick.task.uri)
        if columns is None or columns.task is not pick.task or columns.pages is not pages:
            columns = _columns(self.spec, pick.task, pages)
            with self._lock:
                self._columns[pick.task.uri] = columns
                if len(self._columns) > _KEPT:
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
    """The columns of one file that are needed, by the ways they can be read."""

    task: FileTask
    pages: PageMap
    rows: int
    stored: StoredColumns
    gathers: tuple[Node, ...]
    steps: tuple[Node, ...]
    others: tuple[Node, ...]


def _columns(spec: ReadSpec, task: FileTask, pages: PageMap) -> _Columns:
    stored = StoredColumns(pages.shape, spec, task)
    nodes = stored.needed.values()
    gathers = tuple(node for node in nodes if may_gather(pages, node))
    steps = tuple(node for node in nodes if may_step(pages, node))
    others = tuple(node for node in nodes if node not in gathers and node not in steps)
    return _Columns(task, pages, int(pages.starts[-1]), stored, gathers, steps, others)


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """How to read the wanted rows of one file by its pages."""

    columns: _Columns
    asked: NDArray[np.int64]
    wanted: NDArray[np.int64]  # ascending, each once
    back: NDArray[np.int64] | None  # from the wanted rows to those asked for; None: they are the same
    cuts: tuple[Cut, ...]  # of columns that are neither gathered nor found by steps

    def stretches(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The bytes of the file that are needed."""
        columns = self.columns
        cuts = (*self.cuts, *_cuts(columns.pages, (*columns.gathers, *columns.steps), self.wanted))
        if not cuts:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        starts, stops = zip(*(each.stretches() for each in cuts), strict=True)
        return np.concatenate(starts), np.concatenate(stops)

    def as_asked(self, values: pa.Array) -> pa.Array:
        """What the wanted rows have, for those asked for."""
        return values if self.back is None else values.take(positions(self.back))


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """Rows of one file on their way: columns that are there, by name, and texts that are yet to be found."""

    plan: _Plan
    window: Window
    found: dict[str, pa.Array]
    texts: dict[str, Texts]


def _begin(plan: _Plan, window: Window) -> _Reading:
    """Gather what can be gathered, and unpack the pages of texts."""
    columns, texts = plan.columns, dict[str, Texts | None]()
    if len(plan.asked) == 1:
        row = int(plan.asked[0])
        found = {node.name: value_of(columns.pages, node, row, window) for node in columns.gathers}
        found |= {node.name: text_of(columns.pages, node, row, window) for node in columns.steps}
    else:
        found = {node.name: gathered(columns.pages, node, plan.asked, window) for node in columns.gathers}
        texts = {node.name: unpacked(columns.pages, node, plan.wanted, window) for node in columns.steps}
    return _Reading(
        plan,
        window,
        {name: values for name, values in found.items() if values is not None},
        {name: pages for name, pages in texts.items() if pages is not None},
    )


def _find_texts(begun: Sequence[_Reading]) -> None:
    """Find the texts of all files together."""
    sought = [(reading, name, texts) for reading in begun for name, texts in reading.texts.items()]
    found = stepped([texts for _, _, texts in sought]) if sought else None
    for (reading, name, _), values in zip(sought, found or (), strict=found is not None):
        reading.found[name] = reading.plan.as_asked(values)


def _read(reading: _Reading, schema: pa.Schema) -> pa.RecordBatch | None:
    """The rows, with what is still lacking put together from pages; None where Arrow makes nothing of these."""
    plan, columns, found = reading.plan, reading.plan.columns, reading.found
    if len(found) < len(columns.stored.needed):
        refused = [node for node in (*columns.gathers, *columns.steps) if node.name not in found]
        try:
            cuts = (*plan.cuts, *_cuts(columns.pages, refused, plan.wanted))
            parts = spliced(columns.pages, cuts, plan.wanted, reading.window)
        except (pa.ArrowException, OSError, ValueError):
            return None
        found |= {name: plan.as_asked(part) for name, part in parts.items()}
    names = list(columns.stored.needed)
    rows = pa.RecordBatch.from_arrays([found[name] for name in names], names) if names else blank(len(plan.asked))
    return columns.stored.made(rows, plan.asked, schema)


def _cuts(pages: PageMap, nodes: Iterable[Node], wanted: NDArray[np.int64]) -> tuple[Cut, ...]:
    return tuple(found for node in nodes if (found := cut(pages, node, wanted)) is not None)


def _grouped(picks: Sequence[Pick]) -> Iterator[Sequence[Pick]]:
    """Picks in their order, so many together as hold not too many rows: their pages are in memory at a time."""
    some: list[Pick] = []
    rows = 0
    for pick in picks:
        if some and rows + len(pick.positions) > _TOGETHER:
            yield some
            some, rows = [], 0
        some.append(pick)
        rows += len(pick.positions)
    if some:
        yield some


def _mapped(data: NDArray[np.uint8]) -> PageMap | None:
    """The map of a file of this machine."""
    return load_page_map(lambda at, length: data[at : at + length].tobytes(), len(data), guess=GUESS)


def _fetched_map(pick: Pick) -> tuple[PageMap | None, bytes | None]:
    """The map of a remote file; where it is small and has to be read for that, also all of its bytes."""
    store, key = pick.store, pick.key
    come: list[bytes] = []

    def read(at: int, length: int) -> bytes:
        come.append(store.get_range(key, at, length))
        return come[-1]

    def made() -> PageMap | None:
        try:
            size = store.head(key).size if pick.task.size is None else pick.task.size
            return load_page_map(read, size, guess=GUESS)
        except NotFound:
            return None

    # Two stores in memory may have one name.
    kept = not store.url.startswith("memory://")
    pages = _MAPS.get((store.url, key, pick.task.size), made) if kept else made()
    return pages, come[0] if len(come) == 1 and len(come[0]) == pick.task.size else None


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
    return columns.made(rows if back is None else rows.take(positions(back)), pick.positions, schema)


def _of_groups(
    source: pa.NativeFile, spec: ReadSpec, task: FileTask, wanted: NDArray[np.int64]
) -> tuple[StoredColumns, Sequence[pa.RecordBatch]]:
    """The wanted rows of a Parquet file, of which only row groups that have one are read."""
    with blamed_on(task.uri):
        file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us", pre_buffer=isinstance(source, pa.PythonFile))
    columns = StoredColumns(shape_of(file), spec, task)
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


def _ascending(asked: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Positions in order, each once, and how to come back from them; None where there is nothing to come back to."""
    if (asked[1:] > asked[:-1]).all():
        return asked, None
    wanted, back = np.unique(asked, return_inverse=True)
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
