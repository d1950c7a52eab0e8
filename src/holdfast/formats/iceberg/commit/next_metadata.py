"""The metadata file after a commit of one snapshot to the main branch: the file before it, with what the snapshot adds.

1. What grows with a table's history is copied as it is; only what the commit changes is put into words, so that a
   commit costs a copy of the file and nothing for each snapshot.
2. Whatever else stands in the file stays, what Holdfast does not know included.
3. The log of earlier files has at most as many entries as the table asks for.
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
    """The text of the file that comes after the one at `path`, with a snapshot as the newest of the main branch."""
    parts = dict(metadata.text)
    moment = snapshot["timestamp-ms"]
    refs = json_record(parts.get("refs", b"{}"), dict[str, dict[str, Any]], path=path)
    refs[MAIN] = {"type": "branch", **refs.get(MAIN, {}), "snapshot-id": snapshot["snapshot-id"]}
    said = {name: value for name, value in snapshot.items() if value is not None}
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
    parts["snapshots"] = _with(parts.get("snapshots", b"[]"), said)
    at = {"snapshot-id": snapshot["snapshot-id"], "timestamp-ms": moment}
    parts["snapshot-log"] = _with(parts.get("snapshot-log", b"[]"), at)
    return b"{" + b",".join(msgspec.json.encode(name) + b":" + part for name, part in parts.items()) + b"}"


def name_after(path: str, uuid: str) -> str:
    """The name of the file that comes after the one at `path`."""
    named = _NUMBERED.fullmatch(path.rpartition("/")[2])
    return f"{0 if named is None else int(named[1]) + 1:05d}-{uuid}.metadata.json"


def _log(metadata: TableMetadata, path: str) -> list[dict[str, Any]]:
    kept = max(1, number(_KEPT, metadata.properties.get(_KEPT, _KEPT_DEFAULT)))
    before = {"metadata-file": path, "timestamp-ms": metadata.last_updated_ms}
    return [*metadata.metadata_log, before][-kept:]


def _with(items: bytes, one: Mapping[str, Any]) -> bytes:
    """A list in JSON with an item more."""
    comma = b"" if len(items) < 8 and not items[1:-1].strip() else b","
    return b"".join((items[:-1], comma, msgspec.json.encode(one), b"]"))
