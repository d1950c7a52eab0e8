"""What others read of an Iceberg table that was copied: DuckDB's extension, and pyiceberg."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from uuid import UUID

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pyarrow as pa
from pyiceberg.io import InputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StaticTable

from holdfast.formats.iceberg.metadata.paths import relocated


@cache
def duckdb_connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"})
    for module in (duckdb_extension_avro, duckdb_extension_iceberg):
        (extension,) = Path(module.__file__).parent.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    connection.execute("SET TimeZone='UTC'")
    return connection


def read_by_duckdb(metadata: Path, location: str, scratch: Path) -> pa.Table:
    """The rows as DuckDB has them; relative locations are found through a link."""
    connection = duckdb_connection()
    if "://" not in location and not location.startswith("/"):
        link = scratch / location
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(metadata.parents[1])
        with _within(scratch):
            return connection.execute(f"select * from iceberg_scan('{metadata}')").to_arrow_table()
    version = metadata.name.removesuffix(".metadata.json")
    return connection.execute(
        f"select * from iceberg_scan('{metadata.parents[1]}', version='{version}', "
        "version_name_format='%s%s.metadata.json', allow_moved_paths=true)"
    ).to_arrow_table()


def read_by_pyiceberg(metadata: Path, moves: Mapping[str, str]) -> pa.Table:
    """The rows as pyiceberg has them."""
    io = _Moved(moves)
    read = FromInputFile.table_metadata(io.new_input(str(metadata)))
    table = StaticTable(("static", "table"), metadata=read, metadata_location=str(metadata), io=io, catalog=None)  # type: ignore[arg-type]
    found = table.scan().to_arrow()
    return pa.table([_plain(column.combine_chunks()) for column in found.columns], names=found.column_names)


def _plain(array: pa.Array) -> pa.Array:
    """UUIDs as texts, and fixed lengths of bytes as bytes, as in Spark."""
    if isinstance(array.type, pa.UuidType):
        return pa.array([None if blob is None else str(UUID(bytes=blob)) for blob in array.storage.to_pylist()])
    if pa.types.is_fixed_size_binary(array.type):
        return array.cast(pa.binary())
    if pa.types.is_struct(array.type):
        parts = [_plain(array.field(i)) for i in range(array.type.num_fields)]
        mask = array.is_null()
        return pa.StructArray.from_arrays(parts, names=[f.name for f in array.type.fields], mask=mask)
    return array


class _Moved(PyArrowFileIO):
    """Files of a table that was copied."""

    def __init__(self, moves: Mapping[str, str]) -> None:
        super().__init__()
        self._moves = moves

    def new_input(self, location: str) -> InputFile:
        return super().new_input(relocated(location, self._moves))


@contextmanager
def _within(directory: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)
