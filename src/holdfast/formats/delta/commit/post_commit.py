"""What a table wants done after a commit. Deciding is here; the deeds are in the files they are named after."""

from __future__ import annotations

from enum import Enum

from holdfast.errors import Invalid
from holdfast.formats.delta.log.cleanup import EXPIRED_LOG_CLEANUP
from holdfast.formats.delta.state import DeltaState
from holdfast.schema.properties import CHECKPOINT_INTERVAL, number, truth

DEFAULT_INTERVAL = "10"
SYMLINK_MANIFESTS = "delta.compatibility.symlinkFormatManifest.enabled"


class Due(Enum):
    """Work that may follow a commit, in the order in which it is done."""

    CRC = "crc"
    CHECKPOINT = "checkpoint"
    CLEANUP = "cleanup"
    MANIFESTS = "manifests"


def due(state: DeltaState) -> tuple[Due, ...]:
    """What is due at a version that was just committed.

    Versions are counted, not what is in the log: of many writers exactly one commits each version, so exactly one of
    them finds a checkpoint due.
    """
    properties = state.metadata.properties
    interval = number(CHECKPOINT_INTERVAL, properties.get(CHECKPOINT_INTERVAL, DEFAULT_INTERVAL))
    if interval < 1:
        raise Invalid(f"the property {CHECKPOINT_INTERVAL} is {interval}; it must be at least 1")
    works = [Due.CRC]
    if state.version and state.version % interval == 0:
        works.append(Due.CHECKPOINT)
        if truth(properties.get(EXPIRED_LOG_CLEANUP), default=True):
            works.append(Due.CLEANUP)
    if truth(properties.get(SYMLINK_MANIFESTS), default=False):
        works.append(Due.MANIFESTS)
    return tuple(works)
