"""Stores the rows of a task of a change, and returns their addresses; runs in Spark's Python workers.

1. A row comes with what becomes of it, its address in the target, and its partner's address in the source: an address
   is one number, because every column costs each row its way from Spark to Python.
2. The answer has a bitmap and a count of rows per file: where they differ, over all tasks, some row was changed more
   than once.
3. Rows before a change and after it go to the change data files together with the kind of change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64
from pyspark import TaskContext

from holdfast.model.mutation import STAGED
from holdfast.parquet.carried import CarriedIdNotes
from holdfast.parquet.write import RowWriter, WriteSpec, file_names
from holdfast.plan.indexing import TaskFunction
from holdfast.storage.sink import FileSink

COPIED, UPDATED, DELETED, INSERTED, MET = range(5)  # what becomes of a row; MET: found by the source, otherwise left
DOES, ADDRESS, PARTNER = "does", "address", "partner"
POSITION_BITS = 40  # of an address: what is above is the number of the file
DATA_FILE, FEED_FILE, ROWS_UPDATED, ROWS_DELETED, ROWS_SEEN, ROWS_MET, ROWS_COPIED = (
    "data",
    "feed",
    "updated",
    "deleted",
    "seen",
    "met",
    "copied",
)
ANSWER = pa.schema([("kind", pa.string()), *STAGED, ("file", pa.int64()), ("bits", pa.binary()), ("rows", pa.int64())])

_POSITION = (1 << POSITION_BITS) - 1
_BEFORE = {UPDATED: "update_preimage", DELETED: "delete"}
_AFTER = {UPDATED: "update_postimage", INSERTED: "insert"}


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """Where in a batch things are: the columns to store come first, then those of the row as it was."""

    data: WriteSpec | None = None
    feed: WriteSpec | None = None
    stored: int = 0  # columns to store
    only: int | None = None  # what becomes of every row, where a batch does not say it of each
    notes: type[CarriedIdNotes] | None = None  # notes which rows keep their ids; None: none does


@dataclass
class _Told:
    """Positions gathered by file."""

    positions: dict[int, BitMap64] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)

    def add(self, addresses: NDArray[np.int64]) -> None:
        if not len(addresses):
            return
        files, positions = addresses >> POSITION_BITS, addresses & _POSITION
        if files[0] == files[-1] and (files == files[0]).all():
            self._add(int(files[0]), positions)
            return
        order = np.argsort(files, kind="stable")
        files, positions = files[order], positions[order]
        for part in np.split(np.arange(len(files)), np.flatnonzero(np.diff(files)) + 1):
            self._add(int(files[part[0]]), positions[part])

    def _add(self, file: int, positions: NDArray[np.int64]) -> None:
        added = BitMap64(positions.astype(np.uint64))
        known = self.positions.setdefault(file, added)
        if known is not added:
            known |= added
        self.rows[file] = self.rows.get(file, 0) + len(positions)

    def answers(self, kind: str) -> Iterator[dict[str, object]]:
        for file, positions in self.positions.items():
            positions.run_optimize()
            yield {"kind": kind, "file": file, "bits": positions.serialize(), "rows": self.rows[file]}


def changing(layout: BatchLayout, sink: FileSink) -> TaskFunction:
    """What a task does."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        updated, deleted, seen, met = _Told(), _Told(), _Told(), _Told()
        copied = 0
        with ExitStack() as stack:
            data, feed = (
                None
                if spec is None
                else stack.enter_context(
                    RowWriter(spec, sink, file_names(task, uuid4, spec.codec, first=first), notes=layout.notes)
                )
                for spec, first in ((layout.data, "part"), (layout.feed, "cdc"))
            )
            for batch in batches:
                does = batch.column(DOES).to_numpy() if layout.only is None else np.full(batch.num_rows, layout.only)
                for positions, which in ((updated, UPDATED), (deleted, DELETED), (seen, MET)):
                    if (mask := does == which).any():
                        positions.add(_addresses(batch, ADDRESS)[mask])
                if PARTNER in batch.schema.names:
                    met.add(_addresses(batch, PARTNER))
                copied += int((does == COPIED).sum())
                if data is not None:
                    data.write(_chosen(batch, (does == COPIED) | (does == UPDATED) | (does == INSERTED), layout.stored))
                if feed is not None:
                    _write_feed(feed, layout, batch, does)
            for kind, writer in ((DATA_FILE, data), (FEED_FILE, feed)):
                if writer is not None:
                    writer.close()
                    yield _answer([{"kind": kind, **file} for file in writer.taken().to_pylist()])  # one per file
        kinds = {ROWS_UPDATED: updated, ROWS_DELETED: deleted, ROWS_SEEN: seen, ROWS_MET: met}
        answers = [answer for kind, positions in kinds.items() for answer in positions.answers(kind)]
        yield _answer([*answers, {"kind": ROWS_COPIED, "rows": copied}])

    return run


def _write_feed(feed: RowWriter, layout: BatchLayout, batch: pa.RecordBatch, does: NDArray[np.integer]) -> None:
    fields = len(layout.feed.fields) - 1 if layout.feed is not None else 0
    for kinds, first in ((_BEFORE, layout.stored), (_AFTER, 0)):
        for which, change in kinds.items():
            mask = does == which
            if mask.any():
                rows = batch.filter(pa.array(mask))
                columns = rows.columns[first : first + fields]
                named = [*(f"c{i}" for i in range(fields)), "change"]
                change_column = pa.repeat(pa.scalar(change), rows.num_rows)
                feed.write(pa.RecordBatch.from_arrays([*columns, change_column], names=named))


def _addresses(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    """A row without a partner has no address of one."""
    addresses: NDArray[np.int64] = batch.column(name).drop_null().to_numpy()
    return addresses


def _chosen(batch: pa.RecordBatch, mask: NDArray[np.bool_], columns: int) -> pa.RecordBatch:
    stored = batch.select(list(range(columns)))
    return stored if mask.all() else stored.filter(pa.array(mask))


def _answer(rows: Sequence[dict[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=ANSWER)
