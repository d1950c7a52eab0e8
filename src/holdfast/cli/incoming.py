"""Reads Parquet, CSV or JSON files as one Arrow table, for commands that write rows.

1. In text formats, columns of the table get the table's types; other columns get types inferred from their values. A
   timestamp without a zone is in UTC.
2. Inferring types loses no information: a column of numbers with leading zeros, or with more digits than a number
   holds, stays text. An empty field of a CSV file is null, and `""` is an empty text; no other word means null.
3. JSON is an object per line, or one list of objects.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path

import click
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.json as json
import pyarrow.parquet as pq

from holdfast.cli.output import has_map
from holdfast.errors import Invalid
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import Struct

STDIN = "-"
_ZERO_FIRST, _MANY_DIGITS = r"^[+-]?0\d", r"^[+-]?\d{16,}$"
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")


class FileFormat(Enum):
    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"


_SUFFIXES = {
    ".parquet": FileFormat.PARQUET,
    ".pq": FileFormat.PARQUET,
    ".csv": FileFormat.CSV,
    ".json": FileFormat.JSON,
    ".jsonl": FileFormat.JSON,
    ".ndjson": FileFormat.JSON,
}

files_argument = click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, allow_dash=True)
)
file_argument = click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
format_option = click.option(
    "--format",
    "format_",
    type=click.Choice([f.value for f in FileFormat]),
    help="What the files are; else by their names.",
)


def read_files(files: Sequence[str], format_: str | None, schema: Struct | None) -> pa.Table:
    """The rows of files in order; `schema` is the table's, if there is a table."""
    tables = [_read(name, _format_of(name, format_), schema) for name in files]
    try:
        return pa.concat_tables(tables, promote_options="default")
    except pa.ArrowException as error:
        raise Invalid(f"the files do not go together: {_first_line(error)}; append them one by one") from error


def _format_of(name: str, chosen: str | None) -> FileFormat:
    if chosen is not None:
        return FileFormat(chosen)
    if name == STDIN:
        raise click.UsageError("say what comes from standard input: --format parquet, csv or json")
    path = Path(name)
    suffix = Path(path.stem).suffix if path.suffix in _COMPRESSED else path.suffix
    if suffix.lower() not in _SUFFIXES:
        raise click.UsageError(f"{name} has no name that says what it is: --format parquet, csv or json")
    return _SUFFIXES[suffix.lower()]


def _read(name: str, format_: FileFormat, schema: Struct | None) -> pa.Table:
    shown = "standard input" if name == STDIN else name
    try:
        return _READERS[format_](_source(name), schema)
    except (pa.ArrowException, msgspec.DecodeError, OSError) as error:
        raise Invalid(f"{shown} cannot be read as {format_.value}: {_first_line(error)}") from error


def _source(name: str) -> pa.NativeFile:
    if name == STDIN:
        return pa.BufferReader(sys.stdin.buffer.read())
    return pa.input_stream(name, compression="detect") if Path(name).suffix in _COMPRESSED else pa.OSFile(name)


def _parquet(source: pa.NativeFile, schema: Struct | None) -> pa.Table:
    return pq.read_table(source if isinstance(source, pa.OSFile) else pa.BufferReader(source.read()))


def _csv(source: pa.NativeFile, schema: Struct | None) -> pa.Table:
    types_of_table = dict(_types(schema))
    flat = {name: type_ for name, type_ in types_of_table.items() if not pa.types.is_nested(type_)}
    types = {name: pa.string() if _is_zoned(type_) else type_ for name, type_ in flat.items()}
    data = source.read()
    rows = _csv_rows(data, types)
    numbers = [f.name for f in rows.schema if f.name not in types_of_table and _is_number(f.type)]
    if numbers:
        texts = _csv_rows(data, dict.fromkeys(numbers, pa.string()), numbers)
        for at, name in enumerate(rows.column_names):
            if name in numbers and _is_code(texts.column(name), rows.schema.field(at).type):
                rows = rows.set_column(at, name, texts.column(name))
    return _typed(rows, types_of_table)


def _csv_rows(data: bytes, types: Mapping[str, pa.DataType], only: Sequence[str] = ()) -> pa.Table:
    options = csv.ConvertOptions(
        column_types=types,
        include_columns=list(only) or None,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return csv.read_csv(pa.BufferReader(data), convert_options=options)


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_))


def _is_code(texts: pa.ChunkedArray, type_: pa.DataType) -> bool:
    """Whether some of these texts would change if they became numbers of a type."""
    pattern = _ZERO_FIRST if pa.types.is_integer(type_) else f"{_ZERO_FIRST}|{_MANY_DIGITS}"
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


def _json(source: pa.NativeFile, schema: Struct | None) -> pa.Table:
    data = source.read()
    if data.lstrip()[:1] == b"[":
        data = b"\n".join(bytes(item) for item in msgspec.json.decode(data, type=list[msgspec.Raw]))
    types_of_table = dict(_types(schema))
    fields = [(name, _as_json(type_)) for name, type_ in types_of_table.items() if not has_map(type_)]
    options = json.ParseOptions(explicit_schema=pa.schema(fields) if fields else None, newlines_in_values=True)
    rows = json.read_json(pa.BufferReader(data), parse_options=options)
    # The reader adds columns of the schema that no row has: columns that are all null are dropped.
    brought = [name for name in rows.column_names if rows.column(name).null_count < max(rows.num_rows, 1)]
    return _typed(rows.select(brought), types_of_table)


_READERS: dict[FileFormat, Callable[[pa.NativeFile, Struct | None], pa.Table]] = {
    FileFormat.PARQUET: _parquet,
    FileFormat.CSV: _csv,
    FileFormat.JSON: _json,
}


def _types(schema: Struct | None) -> Iterator[tuple[str, pa.DataType]]:
    for field in () if schema is None else schema.fields:
        yield field.name, arrow_type(field.type)


def _is_zoned(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_)) and type_.tz is not None


def _as_json(type_: pa.DataType) -> pa.DataType:
    """The type in JSON: dates and timestamps are text."""
    if pa.types.is_temporal(type_):
        return pa.string()
    if pa.types.is_struct(type_):
        return pa.struct([(f.name, _as_json(f.type)) for f in type_.fields])
    return pa.list_(_as_json(type_.value_type)) if pa.types.is_list(type_) else type_


def _typed(rows: pa.Table, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Cast columns to the table's types; timestamps without a zone are in UTC."""
    for at, field in enumerate(rows.schema):
        type_ = types.get(field.name, field.type)
        if type_ != field.type and not has_map(type_):
            column = _in_utc(rows.column(at)) if _is_zoned(type_) else rows.column(at)
            rows = rows.set_column(at, field.name, column.cast(type_))
    return rows


def _in_utc(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    bare = pc.invert(pc.match_substring_regex(texts, r"(Z|[+-]\d{2}:?\d{2})$"))
    return pc.if_else(bare, pc.binary_join_element_wise(texts, "Z", ""), texts)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
