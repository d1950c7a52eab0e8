"""The indexes of a table, as the table itself keeps them: one domain per index, `holdfast.index.<name>`.

A domain says what is indexed, which segments hold the entries, and the version up to which they are complete. So an
index is as atomic as any commit, is read by the version that is read, and conflicts with nothing but itself.

1. The segments of an index are complete for its version: each live row of that version, as it was, has an entry in one
   of them. Of any other version an entry answers for the rows that have its row id and its row commit version.
2. Every commit of an index raises its generation; `uuid` is new where an index is made anew under an old name.
3. A segment never changes once it is written, and stays where it is when its index gets another name.
4. What cannot be read of a domain is told with the reason, and never raised: such an index answers for no row.
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
    """What is indexed, and the table and identity of rows that entries are bound to."""

    name: str
    kind: str
    columns: tuple[IndexColumn, ...]
    params: dict[str, Any]
    table_id: str
    id_column: str | None
    version_column: str | None


class SegmentRef(msgspec.Struct, frozen=True, rename="camel"):
    """A segment: where it is, what it holds, and the checksum of its `meta.json`, which has those of its files."""

    uuid: str
    directory: str  # a file key: relative to the table's directory
    version: int  # of the snapshot it was built from
    entries: int
    low_id: int
    high_id: int
    bytes: int
    checksum: str
    generation: int = 0  # of what several segments share, such as a trained quantizer
    extra: dict[str, Any] = {}


class FilesRef(msgspec.Struct, frozen=True, rename="camel"):
    """The files of the version an index is complete for: see `index.tail`."""

    key: str  # a file key
    bytes: int
    checksum: str


class Index(msgspec.Struct, frozen=True, rename="camel"):
    """An index as its domain says."""

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
        """Every directory it refers to, as file keys."""
        own = self.files.key.rpartition("/")[0]
        shared = (str(text) for s in self.segments for text in s.extra.get("directories", ()))
        return frozenset((own, *(segment.directory for segment in self.segments), *shared))


@dataclass(frozen=True)
class Registered:
    """The indexes of a table at one version, by name; and those that cannot be read, with why."""

    indexes: Mapping[str, Index] = field(default_factory=dict)
    troubles: Mapping[str, str] = field(default_factory=dict)

    def named(self, name: str) -> Index:
        """The index of a name, or what to do about it."""
        if name in self.indexes:
            return self.indexes[name]
        if name in self.troubles:
            raise Invalid(f"the index {name!r} cannot be read: {self.troubles[name]}; drop it and create it again")
        known = ", ".join(sorted(self.indexes)) or "none"
        raise Invalid(f"the table has no index {name!r}: it has {known}")


def domain_of(name: str) -> str:
    """The domain of an index."""
    return f"{DOMAIN}{name}"


def directory_of(name: str, uuid: str) -> str:
    """Where a segment of an index is written: a file key."""
    return f"{DIRECTORY}/{name}/{uuid}"


def checked_name(name: Any) -> str:
    """A name that an index can have: it becomes part of a domain and of paths."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} cannot be the name of an index: up to 128 letters, digits, underscores, dots and dashes can, "
            "beginning with a letter or digit"
        )
    return name


def registered(configurations: Mapping[str, str | None]) -> Registered:
    """The indexes among the domains of a table, given with their configurations."""
    indexes: dict[str, Index] = {}
    troubles: dict[str, str] = {}
    for domain, text in configurations.items():
        if not domain.startswith(DOMAIN):
            continue
        name = domain.removeprefix(DOMAIN)
        found = _decoded(text or "")
        if isinstance(found, str):
            troubles[name] = f"the domain {domain} is not understood ({found})"
        elif found.format > FORMAT:
            troubles[name] = f"it has format {found.format}, and this Holdfast knows format {FORMAT}"
        elif away := [key for key in (*filter(None, found.directories), found.files.key) if not is_inside(key)]:
            troubles[name] = f"it refers to {away[0]!r}, which is not in the table's directory"
        elif found.name != name:
            troubles[name] = f"the domain {domain} speaks of the index {found.name!r}"
        else:
            indexes[name] = found
    return Registered(indexes, troubles)


@lru_cache(maxsize=256)
def _decoded(text: str) -> Index | str:
    """An index from its configuration, or what is wrong with that; asked for again at each lookup."""
    try:
        return msgspec.json.decode(text, type=Index)
    except MALFORMED_JSON as error:
        return reason_of(error)


def rendered(index: Index) -> str:
    """The configuration of an index's domain."""
    return msgspec.json.encode(index).decode()


def key_column(column: Field) -> IndexColumn:
    """A column as an index remembers it: whatever changes how values compare changes the text."""
    text = msgspec.json.encode(to_json(column.type)).decode()
    collation = column.metadata.get(_COLLATIONS)
    return IndexColumn(
        column.physical_name, text if collation is None else f"{text} {msgspec.json.encode(collation)!r}"
    )


def fields_of(definition: IndexDefinition, snapshot: Snapshot) -> tuple[Field, ...] | None:
    """The columns of an index as a table has them now; None where one is gone."""
    known = {f.physical_name: f for f in snapshot.schema.fields}
    found = tuple(known[c.name] for c in definition.columns if c.name in known)
    return found if len(found) == len(definition.columns) else None


def unfit(definition: IndexDefinition, snapshot: Snapshot, table_id: str) -> str | None:
    """Why entries made for this definition say nothing of a snapshot; None where they may."""
    if definition.table_id != table_id:
        return "it was made for another table, in whose place this one is"
    identity = snapshot.identity
    if identity is None:
        return f"version {snapshot.version} does not track rows"
    if (identity.id_column, identity.version_column) != (definition.id_column, definition.version_column):
        return "row tracking was enabled anew since, and rows carry other ids"
    fields = fields_of(definition, snapshot)
    if fields is None:
        known = {f.physical_name for f in snapshot.schema.fields}
        gone = next(c.name for c in definition.columns if c.name not in known)
        return f"the column {gone} that it is about is gone"
    for column, now in zip(definition.columns, map(key_column, fields), strict=True):
        if column.type != now.type:
            return f"the type or collation of {column.name} was {column.type} and is {now.type}"
    return None
