"""The files of a log directory, told apart by name, once.

1. A version in a name is zero-padded to 20 digits, so the order of names is the order of versions.
2. A name that is none of these is not ours and is ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

LOG = "_delta_log"
SIDECARS = "_sidecars"
LAST_CHECKPOINT = "_last_checkpoint"
FIRST_NAME = "0" * 20  # where the names that begin with a version begin

_NAME = re.compile(
    r"(?P<version>\d{20})\."
    r"(?:(?P<commit>json)"
    r"|(?P<checksum>crc)"
    r"|(?P<end>\d{20})\.compacted\.json"
    r"|(?P<classic>checkpoint\.parquet)"
    r"|checkpoint\.(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet"
    r"|checkpoint\.(?P<unique>[^.]+)\.(?P<form>json|parquet))"
)


@dataclass(frozen=True, slots=True)
class Commit:
    version: int


@dataclass(frozen=True, slots=True)
class Checksum:
    version: int


@dataclass(frozen=True, slots=True)
class CompactedLog:
    """The reconciled actions of the commits from `start` to `end`, both included."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ClassicCheckpoint:
    version: int


@dataclass(frozen=True, slots=True)
class PartCheckpoint:
    """One of several files that are a checkpoint together; parts count from 1."""

    version: int
    part: int
    parts: int


@dataclass(frozen=True, slots=True)
class UniqueCheckpoint:
    """A V2 checkpoint under a name of its own, so that writers never meet."""

    version: int
    unique: str
    form: str


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """The hint where to start reading."""


LogName: TypeAlias = (
    Commit | Checksum | CompactedLog | ClassicCheckpoint | PartCheckpoint | UniqueCheckpoint | LastCheckpoint
)


def parse_log_name(name: str) -> LogName | None:
    """What a name in the log directory stands for; None for what is not part of a log."""
    if name == LAST_CHECKPOINT:
        return LastCheckpoint()
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    version = int(found["version"])
    if found["commit"]:
        return Commit(version)
    if found["checksum"]:
        return Checksum(version)
    if found["end"]:
        end = int(found["end"])
        return CompactedLog(version, end) if end > version else None
    if found["classic"]:
        return ClassicCheckpoint(version)
    if found["part"]:
        part, parts = int(found["part"]), int(found["parts"])
        return PartCheckpoint(version, part, parts) if 1 <= part <= parts else None
    return UniqueCheckpoint(version, found["unique"], found["form"])


def commit_name(version: int) -> str:
    return f"{version:020d}.json"


def checksum_name(version: int) -> str:
    return f"{version:020d}.crc"


def first_name(version: int) -> str:
    """The least name any file of a version can have."""
    return f"{version:020d}"


def checkpoint_name(version: int) -> str:
    return f"{version:020d}.checkpoint.parquet"


def unique_checkpoint_name(version: int, unique: UUID) -> str:
    return f"{version:020d}.checkpoint.{unique}.json"


def sidecar_name(version: int, part: int, parts: int, unique: UUID) -> str:
    """The name of a sidecar in its own directory; parts count from 1."""
    return f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.{unique}.parquet"


def compacted_name(start: int, end: int) -> str:
    return f"{start:020d}.{end:020d}.compacted.json"
