"""The commits that came since a state was read, as conflict checks see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from holdfast.delta.actions import FileAction, Line, commit_info, decode_lines
from holdfast.delta.columns import from_actions
from holdfast.delta.names import LOG, commit_name
from holdfast.delta.shape import CLUSTERING_DOMAIN
from holdfast.delta.state import DeltaState
from holdfast.errors import Conflict
from holdfast.model.mutation import ENABLES_ROW_TRACKING, HANDS_OUT_NUMBERS, KEEPS_ROW_IDS, Winner
from holdfast.storage.arrays import strings
from holdfast.storage.base import NotFound
from holdfast.storage.location import Location


def winners(old: DeltaState, new: DeltaState) -> tuple[Winner, ...]:
    """Every commit after `old` up to `new`, oldest first: cost of these commits only."""
    return tuple(_winner(new.snapshot.location, version) for version in range(old.version + 1, new.version + 1))


def _winner(location: Location, version: int) -> Winner:
    key = location.key(LOG, commit_name(version))
    try:
        data = location.store.get(key)
    except NotFound as error:
        raise Conflict(
            f"version {version} of {location.url} was committed and cleaned up while this transaction ran; run it again"
        ) from error
    lines = decode_lines(data, where=f"{location.store.url}/{key}")
    info = commit_info(lines)
    adds = [line.add for line in lines if line.add is not None]
    removes = [line.remove for line in lines if line.remove is not None]
    return Winner(
        version=version,
        operation=str(info.get("operation", "an unnamed operation")),
        timestamp_ms=int(info.get("timestamp") or 0),
        added=from_actions(adds, _keys(location, adds)),
        removed_keys=frozenset(_keys(location, removes).to_pylist()),
        data_change=any(action.data_change for action in (*adds, *removes)),
        blind_append=not removes and info.get("isBlindAppend") is True,
        changes_shape=any(line.meta_data is not None or _reclusters(line) for line in lines),
        changes_protocol=any(line.protocol is not None for line in lines),
        apps=frozenset(line.txn.app_id for line in lines if line.txn is not None),
        only_enables_row_tracking=_tags(info).get(ENABLES_ROW_TRACKING) == "true",
        only_hands_out_numbers=_tags(info).get(HANDS_OUT_NUMBERS) == "true",
        keeps_row_ids=_tags(info).get(KEEPS_ROW_IDS) == "true",
        domains=frozenset(line.domain_metadata.domain for line in lines if line.domain_metadata is not None),
    )


def _reclusters(line: Line) -> bool:
    """Whether an action sets the clustering columns, which a table that is clustered keeps outside of its metadata."""
    return line.domain_metadata is not None and line.domain_metadata.domain == CLUSTERING_DOMAIN


def _tags(info: Mapping[str, Any]) -> Mapping[str, Any]:
    tags = info.get("tags")
    return tags if isinstance(tags, dict) else {}


def _keys(location: Location, actions: Sequence[FileAction]) -> pa.Array:
    return location.file_keys(strings([action.path for action in actions]))
