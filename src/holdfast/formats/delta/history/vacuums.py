"""Vacuums as the log remembers them: how far the last one went, and which one took a version.

`_last_vacuum_info` is delta-spark's file beside the commits: which version was the last one out of retention. Here it
also says which versions could not be read afterwards, so that opening an old version costs one small read.

1. The file is a hint: one that is missing, torn or written by another engine costs looks at files, never an answer.
2. A version is refused only after a file of it was looked for and not found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.formats.delta.checkpoint.last_checkpoint import HINT_BYTES
from holdfast.formats.delta.history.pins import pins_of
from holdfast.formats.delta.history.retained import file_keys
from holdfast.formats.delta.log.actions import commit_info
from holdfast.formats.delta.log.file_names import LOG
from holdfast.formats.delta.log.listing import list_all, read_lines
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
LOOKS = 256  # at files of a version of which no vacuum of ours says whether it can be read


class Unreadable(msgspec.Struct, frozen=True):
    """What Holdfast adds to the file."""

    versions: tuple[tuple[int, int], ...] = ()


class VacuumInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the last vacuum went. `unreadable` is None where another engine wrote it."""

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
    lost: Versions | None  # None: it does not say

    @property
    def horizon_ms(self) -> int:
        return self.moment_ms - (self.retention_ms or 0)


def read_info(location: Location) -> VacuumInfo | None:
    """What the last vacuum left; None where there was none, or nothing that can be read."""
    try:
        return msgspec.json.decode(location.store.get(location.key(LOG, INFO), HINT_BYTES), type=VacuumInfo)
    except (NotFound, TooLarge):
        return None
    except MALFORMED_JSON:
        return None


def write_info(location: Location, *, last: int | None, unreadable: Versions) -> None:
    """Leave word for the next vacuum and for whoever opens an old version."""
    info = VacuumInfo(last, Unreadable(unreadable.spans))
    location.store.put(location.key(LOG, INFO), msgspec.json.encode(info) + b"\n")


def missing_file(now: DeltaState, then: DeltaState) -> str | None:
    """A file that an earlier version needs and that a vacuum took; None where it can be read, as far as is known."""
    location, version = now.snapshot.location, then.version
    if version >= now.version or version in pins_of(now).values():
        return None
    info = read_info(location)
    if info is None or (info.unreadable is not None and version not in info.lost):
        return None
    if info.unreadable is None and info.last is not None and version >= info.last:
        return None
    keys = _only(then, now)
    if info.unreadable is None and len(keys) > LOOKS:
        keys = keys.take(pa.array(np.linspace(0, len(keys) - 1, LOOKS).astype(np.int64)))
    return next(missing(location, keys.to_pylist()), None)


def who_took(location: Location, version: int) -> VacuumRun | None:
    """The vacuum that took files of a version, as far as the log tells; reads the commits since."""
    runs = list(_runs(location, version))
    for run in runs:
        if run.lost is not None and version in run.lost:
            return run
    times = file_times(list_all(location).listing)
    removed_ms = times.get(version + 1, 0)  # at the earliest
    silent = [run for run in runs if run.lost is None]
    return next((run for run in silent if run.horizon_ms >= removed_ms), None) or next(iter(silent), None)


def _runs(location: Location, after: int) -> Iterator[VacuumRun]:
    listing = list_all(location).listing
    times = file_times(listing)
    versions = sorted(v for v in listing.commits if v > after)
    for version, lines in zip(versions, read_lines(location, [listing.commits[v] for v in versions]), strict=True):
        info = commit_info(lines)
        if info.get("operation") == TAKES_FILES:
            parameters = info.get("operationParameters")
            parameters = parameters if isinstance(parameters, dict) else {}
            retention = str(parameters.get("specifiedRetentionMillis", parameters.get("defaultRetentionMillis")))
            when = info.get("timestamp")
            yield VacuumRun(
                version,
                when if isinstance(when, int) else times[version],
                int(retention) if retention.isdigit() else None,
                _spans(parameters.get("versionsLost")),
            )


def _spans(value: Any) -> Versions | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(value)
    try:
        return Versions(msgspec.json.decode(text, type=tuple[tuple[int, int], ...]))
    except MALFORMED_JSON:
        return None


def _only(then: DeltaState, now: DeltaState) -> pa.Array:
    """The files of an earlier version that the table no longer has."""
    keys = file_keys(then)
    lacking = ~pc.is_in(keys, value_set=file_keys(now)).to_numpy(zero_copy_only=False)
    return pc.unique(keys.filter(mask(lacking)))
