"""Rows that are to be indexed, and the workers of an engine that read them.

1. A job of workers runs exactly once; what retried attempts leave behind has names that nobody knows of.
2. What comes back to this process is bounded by the caller's task: a sample, or a few rows per segment or run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from holdfast.model.files import FileTable
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.schema.types import Field
from holdfast.storage.base import ObjectStore

TaskFunction: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class IndexedFiles:
    """Files whose live rows are to be indexed; only rows that changed after a version, where there is one."""

    files: FileTable
    hidden: HiddenRows
    newer_than: int | None = None


@dataclass(frozen=True)
class IndexedRows:
    """Rows to be indexed, as batches with the key columns, the row id and the row commit version, in this order."""

    snapshot: Snapshot
    parts: Sequence[IndexedFiles]
    fields: Sequence[Field]  # the keys


@dataclass(frozen=True)
class WorkerTask:
    """A function that each worker runs over batches of rows, and the columns of its answer."""

    run: TaskFunction
    answer: tuple[Field, ...]
    needs: tuple[str, ...]  # packages that a worker must have
    work: str  # what it does, for a message about a missing package
    label: str  # what people are shown while it lasts
    otherwise: str = ""  # what else helps where a package is missing


class Workers(Protocol):
    """Processes beyond this one that read a table's rows."""

    def carried(self, store: ObjectStore) -> ObjectStore:
        """A store as workers can open it."""

    def sample(self, rows: IndexedRows, count: int, share: float, seed: int) -> pa.ChunkedArray:
        """At most `count` values of the first key, about this share of all, at random; nulls are left out."""

    def map_rows(self, rows: IndexedRows, task: WorkerTask, most_tasks: int | None = None) -> pa.Table:
        """The answers of a task over all rows, read by at most so many workers."""

    def write_runs(self, rows: IndexedRows, directory: str, most_rows: int, *, bitmaps: bool) -> pa.Table:
        """Sort rows by their keys and write them as runs of index entries; a row per run, with the columns of RUNS."""
