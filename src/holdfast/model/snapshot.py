"""A table at one version: data only, the same for every format.

What is particular to a format (protocol, domains, application transactions) stays in that format's own state, which
holds one of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from pyroaring import BitMap64

from holdfast.model.files import FileTable
from holdfast.schema.types import LONG, MAPPING_ID, Field, Struct
from holdfast.storage.location import Location


class Resolve(Enum):
    """How a column is found in a data file."""

    BY_NAME = "name"  # by physical name
    BY_ID = "id"  # by Parquet field id


@dataclass(frozen=True, slots=True)
class RowIdentity:
    """How rows of a table are told apart through rewrites.

    A row's id is its value in the file's column `id_column` when there is one and it is not null, else the file's
    base plus the row's position; its version likewise, from `version_column`, else the file's default.
    """

    id_column: str | None
    version_column: str | None
    high_water: int
    id_field: int | None = None  # the field id of the column, where it is found by that
    version_field: int | None = None
    has_gaps: bool = False  # a file may have no base; its rows then have neither id nor version, whatever it stores

    @property
    def id_stored(self) -> Field | None:
        """The column of ids that a data file may have."""
        return None if self.id_column is None else _stored(self.id_column, self.id_field)

    @property
    def version_stored(self) -> Field | None:
        """The column of versions that a data file may have."""
        return None if self.version_column is None else _stored(self.version_column, self.version_field)


@dataclass(frozen=True, slots=True)
class Bucketed:
    """A column by whose hash files are placed: its field id, the field of the tuple, and how many buckets there are."""

    field_id: int
    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Placement:
    """How a format places files that gives each a spec and a typed tuple.

    Partition columns are then ordinary columns that files hold, and a file is shown under the path its metadata spells.
    """

    tuple_type: Struct  # over all specs; without fields: tuples are null
    identities: Mapping[int, Mapping[int, str]] = field(
        default_factory=dict
    )  # field id of a column -> spec of a file -> field of its tuple equal to the column
    buckets: tuple[Bucketed, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """The schema, the files and the settings of a table at one version."""

    location: Location
    version: int
    timestamp_ms: int
    schema: Struct
    partition_columns: tuple[str, ...]
    files: FileTable
    identity: RowIdentity | None = None  # None: the table does not track rows
    resolve: Resolve = Resolve.BY_NAME
    clustering_columns: tuple[tuple[str, ...], ...] = ()  # physical names
    properties: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what was read around, and why
    placement: Placement | None = None  # None: partition values are texts, by column
    hides: bool = False  # rows of its files can be hidden, whatever its properties say
    to_name: str = "rewrite it"  # what to do about a file without field ids, where columns are found by them
    to_track: str = "enable it with enableRowTracking(), or the table property delta.enableRowTracking=true"


@dataclass(frozen=True, slots=True)
class HiddenRows:
    """Physical positions hidden in each file, by file key, where files without any are absent; and rows by value."""

    positions: Mapping[str, BitMap64] = field(default_factory=dict)
    by_value: tuple[GoneByValue, ...] = ()


@dataclass(frozen=True)
class GoneByValue:
    """Rows that are gone because all of some columns equal a row of a delete file; null equals null.

    A delete file counts for a data file whose sequence is smaller, and that is of its group unless it counts
    everywhere.
    """

    deletes: (
        Snapshot  # its columns are those compared, under names of their own, found by id; its files are the deletes
    )
    everywhere: bool


LoadHidden: TypeAlias = Callable[[Location, FileTable], HiddenRows]  # how a format reads what files of a table hide


def _stored(name: str, field_id: int | None) -> Field:
    return Field(name, LONG, metadata={} if field_id is None else {MAPPING_ID: field_id})
