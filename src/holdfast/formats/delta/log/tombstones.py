"""Tombstones: files that a version no longer has and whose `remove` action is still in its log.

Checkpoints and vacuum need them.

1. A removal counts until the same logical file is added again: no tombstone is a live file.
2. Of several removals of one logical file the newest counts.
3. Only `remove` actions are decoded; the many `add` actions of a commit are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Damaged
from holdfast.formats.delta.checkpoint.reader import read_removed, removed_from
from holdfast.formats.delta.log.actions import FileAction, decode_lines
from holdfast.formats.delta.log.columns import table_ids
from holdfast.formats.delta.log.listing import log_url, read_bytes
from holdfast.formats.delta.log.replay import last_of_each
from holdfast.formats.delta.log.segment import LogSegment
from holdfast.formats.delta.state import DeltaState
from holdfast.model.files import FileTable
from holdfast.schema.properties import DEFAULTS, DELETED_FILE_RETENTION, span_ms
from holdfast.storage.arrays import positions
from holdfast.storage.error_mapping import MALFORMED_JSON
from holdfast.storage.location import Location


class _RemoveLine(msgspec.Struct, frozen=True, gc=False):
    """The `remove` action of a line; other actions are skipped."""

    remove: FileAction | None = None


_LINES = msgspec.json.Decoder(_RemoveLine, strict=False)


def tombstones(state: DeltaState, *, segments: Iterable[LogSegment] = ()) -> pa.Table:
    """The removed files of a version: the columns of FILES, and `deleted_ms`, null where the log does not say when.

    `segments` are other segments of the same version, which are read before the one of the state.
    """
    location, files = state.snapshot.location, state.snapshot.files
    for segment in segments:
        try:
            return _removed(location, segment, files)
        except Damaged:
            continue
    return _removed(location, state.segment, files)


def tombstone_ids(removed: pa.Table) -> pa.Array:
    """The ids of removals: the logical file, and the time of the `remove` action."""
    times = pc.cast(pc.fill_null(removed.column("deleted_ms").combine_chunks(), -1), pa.string())
    return pc.binary_join_element_wise(times, table_ids(removed), " ")


def file_retention_ms(state: DeltaState) -> int:
    """How long checkpoints keep a tombstone, and vacuum its file, unless the caller gives another retention."""
    retention = state.metadata.properties.get(DELETED_FILE_RETENTION, DEFAULTS[DELETED_FILE_RETENTION])
    return span_ms(DELETED_FILE_RETENTION, retention)


def _removed(location: Location, segment: LogSegment, live: FileTable) -> pa.Table:
    actions: list[FileAction] = []
    for meta, data in read_bytes(location, segment.deltas):
        actions += _removes(data, where=f"{log_url(location)}/{meta.name}")
    removed = removed_from(actions, location)
    if segment.checkpoint is not None:
        removed = pa.concat_tables([read_removed(location, segment.checkpoint), removed])
    removed = removed.take(positions(last_of_each(table_ids(removed))))
    keys = removed.column("key").combine_chunks()
    readded = live.table.select(["key", "dv"]).filter(pc.is_in(live.column("key"), value_set=keys))
    if not readded.num_rows:
        return removed
    return removed.filter(pc.invert(pc.is_in(table_ids(removed), value_set=table_ids(readded))))


def _removes(data: bytes, *, where: str) -> list[FileAction]:
    try:
        return [line.remove for line in _LINES.decode_lines(data) if line.remove is not None]
    except MALFORMED_JSON:
        return [line.remove for line in decode_lines(data, where=where) if line.remove is not None]
