"""What changes an Iceberg table: appends, overwrites, the verbs on rows, properties and the format version.

The verbs on rows are those of every table (`RowVerbs`); what is particular to Iceberg is in its dialect.

1. Every change is one snapshot, committed through the catalog; a table that was opened by a metadata file is only read.
2. `mode` is, without being asked for, what the properties `write.delete.mode`, `write.update.mode` and
   `write.merge.mode` say, and copy-on-write where they do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from holdfast.engines.spark.conditions import stated_in_text
from holdfast.engines.spark.types import spark_to_struct
from holdfast.errors import Invalid
from holdfast.formats.iceberg.catalog.create import create_table
from holdfast.formats.iceberg.catalog.tables import CatalogTable, catalog_table
from holdfast.schema.ddl import parse_type
from holdfast.schema.from_arrow import struct_of
from holdfast.schema.types import Struct
from holdfast.verbs.define.iceberg import IcebergAltering
from holdfast.verbs.dml.replace_where import found
from holdfast.verbs.dml.verbs import RowVerbs, said
from holdfast.verbs.dml.write import WriteOptions, Written, is_seen, rows_of, write
from holdfast.verbs.maintain.post_commit import after


class IcebergWriting(RowVerbs, IcebergAltering):
    """What an Iceberg table can be made to be."""

    def overwrite(
        self,
        rows: DataFrame | pa.Table,
        *,
        replaceWhere: str | Column | None = None,
        partitionOverwriteMode: str = "static",
        mode: str | None = None,
        mergeSchema: bool = False,
        widenTypes: bool = False,
        txn: tuple[str, int] | None = None,
        userMetadata: str | None = None,
    ) -> Written:
        """Put rows in the place of all, of those that satisfy `replaceWhere`, or (dynamic) of their own partitions.

        `mode` is the way in which rows go that `replaceWhere` names.
        """
        where = None if replaceWhere is None else stated_in_text(replaceWhere, "overwrite(replaceWhere=)")
        if mode is not None and replaceWhere is None:
            raise Invalid("all rows go with their files: mode is for overwrites with replaceWhere")
        if partitionOverwriteMode.lower() not in ("static", "dynamic"):
            raise Invalid(f"partitionOverwriteMode is static or dynamic, not {partitionOverwriteMode!r}")
        dynamic = partitionOverwriteMode.lower() == "dynamic"
        if replaceWhere is not None and dynamic:
            raise Invalid("replaceWhere and dynamic partition overwrite exclude each other: choose one")
        how = WriteOptions(
            replace=True,
            replace_where=where,
            zone=self.handle.zone,
            dynamic=dynamic,
            add_columns=mergeSchema,
            widen_types=widenTypes,
            said=said(txn, userMetadata),
        )
        return self._write(rows, how, mode)

    def _is_partitioned(self) -> bool:
        """Whether rows that are written now have partitions, which they can take the place of."""
        state = self.handle.newest()
        return not state.contents.types.specs[state.metadata.default_spec_id].is_unpartitioned

    def _write(self, rows: DataFrame | pa.Table, how: WriteOptions, mode: str | None = None) -> Written:
        state, caller = self.handle.newest(), self._caller(mode)
        if is_seen(state, how.said, caller.dialect):
            return Written(None, {}, 0)
        given = rows_of(rows, self.handle.spark, caller.env)
        return after(state, write(state, given, found(state, how, caller), caller.env, caller.dialect), caller)


def create(
    catalog: Any,
    identifier: str | tuple[str, ...],
    schema: Any,
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


def columns_of(schema: Any) -> Struct:
    """Columns, however they are given."""
    match schema:
        case Struct():
            return schema
        case pa.Schema():
            return struct_of(schema)
        case StructType():
            return spark_to_struct(schema, where="the schema")
        case str():
            type_ = parse_type(f"struct<{schema}>")
            assert isinstance(type_, Struct), "a struct was spelled"
            return type_
        case _:
            raise Invalid(
                f"a schema is an Arrow schema, a StructType or text such as 'id long, name string', not "
                f"{type(schema).__name__}"
            )
