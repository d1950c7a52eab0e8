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

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.errors import Damaged, MissingFile, Unsupported
from holdfast.parquet.calendar import Calendar, calendar_of
from holdfast.parquet.convert import FileFacts, convert, find, find_name, needs_nothing
from holdfast.parquet.equality_deletes import EqualityDeleteRows, are_gone
from holdfast.parquet.orc import OrcFile
from holdfast.parquet.pages.footer import Node, columns
from holdfast.rows import columns as names
from holdfast.rows.words import mask
from holdfast.schema.arrow import arrow_schema, arrow_type
from holdfast.schema.types import LONG, Field, Struct
from holdfast.storage.arrays import positions
from holdfast.storage.base import NotFound
from holdfast.storage.error_mapping import parsing

BATCH_ROWS = 65536
_TIME = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """What to give of every file of a scan."""

    fields: tuple[Field, ...]
    partition_fields: tuple[Field, ...] = ()  # of the table, asked for or not
    by_id: bool = False
    to_name: str = "rewrite it"  # what to do about a file without field ids
    is_whole: bool = False  # a file that lacks one of the columns is Damaged, and not full of nulls or defaults
    id_column: str | None = None
    version_column: str | None = None
    id_field: int | None = None  # the field ids of these columns, where they are found by that
    version_field: int | None = None
    has_gaps: bool = False  # a file without a base has neither ids nor versions, whatever it stores
    tuple_type: Struct | None = None  # of partition tuples, where partition columns are columns like any other
    identities: Mapping[int, Mapping[int, str]] = field(
        default_factory=dict
    )  # field id of a column -> spec of a file -> field of its tuple equal to the column
    gone: tuple[EqualityDeleteRows, ...] = ()  # rows that are gone by their values
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
    modified_ms: int | None = None
    number: int | None = None  # of the file in its plan
    shown: str | None = None  # what the file column says instead of the URI
    spec_id: int | None = None
    format: str = "parquet"
    sequence: int = 0  # rows to delete count for it if theirs is higher
    group: int | None = None  # and, unless they count everywhere, if theirs is the same
    rows: int | None = None  # that the log says it has, hidden ones among them


def output_schema(spec: ReadSpec) -> pa.Schema:
    """The schema of every batch of a scan."""
    schema = arrow_schema(Struct(spec.fields))
    for canonical, output in spec.metadata.items():
        schema = schema.append(pa.field(output, _metadata_type(canonical, spec)))
    return schema


def read_batches(source: Any, spec: ReadSpec, task: FileTask) -> Iterator[pa.RecordBatch]:
    """The live rows of a file, from anything Arrow reads; where `_deleted` is asked for, hidden ones too."""
    schema = output_schema(spec)
    hidden = _bitmap(task.hidden)
    told = spec.metadata.get(names.DELETED)
    resolved, batches = opened(source, spec, task)
    gone = [(keys, resolved.sources(g.fields)) for g in spec.gone if (keys := g.of(task.sequence, task.group))]
    start = 0
    for batch in batches(resolved):
        rows = np.arange(start, start + batch.num_rows, dtype=np.int64)
        start += batch.num_rows
        dead = mask(hidden, int(rows[0]), batch.num_rows) if hidden else np.zeros(batch.num_rows, np.bool_)
        if told is None and dead.any():
            rows, batch, dead = rows[~dead], batch.filter(pa.array(~dead)), dead[~dead]
        with blamed_on(task.uri):
            for keys, made in gone:
                dead = dead | are_gone([make(batch, rows) for make in made], keys)
            if told is None and dead.any():
                rows, batch = rows[~dead], batch.filter(pa.array(~dead))
            whole = resolved.made(batch, rows, schema) if len(rows) else None
        if whole is not None:
            yield whole if told is None else whole.set_column(schema.get_field_index(told), told, pa.array(dead))
    check_rows(start, task)


def check_rows(rows: int, task: FileTask) -> None:
    """Whether a file has as many rows as the log says."""
    if task.rows is not None and rows != task.rows:
        raise Damaged(
            f"{task.uri} has {rows} rows, and the table says that it has {task.rows}: either the count is wrong, which "
            "check(repair=True) puts right (of an Iceberg table where no row ids were counted on from it), or this is "
            "not the file that was written: then restore it, or an earlier version of the table",
            path=task.uri,
            expected=f"{task.rows} rows",
            found=f"{rows} rows",
        )


def columns_and_rows(source: Any, task: FileTask) -> tuple[tuple[Node, ...], int]:
    """The columns of a file and how many rows it has, by its footer."""
    with blamed_on(task.uri):
        if task.format == "orc":
            stripes = OrcFile(source)
            return stripes.nodes, stripes.rows
        file = pq.ParquetFile(source)
        return columns(file.schema_arrow), int(file.metadata.num_rows)


_Batches: TypeAlias = Callable[["StoredColumns"], Iterator[pa.RecordBatch]]


def opened(source: Any, spec: ReadSpec, task: FileTask) -> tuple[StoredColumns, _Batches]:
    """The columns of a file, and how to read its rows with those that are needed."""
    if task.format not in ("parquet", "orc"):
        raise Unsupported(f"{task.uri} is an {task.format} file; Holdfast reads data files of Parquet and ORC")
    with blamed_on(task.uri):
        if task.format == "orc":
            stripes = OrcFile(source)
            shape = FileShape(stripes.nodes, Calendar(), frozenset())  # Iceberg's writers know one calendar only
            return StoredColumns(shape, spec, task), lambda needed: _orc_batches(stripes, needed, task, spec)
        file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us", pre_buffer=_is_remote(source))
        resolved = StoredColumns(shape_of(file), spec, task)
    return resolved, lambda needed: stored_batches(file, needed, task.uri, batch_rows=spec.batch_rows)


def _orc_batches(file: OrcFile, columns: StoredColumns, task: FileTask, spec: ReadSpec) -> Iterator[pa.RecordBatch]:
    if not columns.needed:
        yield from _blank_batches(file.rows, spec.batch_rows)
        return
    with blamed_on(task.uri):
        yield from file.batches(columns.needed, spec.batch_rows)


def stored_batches(
    file: pq.ParquetFile, columns: StoredColumns, uri: str, *, batch_rows: int, groups: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, or of some of its row groups, in order, with the columns that are needed."""
    footer = file.metadata
    groups = range(footer.num_row_groups) if groups is None else groups
    if not columns.needed:
        yield from _blank_batches(sum(footer.row_group(g).num_rows for g in groups), batch_rows)
        return
    paths = [footer.schema.column(leaf).path for leaf in columns.leaves()]
    batches = file.iter_batches(batch_rows, row_groups=list(groups), columns=paths, use_threads=False)
    while True:
        with blamed_on(uri):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


_Maker: TypeAlias = Callable[[pa.RecordBatch, NDArray[np.int64]], pa.Array]  # from stored rows and their positions


@dataclass(frozen=True, slots=True)
class FileShape:
    """What a footer says of the columns of its file."""

    nodes: tuple[Node, ...]
    calendar: Calendar
    int96: frozenset[int]  # leaves stored as 96-bit timestamps


def shape_of(file: pq.ParquetFile) -> FileShape:
    """The columns of an open file."""
    stored = file.metadata.schema
    int96 = frozenset(i for i in range(len(stored)) if stored.column(i).physical_type == "INT96")
    return FileShape(columns(file.schema_arrow), calendar_of(file.metadata.metadata), int96)


class StoredColumns:
    """The columns of one file, resolved once: which are needed, and how each output column is made of them."""

    def __init__(self, shape: FileShape, spec: ReadSpec, task: FileTask) -> None:
        self._spec = spec
        self._task = task
        self._nodes = shape.nodes
        self._facts = FileFacts(task.uri, spec.by_id, shape.calendar, shape.int96)
        nameless = bool(spec.fields) and all(f.file_names is None for f in spec.fields)
        if spec.by_id and nameless and self._nodes and all(node.field_id is None for node in self._nodes):
            raise Damaged(
                f"{task.uri} has no field ids, by which its table finds columns; {spec.to_name}", path=task.uri
            )
        self.needed: dict[str, Node] = {}
        partitions = {f.physical_name for f in spec.partition_fields}
        self._makers: list[_Maker] = [
            self._constant(task.partition[f.physical_name], arrow_type(f.type))
            if f.physical_name in partitions
            else self._stored(f)
            for f in spec.fields
        ]
        self._makers += [self._metadata(canonical) for canonical in spec.metadata]

    def leaves(self) -> list[int]:
        """The leaves of the file that are needed."""
        return [node.leaf + i for node in self.needed.values() for i in range(node.leaves)]

    def made(self, batch: pa.RecordBatch, rows: NDArray[np.int64], schema: pa.Schema) -> pa.RecordBatch:
        """Stored rows, which lie at these positions, as rows of the output, whose schema the caller knows."""
        arrays = [make(batch, rows) for make in self._makers]
        return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else blank(len(rows))

    def sources(self, fields: Sequence[Field]) -> list[_Maker]:
        """How columns are made that are compared and not given."""
        return [self._stored(f) for f in fields]

    def _stored(self, wanted: Field) -> _Maker:
        node = find(self._nodes, wanted, self._facts, column=wanted.name)
        if node is None or not node.leaves:
            if self._spec.is_whole:
                raise Damaged(
                    f"{self._task.uri} has no column {wanted.name} and must have one: it is not the file that was "
                    "written; restore it, or read an earlier snapshot",
                    path=self._task.uri,
                    expected=wanted.name,
                )
            return self._constant(self._absent(wanted), arrow_type(wanted.type))
        self.needed[node.name] = node
        if needs_nothing(node.type, wanted.type):
            return lambda batch, rows: batch.column(node.name)
        facts = self._facts
        return lambda batch, rows: convert(batch.column(node.name), node, wanted.type, facts, column=wanted.name)

    def _absent(self, wanted: Field) -> Any:
        """The value of a column the file does not have: what its tuple says, else the column's default."""
        by_spec = {} if wanted.field_id is None else self._spec.identities.get(wanted.field_id, {})
        name = None if self._task.spec_id is None else by_spec.get(self._task.spec_id)
        return wanted.initial_default if name is None else self._task.partition[name]

    def _metadata(self, canonical: str) -> _Maker:
        task, spec = self._task, self._spec
        match canonical:
            case names.ROW_INDEX:
                return lambda batch, rows: positions(rows)
            case names.FILE:
                return self._constant(task.shown or task.uri, pa.string())
            case names.FILE_SIZE | names.FILE_BLOCK_LENGTH:  # a file is read in one go
                return self._constant(task.size, pa.int64())
            case names.FILE_BLOCK_START:
                return self._constant(0, pa.int64())
            case names.FILE_TIME:
                return self._constant(None if task.modified_ms is None else task.modified_ms * 1000, _TIME)
            case names.SPEC_ID:
                return self._constant(task.spec_id, pa.int32())
            case names.DELETED:
                return self._constant(False, pa.bool_())
            case names.FILE_NUMBER:
                return self._constant(task.number, pa.int64())
            case names.PARTITION:
                return self._partition()
            case names.BASE_ROW_ID:
                return self._constant(task.base_row_id, pa.int64())
            case names.DEFAULT_ROW_COMMIT_VERSION:
                return self._constant(task.default_row_commit_version, pa.int64())
            case names.ROW_ID:
                return self._materialized(spec.id_column, spec.id_field, self._derived_ids())
            case names.ROW_COMMIT_VERSION:
                default = self._constant(task.default_row_commit_version, pa.int64())
                return self._materialized(spec.version_column, spec.version_field, default)
            case _:
                raise AssertionError(f"{canonical} is no metadata column")

    def _derived_ids(self) -> _Maker:
        base = self._task.base_row_id
        if base is None:
            return self._constant(None, pa.int64())
        return lambda batch, rows: positions(rows + base)

    def _materialized(self, name: str | None, number: int | None, derived: _Maker) -> _Maker:
        """Values of the file's own column where it has them, else derived ones; neither is a damaged table."""
        if self._spec.has_gaps and self._task.base_row_id is None:
            return self._constant(None, pa.int64())
        node = self._carried(name, number)
        if node is not None:
            self.needed[node.name] = node

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

    def _carried(self, name: str | None, number: int | None) -> Node | None:
        """The file's own column of ids or versions, if it has one."""
        if name is None:
            return None
        if number is None:
            return find_name(self._nodes, name, self._facts, column=name)
        return next((node for node in self._nodes if node.field_id == number), None)

    def _partition(self) -> _Maker:
        type_ = _metadata_type(names.PARTITION, self._spec)
        tuples = self._spec.tuple_type
        if tuples is not None and not tuples.fields:
            return lambda batch, rows: pa.nulls(len(rows), type_)
        values = [self._task.partition[f.physical_name] for f in tuples or self._spec.partition_fields]
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
        return arrow_type(spec.tuple_type or Struct(spec.partition_fields))
    if canonical == names.SPEC_ID:
        return pa.int32()
    if canonical == names.DELETED:
        return pa.bool_()
    if canonical == names.FILE_TIME:
        return _TIME
    return pa.int64()


def _bitmap(hidden: BitMap64 | bytes | None) -> BitMap64 | None:
    return BitMap64.deserialize(hidden) if isinstance(hidden, bytes) else hidden


def _is_remote(source: Any) -> bool:
    """Whether ranges should be fetched together ahead of their use."""
    return isinstance(source, pa.PythonFile)


def _blank_batches(rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, batch_rows):
        yield blank(min(batch_rows, rows - start))


def blank(rows: int) -> pa.RecordBatch:
    """Rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


@contextmanager
def blamed_on(uri: str) -> Iterator[None]:
    """What goes wrong in reading as an error that names the file."""
    try:
        with parsing(uri, "cannot be read as a data file"):
            yield
    except NotFound as error:
        raise MissingFile(f"{uri} is not there, but the table refers to it; restore it", path=uri) from error
