"""Which protocol a table needs for what it is.

1. A protocol only ever grows: features and versions a table has are kept.
2. Without a feature younger than feature lists, a table stays on the old versions that every engine reads.
3. With one, every feature its old version implied is listed too, so that nothing it relied on is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
from holdfast.schema.types import Array, DataType, Field, Map, Primitive, Struct

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


def protocol_for(shape: TableDefinition, *, old: Protocol | None = None) -> Protocol:
    """The least protocol that covers a shape, and what the table had."""
    needed = set(features_of(shape))
    if unknown := sorted(needed - WRITABLE):
        raise Unsupported(
            f"Holdfast does not write tables with {', '.join(unknown)}: leave it out", features=tuple(unknown)
        )
    had_reading = reader_features(old) if old else frozenset[str]()
    had_writing = writer_features(old) if old else frozenset[str]()
    if old is not None and needed <= had_reading | had_writing:
        return old
    listed = old is not None and old.min_writer_version >= 7
    if not listed and needed <= _LEGACY_WRITER.keys():
        writer = max(2, old.min_writer_version if old else 2, *(_LEGACY_WRITER[name] for name in needed), 2)
        reader = max(old.min_reader_version if old else 1, 2 if "columnMapping" in needed else 1)
        return Protocol(reader, writer)
    writing = needed | had_writing | had_reading | {"appendOnly", "invariants"}
    reading = frozenset(writing) & READABLE
    return Protocol(
        min_reader_version=3 if reading else 1,
        min_writer_version=7,
        reader_features=tuple(sorted(reading)) if reading else None,
        writer_features=tuple(sorted(writing)),
    )


def refuse_lower(protocol: Protocol, versions: tuple[int, int]) -> None:
    """Refuse to promise a protocol of versions that nothing in the table needs: they come with features."""
    reader, writer = versions
    if reader > protocol.min_reader_version or writer > protocol.min_writer_version:
        raise Invalid(
            f"a protocol of at least ({reader}, {writer}) cannot be asked for: the table gets the least versions its "
            f"features need, ({protocol.min_reader_version}, {protocol.min_writer_version}); ask for a feature with "
            "delta.feature.<name> = 'supported'"
        )


def features_of(shape: TableDefinition) -> Iterator[str]:
    """Every feature a shape makes use of, with those they need in turn."""
    for name in _direct(shape):
        yield name
        if name in NEEDS:
            yield NEEDS[name]


def _direct(shape: TableDefinition) -> Iterator[str]:
    yield from shape.features
    properties = shape.properties
    yield from (feature for name, feature in _BY_PROPERTY.items() if truth(properties.get(name)))
    if properties.get(COLUMN_MAPPING_MODE, "none").lower() != "none":
        yield "columnMapping"
    if properties.get("delta.checkpointPolicy", "classic").lower() == "v2":
        yield "v2Checkpoint"
    if any(name.startswith(CONSTRAINT) for name in properties):
        yield "checkConstraints"
    if shape.clustering_columns is not None:
        yield "clustering"
    yield from _of_fields(shape.schema)


def _of_fields(type_: DataType) -> Iterator[str]:
    match type_:
        case Struct(fields):
            for f in fields:
                yield from _of_metadata(f.metadata)
                yield from _not_null(f)
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


def _of_metadata(metadata: Mapping[str, object]) -> Iterator[str]:
    yield from (feature for name, feature in _BY_METADATA.items() if name in metadata)


def _not_null(f: Field) -> Iterator[str]:
    if not f.nullable:
        yield "invariants"
