"""`_last_checkpoint`: where reading may start. Written last, after everything it speaks of is there.

1. The hint only moves forward: one that points to a newer checkpoint which is there is left alone.
2. It carries a sum over itself, so that a torn one is known.
3. Losing it loses nothing: readers list the whole log instead.
"""

from __future__ import annotations

import msgspec

from holdfast.formats.delta.checkpoint.checksum import Hint, canonical_md5, stored_hint
from holdfast.formats.delta.log.actions import Json
from holdfast.formats.delta.log.file_names import LAST_CHECKPOINT, LOG
from holdfast.formats.delta.log.segment import LogListing
from holdfast.storage.location import Location


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
    said: Json = {"version": version, "size": size}
    told = {"parts": parts, "sizeInBytes": size_bytes, "numOfAddFiles": adds, "v2Checkpoint": v2}
    said |= {name: value for name, value in told.items() if value is not None}
    return msgspec.json.encode(said | {"checksum": canonical_md5(msgspec.json.encode(said))})


def point(location: Location, version: int, body: bytes, listing: LogListing, *, again: bool = True) -> None:
    """Make the hint say this, unless it points further; with `again` false, also unless it points here already."""
    key = location.key(LOG, LAST_CHECKPOINT)
    old = stored_hint(location)
    if isinstance(old, Hint):
        there = any(c.version == old.version for c in listing.checkpoints)
        if (old.version > version and there) or (old.version == version and not again):
            return
    location.store.put(key, body)
