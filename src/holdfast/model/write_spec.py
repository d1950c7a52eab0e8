"""How rows of a Delta table are written to Parquet files, from its schema and properties."""

from __future__ import annotations

import re
from collections.abc import Mapping

from holdfast.errors import Invalid
from holdfast.model.snapshot import RowIdentity
from holdfast.parquet.write import WriteSpec
from holdfast.schema.properties import (
    ENABLE_DELETION_VECTORS,
    ICEBERG_COMPAT,
    LAYOUT,
    OPTIMIZE_WRITE,
    DataLayout,
    layout,
    number,
    truth,
)
from holdfast.schema.stats_leaves import LeafPath, stats_leaves
from holdfast.schema.types import Struct

TARGET_FILE_SIZE = "delta.targetFileSize"
CODEC = "delta.parquet.compression.codec"
FILE_ROWS = "holdfast.maxRecordsPerFile"
STRING_PREFIX = "delta.dataSkippingStringPrefixLength"
RANDOM_PREFIXES = "delta.randomizeFilePrefixes"
RANDOM_PREFIX_LENGTH = "delta.randomPrefixLength"
STORE_PARTITIONS = ("delta.enableMaterializePartitionColumnsFeature", "delta.writePartitionColumnsToParquet")

# Not lz4: Spark fails on some dictionaries that Arrow compresses with it.
_CODECS = {**{name: name for name in ("zstd", "snappy", "gzip", "brotli", "none")}, "uncompressed": "none"}
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_TARGET = 128 << 20
_ROW_ID_FIELD, _VERSION_FIELD = 2147483540, 2147483539  # of carried columns, in tables to be read as Iceberg
_POINT_CODEC = "snappy"  # of the point layout: pages must be fast to decompress


def write_spec(
    schema: Struct,
    partition_columns: tuple[str, ...],
    properties: Mapping[str, str],
    *,
    clustering: tuple[LeafPath, ...] = (),
    deletion_vectors: bool | None = None,
    carried: RowIdentity | None = None,
) -> WriteSpec:
    """The write settings for rows of a table.

    `deletion_vectors` is whether the table supports them (None: as its property says). With `carried` the input has row
    ids and versions after its columns, and the files store them under the names of that identity.
    """
    if deletion_vectors is None:
        deletion_vectors = truth(properties.get(ENABLE_DELETION_VECTORS))
    scattered = truth(properties.get(RANDOM_PREFIXES))
    numbered = truth(properties.get("delta.enableIcebergCompatV3"))
    point = layout(properties.get(LAYOUT)) is DataLayout.POINT
    return WriteSpec(
        fields=schema.fields,
        partition_columns=partition_columns,
        id_column=None if carried is None else carried.id_column,
        version_column=None if carried is None else carried.version_column,
        stats_leaves=stats_leaves(schema, partition_columns, properties, clustering),
        string_prefix=number(STRING_PREFIX, properties.get(STRING_PREFIX, "32")),
        tight_bounds=True if deletion_vectors else None,
        codec=_codec(properties.get(CODEC, _POINT_CODEC if point else "zstd")),
        target_bytes=_size(properties[TARGET_FILE_SIZE]) if TARGET_FILE_SIZE in properties else _TARGET,
        file_rows=max(0, number(FILE_ROWS, properties[FILE_ROWS])) if FILE_ROWS in properties else None,
        store_partitions=any(truth(properties.get(name)) for name in (*STORE_PARTITIONS, *ICEBERG_COMPAT)),
        id_field=_ROW_ID_FIELD if numbered else None,
        version_field=_VERSION_FIELD if numbered else None,
        point=point,
        gathered=truth(properties.get(OPTIMIZE_WRITE)),
        random_prefix=number(RANDOM_PREFIX_LENGTH, properties.get(RANDOM_PREFIX_LENGTH, "2")) if scattered else 0,
    )


def _codec(name: str) -> str:
    codec = _CODECS.get(name.strip().lower())
    if codec is None:
        raise Invalid(f"the property {CODEC} is {name!r}; it must be one of {', '.join(_CODECS)}")
    return codec


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[match[2].lower()] if match else 0
    if size <= 0:
        raise Invalid(f"the property {TARGET_FILE_SIZE} is {text!r}; it must be a size such as 134217728 or 128mb")
    return size
