"""From a listing to what the log says: the best way first, and around whatever is damaged.

1. A damaged file is dropped from the listing and the next best way is taken: another checkpoint of the version, an
   older one, compacted files or commits from the start. Each detour leaves a note and a warning.
2. When no way is left, the error is the first damage met, because that is what to repair.
3. What the log states otherwise elsewhere is damage too, or a doubt (see `claims`): a state in doubt is taken only
   where no other way is left.
4. The version asked for never changes on the way.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.errors import Damaged
from holdfast.formats.delta.checkpoint.reader import CheckpointContents, read_checkpoint, read_settings
from holdfast.formats.delta.log.actions import Line
from holdfast.formats.delta.log.claims import Doubt, claims_of
from holdfast.formats.delta.log.listing import ListedLog, list_all, log_url, read_lines
from holdfast.formats.delta.log.replay import ActionLayer, LiveFiles, layer_from, put
from holdfast.formats.delta.log.segment import LogListing, LogSegment, missing_commit, segments_from, without
from holdfast.formats.delta.log.settings import CompleteSettings, TableSettings, fold, known
from holdfast.model.files import Slab
from holdfast.storage.base import ObjectMeta
from holdfast.storage.location import Location
from holdfast.storage.prefetch import beside

LAYER_LINES = 8_192  # records of this many lines live at once, the rest is columns

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the log says of one version. `last` are the actions of the newest file read, in case it is the version's."""

    segment: LogSegment
    listing: LogListing
    settings: CompleteSettings
    files: LiveFiles
    last: tuple[Line, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Trouble:
    """A file that could not be used, and why."""

    files: tuple[ObjectMeta, ...]
    error: Damaged


@dataclass(frozen=True, slots=True)
class _Read:
    """What the files of a segment say; `contents` are those of its checkpoint, where files were asked for."""

    segment: LogSegment
    contents: CheckpointContents | None
    settings: CompleteSettings
    files: LiveFiles
    last: tuple[Line, ...]


def replay(location: Location, listed: ListedLog, *, at: int | None = None, files: bool = True) -> Replayed:
    """What the log says of a version, the latest by default; without files when only settings are asked for."""
    listing, complete = listed.listing, listed.complete
    target = listing.latest if at is None else at
    detours: list[str] = []
    first: Damaged | None = None
    doubted: tuple[_Read, str] | None = None  # the best state in doubt, and why
    bad: set[str] = set()
    while True:
        segment = next(segments_from(listing, at=target), None)
        if segment is None and not complete:
            listing, complete = without(list_all(location).listing, bad), True
            continue
        if segment is None:
            if doubted is None:
                raise first or missing_commit(listing, at=target)
            return _replayed(doubted[0], listed, listing, [doubted[1]])
        match _claimed(location, listed, listing, segment) if files else _read(location, segment, files):
            case _Trouble(broken, damage):
                first = first or damage
                detours.append(f"{damage}; version {target} was read from other files of the log")
            case (read, Doubt(stated, broken, refuses)):
                if not broken:
                    return _replayed(read, listed, listing, [*detours, stated])
                if refuses:
                    first = first or _contradicted(location, stated, broken)
                elif doubted is None:
                    doubted = read, stated
                detours.append(f"{stated}; version {target} was read from other files of the log")
            case _Read() as read:
                return _replayed(read, listed, listing, detours)
        bad |= {meta.name for meta in broken}
        listing = without(listing, bad)


def put_deltas(
    location: Location,
    deltas: Iterator[list[Line]],
    settings: TableSettings,
    layers: tuple[ActionLayer, ...],
    *,
    files: bool,
) -> tuple[TableSettings, tuple[ActionLayer, ...], tuple[Line, ...]]:
    """Settings and layers after the actions of these commits and compacted files."""
    last: tuple[Line, ...] = ()
    for stretch, last_of_stretch in _stretches(deltas):
        settings = fold(settings, stretch)
        if files:
            layers = put(layers, layer_from(stretch, location))
        last = last_of_stretch
    return settings, layers, last


def _claimed(
    location: Location, listed: ListedLog, listing: LogListing, segment: LogSegment
) -> _Read | tuple[_Read, Doubt] | _Trouble:
    """What the files of a segment say, and where the log states otherwise."""
    with beside(location.store, lambda: claims_of(location, listing, listed.hint, segment)) as claims:
        read = _read(location, segment, files=True)
        if isinstance(read, _Trouble):
            return read
        doubt = claims().doubt(segment, read.contents, read.settings, read.files)
    return read if doubt is None else (read, doubt)


def _read(location: Location, segment: LogSegment, files: bool) -> _Read | _Trouble:
    settings = TableSettings()
    base: tuple[Slab, ...] = ()
    contents = None
    if segment.checkpoint is not None:
        try:
            if files:
                contents = read_checkpoint(location, segment.checkpoint)
                settings, base = contents.settings, contents.slabs
            else:
                settings = read_settings(location, segment.checkpoint)
        except Damaged as error:
            return _Trouble(segment.checkpoint.files, error)
    try:
        deltas = read_lines(location, segment.deltas)
        settings, layers, last = put_deltas(location, deltas, settings, (), files=files)
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
    return _Read(segment, contents, known(settings), LiveFiles(base, layers), last)


def _replayed(read: _Read, listed: ListedLog, listing: LogListing, notes: list[str]) -> Replayed:
    for note in notes:
        _log.warning("%s", note)
    return Replayed(read.segment, listing, read.settings, read.files, read.last, (*listed.notes, *notes))


def _contradicted(location: Location, stated: str, suspects: tuple[ObjectMeta, ...]) -> Damaged:
    names = ", ".join(meta.name for meta in suspects[:3])
    return Damaged(
        f"{stated}: {names} lost something, and no other files of the log lead to this version; put the right files "
        "back, or delete the .crc file if it is what is wrong: the table is then read as they have it, and "
        "check(repair=True) writes the .crc file anew",
        path=f"{log_url(location)}/{suspects[0].name}",
        expected=stated,
    )


def _lacking(location: Location, segment: LogSegment, settings: TableSettings) -> Damaged:
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
