"""Run a scan in this process, with Arrow and nothing else.

1. Every planned file is read, or the scan raises; files follow one another in the plan's order, rows in stored order.
2. Hidden positions are gone before the condition sees a row; a limit counts rows that satisfy it.
3. The output has the asked columns in the asked order, then metadata columns, with the types of `schema.arrow`.
4. At most `threads` files are open at a time, each a few batches ahead of what was consumed; a scan that is given up
   stops reading.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from holdfast.local.gone import gone_rows
from holdfast.model.snapshot import HiddenRows
from holdfast.parquet.read import BATCH_ROWS, ReadSpec, output_schema, read_batches
from holdfast.parquet.source import open_source
from holdfast.plan.run import files_text, refuse_formats
from holdfast.plan.scan import ScanPlan
from holdfast.plan.tasks import PlannedFile, planned_files, read_spec
from holdfast.predicate.evaluate import matches
from holdfast.predicate.records import Predicate, columns_of, has_opaque
from holdfast.schema.types import Field
from holdfast.storage.location import Location
from holdfast.storage.open import place

_AHEAD = 4  # batches a file may be ahead of what was consumed


@dataclass(frozen=True, slots=True)
class LocalRunner:
    """Reads with a few threads of this process."""

    threads: int = 4
    batch_rows: int = BATCH_ROWS

    def scan(self, plan: ScanPlan, hidden: HiddenRows, *, limit: int | None = None) -> pa.Table:
        """The rows of a plan as one table."""
        return self.scan_batches(plan, hidden, limit=limit).read_all()

    def scan_batches(self, plan: ScanPlan, hidden: HiddenRows, *, limit: int | None = None) -> pa.RecordBatchReader:
        """The rows of a plan, batch by batch."""
        refuse_formats(plan)
        spec = read_spec(plan, batch_rows=self.batch_rows, gone=gone_rows(hidden))
        predicate = None if plan.where is None else plan.where.predicate
        full = replace(spec, fields=(*spec.fields, *_for_condition(plan, predicate)))
        if predicate is not None:
            matches(output_schema(full).empty_table(), predicate)  # refuses what it cannot evaluate before any reading
        schema = output_schema(spec)
        batches = self._batches(plan, full, planned_files(plan, hidden))
        return pa.RecordBatchReader.from_batches(schema, _finished(batches, predicate, schema, limit))

    def describe(self, plan: ScanPlan) -> tuple[str, ...]:
        """How the plan would be read, in sentences for people."""
        refuse_formats(plan)
        if plan.where is not None and has_opaque(plan.where.predicate):
            return ("not at all: a part of the condition only Spark understands",)
        return (f"by Arrow in this process: {files_text(len(plan.files))}, at most {self.threads} at a time",)

    def _batches(
        self, plan: ScanPlan, spec: ReadSpec, tasks: Iterator[PlannedFile]
    ) -> Generator[pa.RecordBatch, None, None]:
        location = plan.snapshot.location
        stop = threading.Event()
        files: deque[tuple[Future[None], queue.Queue[_Item]]] = deque()
        with ThreadPoolExecutor(self.threads, thread_name_prefix="holdfast-scan") as pool:
            try:
                while True:
                    while len(files) < self.threads and (planned := next(tasks, None)) is not None:
                        made: queue.Queue[_Item] = queue.Queue(_AHEAD)
                        files.append((pool.submit(_produce, location, spec, planned, made, stop), made))
                    if not files:
                        return
                    reading, made = files[0]
                    batch = made.get()
                    if batch is None:
                        reading.result()  # raises what ended the file early
                        files.popleft()
                    else:
                        yield batch
            finally:
                stop.set()


_Item: TypeAlias = pa.RecordBatch | None  # None: no more of this file


def _produce(
    location: Location, spec: ReadSpec, planned: PlannedFile, made: queue.Queue[_Item], stop: threading.Event
) -> None:
    """Read one file into its queue, and say when it ends."""
    try:
        store, key = place(location, planned.key)
        for batch in read_batches(open_source(store, key, planned.task.size), spec, planned.task):
            if not _offered(made, batch, stop):
                return
    finally:
        _offered(made, None, stop)


def _offered(made: queue.Queue[_Item], item: _Item, stop: threading.Event) -> bool:
    """Whether the item was taken before the scan was given up."""
    while not stop.is_set():
        try:
            made.put(item, timeout=0.05)
        except queue.Full:
            continue
        return True
    return False


def _finished(
    batches: Generator[pa.RecordBatch, None, None], predicate: Predicate | None, schema: pa.Schema, limit: int | None
) -> Iterator[pa.RecordBatch]:
    """Rows that satisfy the condition, up to the limit, without the columns only the condition needed."""
    left = limit
    with closing(batches):
        while left is None or left > 0:
            found = next(batches, None)
            if found is None:
                return
            batch = found if predicate is None else found.filter(matches(found, predicate))
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            if batch.num_rows:
                yield batch.select(schema.names)


def _for_condition(plan: ScanPlan, predicate: Predicate | None) -> tuple[Field, ...]:
    """Columns the condition needs beyond the asked ones."""
    wanted = set() if predicate is None else {column[0] for column in columns_of(predicate)}
    asked = {field.name for field in plan.columns}
    return tuple(f for f in plan.snapshot.schema.fields if f.name in wanted - asked)
