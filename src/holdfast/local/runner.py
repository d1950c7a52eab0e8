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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.model.snapshot import HiddenRows, Resolve
from holdfast.parquet.read import BATCH_ROWS, FileTask, ReadSpec, output_schema, read_batches
from holdfast.parquet.source import open_source
from holdfast.plan.scan import ScanPlan
from holdfast.predicate.evaluate import matches
from holdfast.predicate.records import Predicate, columns_of
from holdfast.schema.partition import column as partition_column
from holdfast.schema.types import Field
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.open import open_location

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
        spec = read_spec(plan, batch_rows=self.batch_rows)
        predicate = None if plan.where is None else plan.where.predicate
        full = replace(spec, fields=(*spec.fields, *_for_condition(plan, predicate)))
        if predicate is not None:
            matches(output_schema(full).empty_table(), predicate)  # refuses what it cannot evaluate before any reading
        schema = output_schema(spec)
        batches = self._batches(plan, full, file_tasks(plan, hidden))
        return pa.RecordBatchReader.from_batches(schema, _finished(batches, predicate, schema, limit))

    def _batches(self, plan: ScanPlan, spec: ReadSpec, tasks: Iterator[_Planned]) -> Iterator[pa.RecordBatch]:
        location = plan.snapshot.location
        stop = threading.Event()
        open_files: deque[queue.Queue[_Item]] = deque()
        with ThreadPoolExecutor(self.threads, thread_name_prefix="holdfast-scan") as pool:
            try:
                while True:
                    while len(open_files) < self.threads and (task := next(tasks, None)) is not None:
                        made: queue.Queue[_Item] = queue.Queue(_AHEAD)
                        open_files.append(made)
                        pool.submit(_produce, location, spec, task, made, stop)
                    if not open_files:
                        return
                    match open_files[0].get():
                        case None:
                            open_files.popleft()
                        case BaseException() as error:
                            raise error
                        case batch:
                            yield batch
            finally:
                stop.set()


@dataclass(frozen=True, slots=True)
class _Planned:
    """A file's key, and what to make of its rows."""

    key: str
    task: FileTask


_Item: TypeAlias = pa.RecordBatch | BaseException | None  # None: the file is done


def read_spec(plan: ScanPlan, *, batch_rows: int = BATCH_ROWS) -> ReadSpec:
    """What a plan asks of every file."""
    identity = plan.snapshot.identity
    return ReadSpec(
        fields=plan.columns,
        partition_fields=plan.partition_fields,
        by_id=plan.snapshot.resolve is Resolve.BY_ID,
        id_column=None if identity is None else identity.id_column,
        version_column=None if identity is None else identity.version_column,
        metadata=dict(plan.metadata),
        batch_rows=batch_rows,
    )


def file_tasks(plan: ScanPlan, hidden: HiddenRows) -> Iterator[_Planned]:
    """One task per planned file, in the plan's order."""
    files = plan.files.table
    location = plan.snapshot.location
    for chunk in files.to_batches():
        partitions = {
            f.physical_name: partition_column(chunk.column("partition_values"), f) for f in plan.partition_fields
        }
        cardinality = pc.fill_null(pc.struct_field(chunk.column("dv"), "cardinality"), 0)
        for row in range(chunk.num_rows):
            key = chunk.column("key")[row].as_py()
            positions = hidden.positions.get(key)
            assert positions is not None or not cardinality[row].as_py(), f"the hidden rows of {key} were not loaded"
            task = FileTask(
                uri=location.spark_uri(key),
                partition={name: values[row] for name, values in partitions.items()},
                hidden=positions,
                base_row_id=chunk.column("base_row_id")[row].as_py(),
                default_row_commit_version=chunk.column("default_row_commit_version")[row].as_py(),
                size=chunk.column("size")[row].as_py(),
            )
            yield _Planned(key, task)


def _produce(
    location: Location, spec: ReadSpec, planned: _Planned, made: queue.Queue[_Item], stop: threading.Event
) -> None:
    """Read one file into its queue; an error is an item too, raised where the rows are consumed."""
    try:
        store, key = _place(location, planned.key)
        for batch in read_batches(open_source(store, key, planned.task.size), spec, planned.task):
            if not _offered(made, batch, stop):
                return
        _offered(made, None, stop)
    except BaseException as error:
        _offered(made, error, stop)


def _offered(made: queue.Queue[_Item], item: _Item, stop: threading.Event) -> bool:
    """Whether the item was taken before the scan was given up."""
    while not stop.is_set():
        try:
            made.put(item, timeout=0.05)
        except queue.Full:
            continue
        return True
    return False


def _place(location: Location, file_key: str) -> tuple[ObjectStore, str]:
    """The store and key of a file; one outside the table's store is there only because the user allowed it."""
    if "://" not in file_key or file_key.startswith(f"{location.store.url}/"):
        return location.store, location.store_key(file_key)
    outside = open_location(file_key)
    return outside.store, outside.directory


def _finished(
    batches: Iterator[pa.RecordBatch], predicate: Predicate | None, schema: pa.Schema, limit: int | None
) -> Iterator[pa.RecordBatch]:
    """Rows that satisfy the condition, up to the limit, without the columns only the condition needed."""
    left = limit
    if left == 0:
        return
    for found in batches:
        batch = found if predicate is None else found.filter(matches(found, predicate))
        if left is not None:
            batch = batch.slice(0, left)
            left -= batch.num_rows
        if batch.num_rows:
            yield batch.select(schema.names)
        if left == 0:
            return


def _for_condition(plan: ScanPlan, predicate: Predicate | None) -> tuple[Field, ...]:
    """Columns the condition needs beyond the asked ones."""
    wanted = set() if predicate is None else {column[0] for column in columns_of(predicate)}
    asked = {field.name for field in plan.columns}
    return tuple(f for f in plan.snapshot.schema.fields if f.name in wanted - asked)
