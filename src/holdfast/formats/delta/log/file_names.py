"""Names of the files in `_delta_log`, parsed and written.

1. A version in a name is zero-padded to 20 digits, so the order of names is the order of versions.
2. A name of any other form is ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

LOG = "_delta_log"
SIDECARS = "_sidecars"
LAST_CHECKPOINT = "_last_checkpoint"
FIRST_NAME = "0" * 20  # no name that begins with a version sorts before it

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
    """A V2 checkpoint, whose name contains a UUID so that two writers never use the same one."""

    version: int
    unique: str
    form: str


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """`_last_checkpoint`, the hint from which version to read."""


LogName: TypeAlias = (
    Commit | Checksum | CompactedLog | ClassicCheckpoint | PartCheckpoint | UniqueCheckpoint | LastCheckpoint
)


def parse_log_name(name: str) -> LogName | None:
    """The kind of log file that a name stands for; None for any other file."""
    if name == LAST_CHECKPOINT:
        return LastCheckpoint()
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    version = int(match["version"])
    if match["commit"]:
        return Commit(version)
    if match["checksum"]:
        return Checksum(version)
    if match["end"]:
        end = int(match["end"])
        return CompactedLog(version, end) if end > version else None
    if match["classic"]:
        return ClassicCheckpoint(version)
    if match["part"]:
        part, parts = int(match["part"]), int(match["parts"])
        return PartCheckpoint(version, part, parts) if 1 <= part <= parts else None
    return UniqueCheckpoint(version, match["unique"], match["form"])


def commit_name(version: int) -> str:
    return f"{version:020d}.json"


def checksum_name(version: int) -> str:
    return f"{version:020d}.crc"


def first_name(version: int) -> str:
    """Where a listing starts that has every file of this version and later ones."""
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
