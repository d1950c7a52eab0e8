"""Files a version no longer has but whose removal its log still remembers. Checkpoints and cleaning up need them.

1. A removal stands until the same logical file is added again: no tombstone is a live file.
2. Of several removals of one logical file the newest stands.
3. Only removals become records; the additions of a commit, however many, are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Damaged
from holdfast.formats.delta.checkpoint.reader import read_removed, removed_from
from holdfast.formats.delta.log.actions import FileAction, decode_lines
from holdfast.formats.delta.log.columns import logical_ids
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
    """What a line says of a removed file; whatever else it may say is passed over."""

    remove: FileAction | None = None


_LINES = msgspec.json.Decoder(_RemoveLine, strict=False)


def tombstones(state: DeltaState, *, ways: Iterable[LogSegment] = ()) -> pa.Table:
    """The removed files of a version: the columns of FILES, and `deleted_ms`, null where the log does not say when.

    `ways` are other segments of the same version, to be tried before the one the state was read from.
    """
    location, files = state.snapshot.location, state.snapshot.files
    for way in ways:
        try:
            return _removed(location, way, files)
        except Damaged:
            continue
    return _removed(location, state.segment, files)


def removals(removed: pa.Table) -> pa.Array:
    """What tells one removal from others: the logical file, and the time the log gives."""
    moments = pc.cast(pc.fill_null(removed.column("deleted_ms").combine_chunks(), -1), pa.string())
    return pc.binary_join_element_wise(moments, _ids(removed), " ")


def remembered_ms(state: DeltaState) -> int:
    """For how long checkpoints remember a removal, and vacuums keep its file, unless they are told otherwise."""
    kept = state.metadata.properties.get(DELETED_FILE_RETENTION, DEFAULTS[DELETED_FILE_RETENTION])
    return span_ms(DELETED_FILE_RETENTION, kept)


def _removed(location: Location, segment: LogSegment, live: FileTable) -> pa.Table:
    actions: list[FileAction] = []
    for meta, data in read_bytes(location, segment.deltas):
        actions += _removes(data, where=f"{log_url(location)}/{meta.name}")
    removed = removed_from(actions, location)
    if segment.checkpoint is not None:
        removed = pa.concat_tables([read_removed(location, segment.checkpoint), removed])
    removed = removed.take(positions(last_of_each(_ids(removed))))
    keys = removed.column("key").combine_chunks()
    revived = live.table.select(["key", "dv"]).filter(pc.is_in(live.column("key"), value_set=keys))
    if not revived.num_rows:
        return removed
    return removed.filter(pc.invert(pc.is_in(_ids(removed), value_set=_ids(revived))))


def _removes(data: bytes, *, where: str) -> list[FileAction]:
    try:
        return [line.remove for line in _LINES.decode_lines(data) if line.remove is not None]
    except MALFORMED_JSON:
        return [line.remove for line in decode_lines(data, where=where) if line.remove is not None]


def _ids(files: pa.Table) -> pa.Array:
    vectors = pc.struct_field(files.column("dv").combine_chunks(), "id")
    return logical_ids(files.column("key").combine_chunks(), vectors)
