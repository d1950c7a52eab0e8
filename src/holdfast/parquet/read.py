"""One data file as batches of the table's own columns.

Runs in this process and inside Spark tasks, where it is pickled by value: it imports only Arrow, numpy, pyroaring
and modules below its own storey.

1. A position is physical: counted over the whole file in stored order. Hidden positions are dropped before any value
   is looked at, so a bad value in a hidden row does no harm.
2. Output columns are the asked fields in the asked order, then metadata columns; see `output_schema`.
3. A partition column has the task's value, whatever the file holds under that name.
4. Row id: the file's own id column where it has a value, else base plus position; row version likewise.
5. Only columns that are asked for are read, and no batch has more rows than `batch_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.errors import Damaged, MissingFile
from holdfast.parquet.calendar import calendar_of
from holdfast.parquet.convert import FileFacts, convert, find, find_name
from holdfast.parquet.footer import Node, columns
from holdfast.rows import columns as names
from holdfast.rows.words import mask
from holdfast.schema.arrow import arrow_schema, arrow_type
from holdfast.schema.types import LONG, Field, Struct
from holdfast.storage.base import NotFound

BATCH_ROWS = 65536


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """What to give of every file of a scan."""

    fields: tuple[Field, ...]
    partition_fields: tuple[Field, ...] = ()  # of the table, asked for or not
    by_id: bool = False
    id_column: str | None = None
    version_column: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)  # canonical name -> name in the output
    batch_rows: int = BATCH_ROWS


@dataclass(frozen=True, slots=True)
class FileTask:
    """What the log says of one file."""

    uri: str  # names the file in errors and in the file column
    partition: Mapping[str, pa.Scalar] = field(default_factory=dict)  # by physical name
    hidden: BitMap64 | bytes | None = None  # bytes: the bitmap as pyroaring serialises it
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    size: int | None = None
    number: int | None = None  # of the file in its plan


def output_schema(spec: ReadSpec) -> pa.Schema:
    """The schema of every batch of a scan."""
    schema = arrow_schema(Struct(spec.fields))
    for canonical, output in spec.metadata.items():
        schema = schema.append(pa.field(output, _metadata_type(canonical, spec)))
    return schema


def read_batches(source: Any, spec: ReadSpec, task: FileTask) -> Iterator[pa.RecordBatch]:
    """The live rows of a file, from anything Arrow can read Parquet from."""
    schema = output_schema(spec)
    hidden = _bitmap(task.hidden)
    with _blamed_on(task.uri):
        file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us", pre_buffer=_is_remote(source))
    reader = _Reader(file, spec, task)
    start = 0
    for batch in reader.stored_batches():
        rows = np.arange(start, start + batch.num_rows, dtype=np.int64)
        start += batch.num_rows
        if hidden:
            live = ~mask(hidden, int(rows[0]), batch.num_rows)
            rows, batch = rows[live], batch.filter(pa.array(live))
        if len(rows):
            made = [make(batch, rows) for make in reader.makers]
            yield pa.RecordBatch.from_arrays(made, schema=schema) if made else _blank(len(rows))


_Maker: TypeAlias = Callable[[pa.RecordBatch, NDArray[np.int64]], pa.Array]  # from stored rows and their positions


class _Reader:
    """The columns of one open file, resolved once: which are read, and how each output column is made."""

    def __init__(self, file: pq.ParquetFile, spec: ReadSpec, task: FileTask) -> None:
        stored = file.metadata.schema
        leaves = range(len(stored))
        self._file = file
        self._spec = spec
        self._task = task
        self._nodes = columns(file.schema_arrow)
        self._facts = FileFacts(
            uri=task.uri,
            by_id=spec.by_id,
            calendar=calendar_of(file.metadata.metadata),
            int96=frozenset(i for i in leaves if stored.column(i).physical_type == "INT96"),
        )
        if spec.by_id and self._nodes and all(node.field_id is None for node in self._nodes):
            raise Damaged(f"{task.uri} has no field ids, by which its table finds columns; rewrite it", path=task.uri)
        self._needed: dict[str, Node] = {}
        partitions = {f.physical_name for f in spec.partition_fields}
        self.makers: list[_Maker] = [
            self._constant(task.partition[f.physical_name], arrow_type(f.type))
            if f.physical_name in partitions
            else self._stored(f)
            for f in spec.fields
        ]
        self.makers += [self._metadata(canonical) for canonical in spec.metadata]

    def stored_batches(self) -> Iterator[pa.RecordBatch]:
        """The file's rows in order, with the columns that are needed."""
        if not self._needed:
            yield from _blank_batches(self._file.metadata.num_rows, self._spec.batch_rows)
            return
        schema = self._file.metadata.schema
        paths = [schema.column(node.leaf + i).path for node in self._needed.values() for i in range(node.leaves)]
        batches = self._file.iter_batches(self._spec.batch_rows, columns=paths, use_threads=False)
        while True:
            with _blamed_on(self._task.uri):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _stored(self, wanted: Field) -> _Maker:
        node = find(self._nodes, wanted, self._facts, column=wanted.name)
        if node is None or not node.leaves:
            return self._constant(None, arrow_type(wanted.type))
        self._needed[node.name] = node
        facts = self._facts
        return lambda batch, rows: convert(batch.column(node.name), node, wanted.type, facts, column=wanted.name)

    def _metadata(self, canonical: str) -> _Maker:
        task, spec = self._task, self._spec
        match canonical:
            case names.ROW_INDEX:
                return lambda batch, rows: pa.array(rows)
            case names.FILE:
                return self._constant(task.uri, pa.string())
            case names.FILE_NUMBER:
                return self._constant(task.number, pa.int64())
            case names.PARTITION:
                return self._partition()
            case names.BASE_ROW_ID:
                return self._constant(task.base_row_id, pa.int64())
            case names.DEFAULT_ROW_COMMIT_VERSION:
                return self._constant(task.default_row_commit_version, pa.int64())
            case names.ROW_ID:
                return self._materialized(spec.id_column, self._derived_ids())
            case names.ROW_COMMIT_VERSION:
                default = self._constant(task.default_row_commit_version, pa.int64())
                return self._materialized(spec.version_column, default)
            case _:
                raise AssertionError(f"{canonical} is no metadata column")

    def _derived_ids(self) -> _Maker:
        base = self._task.base_row_id
        if base is None:
            return self._constant(None, pa.int64())
        return lambda batch, rows: pa.array(rows + base)

    def _materialized(self, name: str | None, derived: _Maker) -> _Maker:
        """Values of the file's own column where it has them, else derived ones; neither is a damaged table."""
        node = None if name is None else find_name(self._nodes, name, self._facts, column=name)
        if node is not None:
            self._needed[node.name] = node

        def make(batch: pa.RecordBatch, rows: NDArray[np.int64]) -> pa.Array:
            values = derived(batch, rows)
            if node is not None:
                own = convert(batch.column(node.name), node, LONG, self._facts, column=node.name)
                values = pc.coalesce(own, values)
            if values.null_count:
                raise Damaged(
                    f"{self._task.uri} has rows without a row id or version: neither the file nor its entry in the "
                    "log has one; rewrite the file",
                    path=self._task.uri,
                )
            return values

        return make

    def _partition(self) -> _Maker:
        type_ = _metadata_type(names.PARTITION, self._spec)
        values = [self._task.partition[f.physical_name] for f in self._spec.partition_fields]
        parts = [self._constant(v, t.type) for v, t in zip(values, type_.fields, strict=True)]

        def make(batch: pa.RecordBatch, rows: NDArray[np.int64]) -> pa.Array:
            if not parts:
                return pa.Array.from_buffers(type_, len(rows), [None])
            return pa.StructArray.from_arrays([part(batch, rows) for part in parts], fields=list(type_.fields))

        return make

    def _constant(self, value: Any, type_: pa.DataType) -> _Maker:
        scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value, type_)
        if not scalar.is_valid:
            return lambda batch, rows: pa.nulls(len(rows), type_)
        return lambda batch, rows: pa.repeat(scalar, len(rows))


def _metadata_type(canonical: str, spec: ReadSpec) -> pa.DataType:
    if canonical == names.FILE:
        return pa.string()
    if canonical == names.PARTITION:
        return arrow_type(Struct(spec.partition_fields))
    return pa.int64()


def _bitmap(hidden: BitMap64 | bytes | None) -> BitMap64 | None:
    return BitMap64.deserialize(hidden) if isinstance(hidden, bytes) else hidden


def _is_remote(source: Any) -> bool:
    """Whether ranges should be fetched together ahead of their use."""
    return isinstance(source, pa.PythonFile)


def _blank_batches(rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, batch_rows):
        yield _blank(min(batch_rows, rows - start))


def _blank(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


@contextmanager
def _blamed_on(uri: str) -> Iterator[None]:
    """Errors of Arrow as errors that name the file."""
    try:
        yield
    except (NotFound, FileNotFoundError) as error:
        raise MissingFile(f"{uri} is not there, but the table refers to it; restore it", path=uri) from error
    except (pa.ArrowException, OSError) as error:
        raise Damaged(f"{uri} cannot be read as Parquet: {error}", path=uri) from error
