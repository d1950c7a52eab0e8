"""Whether asking a store is a round trip, so that many requests are made side by side."""

from __future__ import annotations

from holdfast.storage.base import ObjectStore

_NEAR = ("file://", "memory://")


def is_near(store: ObjectStore) -> bool:
    """Whether a store is on this machine, so that asking it is no round trip."""
    return store.url.startswith(_NEAR)
