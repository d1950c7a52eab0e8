"""`_last_checkpoint`, the hint from which version a reader lists the log: reads and writes it.

1. The hint only moves forward: one that points to an existing newer checkpoint is not changed.
2. It contains a checksum of itself, which reveals a truncated file. The checksum is over a canonical form of the JSON,
   so that spaces and the order of keys do not matter.
3. It is optional: without it readers list the whole log.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from urllib.parse import quote

import msgspec

from holdfast.formats.delta.log.actions import Json
from holdfast.formats.delta.log.file_names import LAST_CHECKPOINT, LOG
from holdfast.formats.delta.log.segment import LogListing
from holdfast.storage.base import NotFound, TooLarge
from holdfast.storage.error_mapping import MALFORMED_JSON, reason_of
from holdfast.storage.location import Location

HINT_BYTES = 16 << 20  # a larger file is not read


class HintedV2(msgspec.Struct, frozen=True, rename="camel"):
    """The file of a V2 checkpoint."""

    path: str | None = None


class Hint(msgspec.Struct, frozen=True, rename="camel"):
    """The contents of `_last_checkpoint`."""

    version: int
    size: int | None = None
    parts: int | None = None
    num_of_add_files: int | None = None
    v2_checkpoint: HintedV2 | None = None
    checksum: str | None = None


def stored_hint(location: Location) -> Hint | str | None:
    """The `_last_checkpoint` of a table, or why it is invalid; None where there is none."""
    try:
        return read_hint(location.store.get(location.key(LOG, LAST_CHECKPOINT), HINT_BYTES))
    except NotFound:
        return None
    except TooLarge as error:
        return f"has {error.size:,} bytes"


def read_hint(data: bytes) -> Hint | str:
    """The contents of a `_last_checkpoint`, or why it is invalid."""
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


def hint_body(
    version: int,
    size: int,
    *,
    parts: int | None = None,
    size_bytes: int,
    adds: int | None = None,
    v2: Json | None = None,
) -> bytes:
    """The bytes of a `_last_checkpoint`."""
    optional = {"parts": parts, "sizeInBytes": size_bytes, "numOfAddFiles": adds, "v2Checkpoint": v2}
    body: Json = {"version": version, "size": size, **{k: v for k, v in optional.items() if v is not None}}
    return msgspec.json.encode(body | {"checksum": canonical_md5(msgspec.json.encode(body))})


def update_hint(location: Location, version: int, body: bytes, listing: LogListing, *, again: bool = True) -> None:
    """Writes the hint unless it points to a newer checkpoint, or without `again` to this version already."""
    old = stored_hint(location)
    if isinstance(old, Hint):
        exists = any(c.version == old.version for c in listing.checkpoints)
        if (old.version > version and exists) or (old.version == version and not again):
            return
    location.store.put(location.key(LOG, LAST_CHECKPOINT), body)


def canonical_md5(data: bytes) -> str:
    """The checksum of a `_last_checkpoint`, without its entry `checksum`."""
    decoded = json.loads(data, parse_int=_Literal, parse_float=_Literal, parse_constant=_Literal)
    pairs = sorted((path.encode(), value) for path, value in _flatten(decoded, "") if path != '"checksum"')
    canonical = b",".join(path + b"=" + value.encode() for path, value in pairs)
    return hashlib.md5(canonical, usedforsecurity=False).hexdigest()


class _Literal(str):
    """A number with its original text."""

    __slots__ = ()


def _flatten(value: object, path: str) -> Iterator[tuple[str, str]]:
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
