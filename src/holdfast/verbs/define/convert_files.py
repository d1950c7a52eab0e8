"""Inspects the Parquet files of a directory, and makes the mutation that adds them to a new table.

1. Every file that is not hidden (`_x`, `.x`) is part of the table, or the conversion is refused and names the file.
2. Partition values come from directories, as Hive writes them; all files have the same partition columns.
3. Statistics and row counts come from footers, which are read once each, several at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import Damaged, Invalid
from holdfast.model.files import STRINGS
from holdfast.model.mutation import STAGED, Mutation, NoRows, TableDefinition
from holdfast.parquet.pages.footer import read_footer
from holdfast.parquet.schema import file_schema, joined, with_partitions
from holdfast.parquet.stats import footer_text
from holdfast.parquet.write import WriteSpec
from holdfast.schema.partition import typed
from holdfast.schema.partition_text import NULL_DIRECTORY, partition_texts
from holdfast.schema.storable import refuse_partition_columns, refuse_unstorable
from holdfast.schema.types import Struct, render_schema
from holdfast.storage.arrays import strings
from holdfast.storage.base import ObjectMeta
from holdfast.storage.location import Location

_READERS = 16


@dataclass(frozen=True, slots=True)
class ParquetDirectory:
    """The Parquet files of a directory, with their footers and partition values, and the columns they make up."""

    files: tuple[tuple[str, ObjectMeta, pq.FileMetaData], ...]  # by file key
    schema: Struct
    partition_columns: tuple[str, ...]
    values: pa.Array  # of each file's partition columns, as the log spells them


def survey(location: Location, partitions: Struct) -> ParquetDirectory:
    """What there is to convert; `partitions` are the partition columns the user names."""
    metas = sorted(_visible(location), key=lambda entry: entry[0])
    if not metas:
        raise Invalid(f"there is no Parquet file in {location.url} to make a table of")
    _refuse_doubled(partitions)
    values = _values(location, [key for key, _ in metas], partitions)

    def footer(entry: tuple[str, ObjectMeta]) -> tuple[str, ObjectMeta, pq.FileMetaData]:
        key, meta = entry
        try:
            return key, meta, read_footer(location.store, meta.key, meta.size)
        except Damaged as error:
            raise Invalid(
                f"{key} in {location.url} is no Parquet file that can be read ({error}): take it away, or give it a "
                "name that begins with _"
            ) from error

    with ThreadPoolExecutor(_READERS) as pool:
        files = tuple(pool.map(footer, metas))  # one per file
    schema = with_partitions(_together(files), partitions)
    names = refuse_partition_columns(schema, partitions.names) if partitions.fields else ()
    refuse_unstorable(schema, mapped=False)
    return ParquetDirectory(files, schema, names, values)


def staged(directory: ParquetDirectory, spec: WriteSpec) -> pa.Table:
    """The files as a commit adds them, with the columns of STAGED."""
    rows = [
        {
            "key": key,
            "size": meta.size,
            "modified_ms": meta.modified_ms,
            "num_records": footer.num_rows,
            "stats": footer_text(
                spec.stats_leaves, spec.fields, footer, string_prefix=spec.string_prefix, tight=spec.tight_bounds
            ),
        }
        for key, meta, footer in directory.files
    ]
    table = pa.Table.from_pylist(rows, pa.schema([f for f in STAGED if f.name != "partition_values"]))
    return table.append_column("partition_values", directory.values).select(STAGED.names).cast(STAGED)


def converted(directory: ParquetDirectory, files: pa.Table, shape: TableDefinition) -> Mutation:
    """Make a table of files that are there."""
    return Mutation(
        "CONVERT",
        {
            "numFiles": str(files.num_rows),
            "partitionedBy": json.dumps(list(directory.partition_columns)),
            "collectStats": "true",
            "sourceFormat": "parquet",
        },
        {"numConvertedFiles": files.num_rows},
        added=files,
        reads=NoRows(),
        shape=replace(shape, schema=directory.schema, partition_columns=directory.partition_columns),
    )


def _visible(location: Location) -> Iterable[tuple[str, ObjectMeta]]:
    start = len(location.key("")) if location.directory else 0
    for meta in location.store.list_all(location.directory):
        key = meta.key[start:]
        if not any(_is_hidden(part) for part in key.split("/")):
            yield key, meta


def _is_hidden(name: str) -> bool:
    """As Spark sees it: a partition's directory is never hidden for its underscore."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _refuse_doubled(partitions: Struct) -> None:
    names = [name.lower() for name in partitions.names]
    if len(set(names)) != len(names):
        raise Invalid(f"the partition columns {', '.join(partitions.names)} are not all different")


def _values(location: Location, keys: Sequence[str], partitions: Struct) -> pa.Array:
    """The partition values of each file, by name, as a log spells them."""
    wanted = [name.lower() for name in partitions.names]
    texts: list[list[str | None]] = [[] for _ in wanted]
    for key in keys:  # one per file
        pairs = [part.split("=", 1) for part in key.split("/")[:-1] if "=" in part]
        values = {unquote(name).lower(): _value(text) for name, text in pairs}
        if [unquote(name).lower() for name, _ in pairs] != wanted:
            shown = ", ".join(unquote(name) for name, _ in pairs)
            raise Invalid(
                f"{key} in {location.url} lies in the partition columns ({shown}) by its directories, and the columns "
                f"given are ({', '.join(partitions.names)}): name them in order, with types, as in "
                f"partitionSchema='{', '.join(f'{unquote(name)} string' for name, _ in pairs)}'"
            )
        for name, column in zip(wanted, texts, strict=True):
            column.append(values[name])
    columns = []
    for f, column in zip(partitions.fields, texts, strict=True):
        try:
            values = typed(strings(column), f.type, where=f"the partition column {f.name} of {location.url}")
        except Damaged as error:
            raise Invalid(f"{error}: give partitionSchema another type for it") from error
        columns.append(partition_texts(values, f.type, column=f.name).to_pylist())
    entries = [list(zip(partitions.names, row, strict=True)) for row in zip(*columns, strict=True)]
    return pa.array(entries or [[]] * len(keys), STRINGS)


def _value(text: str) -> str | None:
    return None if text == NULL_DIRECTORY else unquote(text)


def _together(files: Iterable[tuple[str, ObjectMeta, pq.FileMetaData]]) -> Struct:
    """The columns of all files; schemas that are the same are looked at once."""
    merged: Struct | None = None
    seen: set[str] = set()
    for key, _, footer in files:
        schema = file_schema(footer, where=key)
        text = render_schema(schema)
        if text not in seen:
            seen.add(text)
            merged = schema if merged is None else joined(merged, schema, where=key)
    assert merged is not None, "there is a file"
    return merged
