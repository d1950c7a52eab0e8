"""Actions as the JSON values other engines expect: fields that must be there are there, even with their usual value."""

from __future__ import annotations

from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec

from holdfast.formats.delta.log.actions import DomainMetadata, FileAction, Metadata, Protocol, Sidecar, Txn

Json: TypeAlias = dict[str, Any]


def spell(action: FileAction | Protocol | Metadata | Txn | DomainMetadata | Sidecar) -> Json:
    """One action, without its envelope."""
    plain: Json = msgspec.to_builtins(action)
    match action:
        case FileAction():
            return plain | {"dataChange": action.data_change}
        case Metadata(format=stored) if stored is not None:
            return plain | {"format": {"provider": stored.provider, "options": stored.options or {}}}
        case DomainMetadata():
            return plain | {"removed": action.removed}
        case Sidecar():
            return plain | {"sizeInBytes": action.size_in_bytes, "modificationTime": action.modification_time}
        case _:
            return plain


def path_of(key: str) -> str:
    """The path of a file below its table's directory, as a log spells it."""
    return quote(key, safe="/!$&'()*+,;=@-._~")


def lines(actions: list[Json]) -> bytes:
    """Actions in their envelopes as the lines of a file."""
    return b"".join(msgspec.json.encode(action) + b"\n" for action in actions)
