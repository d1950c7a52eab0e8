"""Restores a table to an earlier version."""

from __future__ import annotations

import datetime
from dataclasses import replace

from holdfast.env import Env
from holdfast.errors import MissingFile
from holdfast.formats.delta.commit.restamp import described, with_counts
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.protocol.features import check_writable, reader_features, writer_features
from holdfast.formats.delta.state import DeltaState, load
from holdfast.model.files import FileTable
from holdfast.storage.location import Location
from holdfast.storage.open import missing
from holdfast.verbs.commit.retry import retried, retry_of
from holdfast.verbs.define.backfill import row_counts
from holdfast.verbs.define.drop_feature_commits import without_ids
from holdfast.verbs.dml.delete_update import Changed
from holdfast.verbs.dml.write import refuse_append_only
from holdfast.verbs.maintain.restore_mutation import differing, restored, restored_shape
from holdfast.verbs.open.delta import open_delta
from holdfast.verbs.open.handle import Handle, Timestamp, Version
from holdfast.verbs.open.versions import refuse_vacuumed


def restore_table(handle: Handle, version: Version = None, timestamp: Timestamp = None) -> Changed:
    """Restore; and again where others only moved rows meanwhile: nothing of a restore is written but its commit."""
    return retried(lambda: handle.restore(version, timestamp), retry_of(None), handle.env)


def restore(state: DeltaState, env: Env, *, version: int | None = None, timestamp_ms: int | None = None) -> Changed:
    """Bring an earlier version back."""
    location = state.snapshot.location
    check_writable(state.protocol, table=location.url)
    then = load(location, version=version, timestamp_ms=timestamp_ms)
    refuse_vacuumed(state, then)
    removed, back = differing(state.snapshot, then.snapshot)
    if len(removed):
        refuse_append_only(DeltaFormat.definition_of(state), location)
    # Files come back with vectors and columns as they are, so what was dropped that reads them comes back too.
    lacking = reader_features(then.protocol) - reader_features(state.protocol)
    shape = restored_shape(DeltaFormat.definition_of(state), replace(DeltaFormat.definition_of(then), features=lacking))
    if not len(removed) and not len(back) and shape is None:
        return Changed(None, {"numRemovedFiles": 0, "numRestoredFiles": 0}, before=open_delta(state))
    _refuse_missing(location, back, then.version)
    load_hidden(location, back)  # vectors come back too: they must be there and whole
    moment = None
    if timestamp_ms is not None:
        moment = datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC).isoformat()
    parameters = {"version": version, "timestamp": moment}
    files = described(back)
    files = with_counts(files, row_counts(location, files, {}))
    if "rowTracking" not in writer_features(state.protocol):
        files = without_ids(files)
    mutation = restored(state.snapshot, then.snapshot, removed, files, shape, parameters)
    landed = open_delta(state).commit(mutation, env)
    return Changed(landed.version, mutation.metrics, landed.attempts, before=open_delta(state))


def _refuse_missing(location: Location, files: FileTable, version: int) -> None:
    """Refuse a version whose files are gone: a restored table must be readable."""
    gone = list(missing(location, files.column("key").to_pylist()))  # one look per file
    if gone:
        raise MissingFile(
            f"version {version} of {location.url} cannot be restored: {len(gone)} of its files are gone, such as "
            f"{gone[0]} (a vacuum removes files of old versions)",
            path=gone[0],
        )
