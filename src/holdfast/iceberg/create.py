"""A new table in a catalog: its columns in Iceberg's words, and how its rows are placed.

1. Columns are numbered by the catalog, at every depth; byte and short, which Iceberg has not, become int.
2. A partition field is named as other engines name it: `day(ts)` is ts_day, `bucket(16, id)` id_bucket.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from holdfast.errors import Invalid, Unavailable, Unsupported
from holdfast.iceberg.catalog import CatalogTable
from holdfast.schema.types import Array, DataType, Decimal, Map, Primitive, Struct

try:
    from pyiceberg.exceptions import CommitFailedException, RESTError, TableAlreadyExistsError
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import parse_transform
except ImportError as _error:
    raise Unsupported("writing Iceberg tables needs pyiceberg: pip install 'holdfast[iceberg]'") from _error

VERSIONS = (2, 3)
FORMAT_VERSION = "format-version"
_FIRST_FIELD = 1000
_WORDS = {
    "byte": "int",
    "short": "int",
    "integer": "int",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    **{name: name for name in ("long", "float", "double", "string", "binary", "boolean", "date", "time")},
}
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
    """Make a table without rows."""
    if version not in VERSIONS:
        raise Invalid(f"a table is made in format version 2 or 3, not {version}")
    catalog, name = source.catalog, source.catalog.identifier_to_tuple(source.identifier)
    if len(name) < 2:
        raise Invalid(f"a table of a catalog is named by namespace and name, as in 'db.{name[-1]}'")
    made = Schema.model_validate(schema_json(schema))
    spec = PartitionSpec(*(_partition_field(text, made, at) for at, text in enumerate(partitioned_by)))
    try:
        catalog.create_namespace_if_not_exists(name[:-1])
        catalog.create_table(name, made, location, spec, properties={**properties, FORMAT_VERSION: str(version)})
    except (TableAlreadyExistsError, CommitFailedException) as error:
        raise Invalid(f"the catalog {catalog.name} has a table {'.'.join(name)} already: open it with load") from error
    except (RESTError, OSError) as error:
        raise Unavailable(f"the catalog {catalog.name} did not make the table {'.'.join(name)}: {error}") from error


def schema_json(schema: Struct) -> dict[str, Any]:
    """The columns as metadata says them."""
    numbers = count(1)
    return {"type": "struct", "schema-id": 0, "fields": list(_fields(schema, numbers, ""))}


def _fields(struct_: Struct, numbers: Iterator[int], above: str) -> Iterator[dict[str, Any]]:
    # All fields of a struct are numbered before what is inside them, as other writers do.
    numbered = [(next(numbers), f) for f in struct_.fields]
    for number, f in numbered:
        made = {
            "id": number,
            "name": f.name,
            "required": not f.nullable,
            "type": _type(f.type, numbers, above + f.name),
        }
        yield {**made, "doc": str(f.metadata["comment"])} if f.metadata.get("comment") else made


def _type(type_: DataType, numbers: Iterator[int], column: str) -> Any:
    match type_:
        case Struct():
            return {"type": "struct", "fields": list(_fields(type_, numbers, f"{column}."))}
        case Array(element, nulls):
            number = next(numbers)
            inner = _type(element, numbers, f"{column}.element")
            return {"type": "list", "element-id": number, "element": inner, "element-required": not nulls}
        case Map(key, value, nulls):
            key_id, value_id = next(numbers), next(numbers)
            return {
                "type": "map",
                "key-id": key_id,
                "key": _type(key, numbers, f"{column}.key"),
                "value-id": value_id,
                "value": _type(value, numbers, f"{column}.value"),
                "value-required": not nulls,
            }
        case Decimal(precision, scale):
            return f"decimal({precision}, {scale})"
        case Primitive(name) if name in _WORDS:
            return _WORDS[name]
        case _:
            raise Unsupported(f"the column {column} is {type_.name}, which no Iceberg table of ours can have")


def _partition_field(text: str, schema: Schema, at: int) -> PartitionField:
    column, transform, name = _understood(text)
    try:
        source = schema.find_field(column, case_sensitive=False)
    except ValueError as error:
        raise Invalid(f"partitionedBy names {column}, which is no column of the table") from error
    made = parse_transform(transform)
    if not made.can_transform(source.field_type):
        raise Invalid(f"{column} is {source.field_type}, which cannot be partitioned by {transform}")
    return PartitionField(source.field_id, _FIRST_FIELD + at, made, name)


def _understood(text: str) -> tuple[str, str, str]:
    """A column, its transform as metadata spells it, and the name of the field."""
    found = _CALL.fullmatch(text.strip())
    if found is None:
        column = text.strip().strip("`")
        return column, "identity", column
    word, column = found[1].lower(), found[3].strip("`")
    size = found[2] or found[4]
    plain = column.replace(".", "_")
    if word in _CALENDAR and size is None:
        return column, _CALENDAR[word], f"{plain}_{_CALENDAR[word]}"
    if word in _SIZED and size is not None and int(size) > 0:
        return column, f"{word}[{size}]", f"{plain}_{_SIZED[word]}"
    raise Invalid(
        f"{text!r} is no way to partition: name a column, or year, month, day or hour of one, bucket(n, column) or "
        "truncate(n, column)"
    )
