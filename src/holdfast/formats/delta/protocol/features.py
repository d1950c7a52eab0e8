"""Table features: which ones Holdfast supports, and which readers and writers can use a table.

1. Reading needs the reader version and reader features only; writing needs the writer features too.
2. An error names every unsupported feature, the table and what to do.
3. An unknown feature is refused like a known one that is not supported.
4. Which other readers can open a table does not depend on the features that Holdfast supports.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.errors import Damaged, Unsupported
from holdfast.formats.delta.log.actions import Protocol

LARGEST_READER = 3
READABLE = frozenset(
    (
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "v2Checkpoint",
        "typeWidening",
        "typeWidening-preview",
        "variantType",
        "variantType-preview",
        "variantShredding",
        "variantShredding-preview",
        "vacuumProtocolCheck",
    )
)
_WRITABLE_WRITER_ONLY = frozenset(
    (
        "appendOnly",
        "invariants",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
        "identityColumns",
        "allowColumnDefaults",
        "rowTracking",
        "domainMetadata",
        "clustering",
        "inCommitTimestamp",
        "checkpointProtection",
    )
)
WRITER_ONLY = _WRITABLE_WRITER_ONLY | frozenset(
    (
        "liquid",
        "inCommitTimestamp-preview",
        "icebergCompatV1",
        "icebergCompatV2",
        "icebergCompatV3",
        "icebergWriterCompatV1",
        "materializePartitionColumns",
        "collations",
        "collations-preview",
        "columnMappingUsageTracking",
        "coordinatedCommits-preview",
        "redirectWriterOnly-preview",
    )
)
LARGEST_WRITER = 7
WRITABLE = (READABLE - {"variantShredding", "variantShredding-preview"}) | _WRITABLE_WRITER_ONLY
# Holdfast writes tables that have these features, but never enables them.
KEPT = frozenset(
    ("icebergCompatV1", "icebergCompatV2", "icebergCompatV3", "variantShredding", "variantShredding-preview")
)
CATALOG = frozenset(("catalogManaged", "catalogManaged-preview", "catalogOwned", "catalogOwned-preview"))
_UNSUPPORTED = {
    "geospatial": "geometry and geography columns",
    "geospatial-dev": "geometry and geography columns",
    "geospatial-preview": "geometry and geography columns",
    "redirectReaderWriter-preview": "a redirect to another table",
    "adaptiveMetadata-preview": "checkpoints as manifest trees",
    "timestampNanos": "timestamps in nanoseconds",
}
IMPLIED_BY_WRITER = (
    (2, ("appendOnly", "invariants")),
    (3, ("checkConstraints",)),
    (4, ("changeDataFeed", "generatedColumns")),
    (5, ("columnMapping",)),
    (6, ("identityColumns",)),
)

# Kinds of readers, and the releases of Delta Lake that its documentation names for each feature.
VERSION_1 = "readers of protocol version 1"
VERSION_2 = "readers of protocol version 2"
FEATURES = "readers of table features"
DELTA_LAKE = "Delta Lake for Spark"

_FEATURE_LISTS_SINCE = (2, 3, 0)
_SINCE = {
    "columnMapping": (1, 2, 0),
    "deletionVectors": (2, 3, 0),
    "timestampNtz": (2, 4, 0),
    "v2Checkpoint": (3, 0, 0),
    "typeWidening-preview": (3, 2, 0),
    "typeWidening": (4, 0, 0),
}


def reader_features(protocol: Protocol) -> frozenset[str]:
    """The features that a reader of the table must support."""
    if protocol.min_reader_version >= 3:
        return frozenset(protocol.reader_features or ())
    return frozenset(("columnMapping",)) if protocol.min_reader_version == 2 else frozenset()


def writer_features(protocol: Protocol) -> frozenset[str]:
    """The features that a writer of the table must support: those listed, or those its version implies."""
    if protocol.min_writer_version >= 7:
        return frozenset(protocol.writer_features or ())
    return frozenset(
        name for least, names in IMPLIED_BY_WRITER if protocol.min_writer_version >= least for name in names
    )


def table_features(protocol: Protocol) -> tuple[str, ...]:
    """All features of the table, sorted by name."""
    return tuple(sorted(reader_features(protocol) | writer_features(protocol)))


def check_readable(protocol: Protocol, *, table: str) -> None:
    """Refuses a table that Holdfast cannot read."""
    if protocol.min_reader_version > LARGEST_READER:
        raise Unsupported(
            f"the table at {table} needs reader version {protocol.min_reader_version}; Holdfast reads up to "
            f"{LARGEST_READER}: read it with the engine that wrote it, or upgrade Holdfast"
        )
    if protocol.min_reader_version < 1 or protocol.min_writer_version < 1:
        raise Damaged(
            f"the protocol of the table at {table} asks for reader version {protocol.min_reader_version} and writer "
            f"version {protocol.min_writer_version}: both begin at 1",
            path=table,
        )
    required = reader_features(protocol)
    if managed := tuple(sorted((required | writer_features(protocol)) & CATALOG)):
        raise Unsupported(
            f"the table at {table} has the feature {', '.join(managed)}: its catalog says which commits are part of "
            "it, so it cannot be read from storage alone; read it through that catalog",
            features=managed,
        )
    # Some writers list writer-only features for readers too; readers can ignore them.
    if unsupported := tuple(sorted(required - READABLE - WRITER_ONLY)):
        names = ", ".join(f"{name} ({_UNSUPPORTED[name]})" if name in _UNSUPPORTED else name for name in unsupported)
        raise Unsupported(
            f"the table at {table} needs its readers to know {names}, which Holdfast does not: read it with the engine "
            "that wrote it, or have that engine drop the feature (ALTER TABLE ... DROP FEATURE)",
            features=unsupported,
        )


def check_writable(protocol: Protocol, *, table: str) -> None:
    """Refuses a table that Holdfast cannot write."""
    check_readable(protocol, table=table)
    if protocol.min_writer_version > LARGEST_WRITER:
        raise Unsupported(
            f"the table at {table} needs writer version {protocol.min_writer_version}; Holdfast writes up to "
            f"{LARGEST_WRITER}: write it with the engine that made it, or upgrade Holdfast"
        )
    if unsupported := tuple(sorted((reader_features(protocol) | writer_features(protocol)) - WRITABLE - KEPT)):
        raise Unsupported(
            f"the table at {table} needs its writers to know {', '.join(unsupported)}, which Holdfast does not: write "
            "it with the engine that made it, or have that engine drop the feature (ALTER TABLE ... DROP FEATURE), if "
            "it can",
            features=unsupported,
        )


def readers_of(protocol: Protocol) -> Mapping[str, str]:
    """Whether each kind of reader can open the table, or under which condition; only reader features count."""
    version = protocol.min_reader_version
    needed = sorted(reader_features(protocol) - WRITER_ONLY)
    too_old = f"no: the table asks for reader version {version}"
    return {
        VERSION_1: "yes" if version == 1 else too_old,
        VERSION_2: "yes" if version <= 2 else too_old,
        FEATURES: f"yes, those that know {', '.join(needed)}" if needed else "yes",
        DELTA_LAKE: _release(version, needed),
    }


def _release(version: int, needed: list[str]) -> str:
    releases = [_SINCE[name] for name in needed if name in _SINCE]
    if version >= 3:
        releases.append(_FEATURE_LISTS_SINCE)
    release = f"yes, {'.'.join(map(str, max(releases)))} and newer" if releases else "yes"
    unknown = [name for name in needed if name not in _SINCE]
    return f"{release}, in releases that know {', '.join(unknown)}" if unknown else release
