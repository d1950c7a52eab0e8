"""The actions of a log, as the records its JSON lines hold.

Files are the many, so their records live only from a line to a column; the records of everything else are few and kept.

1. Unknown actions and unknown fields are ignored; an absent field is null.
2. A line that is not a JSON object of the right types is Damaged, naming the file and the line.
3. commitInfo is free-form: it stays undecoded until something asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeAlias

import msgspec

from holdfast.errors import Damaged
from holdfast.storage.error_mapping import MALFORMED_JSON, reason_of

Long: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # what fits the columns


class _Action(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """How every action is spelled: camel case, nulls left out, unknown fields ignored."""


class Vector(_Action, frozen=True):
    """Where the positions hidden in a file are stored."""

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: Long = 0
    cardinality: Long = 0
    offset: Long | None = None

    @property
    def unique_id(self) -> str:
        tail = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{tail}"


class FileAction(_Action, frozen=True):
    """What `add`, `remove` and `cdc` say of a file; each uses some of it."""

    path: str
    partition_values: dict[str, str | None] | None = None
    size: Long | None = None
    modification_time: Long | None = None
    deletion_timestamp: Long | None = None
    data_change: bool = True
    extended_file_metadata: bool | None = None
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: Vector | None = None
    base_row_id: Long | None = None
    default_row_commit_version: Long | None = None
    clustering_provider: str | None = None


class Protocol(_Action, frozen=True):
    """What a client must know to read the table, and to write it."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None


class FormatAction(_Action, frozen=True):
    provider: str = "parquet"
    options: dict[str, str | None] | None = None


class Metadata(_Action, frozen=True):
    """The table's schema and settings."""

    id: str | None = None
    name: str | None = None
    description: str | None = None
    format: FormatAction | None = None
    schema_string: str | None = None
    partition_columns: tuple[str, ...] | None = None
    configuration: dict[str, str | None] | None = None
    created_time: Long | None = None

    @property
    def properties(self) -> dict[str, str]:
        """The table's properties that have a value."""
        return {k: v for k, v in (self.configuration or {}).items() if v is not None}


class Txn(_Action, frozen=True):
    """How far an application has written."""

    app_id: str
    version: Long
    last_updated: Long | None = None


class DomainMetadata(_Action, frozen=True):
    """A named piece of state that travels with the table."""

    domain: str
    configuration: str | None = None
    removed: bool = False


class CheckpointMetadata(_Action, frozen=True):
    """What marks a checkpoint as V2."""

    version: Long | None = None
    tags: dict[str, str | None] | None = None


class Sidecar(_Action, frozen=True):
    """A file that holds the file actions of a V2 checkpoint."""

    path: str
    size_in_bytes: Long = 0
    modification_time: Long = 0
    tags: dict[str, str | None] | None = None


class Line(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """One line of a commit: one action, all other fields null."""

    add: FileAction | None = None
    remove: FileAction | None = None
    cdc: FileAction | None = None
    protocol: Protocol | None = None
    meta_data: Metadata | None = None
    txn: Txn | None = None
    domain_metadata: DomainMetadata | None = None
    commit_info: msgspec.Raw = msgspec.Raw()
    checkpoint_metadata: CheckpointMetadata | None = None
    sidecar: Sidecar | None = None


_LINES = msgspec.json.Decoder(Line, strict=False)


def decode_lines(data: bytes, *, where: str) -> list[Line]:
    """The actions of a commit, in order; `where` names its file in errors."""
    try:
        return _LINES.decode_lines(data)
    except MALFORMED_JSON:
        return [_decode(line, number, where) for number, line in _numbered(data)]


def commit_info(lines: Iterable[Line]) -> Mapping[str, Any]:
    """What the writer of a commit said of it; empty where it said nothing that can be read."""
    for line in lines:
        if line.commit_info:
            return decode_info(line.commit_info)
    return {}


def decode_info(raw: msgspec.Raw | bytes) -> Mapping[str, Any]:
    """A commitInfo as a mapping; one that is not an object, or cannot be read, counts as empty."""
    try:
        decoded = msgspec.json.decode(raw)
    except MALFORMED_JSON:
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _numbered(data: bytes) -> list[tuple[int, bytes]]:
    return [(n, line) for n, line in enumerate(data.split(b"\n"), start=1) if line.strip()]


def _decode(line: bytes, number: int, where: str) -> Line:
    try:
        return _LINES.decode(line)
    except MALFORMED_JSON as error:
        reason = reason_of(error)
        raise Damaged(f"line {number} of {where} is not a valid action: {reason}", path=where, offset=number) from error
