"""Checks a log carries on itself: the sum in `_last_checkpoint`, and the `.crc` file of a version.

1. Both are optional, and neither is needed to read a table: what they contradict is noted, never refused.
2. The sum of a `_last_checkpoint` is over a canonical form of its JSON, so that spacing and key order do not matter.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec

from holdfast.delta.actions import DomainMetadata, Metadata, Protocol, Txn
from holdfast.storage.border import MALFORMED_JSON, reason_of


class Hint(msgspec.Struct, frozen=True, rename="camel"):
    """What `_last_checkpoint` says: where reading may start."""

    version: int
    size: int | None = None
    parts: int | None = None
    checksum: str | None = None


class VersionChecksum(msgspec.Struct, frozen=True, rename="camel"):
    """What the `.crc` file of a version says that can be compared with a replay."""

    table_size_bytes: int | None = None
    num_files: int | None = None
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


def read_checksum(data: bytes) -> VersionChecksum | str:
    """What a `.crc` file says, or why it cannot be used."""
    try:
        return msgspec.json.decode(data, type=VersionChecksum, strict=False)
    except MALFORMED_JSON as error:
        return f"cannot be read: {reason_of(error)}"


def contradictions(
    told: VersionChecksum, *, num_files: int, size_bytes: int, protocol: Protocol, metadata: Metadata
) -> Iterator[str]:
    """What a `.crc` file says otherwise than the replay of the log."""
    if told.num_files is not None and told.num_files != num_files:
        yield f"{told.num_files} files where the log has {num_files}"
    if told.table_size_bytes is not None and told.table_size_bytes != size_bytes:
        yield f"{told.table_size_bytes} bytes where the log has {size_bytes}"
    if told.protocol is not None and _versions(told.protocol) != _versions(protocol):
        yield "another protocol than the log"
    if told.metadata is not None and told.metadata.schema_string not in (None, metadata.schema_string):
        yield "another schema than the log"


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


def _versions(protocol: Protocol) -> tuple[object, ...]:
    return (
        protocol.min_reader_version,
        protocol.min_writer_version,
        frozenset(protocol.reader_features or ()),
        frozenset(protocol.writer_features or ()),
    )
