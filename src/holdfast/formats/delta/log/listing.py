"""Lists a log directory and reads its files in order.

`_last_checkpoint` names the version from which to list, so that the listing of a log of a million commits is short. It
is only a hint: where it is empty, truncated, wrong or names no checkpoint, the whole log is listed.

1. Files are returned oldest first; a few of them are fetched ahead.
2. A file that was listed and no longer exists is Damaged; the error names it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.errors import Damaged, MissingFile, NotATable
from holdfast.formats.delta.checkpoint.checksum import VersionChecksum, stored_checksum
from holdfast.formats.delta.checkpoint.last_checkpoint import Hint, stored_hint
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

MAX_HEADS = 64  # above this many new commits, listing the directory costs less than one request per commit

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ListedLog:
    """A listing, whether it covers the whole log, notes about an invalid hint, and the hint if it is valid."""

    listing: LogListing
    complete: bool
    notes: tuple[str, ...] = ()
    hint: Hint | None = None


def log_url(location: Location) -> str:
    return f"{location.url}/{LOG}"


def list_log(location: Location, *, start: str = FIRST_NAME) -> LogListing:
    """The files of the log directory from a name on."""
    return read_listing(location.store.list_from(location.key(LOG), start), directory=log_url(location))


def list_next(location: Location, version: int, known: ObjectMeta | None) -> LogListing | None:
    """The log from a known commit on, read without listing; None where a listing is needed.

    A local file system can only list a whole directory, so there the next commits are requested by name. The known
    commit is requested last: cleanup deletes the oldest commits first, so while it exists, no later one was deleted.
    """
    if known is None or not is_on_this_machine(location.store):
        return None
    following: list[ObjectMeta] = []
    while (meta := _head(location, commit_name(version + len(following) + 1))) is not None:
        following.append(meta)
        if len(following) == MAX_HEADS:
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
    """The log from its last checkpoint on where the hint is valid and not newer than `at`, else the whole log."""
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
    """Whether the log has any commit or checkpoint."""
    for meta in location.store.list_from(location.key(LOG), FIRST_NAME):
        match parse_log_name(meta.name):
            case None | Checksum() | LastCheckpoint():
                continue
            case _:
                return True
    return False


def read_bytes(location: Location, files: Sequence[ObjectMeta]) -> Iterator[tuple[ObjectMeta, bytes]]:
    """Files of the log with their bytes, in the same order."""
    return zip(files, each(location.store, lambda meta: _get(location, meta), files), strict=True)


def read_lines(location: Location, files: Sequence[ObjectMeta]) -> Iterator[list[Line]]:
    """The actions of commits and compacted files, one list per file, in the same order."""
    for meta, data in read_bytes(location, files):
        where = f"{log_url(location)}/{meta.name}"
        lines = decode_lines(data, where=where)
        if isinstance(parse_log_name(meta.name), CompactedLog):
            _check_reconciled(lines, where)
        yield lines


def read_commits(location: Location, listing: LogListing, versions: Sequence[int]) -> Iterator[tuple[int, list[Line]]]:
    """Versions with the actions of their commits, in the same order."""
    return zip(versions, read_lines(location, [listing.commits[v] for v in versions]), strict=True)


def checksum_of(location: Location, listing: LogListing, version: int) -> VersionChecksum | None:
    """The checksum file of a version; None where there is none that can be read."""
    if version not in listing.checksums:
        return None
    try:
        checksum = stored_checksum(location, listing.checksums[version])
    except NotFound:
        return None
    return checksum if isinstance(checksum, VersionChecksum) else None


def _check_reconciled(lines: Sequence[Line], where: str) -> None:
    """Refuses a compacted file with two actions for a logical file: their order is unknown."""
    logical_files: set[tuple[str, str | None]] = set()
    for line in lines:
        action = line.add or line.remove
        if action is None:
            continue
        dv = action.deletion_vector
        logical = (action.path, None if dv is None else dv.unique_id)
        if logical in logical_files:
            raise Damaged(
                f"{where} is not a compaction: it speaks of {action.path} more than once", path=where, found=action.path
            )
        logical_files.add(logical)


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
