"""Encodes and decodes Z85: bytes as text, five characters for four big-endian bytes.

1. Encoding pads the bytes with zeros to a multiple of four, so the reader must know the size.
2. Decoding accepts only texts that encoding can produce; anything else is Damaged.
"""

from __future__ import annotations

from uuid import UUID

import numpy as np

from holdfast.errors import Damaged

UUID_LENGTH = 20  # characters

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_CHARACTERS = np.frombuffer(_ALPHABET.encode("ascii"), np.uint8)
_FOREIGN = 255
_DIGITS = np.full(256, _FOREIGN, np.uint8)
_DIGITS[_CHARACTERS] = np.arange(85, dtype=np.uint8)
_POWERS = 85 ** np.arange(4, -1, -1, dtype=np.uint64)


def encode(data: bytes) -> str:
    """The text of these bytes, padded to whole groups."""
    groups = np.frombuffer(data + bytes(-len(data) % 4), ">u4").astype(np.uint64)
    digits = groups[:, None] // _POWERS % np.uint64(85)
    return bytes(_CHARACTERS[digits]).decode("ascii")


def decode(text: str, size: int, *, where: str = "Z85 text") -> bytes:
    """The first `size` bytes behind this text; `where` names it in errors."""
    needed = -(-size // 4) * 5
    if size < 0 or len(text) != needed:
        raise Damaged(
            f"{where}: {size} bytes are {max(needed, 0)} characters of Z85, found {len(text)}",
            path=where,
            expected=str(needed),
            found=str(len(text)),
        )
    digits = _DIGITS[np.frombuffer(text.encode("ascii", "replace"), np.uint8)]  # one byte per character, as counted
    if not text.isascii() or (digits == _FOREIGN).any():
        raise Damaged(f"{where}: {text[:60]!r} has a character that is not Z85", path=where, found=text[:60])
    groups = digits.reshape(-1, 5).astype(np.uint64) @ _POWERS
    if (groups >> np.uint64(32)).any():
        raise Damaged(f"{where}: {text[:60]!r} has a group beyond four bytes", path=where, found=text[:60])
    return groups.astype(">u4").tobytes()[:size]


def encode_uuid(uuid: UUID) -> str:
    """The 20 characters of a UUID."""
    return encode(uuid.bytes)


def decode_uuid(text: str, *, where: str = "Z85 text") -> UUID:
    """The UUID behind 20 characters."""
    return UUID(bytes=decode(text, 16, where=where))
