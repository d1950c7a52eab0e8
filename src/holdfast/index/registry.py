"""The records of a table's indexes, stored as domain metadata: one domain per index, `holdfast.index.<name>`.

A domain has the definition of an index, its segments, and the version for which they are complete. So an index changes
atomically with a commit, every version of the table has its own, and it conflicts only with itself.

1. The segments of an index are complete for its version: each live row of that version has an entry in one of them. In
   any other version an entry is valid for a row with its row id and row commit version.
2. Every commit of an index raises its generation; `uuid` is new if an index is created again under an old name.
3. A segment never changes once it is written, and stays where it is when its index is renamed.
4. A domain that cannot be read is reported with the reason and does not raise; its index answers for no row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.errors import Invalid
from holdfast.model.snapshot import Snapshot
from holdfast.schema.types import Field, to_json
from holdfast.storage.error_mapping import MALFORMED_JSON, reason_of
from holdfast.storage.location import is_inside

DOMAIN = "holdfast.index."
DIRECTORY = "_holdfast/index"
FORMAT = 1

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_COLLATIONS = "__COLLATIONS"


class IndexColumn(msgspec.Struct, frozen=True, rename="camel"):
    """A column of an index: its physical name, and its type and collation as text."""

    name: str
    type: str


class IndexDefinition(msgspec.Struct, frozen=True, rename="camel"):
    """What an index covers, and the table and identity columns that its entries are bound to."""

    name: str
    kind: str
    columns: tuple[IndexColumn, ...]
    params: dict[str, Any]
    table_id: str
    id_column: str | None
    version_column: str | None


class SegmentRef(msgspec.Struct, frozen=True, rename="camel"):
    """A reference to a segment, with the checksum of its `meta.json`."""

    uuid: str
    directory: str  # a file key: relative to the table's directory
    version: int  # of the snapshot it was built from
    entries: int
    low_id: int
    high_id: int
    bytes: int
    checksum: str
    generation: int = 0  # of what segments share, such as a trained quantizer
    extra: dict[str, Any] = {}


class FilesRef(msgspec.Struct, frozen=True, rename="camel"):
    """A reference to the list of files of the indexed version (`index.tail`)."""

    key: str  # a file key
    bytes: int
    checksum: str


class Index(msgspec.Struct, frozen=True, rename="camel"):
    """An index, as stored in its domain."""

    definition: IndexDefinition
    uuid: str
    generation: int
    version: int  # the segments are complete for it
    files: FilesRef
    segments: tuple[SegmentRef, ...]
    format: int = FORMAT

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def entries(self) -> int:
        return sum(segment.entries for segment in self.segments)

    @property
    def bytes(self) -> int:
        return self.files.bytes + sum(segment.bytes for segment in self.segments)

    @property
    def directories(self) -> frozenset[str]:
        """Every directory that the index refers to, as file keys."""
        own = self.files.key.rpartition("/")[0]
        shared = (str(text) for s in self.segments for text in s.extra.get("directories", ()))
        return frozenset((own, *(segment.directory for segment in self.segments), *shared))


@dataclass(frozen=True)
class Registered:
    """The indexes of a table version by name, and the reasons why others cannot be read."""

    indexes: Mapping[str, Index] = field(default_factory=dict)
    troubles: Mapping[str, str] = field(default_factory=dict)

    def named(self, name: str) -> Index:
        """The index of this name; raises if there is none."""
        if name in self.indexes:
            return self.indexes[name]
        if name in self.troubles:
            raise Invalid(f"the index {name!r} cannot be read: {self.troubles[name]}; drop it and create it again")
        names = ", ".join(sorted(self.indexes)) or "none"
        raise Invalid(f"the table has no index {name!r}: it has {names}")


def domain_of(name: str) -> str:
    return f"{DOMAIN}{name}"


def directory_of(name: str, uuid: str) -> str:
    """Where a segment of an index is written: a file key."""
    return f"{DIRECTORY}/{name}/{uuid}"


def checked_name(name: object) -> str:
    """The name, if an index can have it: it becomes part of a domain and of paths."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} cannot be the name of an index: up to 128 letters, digits, underscores, dots and dashes can, "
            "beginning with a letter or digit"
        )
    return name


def registered(configurations: Mapping[str, str | None]) -> Registered:
    """The indexes among the domains of a table."""
    indexes: dict[str, Index] = {}
    troubles: dict[str, str] = {}
    for domain, text in configurations.items():
        if not domain.startswith(DOMAIN):
            continue
        name = domain.removeprefix(DOMAIN)
        index = _decoded(text or "")
        if isinstance(index, str):
            troubles[name] = f"the domain {domain} is not understood ({index})"
        elif index.format > FORMAT:
            troubles[name] = f"it has format {index.format}, and this Holdfast knows format {FORMAT}"
        elif away := [key for key in (*filter(None, index.directories), index.files.key) if not is_inside(key)]:
            troubles[name] = f"it refers to {away[0]!r}, which is not in the table's directory"
        elif index.name != name:
            troubles[name] = f"the domain {domain} speaks of the index {index.name!r}"
        else:
            indexes[name] = index
    return Registered(indexes, troubles)


@lru_cache(maxsize=256)
def _decoded(text: str) -> Index | str:
    """An index from its configuration, or the reason why it cannot be read; cached for lookups."""
    try:
        return msgspec.json.decode(text, type=Index)
    except MALFORMED_JSON as error:
        return reason_of(error)


def rendered(index: Index) -> str:
    """The configuration of an index's domain."""
    return msgspec.json.encode(index).decode()


def key_column(column: Field) -> IndexColumn:
    """A column as an index stores it; the text changes with anything that affects how values compare."""
    text = msgspec.json.encode(to_json(column.type)).decode()
    collation = column.metadata.get(_COLLATIONS)
    return IndexColumn(
        column.physical_name, text if collation is None else f"{text} {msgspec.json.encode(collation)!r}"
    )


def fields_of(definition: IndexDefinition, snapshot: Snapshot) -> tuple[Field, ...] | None:
    """The columns of an index in a snapshot; None if one was dropped."""
    by_name = {f.physical_name: f for f in snapshot.schema.fields}
    fields = tuple(by_name[c.name] for c in definition.columns if c.name in by_name)
    return fields if len(fields) == len(definition.columns) else None


def unfit(definition: IndexDefinition, snapshot: Snapshot, table_id: str) -> str | None:
    """Why entries of this index are not valid for a snapshot; None if they may be."""
    if definition.table_id != table_id:
        return "it was made for another table, in whose place this one is"
    identity = snapshot.identity
    if identity is None:
        return f"version {snapshot.version} does not track rows"
    if (identity.id_column, identity.version_column) != (definition.id_column, definition.version_column):
        return "row tracking was enabled anew since, and rows carry other ids"
    fields = fields_of(definition, snapshot)
    if fields is None:
        names = {f.physical_name for f in snapshot.schema.fields}
        dropped = next(c.name for c in definition.columns if c.name not in names)
        return f"the column {dropped} that it is about is gone"
    for column, now in zip(definition.columns, map(key_column, fields), strict=True):
        if column.type != now.type:
            return f"the type or collation of {column.name} was {column.type} and is {now.type}"
    return None
