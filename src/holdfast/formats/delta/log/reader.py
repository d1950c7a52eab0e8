"""Replays a listed log into the state of one version, avoiding damaged files where other files give the same version.

1. A damaged file is dropped from the listing and the next best segment is read: another checkpoint of the version, an
   older one, compacted files, or all commits. Each time there is a note and a warning.
2. When no segment is left, the error is the first damage, because that is the one to repair.
3. A mismatch with the counts that the log states (see `stated_counts`) is damage too. A state whose mismatch is not
   fatal is used where no other segment is left.
4. The requested version never changes meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.errors import Damaged
from holdfast.formats.delta.checkpoint.reader import CheckpointContents, read_checkpoint, read_settings
from holdfast.formats.delta.log.actions import Line
from holdfast.formats.delta.log.listing import ListedLog, list_all, log_url, read_lines
from holdfast.formats.delta.log.replay import ActionLayer, LiveFiles, layer_from, push_layer
from holdfast.formats.delta.log.segment import LogListing, LogSegment, missing_commit, segments_from, without
from holdfast.formats.delta.log.settings import CompleteSettings, TableSettings, complete, fold
from holdfast.formats.delta.log.stated_counts import Mismatch, read_stated_counts
from holdfast.model.files import Slab
from holdfast.storage.base import ObjectMeta
from holdfast.storage.location import Location
from holdfast.storage.prefetch import beside

LAYER_LINES = 8_192  # actions that are records at a time, before they become columns

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Replayed:
    """The state of one version; `last` are the actions of the newest file that was read."""

    segment: LogSegment
    listing: LogListing
    settings: CompleteSettings
    files: LiveFiles
    last: tuple[Line, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """Files that cannot be used, and why."""

    files: tuple[ObjectMeta, ...]
    error: Damaged


@dataclass(frozen=True, slots=True)
class _SegmentState:
    """The state replayed from a segment; `contents` are those of its checkpoint, where live files are read."""

    segment: LogSegment
    contents: CheckpointContents | None
    settings: CompleteSettings
    files: LiveFiles
    last: tuple[Line, ...]


def replay(location: Location, listed: ListedLog, *, at: int | None = None, files: bool = True) -> Replayed:
    """The state of a version, the latest by default; only its settings where `files` is false."""
    listing, is_whole = listed.listing, listed.complete
    target = listing.latest if at is None else at
    notes: list[str] = []
    first_error: Damaged | None = None
    fallback: tuple[_SegmentState, str] | None = None  # the best state with a mismatch that is not fatal
    bad: set[str] = set()
    while True:
        segment = next(segments_from(listing, at=target), None)
        if segment is None and not is_whole:
            listing, is_whole = without(list_all(location).listing, bad), True
            continue
        if segment is None:
            if fallback is None:
                raise first_error or missing_commit(listing, at=target)
            return _report(fallback[0], listed, listing, [fallback[1]])
        match _read_checked(location, listed, listing, segment) if files else _read(location, segment, files):
            case _Unreadable(broken, error):
                first_error = first_error or error
                notes.append(f"{error}; version {target} was read from other files of the log")
            case (state, Mismatch(statement, broken, is_fatal)):
                if not broken:
                    return _report(state, listed, listing, [*notes, statement])
                if is_fatal:
                    first_error = first_error or _mismatch_error(location, statement, broken)
                elif fallback is None:
                    fallback = state, statement
                notes.append(f"{statement}; version {target} was read from other files of the log")
            case _SegmentState() as state:
                return _report(state, listed, listing, notes)
        bad |= {meta.name for meta in broken}
        listing = without(listing, bad)


def apply_deltas(
    location: Location,
    deltas: Iterator[list[Line]],
    settings: TableSettings,
    layers: tuple[ActionLayer, ...],
    *,
    files: bool,
) -> tuple[TableSettings, tuple[ActionLayer, ...], tuple[Line, ...]]:
    """Settings and layers after the actions of these commits and compacted files."""
    last: tuple[Line, ...] = ()
    for lines, last_lines in _batches(deltas):
        settings, last = fold(settings, lines), last_lines
        if files:
            layers = push_layer(layers, layer_from(lines, location))
    return settings, layers, last


def _read_checked(
    location: Location, listed: ListedLog, listing: LogListing, segment: LogSegment
) -> _SegmentState | tuple[_SegmentState, Mismatch] | _Unreadable:
    """The state of a segment, with its mismatch with the counts that the log states, if any."""
    with beside(location.store, lambda: read_stated_counts(location, listing, listed.hint, segment)) as stated_counts:
        state = _read(location, segment, files=True)
        if isinstance(state, _Unreadable):
            return state
        mismatch = stated_counts().mismatch(segment, state.contents, state.settings, state.files)
    return state if mismatch is None else (state, mismatch)


def _read(location: Location, segment: LogSegment, files: bool) -> _SegmentState | _Unreadable:
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
            return _Unreadable(segment.checkpoint.files, error)
    try:
        deltas = read_lines(location, segment.deltas)
        settings, layers, last = apply_deltas(location, deltas, settings, (), files=files)
    except Damaged as error:
        broken = tuple(m for m in segment.deltas if error.path == f"{log_url(location)}/{m.name}")
        if not broken:
            raise
        return _Unreadable(broken, error)
    if not settings.is_complete:
        incomplete = _incomplete_error(location, segment, settings)
        if segment.checkpoint is None:
            raise incomplete
        return _Unreadable(segment.checkpoint.files, incomplete)
    return _SegmentState(segment, contents, complete(settings), LiveFiles(base, layers), last)


def _report(state: _SegmentState, listed: ListedLog, listing: LogListing, notes: list[str]) -> Replayed:
    for note in notes:
        _log.warning("%s", note)
    return Replayed(state.segment, listing, state.settings, state.files, state.last, (*listed.notes, *notes))


def _mismatch_error(location: Location, statement: str, suspects: tuple[ObjectMeta, ...]) -> Damaged:
    names = ", ".join(meta.name for meta in suspects[:3])
    return Damaged(
        f"{statement}: {names} lost something, and no other files of the log lead to this version; put the right files "
        "back, or delete the .crc file if it is what is wrong: the table is then read as they have it, and "
        "check(repair=True) writes the .crc file anew",
        path=f"{log_url(location)}/{suspects[0].name}",
        expected=statement,
    )


def _incomplete_error(location: Location, segment: LogSegment, settings: TableSettings) -> Damaged:
    kinds = {"protocol": settings.protocol, "metaData": settings.metadata}
    lacking = [kind for kind, action in kinds.items() if action is None]
    where = "its commits" if segment.checkpoint is None else segment.checkpoint.name
    return Damaged(
        f"the log of {location.url} has no {' and no '.join(lacking)} at version {segment.version}, read from {where}",
        path=log_url(location),
        expected=", ".join(lacking),
    )


def _batches(files: Iterator[list[Line]]) -> Iterator[tuple[list[Line], tuple[Line, ...]]]:
    """Actions of consecutive files together, and those of their last file alone."""
    batch: list[Line] = []
    last: tuple[Line, ...] = ()
    for lines in files:
        batch += lines
        last = tuple(lines)
        if len(batch) >= LAYER_LINES:
            yield batch, last
            batch = []
    yield batch, last
