"""Whether a table, or a version in its log, uses a reader feature.

1. A feature is used where only a reader that supports it understands the data; a protocol that lists it is no use.
2. The log begins with the oldest readable version: the first commit, or else the oldest checkpoint.
3. A version that cannot be read counts as one that uses the feature.
"""

from __future__ import annotations

import pyarrow.compute as pc

from holdfast.errors import Damaged
from holdfast.formats.delta.checkpoint.reader import survey
from holdfast.formats.delta.history.reachable import dv_keys_of
from holdfast.formats.delta.log.actions import Line, Metadata
from holdfast.formats.delta.log.listing import list_log, read_lines
from holdfast.formats.delta.log.segment import LogListing
from holdfast.formats.delta.log.tombstones import tombstones
from holdfast.formats.delta.protocol.downgrade import WIDENING
from holdfast.formats.delta.state import DeltaState, load
from holdfast.schema.evolve import TYPE_CHANGES
from holdfast.schema.properties import COLUMN_MAPPING_MODE, truth


def oldest_version(listing: LogListing) -> int:
    """The oldest readable version."""
    if 0 in listing.commits or not listing.checkpoints:
        return min(listing.commits, default=0)
    return listing.checkpoints[-1].version


def history_uses(state: DeltaState, name: str) -> bool:
    """Whether a readable version, or a log file that it needs, uses a feature."""
    location = state.snapshot.location
    listing = list_log(location)
    first = oldest_version(listing)
    try:
        if name == "v2Checkpoint" and any(c.unique or survey(location, c).sidecars for c in listing.checkpoints):
            return True
        if uses(load(location, version=first), name):
            return True
        since = [meta for version, meta in sorted(listing.commits.items()) if version > first]
        return any(_line_uses(line, name) for lines in read_lines(location, since) for line in lines)
    except Damaged:
        return True


def uses(state: DeltaState, name: str) -> bool:
    """Whether a version uses a feature."""
    if name == "deletionVectors" and hides_rows(state):
        return True
    return _metadata_uses(state.metadata, name)


def hides_rows(state: DeltaState) -> bool:
    """Whether any live file has a deletion vector."""
    files = state.snapshot.files
    return bool(len(files)) and files.column("dv").null_count < len(files)


def dv_files_without_tombstone(state: DeltaState) -> list[str]:
    """Keys of the deletion vector files of removed data files that have no tombstone themselves."""
    removed = tombstones(state)
    keys = dv_keys_of(state.snapshot.location, removed).drop_null().unique()
    has_tombstone = pc.is_in(keys, value_set=removed.column("key").combine_chunks())
    outside = pc.match_substring(keys, ":")  # a vacuum of this table does not delete these
    return sorted(keys.filter(pc.invert(pc.or_(has_tombstone, outside))).to_pylist())


def _line_uses(line: Line, name: str) -> bool:
    if name == "deletionVectors":
        return any(action is not None and action.deletion_vector is not None for action in (line.add, line.remove))
    return line.meta_data is not None and _metadata_uses(line.meta_data, name)


def _metadata_uses(metadata: Metadata, name: str) -> bool:
    properties = metadata.properties
    if name == "deletionVectors":
        return truth(properties.get("delta.enableDeletionVectors"))
    if name == "columnMapping":
        return properties.get(COLUMN_MAPPING_MODE, "none").lower() != "none"
    if name == "v2Checkpoint":
        return properties.get("delta.checkpointPolicy", "classic").lower() == "v2"
    if name in WIDENING:
        return truth(properties.get("delta.enableTypeWidening")) or TYPE_CHANGES in (metadata.schema_string or "")
    return False
