"""Checks a log carries on itself: the sum in `_last_checkpoint`, and the `.crc` file of a version.

1. Both are optional, and neither is needed to read a table. `log.stated_counts` decides what a contradiction means.
2. The sum of a `_last_checkpoint` is over a canonical form of its JSON, so that spacing and key order do not matter.
3. Schemas are compared as the JSON they are: two spellings of one schema do not contradict each other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from holdfast.formats.delta.log.actions import DomainMetadata, Metadata, Protocol, Txn
from holdfast.formats.delta.log.file_names import LAST_CHECKPOINT, LOG
from holdfast.formats.delta.log.settings import CompleteSettings
from holdfast.schema.properties import TXN_RETENTION
from holdfast.storage.base import NotFound, ObjectMeta, TooLarge
from holdfast.storage.error_mapping import MALFORMED_JSON, reason_of
from holdfast.storage.location import Location

HINT_BYTES, CHECKSUM_BYTES = 16 << 20, 256 << 20  # that a hint and a `.crc` file have at most; writers leave out more


class HintedV2(msgspec.Struct, frozen=True, rename="camel"):
    """What `_last_checkpoint` says of a V2 checkpoint: the name of its file."""

    path: str | None = None


class Hint(msgspec.Struct, frozen=True, rename="camel"):
    """What `_last_checkpoint` says: where reading may start."""

    version: int
    size: int | None = None
    parts: int | None = None
    num_of_add_files: int | None = None
    v2_checkpoint: HintedV2 | None = None
    checksum: str | None = None


class VersionChecksum(msgspec.Struct, frozen=True, rename="camel"):
    """What the `.crc` file of a version says that can be compared with a replay."""

    table_size_bytes: int | None = None
    num_files: int | None = None
    num_deletion_vectors_opt: int | None = None
    num_deleted_records_opt: int | None = None
    in_commit_timestamp_opt: int | None = None
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    set_transactions: tuple[Txn, ...] | None = None
    domain_metadata: tuple[DomainMetadata, ...] | None = None


def read_hint(data: bytes) -> Hint | str:
    """What a `_last_checkpoint` says, or why it cannot be trusted."""
    if not data.strip():
        return "is empty"
    try:
        hint = msgspec.json.decode(data, type=Hint, strict=False)
        matches = hint.checksum is None or hint.checksum == canonical_md5(data)
    except MALFORMED_JSON as error:
        return f"is torn: {reason_of(error)}"
    if hint.version < 0:
        return f"names version {hint.version}"
    if not matches:
        return f"does not match its own checksum {hint.checksum}"
    return hint


def stored_hint(location: Location) -> Hint | str | None:
    """What the `_last_checkpoint` of a table says, or why it cannot be trusted; None where there is none."""
    try:
        return read_hint(location.store.get(location.key(LOG, LAST_CHECKPOINT), HINT_BYTES))
    except NotFound:
        return None
    except TooLarge as error:
        return f"has {error.size:,} bytes"


def stored_checksum(location: Location, meta: ObjectMeta) -> VersionChecksum | str:
    """What a listed `.crc` file says, or why it cannot be used."""
    try:
        return read_checksum(location.store.get(meta.key, CHECKSUM_BYTES))
    except TooLarge as error:
        return f"cannot be read: it has {error.size:,} bytes"


def read_checksum(data: bytes) -> VersionChecksum | str:
    """What a `.crc` file says, or why it cannot be used."""
    try:
        return msgspec.json.decode(data, type=VersionChecksum, strict=False)
    except MALFORMED_JSON as error:
        return f"cannot be read: {reason_of(error)}"


@dataclass(frozen=True, slots=True)
class Counts:
    """What can be counted of the live files of a version."""

    files: int
    size_bytes: int
    vectors: int
    hidden_rows: int


def miscounts(told: VersionChecksum, counts: Counts) -> Iterator[str]:
    """What a `.crc` file counts otherwise than the replay of the log."""
    stated = (told.num_files, told.table_size_bytes, told.num_deletion_vectors_opt, told.num_deleted_records_opt)
    have = (counts.files, counts.size_bytes, counts.vectors, counts.hidden_rows)
    for expected, count, noun in zip(stated, have, ("files", "bytes", "deletion vectors", "deleted rows"), strict=True):
        if expected is not None and expected != count:
            yield f"{expected} {noun} where the log has {count}"


def contradictions(told: VersionChecksum, settings: CompleteSettings) -> Iterator[str]:
    """What a `.crc` file says of everything but files otherwise than the replay of the log."""
    if told.protocol is not None and demands(told.protocol) != demands(settings.protocol):
        yield "another protocol than the log"
    if told.metadata is not None and not _same_schema(told.metadata, settings.metadata):
        yield "another schema than the log"
    if told.domain_metadata is not None:
        live = {domain.domain: domain for domain in told.domain_metadata if not domain.removed}
        if configurations(live) != configurations(settings.domains):
            yield "other domain metadata than the log"
    if told.set_transactions is not None and TXN_RETENTION not in settings.metadata.properties:
        versions = {txn.app_id: txn.version for txn in told.set_transactions}
        if versions != {app: txn.version for app, txn in settings.txns.items()}:
            yield "other application versions than the log"


def demands(protocol: Protocol) -> tuple[object, ...]:
    """What a protocol asks of clients, whatever the order of its features."""
    features = frozenset(protocol.reader_features or ()), frozenset(protocol.writer_features or ())
    return protocol.min_reader_version, protocol.min_writer_version, *features


def configurations(domains: Mapping[str, DomainMetadata]) -> dict[str, str | None]:
    """What each domain says."""
    return {name: domain.configuration for name, domain in domains.items()}


def same_json(one: str | None, other: str | None) -> bool:
    """Whether two texts are the same JSON, however each is spaced; what is not JSON is compared as it is."""
    if one == other or one is None or other is None:
        return one == other
    try:
        return bool(msgspec.json.decode(one) == msgspec.json.decode(other))
    except MALFORMED_JSON:
        return False


def _same_schema(told: Metadata, known: Metadata) -> bool:
    return told.schema_string is None or same_json(told.schema_string, known.schema_string)


def canonical_md5(data: bytes) -> str:
    """The sum of a `_last_checkpoint`, its own entry left out."""
    decoded = json.loads(data, parse_int=_Literal, parse_float=_Literal, parse_constant=_Literal)
    pairs = sorted((path.encode(), value) for path, value in _flatten(decoded, "") if path != '"checksum"')
    canonical = b",".join(path + b"=" + value.encode() for path, value in pairs)
    return hashlib.md5(canonical, usedforsecurity=False).hexdigest()


class _Literal(str):
    """A number as it was spelled."""

    __slots__ = ()


def _flatten(value: Any, path: str) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            for key, inner in value.items():
                yield from _flatten(inner, _join(path, _quoted(key)))
        case list():
            for position, inner in enumerate(value):
                yield from _flatten(inner, _join(path, str(position)))
        case _Literal():
            yield path, str(value)
        case str():
            yield path, _quoted(value)
        case True:
            yield path, "true"
        case False:
            yield path, "false"
        case _:
            yield path, "null"


def _join(path: str, step: str) -> str:
    return f"{path}+{step}" if path else step


def _quoted(text: str) -> str:
    return f'"{quote(text, safe="-._~")}"'
