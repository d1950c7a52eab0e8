"""The protocol that a table definition needs.

1. A protocol only grows: features and versions that the table has are kept.
2. A table whose features all existed before feature lists keeps an old writer version, which every engine supports.
3. Otherwise the features that the old version implies are listed too.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.errors import Invalid, Unsupported
from holdfast.formats.delta.log.actions import Protocol
from holdfast.formats.delta.protocol.features import (
    IMPLIED_BY_WRITER,
    READABLE,
    WRITABLE,
    reader_features,
    writer_features,
)
from holdfast.model.mutation import TableDefinition
from holdfast.schema.properties import (
    COLUMN_MAPPING_MODE,
    CONSTRAINT,
    ENABLE_IN_COMMIT_TIMESTAMPS,
    ENABLE_ROW_TRACKING,
    truth,
)
from holdfast.schema.types import Array, DataType, Map, Primitive, Struct

_LEGACY_WRITER = {name: least for least, names in IMPLIED_BY_WRITER for name in names}
_BY_PROPERTY = {
    "delta.appendOnly": "appendOnly",
    "delta.enableChangeDataFeed": "changeDataFeed",
    "delta.enableDeletionVectors": "deletionVectors",
    ENABLE_ROW_TRACKING: "rowTracking",
    ENABLE_IN_COMMIT_TIMESTAMPS: "inCommitTimestamp",
    "delta.enableTypeWidening": "typeWidening",
}
_BY_TYPE = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
_BY_METADATA = {
    "delta.generationExpression": "generatedColumns",
    "delta.identity.start": "identityColumns",
    "delta.invariants": "invariants",
    "CURRENT_DEFAULT": "allowColumnDefaults",
}
NEEDS = {"rowTracking": "domainMetadata", "clustering": "domainMetadata"}


def protocol_for(definition: TableDefinition, *, old: Protocol | None = None) -> Protocol:
    """The lowest protocol with the features of a definition and of the old protocol."""
    needed = set(features_of(definition))
    if unknown := sorted(needed - WRITABLE):
        raise Unsupported(
            f"Holdfast does not write tables with {', '.join(unknown)}: leave it out", features=tuple(unknown)
        )
    old_reader = reader_features(old) if old else frozenset[str]()
    old_writer = writer_features(old) if old else frozenset[str]()
    if old is not None and needed <= old_reader | old_writer:
        return old
    listed = old is not None and old.min_writer_version >= 7
    if not listed and needed <= _LEGACY_WRITER.keys():
        writer = max(2, old.min_writer_version if old else 2, *(_LEGACY_WRITER[name] for name in needed), 2)
        reader = max(old.min_reader_version if old else 1, 2 if "columnMapping" in needed else 1)
        return Protocol(reader, writer)
    writer_list = needed | old_writer | old_reader | {"appendOnly", "invariants"}
    reader_list = frozenset(writer_list) & READABLE
    return Protocol(
        min_reader_version=3 if reader_list else 1,
        min_writer_version=7,
        reader_features=tuple(sorted(reader_list)) if reader_list else None,
        writer_features=tuple(sorted(writer_list)),
    )


def refuse_lower(protocol: Protocol, versions: tuple[int, int]) -> None:
    """Refuses protocol versions that are higher than the table's features need."""
    reader, writer = versions
    if reader > protocol.min_reader_version or writer > protocol.min_writer_version:
        raise Invalid(
            f"a protocol of at least ({reader}, {writer}) cannot be asked for: the table gets the least versions its "
            f"features need, ({protocol.min_reader_version}, {protocol.min_writer_version}); ask for a feature with "
            "delta.feature.<name> = 'supported'"
        )


def features_of(definition: TableDefinition) -> Iterator[str]:
    """The features that a definition uses, and those that they need."""
    for name in _direct(definition):
        yield name
        if name in NEEDS:
            yield NEEDS[name]


def _direct(definition: TableDefinition) -> Iterator[str]:
    yield from definition.features
    properties = definition.properties
    yield from (feature for name, feature in _BY_PROPERTY.items() if truth(properties.get(name)))
    if properties.get(COLUMN_MAPPING_MODE, "none").lower() != "none":
        yield "columnMapping"
    if properties.get("delta.checkpointPolicy", "classic").lower() == "v2":
        yield "v2Checkpoint"
    if any(name.startswith(CONSTRAINT) for name in properties):
        yield "checkConstraints"
    if definition.clustering_columns is not None:
        yield "clustering"
    yield from _of_fields(definition.schema)


def _of_fields(type_: DataType) -> Iterator[str]:
    match type_:
        case Struct(fields):
            for f in fields:
                yield from (feature for name, feature in _BY_METADATA.items() if name in f.metadata)
                if not f.nullable:
                    yield "invariants"
                yield from _of_fields(f.type)
        case Array(element, _):
            yield from _of_fields(element)
        case Map(key, value, _):
            yield from _of_fields(key)
            yield from _of_fields(value)
        case Primitive(name) if name in _BY_TYPE:
            yield _BY_TYPE[name]
        case _:
            return
