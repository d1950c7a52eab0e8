"""Writes rows into Parquet data files, and describes each file for the log.

Spark tasks pickle this module by value: it imports only Arrow, numpy and modules of lower layers.

1. A file holds rows of one partition, and one file is open at a time: a partition that comes again later gets another
   file. For partition transforms, by which the input is not sorted, up to `OPEN_FILES` are open.
2. Row groups do not depend on the size of batches: each but a file's last has `row_group_rows` rows or about
   `row_group_bytes` bytes of Arrow memory, and no more than one is held in memory.
3. A file is closed once it has `target_bytes` or more; without rows there is no file.
4. Only complete and visible files are described; a file that was open when an error came never appears.
"""

from __future__ import annotations

import inspect
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import Invalid, TableError
from holdfast.parquet.carried import CarriedIdNotes
from holdfast.parquet.field_metrics import field_metrics
from holdfast.parquet.fit import VOID, fitted, stored_field, stored_fields
from holdfast.parquet.partition_transforms import PartitionTransform, Texts, rows_by_partition
from holdfast.parquet.rowmap import ROW_MAP
from holdfast.parquet.stats import StatsGatherer, stats_of
from holdfast.rows.columns import ROW_COMMIT_VERSION, ROW_ID
from holdfast.schema.arrow import arrow_type
from holdfast.schema.partition_text import directory, partition_texts, url_directory
from holdfast.schema.stats_leaves import LeafPath
from holdfast.schema.types import LONG, Array, DataType, Field, Map, Struct
from holdfast.storage.sink import FileSink, OutputFile

WRITTEN = pa.schema(
    [
        ("key", pa.string()),
        ("size", pa.int64()),
        ("modified_ms", pa.int64()),
        ("partition_values", pa.map_(pa.string(), pa.string())),
        ("num_records", pa.int64()),
        ("stats", pa.string()),
        ("carried", pa.string()),  # the note of `parquet.carried`; null: not known
    ]
)

_SUFFIX = {"zstd": ".zstd", "snappy": ".snappy", "gzip": ".gz", "brotli": ".br", "none": ""}
_PAGE_ROWS, _PAGE_BYTES = 8192, 256 << 10  # smaller ones slow scans down
_POINT_ROWS, _POINT_BYTES = 128, 1 << 20  # pages of all columns hold the same rows, unless these are large
_NUMBERS = frozenset(("INT32", "INT64", "FLOAT", "DOUBLE"))
_ANSWER_FILES = 1024  # files described in one batch
_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
OPEN_FILES = 64


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """How to store rows of a table."""

    fields: tuple[Field, ...]  # columns of the input
    partition_columns: tuple[str, ...] = ()  # names among the fields
    id_column: str | None = None  # physical name of the row ids that the input has after its fields; None: it has none
    version_column: str | None = None  # likewise of row commit versions
    stats_leaves: tuple[LeafPath, ...] = ()  # physical
    string_prefix: int = 32
    tight_bounds: bool | None = None  # None: not stated
    codec: str = "zstd"
    target_bytes: int = 128 << 20
    file_rows: int | None = None  # at most so many in a file; None: no limit
    row_group_rows: int = 1 << 20
    row_group_bytes: int = 64 << 20
    point: bool = False  # for rows read one by one: small pages, numbers and vectors neither compressed nor encoded
    store_partitions: bool = False  # partition columns also in the files
    prefix: str = ""  # directory below the table's for all files
    gathered: bool = False  # Spark shuffles rows by partition before tasks write them, so that these write few files
    random_prefix: int = 0  # letters of a random directory in place of partition directories
    transforms: tuple[PartitionTransform, ...] = ()  # partition transforms, in place of partition columns
    id_field: int | None = None  # the field ids of id_column and version_column, where columns are found by id
    version_field: int | None = None
    metric_ids: Mapping[LeafPath, int] | None = None  # field ids of leaves, for metrics by id; None: Delta's statistics

    @property
    def input_fields(self) -> tuple[Field, ...]:
        """The columns of a batch, in order."""
        carried = ((ROW_ID, self.id_column), (ROW_COMMIT_VERSION, self.version_column))
        return (*self.fields, *(Field(name, LONG) for name, stored in carried if stored is not None))


def file_names(task: int, new_uuid: Callable[[], UUID], codec: str, *, first: str = "part") -> Callable[[], str]:
    """Fresh names for the files of one task."""
    return lambda: f"{first}-{task:05d}-{new_uuid()}.c000{_SUFFIX[codec]}.parquet"


def write_batches(
    batches: Iterable[pa.RecordBatch],
    spec: WriteSpec,
    sink: FileSink,
    names: Callable[[], str],
    *,
    notes: type[CarriedIdNotes] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Write rows; yields a row per file with the columns of WRITTEN.

    Batches have the columns of `spec.input_fields`; `notes` collects the row ids and versions among them.
    """
    with RowWriter(spec, sink, names, notes=notes) as writer:
        for batch in batches:
            writer.write(batch)
            if writer.finished >= _ANSWER_FILES:
                yield writer.taken()
        writer.close()
    if writer.finished:
        yield writer.taken()


class RowWriter:
    """Writes rows to files; a file that is open when an error ends the `with` never appears."""

    def __init__(
        self, spec: WriteSpec, sink: FileSink, names: Callable[[], str], *, notes: type[CarriedIdNotes] | None = None
    ) -> None:
        """`notes` is an argument so that only tasks with materialized ids pickle its module."""
        self._notes = notes
        self._layout = _Layout(spec)
        self._sink = sink
        self._names = names
        self._finished: list[dict[str, Any]] = []
        self._open: dict[Texts, _FileInProgress] = {}  # the one written to last is the last
        self._most = OPEN_FILES if spec.transforms else 1

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._open.values():
            file.abort()
        self._open = {}

    @property
    def finished(self) -> int:
        """How many files are complete and not yet returned by `taken`."""
        return len(self._finished)

    def write(self, batch: pa.RecordBatch) -> None:
        """Store rows, with the columns of `spec.input_fields` in order."""
        for values, rows in self._layout.runs(batch):
            stored = self._layout.stored(rows)
            while stored.num_rows:
                file = self._opened(values)
                stored = file.take(stored)
                if file.is_full:
                    self._close(values)
            self._spill()

    def close(self) -> None:
        """Complete the open files; later rows go to other files."""
        for values in list(self._open):
            self._close(values)

    def _opened(self, values: Texts) -> _FileInProgress:
        file = self._open.pop(values, None)
        if file is None:
            while len(self._open) >= self._most:
                self._close(next(iter(self._open)))
            file = _FileInProgress(
                self._layout, self._sink, self._layout.key(values, self._names()), values, self._notes
            )
        self._open[values] = file
        return file

    def _close(self, values: Texts) -> None:
        description = self._open[values].finish()
        del self._open[values]
        self._finished.append(description)

    def _spill(self) -> None:
        """Hold no more than a row group in memory, over all open files."""
        if len(self._open) > 1 and sum(f.held for f in self._open.values()) > self._layout.spec.row_group_bytes:
            max(self._open.values(), key=lambda f: f.held).flush()

    def taken(self) -> pa.RecordBatch:
        """The files completed since the last call, with the columns of WRITTEN."""
        files, self._finished = self._finished, []
        return pa.RecordBatch.from_pylist(files, schema=WRITTEN)


class _Layout:
    """Which input column goes where in the files of a spec."""

    def __init__(self, spec: WriteSpec) -> None:
        parts = [_partition(spec.fields, name) for name in spec.partition_columns]
        skipped = set() if spec.store_partitions else {at for at, _ in parts}
        last = {at for at, _ in parts}  # stored partition columns come behind all others
        order = sorted(range(len(spec.fields)), key=lambda at: at in last)
        kept = [(at, spec.fields[at]) for at in order if at not in skipped and spec.fields[at].type != VOID]
        fields = stored_fields(f for _, f in kept)
        numbered = ((spec.id_column, spec.id_field), (spec.version_column, spec.version_field))
        carried = [(name, field_id) for name, field_id in numbered if name is not None]
        if not kept:
            raise Invalid("no column is left for the data files once partition and void columns are out: add one")
        self.spec = spec
        self.fields = tuple(f for _, f in kept)
        self.schema = pa.schema([*fields, *(stored_field(name, pa.int64(), number) for name, number in carried)])
        self._columns: list[tuple[int, DataType, str]] = [
            *((at, f.type, f.name) for at, f in kept),
            *((len(spec.fields) + i, LONG, name) for i, (name, _) in enumerate(carried)),
        ]
        self._partitions = parts
        self._transformed = [_partition(spec.fields, one.column, whole=False) for one in spec.transforms]
        # Computed once, because a task may write thousands of small files.
        self.leaves = stats_of(spec.stats_leaves, self.fields, self.schema)
        self.options = _options(spec, self.schema)

    def runs(self, batch: pa.RecordBatch) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
        """Runs of rows with the same partition values, and these values as texts."""
        if not batch.num_rows:
            return
        if self._transformed:
            columns = [
                fitted(batch.column(at), f.type, arrow_type(f.type), column=f.name) for at, f in self._transformed
            ]
            for value, rows in rows_by_partition(columns, self.spec.transforms):
                yield value, batch if len(rows) == batch.num_rows else batch.take(rows)
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
        elif self.spec.transforms:
            folders = [url_directory(by.folder, text) for by, text in zip(self.spec.transforms, values, strict=True)]
        else:
            names = [f.physical_name for _, f in self._partitions]
            folders = [directory(folder, text) for folder, text in zip(names, values, strict=True)]
        return "/".join(filter(None, (self.spec.prefix, *folders, name)))

    def partition_values(self, values: tuple[str | None, ...]) -> list[tuple[str, str | None]]:
        names = [one.key for one in self.spec.transforms] or [f.physical_name for _, f in self._partitions]
        return list(zip(names, values, strict=True))


class _FileInProgress:
    """A file that is being written."""

    def __init__(
        self,
        layout: _Layout,
        sink: FileSink,
        key: str,
        values: tuple[str | None, ...],
        notes: type[CarriedIdNotes] | None,
    ) -> None:
        spec = layout.spec
        self.values = values
        self._layout = layout
        self._key = key
        self._pending: list[pa.RecordBatch] = []
        self._room = spec.file_rows or sys.maxsize  # rows that the file may still take
        self._rows = 0
        self._bytes = 0
        self._group_bytes = min(spec.row_group_bytes, spec.target_bytes)
        self._stats = StatsGatherer(layout.leaves)
        self._carried: CarriedIdNotes | None = None
        if notes is not None and spec.id_column is not None:
            self._carried = notes(key, spec.id_column, spec.version_column)
        self._footers: list[pq.FileMetaData] = []
        self._output: OutputFile = sink.open(key)
        try:
            with self._output.writing():
                self._writer = pq.ParquetWriter(
                    self._output.file, layout.schema, metadata_collector=self._footers, **layout.options
                )
        except BaseException:
            self._output.abort()
            raise

    @property
    def held(self) -> int:
        """Bytes of rows that are not written yet."""
        return self._bytes

    @property
    def is_full(self) -> bool:
        return not self._pending and (not self._room or self._output.file.tell() >= self._layout.spec.target_bytes)

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Take rows up to the end of a row group; returns the remaining ones."""
        row_bytes = batch.nbytes / batch.num_rows
        limit = min(self._layout.spec.row_group_rows - self._rows, self._room)
        by_bytes = int((self._group_bytes - self._bytes) / row_bytes) if row_bytes else limit
        taken = batch.slice(0, max(1, min(limit, by_bytes)))
        self._pending.append(taken)
        self._room -= taken.num_rows
        self._rows += taken.num_rows
        self._bytes += int(taken.num_rows * row_bytes)
        if taken.num_rows >= min(limit, by_bytes):
            self.flush()
        return batch.slice(taken.num_rows)

    def finish(self) -> dict[str, Any]:
        """Make the file visible and describe it."""
        try:
            self.flush()
            note, row_map = (self._note(), None) if self._carried is None else self._carried.note_and_map()
            if row_map is not None:
                self._writer.add_key_value_metadata({ROW_MAP: row_map})
            with self._output.writing():
                self._writer.close()
                size = self._output.file.tell()
            modified_ms = self._output.close()
        except BaseException:
            self.abort()
            raise
        footer = self._footers[0]
        return {
            "key": self._key,
            "size": size,
            "modified_ms": modified_ms,
            "partition_values": self._layout.partition_values(self.values),
            "num_records": footer.num_rows,
            "stats": self._statistics(footer),
            "carried": note,
        }

    def _statistics(self, footer: pq.FileMetaData) -> str:
        spec = self._layout.spec
        if spec.metric_ids is None:
            return self._stats.text(footer, string_prefix=spec.string_prefix, tight=spec.tight_bounds)
        return field_metrics(self._stats, footer, spec.metric_ids, string_prefix=spec.string_prefix)

    def _note(self) -> str | None:
        """The note where nobody collected ids: empty without a column of ids, else None, for not known."""
        return "" if self._layout.spec.id_column is None else None

    def abort(self) -> None:
        """Leave no file. Without the close, Arrow's writer would write its footer when it is garbage-collected."""
        with suppress(OSError, RuntimeError, ValueError, TableError):
            self._writer.close()
        self._output.abort()

    def flush(self) -> None:
        """Write the pending rows as a row group."""
        if not self._pending:
            return
        rows = pa.Table.from_batches(self._pending)
        self._pending = []
        self._stats.add_row_group(rows)
        if self._carried is not None:
            self._carried.add_rows(rows)
        with self._output.writing():
            self._writer.write_table(rows, row_group_size=rows.num_rows)
        self._rows = self._bytes = 0


def _partition(fields: tuple[Field, ...], name: str, *, whole: bool = True) -> tuple[int, Field]:
    at = next((at for at, f in enumerate(fields) if f.name == name), None)
    assert at is not None, f"the partition column {name} is among the columns written"
    f = fields[at]
    if whole and isinstance(f.type, Array | Map | Struct):
        raise Invalid(f"{name} cannot be a partition column: its type has no partition values")
    return at, f


def _options(spec: WriteSpec, schema: pa.Schema) -> dict[str, Any]:
    """The options of Arrow's writer."""
    # Workers may have an older Arrow without some options; their files hold the same rows.
    recent = {"max_rows_per_page": _POINT_ROWS if spec.point else _PAGE_ROWS, "store_decimal_as_integer": True}
    known = inspect.signature(pq.ParquetWriter).parameters
    options = {
        "compression": spec.codec,
        "data_page_size": _POINT_BYTES if spec.point else _PAGE_BYTES,
        "write_page_index": True,
        "store_schema": False,
        **{name: value for name, value in recent.items() if name in known},
    }
    return options | _uncompressed_numbers(spec, schema, options) if spec.point else options


def _uncompressed_numbers(spec: WriteSpec, schema: pa.Schema, options: dict[str, Any]) -> dict[str, Any]:
    """Options that store numbers, and lists of numbers such as vectors, uncompressed and without encoding.

    Materialized ids and versions stay compressed: they repeat, and nobody reads them by themselves.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink, **options)
    leaves = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    carried = {spec.id_column, spec.version_column}
    simple = {f.name for f in schema if not pa.types.is_nested(f.type) and f.name not in carried}
    lists = {f"{f.name}.list.element" for f in schema if pa.types.is_list(f.type)}
    compression = {}
    for leaf in map(leaves.column, range(len(leaves))):
        as_is = leaf.physical_type in _NUMBERS and leaf.path in simple | lists
        compression[leaf.path] = "none" if as_is else spec.codec
    repeating = [name for name in (spec.version_column,) if name is not None]
    return {"compression": compression, "use_dictionary": repeating or False}


def _scattered(name: str, length: int) -> str:
    """Letters computed from a file's name, which spread files over the prefixes of a store."""
    number = zlib.crc32(name.encode()) | zlib.adler32(name.encode()) << 32
    letters = []
    for _ in range(length):
        number, at = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[at])
    return "".join(letters)
