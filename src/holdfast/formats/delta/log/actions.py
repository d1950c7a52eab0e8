"""The actions of a Delta log as records, decoded from JSON lines and encoded to them.

Records of files live only until they become columns, because a table may have millions of files.

1. Unknown actions and unknown fields are ignored; an absent field is null.
2. A line that is not a JSON object of the right types is Damaged; the error names the file and the line.
3. commitInfo is free-form: it stays undecoded until a caller reads it.
4. A field that the protocol requires is written even where it has its default value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec

from holdfast.errors import Damaged
from holdfast.storage.error_mapping import MALFORMED_JSON, Long, reason_of

Json: TypeAlias = dict[str, Any]


class _Action(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """The JSON form of every action: camel case, no nulls, unknown fields ignored."""


class DeletionVector(_Action, frozen=True):
    """The descriptor of a deletion vector: where its positions are stored."""

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: Long = 0
    cardinality: Long = 0
    offset: Long | None = None

    @classmethod
    def from_row(cls, dv: Mapping[str, Any] | None) -> DeletionVector | None:
        """The descriptor in the column `dv` of FILES."""
        if dv is None:
            return None
        return cls(dv["storage"], dv["path"], dv["size"], dv["cardinality"], dv["offset"])

    def as_row(self) -> Json:
        """The descriptor as a value of the column `dv` of FILES."""
        return {
            "id": self.unique_id,
            "storage": self.storage_type,
            "path": self.path_or_inline_dv,
            "offset": self.offset,
            "size": self.size_in_bytes,
            "cardinality": self.cardinality,
        }

    @property
    def unique_id(self) -> str:
        offset = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{offset}"


class FileAction(_Action, frozen=True):
    """An `add`, `remove` or `cdc` action; each uses some of the fields."""

    path: str
    partition_values: dict[str, str | None] | None = None
    size: Long | None = None
    modification_time: Long | None = None
    deletion_timestamp: Long | None = None
    data_change: bool = True
    extended_file_metadata: bool | None = None
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: Long | None = None
    default_row_commit_version: Long | None = None
    clustering_provider: str | None = None


class Protocol(_Action, frozen=True):
    """The versions and features that a client needs to read and write the table."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None


class FormatAction(_Action, frozen=True):
    provider: str = "parquet"
    options: dict[str, str | None] | None = None


class Metadata(_Action, frozen=True):
    """The table's schema, partition columns and properties."""

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
        """The table properties that are not null."""
        return {k: v for k, v in (self.configuration or {}).items() if v is not None}


class Txn(_Action, frozen=True):
    """The last version that an application wrote."""

    app_id: str
    version: Long
    last_updated: Long | None = None


class DomainMetadata(_Action, frozen=True):
    """Configuration under a name, such as that of row tracking or clustering."""

    domain: str
    configuration: str | None = None
    removed: bool = False


class CheckpointMetadata(_Action, frozen=True):
    """The action that marks a checkpoint as V2."""

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
        numbered = enumerate(data.split(b"\n"), start=1)
        return [_decode(line, number, where) for number, line in numbered if line.strip()]


def info_map(info: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A JSON object in a commitInfo, such as its tags; empty where it is absent or something else."""
    value = info.get(name)
    return value if isinstance(value, dict) else {}


def encode_action(action: FileAction | Protocol | Metadata | Txn | DomainMetadata | Sidecar) -> Json:
    """An action as a JSON value, without its envelope."""
    encoded: Json = msgspec.to_builtins(action)
    match action:
        case FileAction():
            return encoded | {"dataChange": action.data_change}
        case Metadata(format=stored) if stored is not None:
            return encoded | {"format": {"provider": stored.provider, "options": stored.options or {}}}
        case DomainMetadata():
            return encoded | {"removed": action.removed}
        case Sidecar():
            return encoded | {"sizeInBytes": action.size_in_bytes, "modificationTime": action.modification_time}
        case _:
            return encoded


def encode_lines(actions: Iterable[Json]) -> bytes:
    """Actions in their envelopes as the JSON lines of a log file."""
    return b"".join(msgspec.json.encode(action) + b"\n" for action in actions)


def encode_path(key: str) -> str:
    """The URL-encoded path that the log stores for a file below the table's directory."""
    return quote(key, safe="/!$&'()*+,;=@-._~")


def commit_info(lines: Iterable[Line]) -> Mapping[str, Any]:
    """The commitInfo of a commit; empty where there is none or it cannot be read."""
    return next((decode_info(line.commit_info) for line in lines if line.commit_info), {})


def decode_info(raw: msgspec.Raw | bytes) -> Mapping[str, Any]:
    """A commitInfo as a mapping; empty where it is not a JSON object."""
    try:
        decoded = msgspec.json.decode(raw)
    except MALFORMED_JSON:
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _decode(line: bytes, number: int, where: str) -> Line:
    try:
        return _LINES.decode(line)
    except MALFORMED_JSON as error:
        message = f"line {number} of {where} is not a valid action: {reason_of(error)}"
        raise Damaged(message, path=where, offset=number) from error
