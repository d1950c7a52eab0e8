"""Reading a log directory: listing it, and fetching its files in order.

`_last_checkpoint` says where a listing may start, so that a log of a million commits costs a short listing. It is only
a hint: one that is empty, torn, wrong or points nowhere is left aside, and everything is listed.

1. Files are handed over oldest first, a few fetched ahead.
2. A file that was listed and is gone is Damaged, by name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.errors import Damaged, MissingFile, NotATable
from holdfast.formats.delta.checkpoint.checksum import Hint, VersionChecksum, stored_checksum, stored_hint
from holdfast.formats.delta.log.actions import Line, decode_lines
from holdfast.formats.delta.log.file_names import (
    FIRST_NAME,
    LAST_CHECKPOINT,
    LOG,
    Checksum,
    CompactedLog,
    LastCheckpoint,
    commit_name,
    first_name,
    parse_log_name,
)
from holdfast.formats.delta.log.segment import LogListing, read_listing
from holdfast.storage.base import NotFound, ObjectMeta, is_on_this_machine
from holdfast.storage.location import Location
from holdfast.storage.no_table_advice import advice
from holdfast.storage.prefetch import each

BY_NAME = 64  # commits at most that are asked for one by one; beyond them, listing a directory costs less

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ListedLog:
    """A listing, whether it reaches back to the start of the log, what was wrong with the hint, or what it says."""

    listing: LogListing
    complete: bool
    notes: tuple[str, ...] = ()
    hint: Hint | None = None


def log_url(location: Location) -> str:
    return f"{location.url}/{LOG}"


def list_log(location: Location, *, start: str = FIRST_NAME) -> LogListing:
    """What the log directory holds from a name on."""
    found = location.store.list_from(location.key(LOG), start)
    return read_listing(found, directory=log_url(location))


def list_next(location: Location, version: int, known: ObjectMeta | None) -> LogListing | None:
    """The log from a known commit on, where few have followed; None where only a listing can tell.

    A file system finds what is new in a directory by listing all of it, so there the next commits are asked for by
    name. The known one is asked for last: a log is cleaned from its oldest commit on, so while that one is there, none
    after it was there and is gone.
    """
    if known is None or not is_on_this_machine(location.store):
        return None
    following: list[ObjectMeta] = []
    while (meta := _head(location, commit_name(version + len(following) + 1))) is not None:
        following.append(meta)
        if len(following) == BY_NAME:
            return None
    is_hole = _head(location, commit_name(version + len(following) + 2)) is not None
    if is_hole or _head(location, known.name) != known:
        return None
    return read_listing((known, *following), directory=log_url(location))


def list_all(location: Location) -> ListedLog:
    """The whole log; NotATable when there is none."""
    listing = list_log(location)
    if listing.latest is None:
        raise NotATable(advice(location), location=location.url)
    return ListedLog(listing, complete=True)


def list_hinted(location: Location, *, at: int | None = None) -> ListedLog:
    """The log from its last checkpoint on where the hint holds and is not newer than `at`, else the whole log."""
    match stored_hint(location):
        case None:
            return list_all(location)
        case str(trouble):
            return _unhinted(location, trouble)
        case Hint(version=version) if at is not None and at < version:
            return list_all(location)
        case Hint(version=version) as hint:
            listing = list_log(location, start=first_name(version))
            if any(c.version == version for c in listing.checkpoints):
                return ListedLog(listing, complete=False, hint=hint)
            return _unhinted(location, f"points to version {version}, which has no complete checkpoint")


def has_log(location: Location) -> bool:
    """Whether any commit or checkpoint is there."""
    for meta in location.store.list_from(location.key(LOG), FIRST_NAME):
        match parse_log_name(meta.name):
            case None | Checksum() | LastCheckpoint():
                continue
            case _:
                return True
    return False


def read_bytes(location: Location, files: Sequence[ObjectMeta]) -> Iterator[tuple[ObjectMeta, bytes]]:
    """Files of the log and what they hold, in the order given."""
    return zip(files, each(location.store, lambda meta: _get(location, meta), files), strict=True)


def read_lines(location: Location, files: Sequence[ObjectMeta]) -> Iterator[list[Line]]:
    """The actions of commits and compacted files, one list per file, in the order given."""
    for meta, data in read_bytes(location, files):
        where = f"{log_url(location)}/{meta.name}"
        lines = decode_lines(data, where=where)
        if isinstance(parse_log_name(meta.name), CompactedLog):
            _check_reconciled(lines, where)
        yield lines


def checksum_of(location: Location, listing: LogListing, version: int) -> VersionChecksum | None:
    """What the checksum file of a version says, where there is one that can be read."""
    if version not in listing.checksums:
        return None
    try:
        told = stored_checksum(location, listing.checksums[version])
    except NotFound:
        return None
    return told if isinstance(told, VersionChecksum) else None


def _check_reconciled(lines: Sequence[Line], where: str) -> None:
    """Refuse a compacted file that speaks of a logical file twice: nothing says which of the two is newer."""
    seen: set[tuple[str, str | None]] = set()
    for line in lines:
        action = line.add or line.remove
        if action is None:
            continue
        vector = action.deletion_vector
        logical = (action.path, None if vector is None else vector.unique_id)
        if logical in seen:
            raise Damaged(
                f"{where} is not a compaction: it speaks of {action.path} more than once", path=where, found=action.path
            )
        seen.add(logical)


def _get(location: Location, meta: ObjectMeta) -> bytes:
    try:
        return location.store.get(meta.key)
    except NotFound as error:
        path = f"{log_url(location)}/{meta.name}"
        raise MissingFile(f"{path} was listed and is not there any more: open the table again", path=path) from error


def _head(location: Location, name: str) -> ObjectMeta | None:
    try:
        return location.store.head(location.key(LOG, name))
    except NotFound:
        return None


def _unhinted(location: Location, trouble: str) -> ListedLog:
    note = f"{log_url(location)}/{LAST_CHECKPOINT} {trouble}: the whole log was listed instead"
    listed = list_all(location)
    _log.warning("%s", note)
    return ListedLog(listed.listing, complete=True, notes=(note,))
