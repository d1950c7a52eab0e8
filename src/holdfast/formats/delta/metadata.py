"""Interprets a table's metadata, protocol and domain metadata: schema, column mapping, clustering and row tracking.

1. A field has a physical name other than its name only where column mapping is enabled.
2. Rows have ids only while row tracking is supported, enabled and not suspended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holdfast.errors import Damaged
from holdfast.formats.delta.log.actions import DomainMetadata, Metadata, Protocol
from holdfast.formats.delta.protocol.features import reader_features, writer_features
from holdfast.model.files import FileTable
from holdfast.model.snapshot import Resolve, RowIdentity
from holdfast.rows.stamp import NO_IDS_YET
from holdfast.schema.properties import (
    COLUMN_MAPPING_MODE,
    ENABLE_ROW_TRACKING,
    MATERIALIZED_ROW_COMMIT_VERSION,
    MATERIALIZED_ROW_ID,
    ROW_TRACKING_SUSPENDED,
    truth,
)
from holdfast.schema.types import MAPPING_ID, MAPPING_NAME, Array, DataType, Field, Map, Struct, parse_schema
from holdfast.storage.error_mapping import json_record

ROW_TRACKING_DOMAIN = "delta.rowTracking"
CLUSTERING_DOMAIN = "delta.clustering"
LIQUID_DOMAIN = "delta.liquid"  # the former name of the clustering domain


def resolve_of(protocol: Protocol, metadata: Metadata) -> Resolve | None:
    """The column mapping mode; None where there is none."""
    if "columnMapping" not in reader_features(protocol) | writer_features(protocol):
        return None
    match metadata.properties.get(COLUMN_MAPPING_MODE, "none").lower():
        case "id":
            return Resolve.BY_ID
        case "name":
            return Resolve.BY_NAME
        case _:
            return None


def schema_of(metadata: Metadata, *, mapped: bool, files: FileTable, where: str) -> Struct:
    """The schema; some writers create a table without one, which is valid as long as it has no files."""
    if metadata.schema_string is None:
        if not len(files):
            return Struct()
        raise Damaged(f"the metaData of {where} has no schema", path=where, expected="schemaString")
    schema = parse_schema(metadata.schema_string, where=where)
    if mapped:
        return schema
    plain = _unmapped(schema)
    assert isinstance(plain, Struct), "a struct without its mapping is a struct"
    return plain


def partitions_of(metadata: Metadata, schema: Struct, *, where: str) -> tuple[str, ...]:
    """The partition columns, with the case of the schema."""
    columns = []
    for name in metadata.partition_columns or ():
        column = schema.find(name)
        if column is None:
            raise Damaged(f"the schema of {where} lacks its partition column {name!r}", path=where, expected=name)
        columns.append(column.name)
    return tuple(columns)


def clustering_of(domains: Mapping[str, DomainMetadata], *, where: str) -> tuple[tuple[str, ...], ...]:
    """Physical names of the clustering columns."""
    domain = domains.get(CLUSTERING_DOMAIN) or domains.get(LIQUID_DOMAIN)
    if domain is None:
        return ()
    columns = _configuration(domain, where).get("clusteringColumns") or ()
    return tuple(_clustering_path(column) for column in columns)


def identity_of(
    protocol: Protocol, metadata: Metadata, domains: Mapping[str, DomainMetadata], *, where: str
) -> RowIdentity | None:
    """The row tracking of the table; None where its rows have no ids."""
    properties = metadata.properties
    if "rowTracking" not in writer_features(protocol) or not truth(properties.get(ENABLE_ROW_TRACKING)):
        return None
    if truth(properties.get(ROW_TRACKING_SUSPENDED)):
        return None
    return RowIdentity(
        properties.get(MATERIALIZED_ROW_ID),
        properties.get(MATERIALIZED_ROW_COMMIT_VERSION),
        high_water_of(domains, where=where),
    )


def high_water_of(domains: Mapping[str, DomainMetadata], *, where: str) -> int:
    """The high-water mark of row ids."""
    domain = domains.get(ROW_TRACKING_DOMAIN)
    if domain is None:
        return NO_IDS_YET
    mark = _configuration(domain, where).get("rowIdHighWaterMark", NO_IDS_YET)
    if not isinstance(mark, int):
        raise Damaged(f"the row-id high-water mark of {where} is {mark!r}, not a number", path=where, found=repr(mark))
    return mark


def _configuration(domain: DomainMetadata, where: str) -> dict[str, Any]:
    problem = f"has a domain {domain.domain} that cannot be read"
    return json_record(domain.configuration or "{}", dict[str, Any], path=where, what=problem)


def _clustering_path(column: str | list[str] | dict[str, Any]) -> tuple[str, ...]:
    match column:
        case str():
            return (column,)
        case {"physicalName": names}:
            return _clustering_path(names)
        case _:
            return tuple(str(part) for part in column)


def _unmapped(type_: DataType) -> DataType:
    match type_:
        case Struct(fields):
            return Struct(tuple(_unmapped_field(f) for f in fields))
        case Array(element):
            return replace(type_, element=_unmapped(element))
        case Map(key, value):
            return replace(type_, key=_unmapped(key), value=_unmapped(value))
        case _:
            return type_


def _unmapped_field(field: Field) -> Field:
    metadata = field.metadata
    if MAPPING_NAME in metadata or MAPPING_ID in metadata:
        metadata = {k: v for k, v in metadata.items() if k not in (MAPPING_NAME, MAPPING_ID)}
    return replace(field, type=_unmapped(field.type), metadata=metadata)
