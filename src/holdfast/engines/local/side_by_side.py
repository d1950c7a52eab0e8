"""Reads several files at the same time, each a few batches ahead of the consumer.

1. Files come in the order in which they were planned, rows in the order in which they are stored.
2. A file that cannot be read raises where its next row would have come.
3. A consumer that stops early stops the reading.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

import pyarrow as pa

from holdfast.parquet.read import ReadSpec, read_batches
from holdfast.parquet.source import open_source
from holdfast.plan.scan.tasks import PlannedFile
from holdfast.storage.location import Location
from holdfast.storage.open import place

_AHEAD = 4  # batches a file may be ahead of what was consumed
_Item: TypeAlias = pa.RecordBatch | None  # None: no more of this file


def side_by_side(
    location: Location, spec: ReadSpec, tasks: Iterator[PlannedFile], threads: int
) -> Generator[tuple[PlannedFile, Iterator[pa.RecordBatch]], None, None]:
    """Files and their rows; the rows of one are taken before the next file is asked for."""
    stop = threading.Event()
    files: deque[tuple[PlannedFile, Future[None], queue.Queue[_Item]]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="holdfast-scan") as pool:
        try:
            while True:
                while len(files) < threads and (planned := next(tasks, None)) is not None:
                    batches: queue.Queue[_Item] = queue.Queue(_AHEAD)
                    files.append((planned, pool.submit(_produce, location, spec, planned, batches, stop), batches))
                if not files:
                    return
                planned, reading, batches = files[0]
                yield planned, _taken(reading, batches)
                files.popleft()
        finally:
            stop.set()


def _taken(reading: Future[None], batches: queue.Queue[_Item]) -> Iterator[pa.RecordBatch]:
    while (batch := batches.get()) is not None:
        yield batch
    reading.result()  # raises what ended the file early


def _produce(
    location: Location, spec: ReadSpec, planned: PlannedFile, batches: queue.Queue[_Item], stop: threading.Event
) -> None:
    """Read one file into its queue, and say when it ends."""
    try:
        store, key = place(location, planned.key)
        for batch in read_batches(open_source(store, key, planned.task.size), spec, planned.task):
            if not _offered(batches, batch, stop):
                return
    finally:
        _offered(batches, None, stop)


def _offered(batches: queue.Queue[_Item], item: _Item, stop: threading.Event) -> bool:
    """Whether the item was taken before the reading was given up."""
    while not stop.is_set():
        try:
            batches.put(item, timeout=0.05)
        except queue.Full:
            continue
        return True
    return False
