"""Which readers can open a table, by its protocol.

The releases of Delta Lake are those that its documentation names for each feature. A feature without such a release
is named as one that the reader must know.

1. Only the reader version and reader features count.
2. The answers do not depend on the features that Holdfast supports.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.formats.delta.log.actions import Protocol
from holdfast.formats.delta.protocol.features import WRITER_ONLY, reader_features

VERSION_1 = "readers of protocol version 1"
VERSION_2 = "readers of protocol version 2"
FEATURES = "readers of table features"
DELTA_LAKE = "Delta Lake for Spark"

_FEATURE_LISTS_SINCE = (2, 3, 0)
_SINCE = {
    "columnMapping": (1, 2, 0),
    "deletionVectors": (2, 3, 0),
    "timestampNtz": (2, 4, 0),
    "v2Checkpoint": (3, 0, 0),
    "typeWidening-preview": (3, 2, 0),
    "typeWidening": (4, 0, 0),
}


def readers_of(protocol: Protocol) -> Mapping[str, str]:
    """Whether each kind of reader opens the table, or under which condition."""
    version = protocol.min_reader_version
    needed = sorted(reader_features(protocol) - WRITER_ONLY)
    too_old = f"no: the table asks for reader version {version}"
    return {
        VERSION_1: "yes" if version == 1 else too_old,
        VERSION_2: "yes" if version <= 2 else too_old,
        FEATURES: f"yes, those that know {', '.join(needed)}" if needed else "yes",
        DELTA_LAKE: _release(version, needed),
    }


def _release(version: int, needed: list[str]) -> str:
    releases = [_SINCE[name] for name in needed if name in _SINCE]
    if version >= 3:
        releases.append(_FEATURE_LISTS_SINCE)
    release = f"yes, {'.'.join(map(str, max(releases)))} and newer" if releases else "yes"
    unknown = [name for name in needed if name not in _SINCE]
    return f"{release}, in releases that know {', '.join(unknown)}" if unknown else release
