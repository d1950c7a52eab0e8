"""Which tables this library reads and writes, and by which features it refuses the others.

1. Only reader features and reader versions stand in the way of reading; what a writer must know never does.
   Writing asks for both.
2. A refusal names every feature that is missing, the table and what to do.
3. A feature nobody here has heard of is refused like one that is known and lacking.
"""

from __future__ import annotations

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
WRITER_ONLY = frozenset(
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
        "liquid",
        "inCommitTimestamp",
        "inCommitTimestamp-preview",
        "icebergCompatV1",
        "icebergCompatV2",
        "icebergCompatV3",
        "icebergWriterCompatV1",
        "checkpointProtection",
        "materializePartitionColumns",
        "collations",
        "collations-preview",
        "columnMappingUsageTracking",
        "coordinatedCommits-preview",
        "redirectWriterOnly-preview",
    )
)
LARGEST_WRITER = 7
WRITABLE = READABLE - {"variantShredding", "variantShredding-preview"} | {
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
}
# Of tables that other engines made so: what these promise is kept, and nothing here turns them on.
KEPT = frozenset(
    ("icebergCompatV1", "icebergCompatV2", "icebergCompatV3", "variantShredding", "variantShredding-preview")
)
CATALOG = frozenset(("catalogManaged", "catalogManaged-preview", "catalogOwned", "catalogOwned-preview"))
_LACKING = {
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


def reader_features(protocol: Protocol) -> frozenset[str]:
    """The features a reader of the table must know."""
    if protocol.min_reader_version >= 3:
        return frozenset(protocol.reader_features or ())
    return frozenset(("columnMapping",)) if protocol.min_reader_version == 2 else frozenset()


def writer_features(protocol: Protocol) -> frozenset[str]:
    """The features a writer of the table must know: those listed, or those its version implies."""
    if protocol.min_writer_version >= 7:
        return frozenset(protocol.writer_features or ())
    return frozenset(
        name for least, names in IMPLIED_BY_WRITER if protocol.min_writer_version >= least for name in names
    )


def table_features(protocol: Protocol) -> tuple[str, ...]:
    """All features of the table, sorted by name."""
    return tuple(sorted(reader_features(protocol) | writer_features(protocol)))


def check_readable(protocol: Protocol, *, table: str) -> None:
    """Refuse a table that asks more of its readers than this library can do."""
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
    wanted = reader_features(protocol)
    if managed := tuple(sorted((wanted | writer_features(protocol)) & CATALOG)):
        raise Unsupported(
            f"the table at {table} has the feature {', '.join(managed)}: its catalog says which commits are part of "
            "it, so it cannot be read from storage alone; read it through that catalog",
            features=managed,
        )
    # A writer-only feature that some writer also listed for readers asks nothing of a reader.
    if lacking := tuple(sorted(wanted - READABLE - WRITER_ONLY)):
        named = ", ".join(f"{name} ({_LACKING[name]})" if name in _LACKING else name for name in lacking)
        raise Unsupported(
            f"the table at {table} needs its readers to know {named}, which Holdfast does not: read it with the engine "
            "that wrote it, or have that engine drop the feature (ALTER TABLE ... DROP FEATURE)",
            features=lacking,
        )


def check_writable(protocol: Protocol, *, table: str) -> None:
    """Refuse to write a table that asks more of its writers than this library can do."""
    check_readable(protocol, table=table)
    if protocol.min_writer_version > LARGEST_WRITER:
        raise Unsupported(
            f"the table at {table} needs writer version {protocol.min_writer_version}; Holdfast writes up to "
            f"{LARGEST_WRITER}: write it with the engine that made it, or upgrade Holdfast"
        )
    if lacking := tuple(sorted((reader_features(protocol) | writer_features(protocol)) - WRITABLE - KEPT)):
        raise Unsupported(
            f"the table at {table} needs its writers to know {', '.join(lacking)}, which Holdfast does not: write it "
            "with the engine that made it, or have that engine drop the feature (ALTER TABLE ... DROP FEATURE), if it "
            "can",
            features=lacking,
        )
