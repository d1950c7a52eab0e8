"""The table properties that Holdfast knows: their names, kinds of values and defaults.

1. A value is text, which is parsed as a boolean, a number or a span of time.
2. A table that is read may have any property; `nearest` finds the known name for a misspelt one.
"""

from __future__ import annotations

import difflib
import re
from enum import Enum
from typing import TypeVar

from holdfast.errors import Invalid

Choice = TypeVar("Choice", bound=Enum)

PREFIX = "delta."

COLUMN_MAPPING_MODE = "delta.columnMapping.mode"
COLUMN_MAPPING_MAX_ID = "delta.columnMapping.maxColumnId"
ENABLE_ROW_TRACKING = "delta.enableRowTracking"
ENABLE_DELETION_VECTORS = "delta.enableDeletionVectors"
ROW_TRACKING_SUSPENDED = "delta.rowTrackingSuspended"
MATERIALIZED_ROW_ID = "delta.rowTracking.materializedRowIdColumnName"
MATERIALIZED_ROW_COMMIT_VERSION = "delta.rowTracking.materializedRowCommitVersionColumnName"
ENABLE_IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"
IN_COMMIT_TIMESTAMP_VERSION = "delta.inCommitTimestampEnablementVersion"
IN_COMMIT_TIMESTAMP_TIME = "delta.inCommitTimestampEnablementTimestamp"
DELETED_FILE_RETENTION = "delta.deletedFileRetentionDuration"
LOG_RETENTION = "delta.logRetentionDuration"
CHECKPOINT_INTERVAL = "delta.checkpointInterval"
ISOLATION_LEVEL = "delta.isolationLevel"
CHANGE_FEED = "delta.enableChangeDataFeed"
TXN_RETENTION = "delta.setTransactionRetentionDuration"
PROTECTED_BEFORE = "delta.requireCheckpointProtectionBeforeVersion"
AUTO_OPTIMIZE = "delta.autoOptimize"  # the old name of automatic compaction
AUTO_COMPACT = "delta.autoOptimize.autoCompact"
OPTIMIZE_WRITE = "delta.autoOptimize.optimizeWrite"
ICEBERG_COMPAT = {f"delta.enableIcebergCompatV{n}": f"icebergCompatV{n}" for n in (1, 2, 3)}  # and their features
CONSTRAINT = "delta.constraints."  # followed by the constraint's name
FEATURE = "delta.feature."  # followed by the feature's name; only in requests
LAYOUT = "holdfast.layout"


class Isolation(Enum):
    """Which races count as conflicts; the value is that of the property."""

    SERIALIZABLE = "Serializable"  # as if every commit had run alone, in the order of versions
    WRITE_SERIALIZABLE = "WriteSerializable"  # in some order: rows that a blind append added meanwhile are not read
    SNAPSHOT = "SnapshotIsolation"  # rows that both would change are all that counts


class DataLayout(Enum):
    """What the layout of data files is optimized for; the value is that of the property."""

    DEFAULT = "default"  # scans
    POINT = "point"  # rows read one by one: small pages, numbers and vectors without compression


class ValueKind(Enum):
    """What a property's value must be."""

    TRUTH = "true or false"
    AUTO = "true, false or auto"
    NUMBER = "a whole number"
    SPAN = "a span of time such as 'interval 7 days'"
    TEXT = "text"


PROPERTIES: dict[str, ValueKind] = {
    "delta.appendOnly": ValueKind.TRUTH,
    AUTO_OPTIMIZE: ValueKind.TRUTH,
    AUTO_COMPACT: ValueKind.AUTO,
    OPTIMIZE_WRITE: ValueKind.TRUTH,
    "delta.castIcebergTimeType": ValueKind.TRUTH,
    CHECKPOINT_INTERVAL: ValueKind.NUMBER,
    "delta.checkpointPolicy": ValueKind.TEXT,
    "delta.checkpointRetentionDuration": ValueKind.SPAN,
    "delta.checkpoint.writeStatsAsJson": ValueKind.TRUTH,
    "delta.checkpoint.writeStatsAsStruct": ValueKind.TRUTH,
    COLUMN_MAPPING_MAX_ID: ValueKind.NUMBER,
    COLUMN_MAPPING_MODE: ValueKind.TEXT,
    "delta.compatibility.symlinkFormatManifest.enabled": ValueKind.TRUTH,
    "delta.dataSkippingNumIndexedCols": ValueKind.NUMBER,
    "delta.dataSkippingStatsColumns": ValueKind.TEXT,
    "delta.dataSkippingStringPrefixLength": ValueKind.NUMBER,
    DELETED_FILE_RETENTION: ValueKind.SPAN,
    "delta.dropFeatureTruncateHistory.retentionDuration": ValueKind.SPAN,
    "delta.enableChangeDataCapture": ValueKind.TRUTH,
    CHANGE_FEED: ValueKind.TRUTH,
    ENABLE_DELETION_VECTORS: ValueKind.TRUTH,
    "delta.enableExpiredLogCleanup": ValueKind.TRUTH,
    "delta.enableFullRetentionRollback": ValueKind.TRUTH,
    **dict.fromkeys(ICEBERG_COMPAT, ValueKind.TRUTH),
    ENABLE_IN_COMMIT_TIMESTAMPS: ValueKind.TRUTH,
    "delta.enableMaterializePartitionColumnsFeature": ValueKind.TRUTH,
    ENABLE_ROW_TRACKING: ValueKind.TRUTH,
    "delta.enableTypeWidening": ValueKind.TRUTH,
    "delta.enableVariantShredding": ValueKind.TRUTH,
    "delta.ignoreProtocolDefaults": ValueKind.TRUTH,
    IN_COMMIT_TIMESTAMP_TIME: ValueKind.NUMBER,
    IN_COMMIT_TIMESTAMP_VERSION: ValueKind.NUMBER,
    ISOLATION_LEVEL: ValueKind.TEXT,
    LOG_RETENTION: ValueKind.SPAN,
    "delta.minReaderVersion": ValueKind.NUMBER,
    "delta.minWriterVersion": ValueKind.NUMBER,
    "delta.parquet.compression.codec": ValueKind.TEXT,
    "delta.parquet.format.version": ValueKind.TEXT,
    "delta.randomPrefixLength": ValueKind.NUMBER,
    "delta.randomizeFilePrefixes": ValueKind.TRUTH,
    PROTECTED_BEFORE: ValueKind.NUMBER,
    MATERIALIZED_ROW_COMMIT_VERSION: ValueKind.TEXT,
    MATERIALIZED_ROW_ID: ValueKind.TEXT,
    ROW_TRACKING_SUSPENDED: ValueKind.TRUTH,
    "delta.sampleRetentionDuration": ValueKind.SPAN,
    TXN_RETENTION: ValueKind.SPAN,
    "delta.targetFileSize": ValueKind.TEXT,
    "delta.universalFormat.enabledFormats": ValueKind.TEXT,
    "delta.writePartitionColumnsToParquet": ValueKind.TRUTH,
    LAYOUT: ValueKind.TEXT,
}

DEFAULTS: dict[str, str] = {  # of properties that a table does not set; others are off or have no effect
    CHECKPOINT_INTERVAL: "10",
    "delta.checkpointPolicy": "classic",
    COLUMN_MAPPING_MODE: "none",
    "delta.dataSkippingNumIndexedCols": "32",
    DELETED_FILE_RETENTION: "interval 1 week",
    ENABLE_DELETION_VECTORS: "false",
    "delta.enableExpiredLogCleanup": "true",
    ENABLE_IN_COMMIT_TIMESTAMPS: "false",
    ENABLE_ROW_TRACKING: "false",
    ISOLATION_LEVEL: Isolation.SERIALIZABLE.value,
    LOG_RETENTION: "interval 30 days",
    "delta.parquet.compression.codec": "zstd",
    "delta.targetFileSize": "128mb",
}

_UNIT_MS = {
    "millisecond": 1,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_STEP = re.compile(r"([+-]?\d+)\s*([a-z]+?)s?\b")


def is_known(name: str) -> bool:
    """Whether a property is one of Delta's, or outside of `delta.` and so the user's own."""
    return not name.startswith(PREFIX) or name in PROPERTIES or name.startswith((CONSTRAINT, FEATURE))


def nearest(name: str) -> str | None:
    """The known property a misspelt name most likely stands for."""
    folded = {known.lower(): known for known in PROPERTIES}
    matches = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.75)
    return folded[matches[0]] if matches else None


def truth(value: str | None, *, default: bool = False) -> bool:
    """A property that is on or off; anything but `true` is off, as in other engines."""
    return default if value is None else value.strip().lower() == "true"


def isolation(value: str | None) -> Isolation:
    """The isolation level of a table; Serializable by default."""
    return Isolation.SERIALIZABLE if value is None else _member(Isolation, ISOLATION_LEVEL, value)


def layout(value: str | None) -> DataLayout:
    """What the layout of a table's files is optimized for; scans by default."""
    return DataLayout.DEFAULT if value is None else _member(DataLayout, LAYOUT, value)


def _member(kind: type[Choice], name: str, value: str) -> Choice:
    for member in kind:
        if member.value.lower() == value.strip().lower():
            return member
    raise Invalid(f"the property {name} is {value!r}; it must be one of {', '.join(member.value for member in kind)}")


def number(name: str, value: str) -> int:
    """A property that is a whole number."""
    try:
        return int(value.strip())
    except ValueError:
        raise Invalid(f"the property {name} is {value!r}; it must be {ValueKind.NUMBER.value}") from None


def span_ms(name: str, value: str) -> int:
    """A property that is a span of time, in milliseconds; months and years have no fixed length and are refused."""
    text = value.strip().lower().removeprefix("interval").strip()
    steps = list(_STEP.finditer(text))
    rest = _STEP.sub("", text).strip()
    if not steps or rest or any(step[2] not in _UNIT_MS for step in steps):
        raise Invalid(f"the property {name} is {value!r}; it must be {ValueKind.SPAN.value}")
    return sum(int(step[1]) * _UNIT_MS[step[2]] for step in steps)


def check(name: str, value: str) -> None:
    """Refuse a value that a known property cannot have."""
    match PROPERTIES.get(name):
        case ValueKind.TRUTH | ValueKind.AUTO as kind:
            allowed = ("true", "false") if kind is ValueKind.TRUTH else ("true", "false", "auto")
            if value.strip().lower() not in allowed:
                raise Invalid(f"the property {name} is {value!r}; it must be {kind.value}")
        case ValueKind.NUMBER:
            number(name, value)
        case ValueKind.SPAN:
            span_ms(name, value)
        case _:
            pass
