"""Lists and deletes files for a vacuum, makes its two mutations, and holds its report.

1. A vacuum announces in a commit what it will do before it deletes anything, and records its end in another.
2. Files are deleted in batches, several at a time; deleting one that is gone already is no error.
3. A dry run does everything except committing and deleting.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.model.mutation import TAKES_FILES, Mutation
from holdfast.model.versions import Versions
from holdfast.plan.maintain.vacuum import LISTED, Kept, VacuumPlan
from holdfast.storage.arrays import longs, strings
from holdfast.storage.base import NotFound, ObjectMeta
from holdfast.storage.leftovers import behind_links, behind_no_link, delete_all, remove_empty, unfinished
from holdfast.storage.location import Location

END = "VACUUM END"
LOST = "versionsLost"  # a parameter of the commit that begins one: which versions it takes, as spans
HOUR_MS = 3_600_000

_BATCH = 1000
_HANDS = 16
_CHUNK = 1 << 16
_SHOWN = 20
_NONE = Versions()


class Later:
    """A field that is given as versions, or as a function that is called when the field is first read."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._slot = f"_{name}"

    def __get__(self, record: object | None, owner: type | None = None) -> Versions:
        if record is None:
            raise AttributeError("the field has no default")
        value = self.known(record)
        if value is None:
            value = record.__dict__[self._slot] = record.__dict__[self._slot]()
        return value

    def __set__(self, record: object, value: Versions | Callable[[], Versions]) -> None:
        record.__dict__[self._slot] = value

    def known(self, record: object) -> Versions | None:
        """The versions, where nothing has to be done to tell them."""
        value = record.__dict__[self._slot]
        return value if isinstance(value, Versions) else None


@dataclass(frozen=True, repr=False)
class Vacuumed:
    """What a vacuum deleted, or would have. Printing it shows it, and reads nothing."""

    files: pa.Table  # key, size, modified_ms
    bytes: int
    directories: int  # removed with their last file; only local storage has any
    retention_ms: int
    horizon_ms: int  # what was needed at this moment or later stays
    at_risk: Versions  # those that may be lost
    lost: Later = Later()  # readable before, and not any more; for a dry run the commits are read when it is asked for
    readable: Later = Later()  # what can be read afterwards; the commits are read when it is asked for
    kept: tuple[Kept, ...] = ()
    dry_run: bool = False
    version: int | None = None  # of the commit that says so; None for a dry run
    notes: tuple[str, ...] = ()

    @property
    def paths(self) -> list[str]:
        """The files, relative to the table's directory."""
        keys: list[str] = self.files.column("key").to_pylist()
        return keys

    @property
    def lost_if_known(self) -> Versions | None:
        """`lost`, unless the log would have to be read for it."""
        return Vacuumed.__dict__["lost"].known(self) if self.at_risk else _NONE

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        """A copy in another process cannot ask the log, so it is asked before."""
        return Vacuumed, tuple(getattr(self, part.name) for part in fields(self))

    def __repr__(self) -> str:
        facts = f"files={self.files.num_rows}, bytes={self.bytes}, horizon_ms={self.horizon_ms}"
        return f"Vacuumed({facts}, dry_run={self.dry_run}, version={self.version})"

    def __str__(self) -> str:
        count, lost = self.files.num_rows, self.lost_if_known
        lines = [
            f"{'would delete' if self.dry_run else 'deleted'} {count} files, {self.bytes} bytes, that nothing since "
            f"{moment(self.horizon_ms)} needs",
            f"  versions that may be lost: {self.at_risk} (`lost` reads their commits and says which)"
            if lost is None
            else f"  versions that {'would be' if self.dry_run else 'are'} lost: {lost}",
        ]
        if self.directories:
            lines.append(f"  directories removed: {self.directories}")
        lines += [f"  pin {k.pin} (version {k.version}) keeps {k.files} files, {k.bytes} bytes" for k in self.kept]
        lines += [f"  {note}" for note in self.notes]
        if self.dry_run:
            lines += [f"  {path}" for path in self.files.column("key").slice(0, _SHOWN).to_pylist()]
            lines += [f"  and {count - _SHOWN} more"] if count > _SHOWN else []
        return "\n".join(lines)


def moment(ms: int) -> str:
    """A moment for people."""
    return f"{datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"


def started(plan: VacuumPlan, lost: Versions, *, enforced: bool, asked_ms: int | None, default_ms: int) -> Mutation:
    """Say what a vacuum is about to do."""
    parameters = {
        "retentionCheckEnabled": json.dumps(enforced),
        "defaultRetentionMillis": str(default_ms),
        **({} if asked_ms is None else {"specifiedRetentionMillis": str(asked_ms)}),
        LOST: json.dumps(lost.spans),
    }
    metrics = {"numFilesToDelete": plan.files.num_rows, "sizeOfDataToDelete": plan.bytes}
    return Mutation(TAKES_FILES, parameters, metrics, data_change=False)


def ended(*, files: int, directories: int, failed: bool = False) -> Mutation:
    """Say how a vacuum ended."""
    metrics = {"numDeletedFiles": files, "numVacuumedDirectories": directories}
    return Mutation(END, {"status": "FAILED" if failed else "COMPLETED"}, metrics, data_change=False)


def listed(location: Location) -> pa.Table:
    """Everything below a table's directory, unfinished files too, with the columns of LISTED: one listing."""
    metas = iter(location.store.list_all(location.directory))
    tables = [LISTED.empty_table(), _columns(location, unfinished(location))]
    while chunk := list(islice(metas, _CHUNK)):
        tables.append(_columns(location, chunk))
    return pa.concat_tables(tables)


def listed_behind_links(location: Location, keys: Iterable[str]) -> pa.Table:
    """What a listing leaves out of the directories of some keys, with the columns of LISTED."""
    return _columns(location, behind_links(location, keys))


def looked_up(location: Location, keys: Iterable[str]) -> pa.Table:
    """Those of these files that are there and not behind a link, with the columns of LISTED: a look at each."""
    is_own = behind_no_link(location)
    own = [key for key in keys if is_own(location.key(key))]

    def look(key: str) -> ObjectMeta | None:
        try:
            return location.store.head(location.store_key(key))
        except NotFound:
            return None

    with ThreadPoolExecutor(_HANDS) as pool:
        return _columns(location, (meta for meta in pool.map(look, own) if meta is not None))


def delete_files(location: Location, keys: pa.Array) -> int:
    """Delete files of a table's directory; how many."""
    for batch in _batches(keys):
        delete_all(location, [location.key(key) for key in batch])
    return len(keys)


def remove_directories(location: Location, keys: pa.Array) -> int:
    """Remove the directories of deleted files that nothing is in any more; how many."""
    above = pc.replace_substring_regex(keys.filter(pc.match_substring(keys, "/")), "/[^/]*$", "")
    return remove_empty(location, pc.unique(above).to_pylist())


def _batches(keys: pa.Array) -> Iterator[list[str]]:
    for start in range(0, len(keys), _BATCH):
        yield keys.slice(start, _BATCH).to_pylist()


def _columns(location: Location, metas: Iterable[ObjectMeta]) -> pa.Table:
    prefix = len(location.key(""))
    metas = [meta for meta in metas if _is_text(meta.key)]
    return pa.Table.from_arrays(
        [
            strings([meta.key[prefix:] for meta in metas]),
            longs([meta.size for meta in metas]),
            longs([meta.modified_ms for meta in metas]),
        ],
        schema=LISTED,
    )


def _is_text(key: str) -> bool:
    """A name that is no text cannot be in a log, and is left alone."""
    return key.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in key)
