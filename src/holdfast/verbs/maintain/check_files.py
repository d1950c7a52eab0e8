"""Checks the files of a table against storage: whether they exist, have the stated size, and hold the stated rows.

1. One listing gives existence and sizes; only files outside the table's directory are asked for one by one.
2. Footers and columns of row ids are read only for a deep check, by the engine; everything compared is a number or a
   compressed bitmap.
3. A deletion vector that cannot be read does not affect the others: it is found by halving.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.errors import Damaged, MissingFile
from holdfast.model.files import FileTable
from holdfast.model.finding import Finding, FindingKind, listed
from holdfast.model.mutation import AllRows, Mutation
from holdfast.model.snapshot import HiddenRows, LoadHidden, Snapshot
from holdfast.parquet.inspect import FooterRequest
from holdfast.plan.engine import Engine
from holdfast.plan.maintain.check import (
    Asks,
    Ids,
    double_adds,
    duplicates,
    logged_counts,
    mark_below,
    repeated,
    without_ids,
)
from holdfast.storage.arrays import mask
from holdfast.storage.base import NotFound
from holdfast.storage.leftovers import through_link
from holdfast.storage.location import Location
from holdfast.storage.open import place

_LOOKERS = 16
_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class FilesChecked:
    """What was found of files, and what a repair would go by."""

    findings: tuple[Finding, ...]
    missing: frozenset[str] = frozenset()  # keys of data files that are not there
    counts: Mapping[str, int] = field(default_factory=dict)  # true row counts where the log has another
    mark: int | None = None  # what the mark must be raised to
    resized: frozenset[str] = frozenset()  # keys of files of another size than is said


@dataclass(frozen=True, slots=True)
class _Seen:
    """What files say of themselves, by their number in the snapshot; of files that cannot be read only the trouble."""

    rows: Mapping[int, int] = field(default_factory=dict)
    ids: Mapping[int, BitMap64] = field(default_factory=dict)  # of files that carry some
    live: Mapping[int, int] = field(default_factory=dict)  # rows that have these
    trouble: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, looked: pa.Table) -> _Seen:
        rows = looked.to_pylist()  # one per file
        return cls(
            {row["number"]: row["rows"] for row in rows if row["rows"] is not None},
            {row["number"]: BitMap64.deserialize(row["ids"]) for row in rows if row["ids"] is not None},
            {row["number"]: row["live"] for row in rows if row["ids"] is not None},
            {row["number"]: row["trouble"] for row in rows if row["trouble"] is not None},
        )


def check_files(
    snapshot: Snapshot,
    spoken_of: pa.Array | None,
    engine: Engine[object],
    load_hidden: LoadHidden,
    *,
    deep: bool,
    stored: Mapping[str, int] | None = None,
) -> FilesChecked:
    """Check the live files of a snapshot; `spoken_of` are the keys of all files the log refers to.

    Without them nothing is said of files that nobody refers to. `stored` is what `stored_files` gave, where it ran.
    """
    files, location = snapshot.files, snapshot.location
    keys = files.column("key").to_pylist()
    stored = stored_files(location) if stored is None else stored
    sizes = _sizes(location, keys, stored)
    missing = frozenset(key for key, size in sizes.items() if size is None)
    resized = _resized(files, sizes)
    hidden, bad_vectors = _vectors(location, files.filter(mask(_with_vector(files))), load_hidden)
    seen = _Seen.of(engine.inspect_files(_asks(snapshot, sizes, hidden))) if deep else _Seen()
    counts = logged_counts(files)
    wrong = {number: rows for number, rows in seen.rows.items() if counts[number] not in (-1, rows)}
    findings = [
        *listed(double_adds(files)),
        *listed(_absent(missing)),
        *listed(_overwritten(resized, sizes)),
        *listed(Finding(FindingKind.BAD_FILE, text, file=keys[number]) for number, text in seen.trouble.items()),
        *listed([*bad_vectors, *_past_the_end(keys, seen, hidden)]),
        *listed(_miscounted(keys, counts, wrong)),
    ]
    mark = None
    if snapshot.identity is not None:
        counts[list(seen.rows)] = list(seen.rows.values())
        ids = Ids.of(files, counts, seen.ids, HiddenRows(hidden))
        too_low = list(mark_below(ids, snapshot.identity.high_water))
        mark = ids.highest if too_low else None
        # Of a file whose vector cannot be read nobody knows which rows are live.
        unclear = {finding.file for finding in bad_vectors}
        bare = () if snapshot.identity.has_gaps else without_ids(files)
        findings += [*listed(bare), *too_low]
        findings += listed([*repeated(ids, seen.live), *(duplicates(ids, unclear) if deep else ())])
    findings += () if spoken_of is None else _orphans(stored, spoken_of)
    true = {keys[number]: rows for number, rows in wrong.items()}
    return FilesChecked(tuple(findings), missing, true, mark, frozenset(resized))


def stored_files(location: Location) -> dict[str, int]:
    """Everything in the table's directory but its log, with sizes, by file key. One entry per file."""
    start = len(location.key("")) if location.directory else 0
    sizes = ((meta.key[start:], meta.size) for meta in location.store.list_all(location.directory))
    return {key: size for key, size in sizes if not key.startswith("_delta_log/")}


def _sizes(location: Location, keys: Sequence[str], stored: Mapping[str, int]) -> dict[str, int | None]:
    """The stored size of each live file; None where it is not there."""
    is_linked = through_link(location)
    outside = [key for key in keys if "://" in key or (key not in stored and is_linked(location.key(key)))]

    def size_of(key: str) -> int | None:
        store, name = place(location, key)
        try:
            return store.head(name).size
        except NotFound:
            return None

    with ThreadPoolExecutor(_LOOKERS) as pool:
        sizes = dict(zip(outside, pool.map(size_of, outside), strict=True))
    return {key: sizes[key] if key in sizes else stored.get(key) for key in keys}


def _absent(missing: Iterable[str]) -> Iterator[Finding]:
    for key in sorted(missing):
        yield Finding(
            FindingKind.MISSING_FILE,
            f"{key} is in the table and is not there: reading it fails; restore the file, or let it go",
            file=key,
            repair="takes the file out of the table, if dropMissing=True says so",
        )


def _resized(files: FileTable, sizes: Mapping[str, int | None]) -> dict[str, int]:
    """Files of another size than the log says, with that which it says."""
    logged = zip(files.column("key").to_pylist(), files.column("size").to_pylist(), strict=True)
    return {key: size for key, size in logged if sizes[key] not in (None, size)}


def _overwritten(resized: Mapping[str, int], sizes: Mapping[str, int | None]) -> Iterator[Finding]:
    for key, size in resized.items():
        what = f"{key} has {sizes[key]} bytes where the log has {size}: it was overwritten"
        yield Finding(FindingKind.WRONG_SIZE, what, file=key)


def _with_vector(files: FileTable) -> NDArray[np.bool_]:
    has: NDArray[np.bool_] = files.column("dv").is_valid().to_numpy()
    return has


def _vectors(
    location: Location, files: FileTable, load_hidden: LoadHidden
) -> tuple[Mapping[str, BitMap64], list[Finding]]:
    """The positions of all vectors that can be read, and the others; files that all have one."""
    if not len(files):
        return {}, []
    try:
        return load_hidden(location, files).positions, []
    except Damaged as error:
        if len(files) == 1:
            key = files.column("key")[0].as_py()
            kind = FindingKind.MISSING_VECTOR if isinstance(error, MissingFile) else FindingKind.BAD_VECTOR
            return {}, [Finding(kind, str(error), file=key)]
    first = np.arange(len(files)) < len(files) // 2
    one, findings = _vectors(location, files.filter(mask(first)), load_hidden)
    other, more = _vectors(location, files.filter(mask(~first)), load_hidden)
    return {**one, **other}, [*findings, *more]


def _asks(snapshot: Snapshot, sizes: Mapping[str, int | None], hidden: Mapping[str, BitMap64]) -> Asks:
    """What to look at: every file that is there."""
    files, location = snapshot.files, snapshot.location
    identity = snapshot.identity
    asks = []
    bases = files.column("base_row_id").to_pylist()
    formats = files.column("format").to_pylist() if "format" in files.table.column_names else ["parquet"] * len(files)
    rows = zip(files.column("key").to_pylist(), bases, formats, strict=True)
    for number, (key, base, form) in enumerate(rows):  # one per file
        size = sizes[key]
        if size is not None and form == "parquet":
            store, name = place(location, key)
            gone = hidden.get(key)
            asks.append((store, FooterRequest(number, name, size, base, gone.serialize() if gone else None)))
    return Asks(location.store, asks, None if identity is None else identity.id_column)


def _past_the_end(keys: Sequence[str], seen: _Seen, hidden: Mapping[str, BitMap64]) -> Iterator[Finding]:
    """Vectors that reach beyond a file whose log entry would have let them."""
    for number, rows in seen.rows.items():
        gone = hidden.get(keys[number])
        if gone and gone.max() >= rows:
            yield Finding(
                FindingKind.BAD_VECTOR,
                f"the deletion vector of {keys[number]} hides position {gone.max()}, and the file has {rows} rows",
                file=keys[number],
            )


def _miscounted(keys: Sequence[str], counts: NDArray[np.int64], wrong: Mapping[int, int]) -> Iterator[Finding]:
    for number, rows in wrong.items():
        yield Finding(
            FindingKind.WRONG_COUNT,
            f"{keys[number]} has {rows} rows where the log has {counts[number]}: counts and row ids are wrong",
            file=keys[number],
            repair="says the true count in the log",
        )


def _orphans(stored: Mapping[str, int], spoken_of: pa.Array) -> Iterator[Finding]:
    known = set(spoken_of.to_pylist())  # one per file
    loose = [key for key in stored if key not in known and not _is_hidden(key)]
    if loose:
        size = sum(stored[key] for key in loose)
        yield Finding(
            FindingKind.ORPHANS,
            f"{len(loose)} files of {size} bytes are in the directory and in no version the log knows, such as "
            f"{', '.join(sorted(loose)[:_EXAMPLES])}: what failed or unfinished writes, and vacuums to come, leave",
            file=min(loose),
            count=len(loose),
        )


def _is_hidden(key: str) -> bool:
    """Whether a file is hidden, by its own name or a directory's; those of changes and of partitions never are."""
    parts = key.split("/")
    return any(part.startswith(("_", ".")) and part != "_change_data" and "=" not in part for part in parts)


def saying_anew(again: pa.Table, unnumbered: pa.Table, mark: int | None) -> Mutation | None:
    """A commit that changes no row: counts put right, ids given, the mark raised; None where there is nothing to say.

    `again` are files whose row count is put right, `unnumbered` files without row ids, with the columns of RESTAMPED.
    """
    again = again.filter(pc.invert(pc.is_in(again.column("key"), unnumbered.column("key").combine_chunks())))
    done = [
        *([f"raised the mark of row ids to {mark}"] if mark is not None else []),
        *([f"put the row counts of {again.num_rows} files right"] if again.num_rows else []),
        *([f"gave {unnumbered.num_rows} files row ids"] if unnumbered.num_rows else []),
    ]
    if not done:
        return None
    metrics = {"numRemovedFiles": 0, "numReaddedFiles": again.num_rows + unnumbered.num_rows}
    mutation = Mutation("FSCK", {"repairs": json.dumps(done)}, metrics, data_change=False, mark=mark, reads=AllRows())
    return replace(mutation, readded=again, restamped=unnumbered)


def letting_go(snapshot: Snapshot, missing: frozenset[str]) -> Mutation | None:
    """A commit that takes files out of the table which are not there; None without any."""
    removed = snapshot.files.among(missing).table
    if not removed.num_rows:
        return None
    done = [f"took {removed.num_rows} missing files out of the table"]
    metrics = {"numRemovedFiles": removed.num_rows, "numReaddedFiles": 0}
    return Mutation("FSCK", {"repairs": json.dumps(done)}, metrics, removed=removed, reads=AllRows())
