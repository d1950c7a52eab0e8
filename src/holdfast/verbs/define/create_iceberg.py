"""Creates an Iceberg table in a catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from holdfast.errors import Invalid
from holdfast.formats.iceberg.catalog.create import create_table
from holdfast.formats.iceberg.catalog.tables import CatalogLike, CatalogTable, catalog_table
from holdfast.schema.ddl import parse_type
from holdfast.schema.from_arrow import struct_of
from holdfast.schema.types import Struct
from holdfast.verbs.open.spark_values import spark_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SchemaLike: TypeAlias = "Struct | pa.Schema | StructType | str"


def create(
    catalog: CatalogLike,
    identifier: str | tuple[str, ...],
    schema: SchemaLike,
    partitioned_by: Sequence[str],
    *,
    version: int,
    properties: Mapping[str, str],
    location: str | PathLike[str] | None,
    storage_options: Mapping[str, str] | None,
) -> CatalogTable:
    """Make a table in a catalog."""
    source = catalog_table(catalog, identifier, storage_options=storage_options)
    create_table(
        source,
        columns_of(schema),
        [partitioned_by] if isinstance(partitioned_by, str) else partitioned_by,
        version=version,
        properties=properties,
        location=None if location is None else fspath(location),
    )
    return source


def columns_of(schema: SchemaLike) -> Struct:
    """Columns, however they are given."""
    match schema:
        case Struct():
            return schema
        case pa.Schema():
            return struct_of(schema)
        case str():
            type_ = parse_type(f"struct<{schema}>")
            assert isinstance(type_, Struct), "a struct was spelled"
            return type_
        case _:
            if (struct := spark_schema(schema, "the schema")) is not None:
                return struct
            raise Invalid(
                f"a schema is an Arrow schema, a StructType or text such as 'id long, name string', not "
                f"{type(schema).__name__}"
            )
