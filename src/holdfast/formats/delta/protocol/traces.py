"""What of a feature is in a table, and in what is left of its history.

1. A trace is what only a reader that knows the feature understands; a protocol that lists it is none.
2. History begins with the oldest version that can be read: the first commit, or else the oldest checkpoint.
3. What cannot be read of it counts as a trace.
"""

from __future__ import annotations

import pyarrow.compute as pc

from holdfast.errors import Damaged
from holdfast.formats.delta.checkpoint.reader import survey
from holdfast.formats.delta.history.reachable import dv_keys_of
from holdfast.formats.delta.log.actions import Line, Metadata
from holdfast.formats.delta.log.listing import list_log, read_lines
from holdfast.formats.delta.log.segment import Checkpoint, LogListing
from holdfast.formats.delta.log.tombstones import tombstones
from holdfast.formats.delta.protocol.downgrade import WIDENING
from holdfast.formats.delta.state import DeltaState, load
from holdfast.schema.evolve import TYPE_CHANGES
from holdfast.schema.properties import COLUMN_MAPPING_MODE, truth
from holdfast.storage.location import Location


def oldest_version(listing: LogListing) -> int:
    """The first version that can be read."""
    if 0 in listing.commits or not listing.checkpoints:
        return min(listing.commits, default=0)
    return listing.checkpoints[-1].version


def history_uses(state: DeltaState, name: str) -> bool:
    """Whether a version that can still be read, or the way to it, has traces of a feature."""
    location = state.snapshot.location
    listing = list_log(location)
    first = oldest_version(listing)
    try:
        if name == "v2Checkpoint" and any(_is_v2(location, checkpoint) for checkpoint in listing.checkpoints):
            return True
        if uses(load(location, version=first), name):
            return True
        since = [meta for version, meta in sorted(listing.commits.items()) if version > first]
        return any(_line_uses(line, name) for lines in read_lines(location, since) for line in lines)
    except Damaged:
        return True


def uses(state: DeltaState, name: str) -> bool:
    """Whether a version has traces of a feature that its readers must know."""
    if name == "deletionVectors" and hides_rows(state):
        return True
    return _metadata_uses(state.metadata, name)


def hides_rows(state: DeltaState) -> bool:
    """Whether files have vectors."""
    files = state.snapshot.files
    return bool(len(files)) and files.column("dv").null_count < len(files)


def loose_vectors(state: DeltaState) -> list[str]:
    """Keys of the files that hold vectors of old versions and of which nobody has said that they went."""
    gone = tombstones(state)
    keys = dv_keys_of(state.snapshot.location, gone).drop_null().unique()
    told = pc.is_in(keys, value_set=gone.column("key").combine_chunks())
    own = pc.invert(pc.match_substring(keys, ":"))  # no vacuum of this table takes what is in another place
    return sorted(keys.filter(pc.and_(pc.invert(told), own)).to_pylist())


def _is_v2(location: Location, checkpoint: Checkpoint) -> bool:
    return checkpoint.unique or bool(survey(location, checkpoint).sidecars)


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
