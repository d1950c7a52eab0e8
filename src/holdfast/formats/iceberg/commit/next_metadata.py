"""Writes the metadata file that follows another one, with a new snapshot on the main branch.

1. The parts that grow with the history are copied as text; only what the commit changes is encoded, so that a commit
   costs a copy of the file and nothing per snapshot.
2. All other fields stay, also those that Holdfast does not know.
3. The metadata log has at most as many entries as the table's property says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.formats.iceberg.metadata.table_metadata import MAIN, ROW_IDS_SINCE, TableMetadata
from holdfast.schema.properties import number
from holdfast.storage.error_mapping import json_record

_KEPT, _KEPT_DEFAULT = "write.metadata.previous-versions-max", "100"
_NUMBERED = re.compile(r"(\d+)-[0-9a-fA-F-]{36}(\.gz)?\.metadata\.json(\.gz)?")


def metadata_after(metadata: TableMetadata, path: str, snapshot: Mapping[str, Any]) -> bytes:
    """The text of the metadata file after the one at `path`, with a snapshot as the newest of the main branch."""
    parts = dict(metadata.text)
    moment = snapshot["timestamp-ms"]
    refs = json_record(parts.get("refs", b"{}"), dict[str, dict[str, Any]], path=path)
    refs[MAIN] = {"type": "branch", **refs.get(MAIN, {}), "snapshot-id": snapshot["snapshot-id"]}
    fields = {name: value for name, value in snapshot.items() if value is not None}
    changed = {
        "last-sequence-number": snapshot["sequence-number"],
        "last-updated-ms": moment,
        "current-snapshot-id": snapshot["snapshot-id"],
        "refs": refs,
        "metadata-log": _log(metadata, path),
    }
    if metadata.format_version >= ROW_IDS_SINCE:
        changed["next-row-id"] = (metadata.next_row_id or 0) + (snapshot["added-rows"] or 0)
    parts |= {name: msgspec.json.encode(value) for name, value in changed.items()}
    parts["snapshots"] = _append(parts.get("snapshots", b"[]"), fields)
    log_entry = {"snapshot-id": snapshot["snapshot-id"], "timestamp-ms": moment}
    parts["snapshot-log"] = _append(parts.get("snapshot-log", b"[]"), log_entry)
    return b"{" + b",".join(msgspec.json.encode(name) + b":" + part for name, part in parts.items()) + b"}"


def name_after(path: str, uuid: str) -> str:
    """The name of the metadata file after the one at `path`."""
    match = _NUMBERED.fullmatch(path.rpartition("/")[2])
    return f"{0 if match is None else int(match[1]) + 1:05d}-{uuid}.metadata.json"


def _log(metadata: TableMetadata, path: str) -> list[dict[str, Any]]:
    kept = max(1, number(_KEPT, metadata.properties.get(_KEPT, _KEPT_DEFAULT)))
    before = {"metadata-file": path, "timestamp-ms": metadata.last_updated_ms}
    return [*metadata.metadata_log, before][-kept:]


def _append(items: bytes, one: Mapping[str, Any]) -> bytes:
    """A JSON list with another item."""
    comma = b"" if len(items) < 8 and not items[1:-1].strip() else b","
    return b"".join((items[:-1], comma, msgspec.json.encode(one), b"]"))
