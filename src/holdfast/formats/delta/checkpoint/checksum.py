"""The `.crc` file of a version: reads it and compares it with a replayed state.

1. The file is optional; `log.stated_counts` decides what a contradiction means.
2. Schemas are compared as JSON values: two texts of one schema do not contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from holdfast.formats.delta.log.actions import DomainMetadata, Metadata, Protocol, Txn
from holdfast.formats.delta.log.settings import CompleteSettings
from holdfast.schema.properties import TXN_RETENTION
from holdfast.storage.base import ObjectMeta, TooLarge
from holdfast.storage.error_mapping import MALFORMED_JSON, reason_of
from holdfast.storage.location import Location

CHECKSUM_BYTES = 256 << 20  # a larger file is not read


class VersionChecksum(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a `.crc` file that can be compared with a replayed state."""

    table_size_bytes: int | None = None
    num_files: int | None = None
    num_deletion_vectors_opt: int | None = None
    num_deleted_records_opt: int | None = None
    in_commit_timestamp_opt: int | None = None
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    set_transactions: tuple[Txn, ...] | None = None
    domain_metadata: tuple[DomainMetadata, ...] | None = None


def stored_checksum(location: Location, meta: ObjectMeta) -> VersionChecksum | str:
    """A listed `.crc` file, or why it cannot be used."""
    try:
        return read_checksum(location.store.get(meta.key, CHECKSUM_BYTES))
    except TooLarge as error:
        return f"cannot be read: it has {error.size:,} bytes"


def read_checksum(data: bytes) -> VersionChecksum | str:
    """The contents of a `.crc` file, or why they cannot be used."""
    try:
        return msgspec.json.decode(data, type=VersionChecksum, strict=False)
    except MALFORMED_JSON as error:
        return f"cannot be read: {reason_of(error)}"


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of the live files of a version."""

    files: int
    size_bytes: int
    vectors: int
    hidden_rows: int


def miscounts(checksum: VersionChecksum, counts: Counts) -> Iterator[str]:
    """Counts of a `.crc` file that differ from those of the replayed state."""
    pairs = {
        "files": (checksum.num_files, counts.files),
        "bytes": (checksum.table_size_bytes, counts.size_bytes),
        "deletion vectors": (checksum.num_deletion_vectors_opt, counts.vectors),
        "deleted rows": (checksum.num_deleted_records_opt, counts.hidden_rows),
    }
    for noun, (stated, count) in pairs.items():
        if stated not in (None, count):
            yield f"{stated} {noun} where the log has {count}"


def contradictions(checksum: VersionChecksum, settings: CompleteSettings) -> Iterator[str]:
    """Settings of a `.crc` file that differ from those of the replayed state."""
    if checksum.protocol is not None and demands(checksum.protocol) != demands(settings.protocol):
        yield "another protocol than the log"
    schema = None if checksum.metadata is None else checksum.metadata.schema_string
    if schema is not None and not same_json(schema, settings.metadata.schema_string):
        yield "another schema than the log"
    if checksum.domain_metadata is not None:
        live = {domain.domain: domain for domain in checksum.domain_metadata if not domain.removed}
        if configurations(live) != configurations(settings.domains):
            yield "other domain metadata than the log"
    if checksum.set_transactions is not None and TXN_RETENTION not in settings.metadata.properties:
        versions = {txn.app_id: txn.version for txn in checksum.set_transactions}
        if versions != {app: txn.version for app, txn in settings.txns.items()}:
            yield "other application versions than the log"


def demands(protocol: Protocol) -> tuple[object, ...]:
    """A protocol as a value that does not depend on the order of its features."""
    features = frozenset(protocol.reader_features or ()), frozenset(protocol.writer_features or ())
    return protocol.min_reader_version, protocol.min_writer_version, *features


def configurations(domains: Mapping[str, DomainMetadata]) -> dict[str, str | None]:
    """The configuration of each domain."""
    return {name: domain.configuration for name, domain in domains.items()}


def same_json(one: str | None, other: str | None) -> bool:
    """Whether two texts are the same JSON value; a text that is not JSON equals only itself."""
    if one == other or one is None or other is None:
        return one == other
    try:
        return bool(msgspec.json.decode(one) == msgspec.json.decode(other))
    except MALFORMED_JSON:
        return False
