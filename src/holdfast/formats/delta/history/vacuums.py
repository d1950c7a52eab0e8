"""Past vacuums of a table: how far the last one went, and which one deleted files of a version.

`_last_vacuum_info` is delta-spark's file in the log directory; it names the last version outside of the retention.
Holdfast adds the versions that became unreadable, so that opening an old version costs one small read.

1. The file is a hint. Where it is missing, truncated or written by another engine, data files are checked instead.
2. A version is refused only after one of its files was found to be missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.formats.delta.checkpoint.last_checkpoint import HINT_BYTES
from holdfast.formats.delta.history.pins import pins_of
from holdfast.formats.delta.history.retained import file_keys
from holdfast.formats.delta.log.actions import commit_info, info_map
from holdfast.formats.delta.log.file_names import LOG
from holdfast.formats.delta.log.listing import list_all, read_commits
from holdfast.formats.delta.log.times import file_times
from holdfast.formats.delta.state import DeltaState
from holdfast.model.mutation import TAKES_FILES
from holdfast.model.versions import Versions
from holdfast.storage.arrays import mask
from holdfast.storage.base import NotFound, TooLarge
from holdfast.storage.error_mapping import MALFORMED_JSON
from holdfast.storage.location import Location
from holdfast.storage.open import missing

INFO = "_last_vacuum_info"
MAX_CHECKED = 256  # files of a version that are checked where only another engine's vacuum is recorded


class Unreadable(msgspec.Struct, frozen=True):
    """The entry that Holdfast adds to the file."""

    versions: tuple[tuple[int, int], ...] = ()


class VacuumInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the last vacuum went; `unreadable` is None where another engine wrote the file."""

    last: int | None = msgspec.field(name="latestCommitVersionOutsideOfRetentionWindow", default=None)
    unreadable: Unreadable | None = msgspec.field(name="holdfast", default=None)

    @property
    def lost(self) -> Versions:
        return Versions(() if self.unreadable is None else self.unreadable.versions)


@dataclass(frozen=True, slots=True)
class VacuumRun:
    """A vacuum that was committed."""

    version: int
    moment_ms: int
    retention_ms: int | None
    lost: Versions | None  # the versions that became unreadable; None where the commit does not list them

    @property
    def horizon_ms(self) -> int:
        return self.moment_ms - (self.retention_ms or 0)


def read_info(location: Location) -> VacuumInfo | None:
    """The record of the last vacuum; None where there is none that can be read."""
    try:
        return msgspec.json.decode(location.store.get(location.key(LOG, INFO), HINT_BYTES), type=VacuumInfo)
    except (NotFound, TooLarge):
        return None
    except MALFORMED_JSON:
        return None


def write_info(location: Location, *, last: int | None, unreadable: Versions) -> None:
    """Writes the record for the next vacuum and for readers of old versions."""
    info = VacuumInfo(last, Unreadable(unreadable.spans))
    location.store.put(location.key(LOG, INFO), msgspec.json.encode(info) + b"\n")


def missing_file(now: DeltaState, earlier: DeltaState) -> str | None:
    """A file of an earlier version that a vacuum deleted; None where the version seems readable."""
    location, version = now.snapshot.location, earlier.version
    if version >= now.version or version in pins_of(now).values():
        return None
    info = read_info(location)
    if info is None or (info.unreadable is not None and version not in info.lost):
        return None
    if info.unreadable is None and info.last is not None and version >= info.last:
        return None
    keys = _earlier_keys(earlier, now)
    if info.unreadable is None and len(keys) > MAX_CHECKED:
        keys = keys.take(pa.array(np.linspace(0, len(keys) - 1, MAX_CHECKED).astype(np.int64)))
    return next(missing(location, keys.to_pylist()), None)


def who_took(location: Location, version: int) -> VacuumRun | None:
    """The vacuum that deleted files of a version, as far as the log shows; reads the commits since."""
    runs = list(_runs(location, version))
    for run in runs:
        if run.lost is not None and version in run.lost:
            return run
    times = file_times(list_all(location).listing)
    removed_ms = times.get(version + 1, 0)  # at the earliest
    without_list = [run for run in runs if run.lost is None]
    return next((run for run in without_list if run.horizon_ms >= removed_ms), None) or next(iter(without_list), None)


def _runs(location: Location, after: int) -> Iterator[VacuumRun]:
    listing = list_all(location).listing
    times = file_times(listing)
    versions = sorted(v for v in listing.commits if v > after)
    for version, lines in read_commits(location, listing, versions):
        info = commit_info(lines)
        if info.get("operation") == TAKES_FILES:
            parameters = info_map(info, "operationParameters")
            retention = str(parameters.get("specifiedRetentionMillis", parameters.get("defaultRetentionMillis")))
            timestamp = info.get("timestamp")
            yield VacuumRun(
                version,
                timestamp if isinstance(timestamp, int) else times[version],
                int(retention) if retention.isdigit() else None,
                _spans(parameters.get("versionsLost")),
            )


def _spans(value: object) -> Versions | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(value)
    try:
        return Versions(msgspec.json.decode(text, type=tuple[tuple[int, int], ...]))
    except MALFORMED_JSON:
        return None


def _earlier_keys(earlier: DeltaState, now: DeltaState) -> pa.Array:
    """The files of an earlier version that the table no longer has."""
    keys = file_keys(earlier)
    not_current = ~pc.is_in(keys, value_set=file_keys(now)).to_numpy(zero_copy_only=False)
    return pc.unique(keys.filter(mask(not_current)))
