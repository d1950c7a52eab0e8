"""Checks log compactions against the commits of their range.

1. A compaction has the files that its commits leave added, names every file that they name, and has their settings.
2. A compaction whose commits are not all in the log is not checked, because it is the only source of their actions.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Damaged
from holdfast.formats.delta.log.actions import Line
from holdfast.formats.delta.log.columns import table_ids
from holdfast.formats.delta.log.file_names import LOG
from holdfast.formats.delta.log.listing import read_lines
from holdfast.formats.delta.log.replay import layer_from
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
            problem = _problem(location, meta, commits)
            if problem is not None:
                repair = "takes it away: its commits are there"
                yield meta, Finding(FindingKind.WRONG_COMPACTION, problem, f"{LOG}/{meta.name}", end, repair)


def _problem(location: Location, meta: ObjectMeta, commits: list[ObjectMeta]) -> str | None:
    try:
        compacted_lines = next(read_lines(location, (meta,)))
    except Damaged as error:
        return str(error)
    try:
        lines: list[Line] = [line for each in read_lines(location, commits) for line in each]
    except Damaged:
        return None  # the check of commits reports it
    compacted, expected = layer_from(compacted_lines, location), layer_from(lines, location)
    if not _same(table_ids(compacted.files), table_ids(expected.files)):
        return f"the compaction {meta.name} leaves other files than its commits"
    if not pc.all(pc.is_in(expected.ids, value_set=compacted.ids), min_count=0).as_py():
        return f"the compaction {meta.name} does not speak of all files its commits speak of"
    if fold(TableSettings(), compacted_lines) != fold(TableSettings(), lines):
        return f"the compaction {meta.name} ends with other settings than its commits"
    return None


def _same(one: pa.Array, other: pa.Array) -> bool:
    return len(one) == len(other) and bool(pc.all(pc.is_in(one, value_set=other), min_count=0).as_py())
