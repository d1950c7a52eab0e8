"""Compactions of a log, checked against the commits they say together.

1. A compaction has the files its commits leave added, speaks of every file they speak of, and ends with their settings.
2. One whose commits are not all there cannot be checked, and is the only way to what they said.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Damaged
from holdfast.formats.delta.log.actions import Line
from holdfast.formats.delta.log.columns import logical_ids
from holdfast.formats.delta.log.file_names import LOG
from holdfast.formats.delta.log.listing import read_lines
from holdfast.formats.delta.log.replay import ActionLayer, layer_from
from holdfast.formats.delta.log.segment import LogListing
from holdfast.formats.delta.log.settings import TableSettings, fold
from holdfast.model.finding import Finding, FindingKind
from holdfast.storage.base import ObjectMeta
from holdfast.storage.location import Location


def wrong_compactions(location: Location, listing: LogListing) -> Iterator[tuple[ObjectMeta, Finding]]:
    """Compactions that cannot be read or contradict their commits."""
    for start, ends in sorted(listing.compacted.items()):
        for end, meta in ends:
            commits = [listing.commits[version] for version in range(start, end + 1) if version in listing.commits]
            if len(commits) != end - start + 1:
                continue
            what = _wrong(location, meta, commits)
            if what is not None:
                repair = "takes it away: its commits are there"
                yield meta, Finding(FindingKind.WRONG_COMPACTION, what, f"{LOG}/{meta.name}", end, repair)


def _wrong(location: Location, meta: ObjectMeta, commits: list[ObjectMeta]) -> str | None:
    try:
        said = next(read_lines(location, (meta,)))
    except Damaged as error:
        return str(error)
    try:
        lines: list[Line] = [line for each in read_lines(location, commits) for line in each]
    except Damaged:
        return None  # told of the commit
    told, known = layer_from(said, location), layer_from(lines, location)
    if not _same(_added(told), _added(known)):
        return f"the compaction {meta.name} leaves other files than its commits"
    if not pc.all(pc.is_in(known.ids, value_set=told.ids), min_count=0).as_py():
        return f"the compaction {meta.name} does not speak of all files its commits speak of"
    one, other = fold(TableSettings(), said), fold(TableSettings(), lines)
    if (one.protocol, one.metadata, one.txns, one.domains) != (
        other.protocol,
        other.metadata,
        other.txns,
        other.domains,
    ):
        return f"the compaction {meta.name} ends with other settings than its commits"
    return None


def _added(layer: ActionLayer) -> pa.Array:
    vectors = pc.struct_field(layer.files.column("dv").combine_chunks(), "id")
    return logical_ids(layer.files.column("key").combine_chunks(), vectors)


def _same(one: pa.Array, other: pa.Array) -> bool:
    return len(one) == len(other) and bool(pc.all(pc.is_in(one, value_set=other), min_count=0).as_py())
