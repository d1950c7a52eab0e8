"""Reads a data file as batches of the table's columns and metadata columns.

Spark tasks pickle this module by value: it imports only Arrow, numpy, pyroaring and modules of lower layers.

1. A position counts the rows of the whole file in stored order. Hidden rows are dropped before any value is converted,
   so a bad value in a hidden row does no harm.
2. Output columns are the requested fields in the requested order, then metadata columns; see `output_schema`.
3. A partition column has the task's value, whatever the file stores under that name.
4. A row id is the materialized one where there is one, else base plus position; a row commit version likewise.
5. Only the needed columns are read, and no batch has more rows than `batch_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.errors import Damaged, MissingFile, Unsupported
from holdfast.parquet.calendar import Calendar, calendar_of
from holdfast.parquet.convert import FileFacts, convert, find, find_name, needs_nothing
from holdfast.parquet.equality_deletes import EqualityDeleteRows, are_deleted
from holdfast.parquet.orc import OrcFile
from holdfast.parquet.pages.footer import Node, Source, columns
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
    """What a scan reads of every file."""

    fields: tuple[Field, ...]
    partition_fields: tuple[Field, ...] = ()  # of the table, requested or not
    by_id: bool = False
    to_name: str = "rewrite it"  # the remedy for a file without field ids
    is_whole: bool = False  # a file that lacks one of the columns is Damaged, and not full of nulls or defaults
    id_column: str | None = None
    version_column: str | None = None
    id_field: int | None = None  # the field ids of these columns, where columns are found by id
    version_field: int | None = None
    has_gaps: bool = False  # a file without a base has neither ids nor versions, whatever it stores
    tuple_type: Struct | None = None  # of partition tuples, where files store partition columns like others
    # field id of a column -> spec of a file -> field of the partition tuple that equals the column
    identities: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    equality_deletes: tuple[EqualityDeleteRows, ...] = ()
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
    shown: str | None = None  # the file column, where that is not the URI
    spec_id: int | None = None
    format: str = "parquet"
    sequence: int = 0  # equality deletes apply to it if theirs is higher
    group: int | None = None  # and, unless they apply everywhere, if theirs is the same
    rows: int | None = None  # according to the log, with hidden ones


def output_schema(spec: ReadSpec) -> pa.Schema:
    """The schema of every batch of a scan."""
    schema = arrow_schema(Struct(spec.fields))
    for canonical, output in spec.metadata.items():
        schema = schema.append(pa.field(output, _metadata_type(canonical, spec)))
    return schema


def read_batches(source: Source, spec: ReadSpec, task: FileTask) -> Iterator[pa.RecordBatch]:
    """The live rows of a file; where `_deleted` is among the columns, hidden ones too."""
    schema = output_schema(spec)
    hidden = BitMap64.deserialize(task.hidden) if isinstance(task.hidden, bytes) else task.hidden
    deleted_column = spec.metadata.get(names.DELETED)
    resolved, batches = opened(source, spec, task)
    deletes = [
        (keys, resolved.makers(each.fields))
        for each in spec.equality_deletes
        if (keys := each.of(task.sequence, task.group))
    ]
    start = 0
    for batch in batches(resolved):
        rows = np.arange(start, start + batch.num_rows, dtype=np.int64)
        start += batch.num_rows
        dead = mask(hidden, int(rows[0]), batch.num_rows) if hidden else np.zeros(batch.num_rows, np.bool_)
        if deleted_column is None and dead.any():
            rows, batch, dead = rows[~dead], batch.filter(pa.array(~dead)), dead[~dead]
        with naming_file(task.uri):
            for keys, makers in deletes:
                dead = dead | are_deleted([make(batch, rows) for make in makers], keys)
            if deleted_column is None and dead.any():
                rows, batch = rows[~dead], batch.filter(pa.array(~dead))
            output = resolved.output(batch, rows, schema) if len(rows) else None
        if output is not None:
            if deleted_column is not None:
                index = schema.get_field_index(deleted_column)
                output = output.set_column(index, deleted_column, pa.array(dead))
            yield output
    check_rows(start, task)


def check_rows(rows: int, task: FileTask) -> None:
    """Raises Damaged where a file has not as many rows as the log says."""
    if task.rows is not None and rows != task.rows:
        raise Damaged(
            f"{task.uri} has {rows} rows, and the table says that it has {task.rows}: either the count is wrong, which "
            "check(repair=True) puts right (of an Iceberg table where no row ids were counted on from it), or this is "
            "not the file that was written: then restore it, or an earlier version of the table",
            path=task.uri,
            expected=f"{task.rows} rows",
            found=f"{rows} rows",
        )


def columns_and_rows(source: Source, task: FileTask) -> tuple[tuple[Node, ...], int]:
    """The columns of a file and its number of rows, from its footer."""
    with naming_file(task.uri):
        if task.format == "orc":
            stripes = OrcFile(source)
            return stripes.nodes, stripes.rows
        file = pq.ParquetFile(source)
        return columns(file.schema_arrow), int(file.metadata.num_rows)


_Batches: TypeAlias = Callable[["StoredColumns"], Iterator[pa.RecordBatch]]


def opened(source: Source, spec: ReadSpec, task: FileTask) -> tuple[StoredColumns, _Batches]:
    """The columns of a file, and a function that reads the needed ones in batches."""
    if task.format not in ("parquet", "orc"):
        raise Unsupported(f"{task.uri} is an {task.format} file; Holdfast reads data files of Parquet and ORC")
    with naming_file(task.uri):
        if task.format == "orc":
            stripes = OrcFile(source)
            stored = FileColumns(stripes.nodes, Calendar(), frozenset())  # Iceberg's writers know one calendar only
            return StoredColumns(stored, spec, task), lambda needed: _orc_batches(stripes, needed, task, spec)
        file = open_parquet(source)
        resolved = StoredColumns(file_columns(file), spec, task)
    return resolved, lambda needed: stored_batches(file, needed, task.uri, batch_rows=spec.batch_rows)


def _orc_batches(file: OrcFile, columns: StoredColumns, task: FileTask, spec: ReadSpec) -> Iterator[pa.RecordBatch]:
    if not columns.needed:
        yield from _blank_batches(file.rows, spec.batch_rows)
        return
    with naming_file(task.uri):
        yield from file.batches(columns.needed, spec.batch_rows)


def stored_batches(
    file: pq.ParquetFile, columns: StoredColumns, uri: str, *, batch_rows: int, groups: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, or of some of its row groups, in order, with the needed columns."""
    footer = file.metadata
    groups = range(footer.num_row_groups) if groups is None else groups
    if not columns.needed:
        yield from _blank_batches(sum(footer.row_group(g).num_rows for g in groups), batch_rows)
        return
    paths = [footer.schema.column(leaf).path for leaf in columns.leaves()]
    batches = file.iter_batches(batch_rows, row_groups=list(groups), columns=paths, use_threads=False)
    while True:
        with naming_file(uri):
            batch = next(batches, None)
            if batch is None:
                return
            batch.validate(full=True)  # Arrow does not check while it reads that texts are UTF-8
        yield batch


_Maker: TypeAlias = Callable[[pa.RecordBatch, NDArray[np.int64]], pa.Array]  # from stored rows and their positions


@dataclass(frozen=True, slots=True)
class FileColumns:
    """The columns of a file, from its footer."""

    nodes: tuple[Node, ...]
    calendar: Calendar
    int96: frozenset[int]  # leaves stored as 96-bit timestamps


def file_columns(file: pq.ParquetFile) -> FileColumns:
    """The columns of an open file."""
    stored = file.metadata.schema
    int96 = frozenset(i for i in range(len(stored)) if stored.column(i).physical_type == "INT96")
    return FileColumns(columns(file.schema_arrow), calendar_of(file.metadata.metadata), int96)


class StoredColumns:
    """The columns of one file that a scan needs, and how each output column is computed from them."""

    def __init__(self, stored: FileColumns, spec: ReadSpec, task: FileTask) -> None:
        self._spec = spec
        self._task = task
        self._nodes = stored.nodes
        self._facts = FileFacts(task.uri, spec.by_id, stored.calendar, stored.int96)
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

    def output(self, batch: pa.RecordBatch, rows: NDArray[np.int64], schema: pa.Schema) -> pa.RecordBatch:
        """Converts stored rows, which are at these positions, to rows of the output schema."""
        arrays = [make(batch, rows) for make in self._makers]
        return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else blank(len(rows))

    def makers(self, fields: Sequence[Field]) -> list[_Maker]:
        """How columns are computed that equality deletes compare."""
        return [self._stored(f) for f in fields]

    def _stored(self, field_: Field) -> _Maker:
        node = find(self._nodes, field_, self._facts, column=field_.name)
        if node is None or not node.leaves:
            if self._spec.is_whole:
                raise Damaged(
                    f"{self._task.uri} has no column {field_.name} and must have one: it is not the file that was "
                    "written; restore it, or read an earlier snapshot",
                    path=self._task.uri,
                    expected=field_.name,
                )
            return self._constant(self._absent(field_), arrow_type(field_.type))
        self.needed[node.name] = node
        if needs_nothing(node.type, field_.type):
            return lambda batch, rows: batch.column(node.name)
        facts = self._facts
        return lambda batch, rows: convert(batch.column(node.name), node, field_.type, facts, column=field_.name)

    def _absent(self, field_: Field) -> object:
        """The value of a column that the file lacks: that of its partition tuple, else the column's default."""
        by_spec = {} if field_.field_id is None else self._spec.identities.get(field_.field_id, {})
        name = None if self._task.spec_id is None else by_spec.get(self._task.spec_id)
        return field_.initial_default if name is None else self._task.partition[name]

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
        """Materialized values where the file has them, else derived ones; a row with neither is Damaged."""
        if self._spec.has_gaps and self._task.base_row_id is None:
            return self._constant(None, pa.int64())
        node = self._materialized_node(name, number)
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

    def _materialized_node(self, name: str | None, number: int | None) -> Node | None:
        """The file's column of materialized ids or versions, if it has one."""
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

    def _constant(self, value: object, type_: pa.DataType) -> _Maker:
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


def open_parquet(source: Source) -> pq.ParquetFile:
    """Opens a Parquet file; ranges of a remote one are fetched together, ahead of their use."""
    return pq.ParquetFile(source, coerce_int96_timestamp_unit="us", pre_buffer=isinstance(source, pa.PythonFile))


def _blank_batches(rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, batch_rows):
        yield blank(min(batch_rows, rows - start))


def blank(rows: int) -> pa.RecordBatch:
    """Rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


@contextmanager
def naming_file(uri: str) -> Iterator[None]:
    """Turns errors of reading into Damaged and MissingFile with the file's name."""
    try:
        with parsing(uri, "cannot be read as a data file"):
            yield
    except NotFound as error:
        raise MissingFile(f"{uri} is not there, but the table refers to it; restore it", path=uri) from error
