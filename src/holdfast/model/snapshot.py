"""A table at one version: data only, the same for every format.

What is particular to a format (protocol, domains, application transactions) stays in that format's own state, which
holds one of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from pyroaring import BitMap64

from holdfast.model.files import FileTable
from holdfast.schema.types import Struct
from holdfast.storage.location import Location


class Resolve(Enum):
    """How a column is found in a data file."""

    BY_NAME = "name"  # by physical name
    BY_ID = "id"  # by Parquet field id


@dataclass(frozen=True, slots=True)
class Identity:
    """How rows of a table are told apart through rewrites.

    A row's id is its value in the file's column `id_column` when there is one and it is not null, else the file's
    base plus the row's position; its version likewise, from `version_column`, else the file's default.
    """

    id_column: str | None
    version_column: str | None
    high_water: int


@dataclass(frozen=True)
class Snapshot:
    """The schema, the files and the settings of a table at one version."""

    location: Location
    version: int
    timestamp_ms: int
    schema: Struct
    partition_columns: tuple[str, ...]
    files: FileTable
    identity: Identity | None = None  # None: the table does not track rows
    resolve: Resolve = Resolve.BY_NAME
    clustering_columns: tuple[tuple[str, ...], ...] = ()  # physical names
    properties: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what was read around, and why


@dataclass(frozen=True, slots=True)
class HiddenRows:
    """Physical positions hidden in each file, by file key; files without any are absent."""

    positions: Mapping[str, BitMap64] = field(default_factory=dict)
