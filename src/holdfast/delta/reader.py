"""From a listing to what the log says: the best way first, and around whatever is damaged.

1. A damaged file is dropped from the listing and the next best way is taken: another checkpoint of the version, an
   older one, compacted files or commits from the start. Each detour leaves a note and a warning.
2. When no way is left, the error is the first damage met, because that is what to repair.
3. The version asked for never changes on the way.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.delta.actions import Line
from holdfast.delta.checkpoint import read_checkpoint, read_settings
from holdfast.delta.log import Listed, list_all, log_url, read_lines
from holdfast.delta.replay import Layer, layer_from, put
from holdfast.delta.segment import LogListing, LogSegment, missing_commit, segments_from, without
from holdfast.delta.settings import Known, Settings, fold, known
from holdfast.errors import Damaged
from holdfast.model.files import Slab
from holdfast.storage.base import ObjectMeta
from holdfast.storage.location import Location

LAYER_LINES = 8_192  # records of this many lines live at once, the rest is columns

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the log says of one version. `last` are the actions of the newest file read, in case it is the version's."""

    segment: LogSegment
    listing: LogListing
    settings: Known
    base: tuple[Slab, ...]
    layers: tuple[Layer, ...]
    last: tuple[Line, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Trouble:
    """A file that could not be used, and why."""

    files: tuple[ObjectMeta, ...]
    error: Damaged


def replay(location: Location, listed: Listed, *, at: int | None = None, files: bool = True) -> Replayed:
    """What the log says of a version, the latest by default; without files when only settings are asked for."""
    listing, complete = listed.listing, listed.complete
    target = listing.latest if at is None else at
    detours: list[str] = []
    first: Damaged | None = None
    bad: set[str] = set()
    while True:
        segment = next(segments_from(listing, at=target), None)
        if segment is None:
            if complete:
                raise first or missing_commit(listing, at=target)
            listing, complete = without(list_all(location).listing, bad), True
            continue
        match _read(location, segment, files):
            case _Trouble(broken, damage):
                first = first or damage
                bad |= {meta.name for meta in broken}
                listing = without(listing, bad)
                detours.append(f"{damage}; version {target} was read from other files of the log")
            case (settings, base, layers, last):
                for detour in detours:
                    _log.warning("%s", detour)
                notes = (*listed.notes, *detours)
                return Replayed(segment, listing, known(settings), base, layers, last, notes)


def read_deltas(
    location: Location, deltas: tuple[ObjectMeta, ...], settings: Settings, layers: tuple[Layer, ...], *, files: bool
) -> tuple[Settings, tuple[Layer, ...], tuple[Line, ...]]:
    """Settings and layers after these commits and compacted files."""
    last: tuple[Line, ...] = ()
    for stretch, last_of_stretch in _stretches(read_lines(location, deltas)):
        settings = fold(settings, stretch)
        if files:
            layers = put(layers, layer_from(stretch, location))
        last = last_of_stretch
    return settings, layers, last


def _read(
    location: Location, segment: LogSegment, files: bool
) -> tuple[Settings, tuple[Slab, ...], tuple[Layer, ...], tuple[Line, ...]] | _Trouble:
    settings = Settings()
    base: tuple[Slab, ...] = ()
    if segment.checkpoint is not None:
        try:
            if files:
                settings, base = read_checkpoint(location, segment.checkpoint)
            else:
                settings = read_settings(location, segment.checkpoint)
        except Damaged as error:
            return _Trouble(segment.checkpoint.files, error)
    try:
        settings, layers, last = read_deltas(location, segment.deltas, settings, (), files=files)
    except Damaged as error:
        broken = tuple(m for m in segment.deltas if error.path == f"{log_url(location)}/{m.name}")
        if not broken:
            raise
        return _Trouble(broken, error)
    if settings.protocol is None or settings.metadata is None:
        nothing = _lacking(location, segment, settings)
        if segment.checkpoint is None:
            raise nothing
        return _Trouble(segment.checkpoint.files, nothing)
    return settings, base, layers, last


def _lacking(location: Location, segment: LogSegment, settings: Settings) -> Damaged:
    kinds = [("protocol", settings.protocol), ("metaData", settings.metadata)]
    lacking = [kind for kind, found in kinds if found is None]
    where = "its commits" if segment.checkpoint is None else segment.checkpoint.name
    return Damaged(
        f"the log of {location.url} has no {' and no '.join(lacking)} at version {segment.version}, read from {where}",
        path=log_url(location),
        expected=", ".join(lacking),
    )


def _stretches(files: Iterator[list[Line]]) -> Iterator[tuple[list[Line], tuple[Line, ...]]]:
    """Actions of consecutive files together, and those of the last file alone."""
    stretch: list[Line] = []
    last: tuple[Line, ...] = ()
    for lines in files:
        stretch += lines
        last = tuple(lines)
        if len(stretch) >= LAYER_LINES:
            yield stretch, last
            stretch = []
    yield stretch, last
