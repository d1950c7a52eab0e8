"""Rows into data files, with everything a log wants to know of each.

Runs in this process and inside Spark tasks, where it is pickled by value: it imports only Arrow, numpy and modules
below its own storey.

1. One file is open at a time. A file holds rows of one partition; a partition that comes back later gets another file.
2. Row groups are whole, whatever the size of the batches: each but a file's last has `row_group_rows` rows or about
   `row_group_bytes` bytes of Arrow memory, and no more than one is held in memory.
3. A file is closed once it has `target_bytes` or more; no rows, no file.
4. What is yielded describes files that are complete and visible; a file that was begun when something failed is not.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import Invalid, TableError
from holdfast.parquet.fit import VOID, fitted, stored_fields
from holdfast.parquet.stats import StatsGatherer, stats_of
from holdfast.rows.columns import ROW_COMMIT_VERSION, ROW_ID
from holdfast.schema.arrow import arrow_type
from holdfast.schema.partition_text import directory, partition_texts
from holdfast.schema.stats_leaves import LeafPath
from holdfast.schema.types import LONG, Array, DataType, Field, Map, Struct
from holdfast.storage.sink import Output, Sink

WRITTEN = pa.schema(
    [
        ("key", pa.string()),
        ("size", pa.int64()),
        ("modified_ms", pa.int64()),
        ("partition_values", pa.map_(pa.string(), pa.string())),
        ("num_records", pa.int64()),
        ("stats", pa.string()),
    ]
)

_SUFFIX = {"zstd": ".zstd", "snappy": ".snappy", "gzip": ".gz", "brotli": ".br", "none": ""}
_ANSWER_FILES = 1024  # files described in one batch
_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """How to store rows of a table."""

    fields: tuple[Field, ...]  # columns of the input, in order
    partition_columns: tuple[str, ...] = ()  # names among the fields
    id_column: str | None = None  # physical name of the row ids the input carries after its fields; None: it has none
    version_column: str | None = None  # likewise of row commit versions
    stats_leaves: tuple[LeafPath, ...] = ()  # physical
    string_prefix: int = 32
    tight_bounds: bool | None = None  # None: not said
    codec: str = "zstd"
    target_bytes: int = 128 << 20
    row_group_rows: int = 1 << 20
    row_group_bytes: int = 64 << 20
    page_rows: int = 4096
    page_bytes: int = 128 << 10
    store_partitions: bool = False  # partition columns also in the files
    prefix: str = ""  # directory below the table's for all files
    gathered: bool = False  # rows are brought together before tasks write them, so that these write few files
    random_prefix: int = 0  # letters of a random directory in place of partition directories

    @property
    def input_fields(self) -> tuple[Field, ...]:
        """The columns a batch must have, in order."""
        carried = ((ROW_ID, self.id_column), (ROW_COMMIT_VERSION, self.version_column))
        return (*self.fields, *(Field(name, LONG) for name, stored in carried if stored is not None))


def file_names(task: int, new_uuid: Callable[[], UUID], codec: str, *, first: str = "part") -> Callable[[], str]:
    """Fresh names for the files of one task."""
    return lambda: f"{first}-{task:05d}-{new_uuid()}.c000{_SUFFIX[codec]}.parquet"


def write_batches(
    batches: Iterable[pa.RecordBatch], spec: WriteSpec, sink: Sink, names: Callable[[], str]
) -> Iterator[pa.RecordBatch]:
    """Write rows; gives what became of them, one row per file, with the columns of WRITTEN.

    A batch has the fields of the spec in order, then the carried row ids and versions where the spec names them.
    """
    with RowWriter(spec, sink, names) as writer:
        for batch in batches:
            writer.write(batch)
            if writer.finished >= _ANSWER_FILES:
                yield writer.taken()
        writer.close()
    if writer.finished:
        yield writer.taken()


class RowWriter:
    """Takes rows and stores them; what is open when an error ends its `with` leaves no file."""

    def __init__(self, spec: WriteSpec, sink: Sink, names: Callable[[], str]) -> None:
        self._layout = _Layout(spec)
        self._sink = sink
        self._names = names
        self._done: list[dict[str, Any]] = []
        self._open: _File | None = None

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._open.abort()
            self._open = None

    @property
    def finished(self) -> int:
        """How many files are complete and not taken yet."""
        return len(self._done)

    def write(self, batch: pa.RecordBatch) -> None:
        """Store rows, with the columns of `spec.input_fields` in order."""
        for values, rows in self._layout.runs(batch):
            if self._open is not None and self._open.values != values:
                self.close()
            stored = self._layout.stored(rows)
            while stored.num_rows:
                if self._open is None:
                    self._open = _File(self._layout, self._sink, self._layout.key(values, self._names()), values)
                stored = self._open.take(stored)
                if self._open.is_full:
                    self.close()

    def close(self) -> None:
        """Complete the open file, if there is one; rows that come later go to another."""
        if self._open is not None:
            self._done.append(self._open.finish())
            self._open = None

    def taken(self) -> pa.RecordBatch:
        """The files completed since this was asked last, with the columns of WRITTEN."""
        done, self._done = self._done, []
        return pa.RecordBatch.from_pylist(done, schema=WRITTEN)


class _Layout:
    """A spec worked out once: which input column goes where."""

    def __init__(self, spec: WriteSpec) -> None:
        parts = [_partition(spec.fields, name) for name in spec.partition_columns]
        skipped = set() if spec.store_partitions else {at for at, _ in parts}
        kept = [(at, f) for at, f in enumerate(spec.fields) if at not in skipped and f.type != VOID]
        fields = stored_fields(f for _, f in kept)
        carried = [name for name in (spec.id_column, spec.version_column) if name is not None]
        if not kept:
            raise Invalid("no column is left for the data files once partition and void columns are out: add one")
        self.spec = spec
        self.fields = tuple(f for _, f in kept)
        self.schema = pa.schema([*fields, *(pa.field(name, pa.int64()) for name in carried)])
        self._columns: list[tuple[int, DataType, str]] = [
            *((at, f.type, f.name) for at, f in kept),
            *((len(spec.fields) + i, LONG, name) for i, name in enumerate(carried)),
        ]
        self._partitions = parts
        # Worked out once, because a task may write thousands of small files.
        self.leaves = stats_of(spec.stats_leaves, self.fields, self.schema)
        self.options = _options(spec)

    def runs(self, batch: pa.RecordBatch) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
        """Stretches of rows with the same partition values, and these as texts."""
        if not batch.num_rows:
            return
        if not self._partitions:
            yield (), batch
            return
        texts = [
            partition_texts(fitted(batch.column(at), f.type, arrow_type(f.type), column=f.name), f.type, column=f.name)
            for at, f in self._partitions
        ]
        changes = np.zeros(batch.num_rows, bool)
        changes[0] = True
        for column in texts:
            codes = column.dictionary_encode(null_encoding="encode").indices.to_numpy()
            changes[1:] |= codes[1:] != codes[:-1]
        starts = np.flatnonzero(changes)
        ends = np.append(starts[1:], batch.num_rows)
        values = zip(*(column.take(pa.array(starts)).to_pylist() for column in texts), strict=True)
        for value, start, end in zip(values, starts.tolist(), ends.tolist(), strict=True):
            yield value, batch.slice(start, end - start)

    def stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as the file stores them."""
        arrays = [
            fitted(rows.column(at), type_, target.type, column=name)
            for (at, type_, name), target in zip(self._columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def key(self, values: tuple[str | None, ...], name: str) -> str:
        """The key of a new file."""
        if self.spec.random_prefix:
            folders = [_scattered(name, self.spec.random_prefix)]
        else:
            parts = zip(self._partitions, values, strict=True)
            folders = [directory(f.physical_name, text) for (_, f), text in parts]
        return "/".join(filter(None, (self.spec.prefix, *folders, name)))

    def partition_values(self, values: tuple[str | None, ...]) -> list[tuple[str, str | None]]:
        return [(f.physical_name, text) for (_, f), text in zip(self._partitions, values, strict=True)]


class _File:
    """One file in the making."""

    def __init__(self, layout: _Layout, sink: Sink, key: str, values: tuple[str | None, ...]) -> None:
        spec = layout.spec
        self.values = values
        self._layout = layout
        self._key = key
        self._pending: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._group_bytes = min(spec.row_group_bytes, spec.target_bytes)
        self._stats = StatsGatherer(layout.leaves)
        self._footers: list[pq.FileMetaData] = []
        self._output: Output = sink.open(key)
        try:
            self._writer = pq.ParquetWriter(
                self._output.file, layout.schema, metadata_collector=self._footers, **layout.options
            )
        except BaseException:
            self._output.abort()
            raise

    @property
    def is_full(self) -> bool:
        return not self._pending and self._output.file.tell() >= self._layout.spec.target_bytes

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Take rows up to the end of a row group; gives back those that are left."""
        row_bytes = batch.nbytes / batch.num_rows
        limit = self._layout.spec.row_group_rows - self._rows
        by_bytes = int((self._group_bytes - self._bytes) / row_bytes) if row_bytes else limit
        taken = batch.slice(0, max(1, min(limit, by_bytes)))
        self._pending.append(taken)
        self._rows += taken.num_rows
        self._bytes += int(taken.num_rows * row_bytes)
        if taken.num_rows >= min(limit, by_bytes):
            self._flush()
        return batch.slice(taken.num_rows)

    def finish(self) -> dict[str, Any]:
        """Make the file visible and describe it."""
        try:
            self._flush()
            self._writer.close()
            size = self._output.file.tell()
            modified_ms = self._output.close()
        except BaseException:
            self.abort()
            raise
        footer, spec = self._footers[0], self._layout.spec
        return {
            "key": self._key,
            "size": size,
            "modified_ms": modified_ms,
            "partition_values": self._layout.partition_values(self.values),
            "num_records": footer.num_rows,
            "stats": self._stats.text(footer, string_prefix=spec.string_prefix, tight=spec.tight_bounds),
        }

    def abort(self) -> None:
        """Leave no file. Arrow's writer would otherwise write its footer when it is collected."""
        with suppress(OSError, RuntimeError, ValueError, TableError):
            self._writer.close()
        self._output.abort()

    def _flush(self) -> None:
        if not self._pending:
            return
        rows = pa.Table.from_batches(self._pending)
        self._pending = []
        self._stats.saw(rows)
        self._writer.write_table(rows, row_group_size=rows.num_rows)
        self._rows = self._bytes = 0


def _partition(fields: tuple[Field, ...], name: str) -> tuple[int, Field]:
    found = next(((at, f) for at, f in enumerate(fields) if f.name == name), None)
    assert found is not None, f"the partition column {name} is among the columns written"
    at, f = found
    if isinstance(f.type, Array | Map | Struct):
        raise Invalid(f"{name} cannot be a partition column: its type has no partition values")
    return at, f


def _options(spec: WriteSpec) -> dict[str, Any]:
    """How Arrow is to lay a file out."""
    # An older Arrow on some worker lays files out otherwise; they hold the same.
    recent = {"max_rows_per_page": spec.page_rows, "store_decimal_as_integer": True}
    known = inspect.signature(pq.ParquetWriter).parameters
    return {
        "compression": spec.codec,
        "data_page_size": spec.page_bytes,
        "write_page_index": True,
        "store_schema": False,
        **{name: value for name, value in recent.items() if name in known},
    }


def _scattered(name: str, length: int) -> str:
    """Letters that follow from a fresh name and spread files over a store."""
    number = zlib.crc32(name.encode()) | zlib.adler32(name.encode()) << 32
    letters = []
    for _ in range(length):
        number, at = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[at])
    return "".join(letters)
