"""Creates a table in a catalog: its schema and its partition spec.

1. The catalog assigns the field ids, at every depth; byte and short, which Iceberg does not have, become int.
2. A partition field gets the name that other engines give it: `day(ts)` is ts_day, `bucket(16, id)` is id_bucket.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pyiceberg.exceptions import CommitFailedException, RESTError, TableAlreadyExistsError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform

from holdfast.errors import Invalid, Unavailable
from holdfast.formats.iceberg.catalog.tables import CatalogTable
from holdfast.formats.iceberg.metadata.schema_evolution import new_table_schema
from holdfast.schema.types import Struct

VERSIONS = (2, 3)
FORMAT_VERSION = "format-version"
_FIRST_FIELD = 1000
_CALL = re.compile(r"(\w+)\s*\(\s*(?:(\d+)\s*,\s*)?([^,()]+?)\s*(?:,\s*(\d+)\s*)?\)")
_CALENDAR = {"year": "year", "years": "year", "month": "month", "months": "month", "day": "day", "days": "day",
             "date": "day", "hour": "hour", "hours": "hour"}  # fmt: skip
_SIZED = {"bucket": "bucket", "truncate": "trunc"}


def create_table(
    source: CatalogTable,
    schema: Struct,
    partitioned_by: Sequence[str],
    *,
    version: int,
    properties: Mapping[str, str],
    location: str | None,
) -> None:
    """Creates a table without rows."""
    if version not in VERSIONS:
        raise Invalid(f"a table is columns in format version 2 or 3, not {version}")
    catalog, name = source.catalog, source.catalog.identifier_to_tuple(source.identifier)
    if len(name) < 2:
        raise Invalid(f"a table of a catalog is named by namespace and name, as in 'db.{name[-1]}'")
    columns = Schema.model_validate(new_table_schema(schema))
    spec = PartitionSpec(*(_partition_field(text, columns, at) for at, text in enumerate(partitioned_by)))
    try:
        catalog.create_namespace_if_not_exists(name[:-1])
        catalog.create_table(name, columns, location, spec, properties={**properties, FORMAT_VERSION: str(version)})
    except (TableAlreadyExistsError, CommitFailedException) as error:
        raise Invalid(f"the catalog {catalog.name} has a table {'.'.join(name)} already: open it with load") from error
    except (RESTError, OSError) as error:
        raise Unavailable(f"the catalog {catalog.name} did not make the table {'.'.join(name)}: {error}") from error


def _partition_field(text: str, schema: Schema, at: int) -> PartitionField:
    column, transform, name = _parse_partitioning(text)
    try:
        source = schema.find_field(column, case_sensitive=False)
    except ValueError as error:
        raise Invalid(f"partitionedBy names {column}, which is no column of the table") from error
    parsed = parse_transform(transform)
    if not parsed.can_transform(source.field_type):
        raise Invalid(f"{column} is {source.field_type}, which cannot be partitioned by {transform}")
    return PartitionField(source.field_id, _FIRST_FIELD + at, parsed, name)


def _parse_partitioning(text: str) -> tuple[str, str, str]:
    """The column, the transform as metadata spells it, and the name of the partition field."""
    match = _CALL.fullmatch(text.strip())
    if match is None:
        column = text.strip().strip("`")
        return column, "identity", column
    word, column = match[1].lower(), match[3].strip("`")
    size = match[2] or match[4]
    plain = column.replace(".", "_")
    if word in _CALENDAR and size is None:
        return column, _CALENDAR[word], f"{plain}_{_CALENDAR[word]}"
    if word in _SIZED and size is not None and int(size) > 0:
        return column, f"{word}[{size}]", f"{plain}_{_SIZED[word]}"
    raise Invalid(
        f"{text!r} is no way to partition: name a column, or year, month, day or hour of one, bucket(n, column) or "
        "truncate(n, column)"
    )
