"""Reports erasures: which rows were erased, and which files still hold their bytes.

A report is kept as `_holdfast/erasures/<id>.json` in the table's directory, so it outlives the process. It has the ids
of rows and the names of files, and neither a value of a row nor the condition.

1. Reports name rows by id and files by key. A file never changes, so one that held such rows does while it exists.
2. A report lists what is left to do in the order in which it is to be done.
3. A proof states that every data file in the directory was read and none held an erased row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from holdfast.errors import Invalid
from holdfast.model.versions import Versions
from holdfast.storage.base import NotFound
from holdfast.storage.error_mapping import json_record
from holdfast.storage.location import Location
from holdfast.verbs.maintain.vacuum_files import moment

ERASURES = ("_holdfast", "erasures")
_SHOWN = 20


class Held(msgspec.Struct, frozen=True):
    """A file, and how many erased rows it holds."""

    file: str
    rows: int

    def __str__(self) -> str:
        return f"{self.file}: {self.rows} rows"


class Proof(msgspec.Struct, frozen=True):
    """That nothing was found, in what, and when. The digest is of the names and sizes of all files that were read."""

    moment_ms: int
    version: int
    files: int
    bytes: int
    digest: str


class Erased(msgspec.Struct, frozen=True):
    """An erasure. Printing it shows it."""

    id: str
    moment_ms: int
    row_ids: tuple[tuple[int, int], ...]  # spans, both ends included
    is_complete: bool = False  # what follows is known; else the erasure was cut short
    version: int | None = None  # that took the rows out; None where none was there to take
    purged: tuple[int, ...] = ()  # versions that wrote files without them
    files: tuple[Held, ...] = ()  # data files of old versions
    changes: tuple[Held, ...] = ()  # change data files
    unpurged: tuple[Held, ...] = ()  # live files that hide such rows, which other writers were faster with
    vectors: tuple[str, ...] = ()  # files that name positions of such rows, and nothing else of them
    loose: tuple[str, ...] = ()  # files that no version has and that were there before
    indexes: tuple[Held, ...] = ()  # files of indexes with entries of such rows
    linked: tuple[str, ...] = ()  # those of all these files that are behind a link, where no vacuum goes
    versions: tuple[tuple[int, int], ...] = ()  # that need any of the data files
    pins: Mapping[str, int] = {}  # that keep such versions
    vacuum_after_ms: int = 0
    log_after_ms: int = 0  # when statistics of files that held the rows may leave the log
    proof: Proof | None = None

    @property
    def rows(self) -> int:
        """How many rows it was about."""
        return sum(last - first + 1 for first, last in self.row_ids)

    @property
    def ids(self) -> BitMap64:
        """The ids of the rows."""
        return BitMap64().union(*(BitMap64(range(first, last + 1)) for first, last in self.row_ids))

    @property
    def held(self) -> tuple[str, ...]:
        """The files that are known to hold such rows, or may."""
        known = (*self.files, *self.changes, *self.unpurged, *self.indexes)
        return (*(each.file for each in known), *self.loose)

    @property
    def is_held(self) -> bool:
        """Whether any file is known to hold such rows, or may."""
        return bool(self.held)

    @property
    def steps(self) -> tuple[str, ...]:
        """What is left to do, first things first."""
        if self.proof is not None:
            return ()
        steps = [f"unpin({name!r}), which keeps version {at}" for name, at in self.pins.items()]
        if not self.is_complete:
            steps.append("erase(...) again: this one was cut short")
        if self.unpurged:
            steps.append(f"purge(), because other writers were faster with {len(self.unpurged)} files")
        names = sorted({held.file.split("/")[2] for held in self.indexes})
        steps += [f"rebuildIndex({name!r}), or dropIndex, because its entries have keys of them" for name in names]
        if self.is_held:
            steps.append(f"vacuum() after {moment(self.vacuum_after_ms)}")
        if self.linked:
            steps.append(f"delete, where their link leads, files that no vacuum takes: {_some(self.linked)}")
        steps.append(f"erasureStatus({self.id!r}), which reads what is left and says whether any is found")
        return tuple(steps)

    def __str__(self) -> str:
        lines = [f"erasure {self.id} of {moment(self.moment_ms)}: {self.rows} rows"]
        if self.version is not None:
            written = f", their files written anew in {_some(map(str, self.purged))}" if self.purged else ""
            lines.append(f"  taken out in version {self.version}{written}")
        if self.files:
            lines.append(f"  versions that still need their bytes: {Versions(self.versions)}")
        for what, held in (
            ("old file", self.files),
            ("change file", self.changes),
            ("live file", self.unpurged),
            ("index file", self.indexes),
        ):
            lines += [f"  {what} {each}" for each in held[:_SHOWN]]
            lines += [f"  and {len(held) - _SHOWN} more"] if len(held) > _SHOWN else []
        if self.loose:
            lines.append(f"  files of no version, which may hold some: {len(self.loose)}")
        if self.proof is not None:
            lines.append(f"  {_stated(self.proof)}")
        lines += [f"  to do: {step}" for step in self.steps]
        if self.version is not None:
            until = moment(self.log_after_ms)
            lines.append(
                f"  the log tells minima and maxima of columns up to version {self.version}, until after {until}"
            )
        return "\n".join(lines)


class ErasureStatus(msgspec.Struct, frozen=True):
    """What a scan of the bytes found of an erasure. Printing it shows it."""

    erasure: str
    rows: int
    scan: Proof
    files: tuple[Held, ...] = ()
    changes: tuple[Held, ...] = ()
    loose: tuple[str, ...] = ()
    indexes: tuple[Held, ...] = ()
    linked: tuple[str, ...] = ()  # those of all these files that are behind a link, where no vacuum goes

    @property
    def held(self) -> tuple[str, ...]:
        """The files that hold such rows, or may."""
        return (*(each.file for each in (*self.files, *self.changes, *self.indexes)), *self.loose)

    @property
    def is_clean(self) -> bool:
        """Whether no byte of the rows was found."""
        return not self.held

    def __str__(self) -> str:
        head = f"erasure {self.erasure}, {self.rows} rows"
        if self.is_clean:
            return f"{head}: {_stated(self.scan)}"
        lines = [f"{head}: not done, at {moment(self.scan.moment_ms)}"]
        for what, held in (("file", self.files), ("change file", self.changes), ("index file", self.indexes)):
            lines += [f"  {what} {each}" for each in held[:_SHOWN]]
            lines += [f"  and {len(held) - _SHOWN} more"] if len(held) > _SHOWN else []
        lines += [f"  file of no version: {name}" for name in self.loose[:_SHOWN]]
        if self.linked:
            lines.append(f"  behind a link, where no vacuum goes, so delete them there: {_some(self.linked)}")
        return "\n".join(lines)


def spans_of(ids: BitMap64) -> tuple[tuple[int, int], ...]:
    """Ids as spans, both ends included."""
    if not ids:
        return ()
    values = np.fromiter(ids, np.int64, len(ids))
    breaks = np.flatnonzero(np.diff(values) != 1)
    firsts = values[np.concatenate([[0], breaks + 1])]
    lasts = values[np.concatenate([breaks, [len(values) - 1]])]
    return tuple(zip(firsts.tolist(), lasts.tolist(), strict=True))


def digest_of(files: pa.Table) -> str:
    """A digest of the names and sizes of files, whatever their order."""
    facts = sorted(zip(files.column("key").to_pylist(), files.column("size").to_pylist(), strict=True))  # one per file
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()


def held_of(*counts: Mapping[str, int]) -> tuple[Held, ...]:
    """Files by how many rows they hold; of several counts of one file the largest."""
    most: dict[str, int] = {}
    for rows_of in counts:
        for key, rows in rows_of.items():
            most[key] = max(rows, most.get(key, 0))
    return tuple(Held(key, rows) for key, rows in sorted(most.items()))


def save(location: Location, report: Erased) -> None:
    """Keep a report with its table."""
    location.store.put(_key(location, report.id), msgspec.json.format(msgspec.json.encode(report)) + b"\n")


def forget(location: Location, report: Erased) -> None:
    """Keep no report of what did not happen."""
    location.store.delete(_key(location, report.id))


def saved(location: Location, erasure: str) -> Erased:
    """A report that was kept."""
    try:
        data = location.store.get(_key(location, erasure))
    except NotFound:
        there = ", ".join(all_saved(location)) or "none"
        raise Invalid(f"there is no erasure {erasure!r} of {location.url}: there are {there}") from None
    path = f"{location.store.url}/{_key(location, erasure)}"
    return json_record(data, Erased, path=path, what="is no report of an erasure")


def all_saved(location: Location) -> Sequence[str]:
    """The ids of the reports that are kept."""
    metas = location.store.list_from(location.key(*ERASURES))
    return [meta.name.removesuffix(".json") for meta in metas if meta.name.endswith(".json")]


def _key(location: Location, erasure: str) -> str:
    return location.key(*ERASURES, f"{erasure}.json")


def _stated(proof: Proof) -> str:
    return (
        f"no such row is in any of the {proof.files} files ({proof.bytes} bytes) that were read at "
        f"{moment(proof.moment_ms)}, version {proof.version}, sha256 {proof.digest}"
    )


def _some(texts: Iterable[str]) -> str:
    shown = list(texts)
    return ", ".join(shown if len(shown) <= _SHOWN else [*shown[:_SHOWN], "..."])
