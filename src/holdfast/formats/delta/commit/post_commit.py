"""Decides which tasks follow a commit: checksum file, checkpoint, log cleanup, symlink manifests."""

from __future__ import annotations

from enum import Enum

from holdfast.errors import Invalid
from holdfast.formats.delta.log.cleanup import EXPIRED_LOG_CLEANUP
from holdfast.formats.delta.state import DeltaState
from holdfast.schema.properties import CHECKPOINT_INTERVAL, number, truth

DEFAULT_INTERVAL = "10"
SYMLINK_MANIFESTS = "delta.compatibility.symlinkFormatManifest.enabled"


class PostCommitTask(Enum):
    """A task after a commit, in the order of execution."""

    CRC = "crc"
    CHECKPOINT = "checkpoint"
    CLEANUP = "cleanup"
    MANIFESTS = "manifests"


def post_commit_tasks(state: DeltaState) -> tuple[PostCommitTask, ...]:
    """The tasks after the commit of this version.

    They depend on the version number, not on the contents of the log: exactly one writer commits each version, so
    exactly one writes a checkpoint.
    """
    properties = state.metadata.properties
    interval = number(CHECKPOINT_INTERVAL, properties.get(CHECKPOINT_INTERVAL, DEFAULT_INTERVAL))
    if interval < 1:
        raise Invalid(f"the property {CHECKPOINT_INTERVAL} is {interval}; it must be at least 1")
    tasks = [PostCommitTask.CRC]
    if state.version and state.version % interval == 0:
        tasks.append(PostCommitTask.CHECKPOINT)
        if truth(properties.get(EXPIRED_LOG_CLEANUP), default=True):
            tasks.append(PostCommitTask.CLEANUP)
    if truth(properties.get(SYMLINK_MANIFESTS), default=False):
        tasks.append(PostCommitTask.MANIFESTS)
    return tuple(tasks)
