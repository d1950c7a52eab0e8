"""Hides more rows of live files: writes new deletion vectors, and removes and adds the files again with them.

This happens in every attempt, on the version that the attempt is based on, so that rows which another writer has
hidden meanwhile stay hidden.

1. The new deletion vector of a file is the union of its old one and the new positions; a file without a live row is
   only removed.
2. All deletion vectors of an attempt are in one file, which is written before the commit.
3. A later attempt on unchanged files reuses the deletion vectors and writes none.
4. Bounds of a file that hides rows are no longer tight, and its row count is the physical one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
from pyroaring import BitMap64

from holdfast.env import Env
from holdfast.errors import Damaged, TableError
from holdfast.formats.delta.deletion_vectors import load_hidden, pack
from holdfast.formats.delta.log.actions import DeletionVector
from holdfast.formats.delta.state import DeltaState
from holdfast.formats.delta.stats.render import decode_stats, texts_of
from holdfast.model.files import DV, FILES, FileTable
from holdfast.model.mutation import RESTAMPED
from holdfast.parquet.pages.footer import read_footer
from holdfast.storage.arrays import strings
from holdfast.storage.location import Location
from holdfast.storage.prefetch import each

REUSED_MS = 60_000  # an unreferenced file that is older is not reused, because a vacuum may delete it


@dataclass(frozen=True, slots=True)
class DvUpdate:
    """Files to remove, and those of them to add again with new deletion vectors."""

    removed: pa.Table  # with the columns of FILES
    readded: pa.Table  # with the columns of RESTAMPED; without the files that have no live row
    of_new: Mapping[str, DeletionVector] = field(default_factory=dict)  # of new files that have live rows, by key


# Not `empty_table`, which would import pandas.
NO_UPDATE = DvUpdate(pa.Table.from_batches([], FILES), pa.Table.from_batches([], RESTAMPED))


class HiddenVectors:
    """The deletion vectors that the attempts of one transaction have written."""

    def __init__(self) -> None:
        self._files: tuple[int, FileTable] | None = None  # the files with rows to hide, at a version
        self._last: tuple[pa.Table, Mapping[str, BitMap64], Mapping[str, tuple[BitMap64, int]], DvUpdate] | None = None
        self._since_ms = 0
        self.written: list[str] = []

    def drop(self, location: Location) -> None:
        """Deletes all files that were written, after no attempt succeeded; errors are ignored."""
        for key in self.written:
            with suppress(TableError):
                location.store.delete(location.store_key(key))
        self.written.clear()
        self._last = None

    def carry(self, old: int, new: int) -> None:
        """Tells that no file was removed or added again between these versions."""
        if self._files is not None and self._files[0] == old:
            self._files = new, self._files[1]

    def files(self, state: DeltaState, hidden: Mapping[str, BitMap64]) -> FileTable:
        """The files with these keys."""
        version, files = self._files or (None, FileTable())
        if version != state.version or hidden.keys() != set(files.column("key").to_pylist()):
            files = _touched(state, hidden)
            self._files = state.version, files
        return files

    def reusable(
        self,
        files: pa.Table,
        hidden: Mapping[str, BitMap64],
        in_new: Mapping[str, tuple[BitMap64, int]],
        now_ms: int,
    ) -> DvUpdate | None:
        """The update of the attempt before, where it hides the same rows of the same files."""
        if self._last is None or now_ms - self._since_ms > REUSED_MS:
            return None
        last_files, last_hidden, last_in_new, update = self._last
        same = last_hidden == hidden and last_in_new == in_new and last_files.equals(files)
        return update if same else None

    def note(
        self,
        hidden: Mapping[str, BitMap64],
        in_new: Mapping[str, tuple[BitMap64, int]],
        update: DvUpdate,
        now_ms: int,
    ) -> DvUpdate:
        self._last, self._since_ms = (update.removed, hidden, in_new, update), now_ms
        return update


def update_dvs(
    state: DeltaState,
    hidden: Mapping[str, BitMap64],
    env: Env,
    *,
    in_new: Mapping[str, tuple[BitMap64, int]],
    vectors: HiddenVectors,
) -> DvUpdate:
    """Hides these positions in addition to those that the files hide at this version.

    `in_new` are positions to hide in new files, with the row count of each file.
    """
    if not hidden and not in_new:
        return NO_UPDATE
    now = env.now_ms()
    touched = vectors.files(state, hidden)
    if (reusable := vectors.reusable(touched.table, hidden, in_new, now)) is not None:
        return reusable
    update = _update(state.snapshot.location, touched, hidden, env, in_new, vectors.written)
    return vectors.note(hidden, in_new, update, now)


def _touched(state: DeltaState, hidden: Mapping[str, BitMap64]) -> FileTable:
    touched = state.snapshot.files.among(hidden)
    if len(touched) != len(hidden):
        missing = sorted(set(hidden) - set(touched.column("key").to_pylist()))
        where = state.snapshot.location.url
        raise Damaged(f"{missing[0]} is no file of version {state.version} of {where}", path=missing[0])
    return touched


def _update(
    location: Location,
    touched: FileTable,
    hidden: Mapping[str, BitMap64],
    env: Env,
    in_new: Mapping[str, tuple[BitMap64, int]],
    written: list[str],
) -> DvUpdate:
    new = {key: positions for key, (positions, rows) in in_new.items() if len(positions) < rows}
    old = load_hidden(location, touched).positions
    keys = touched.column("key").to_pylist()  # one per touched file, like all lists below
    counts = _counts(location, touched)
    united = {key: hidden[key] | old[key] if key in old else hidden[key] for key in keys}
    for key, rows in zip(keys, counts, strict=True):
        if united[key].max() >= rows:
            raise Damaged(f"row {united[key].max()} of {key} is to be hidden, which has {rows} rows", path=key)
    has_live = [len(united[key]) < rows for key, rows in zip(keys, counts, strict=True)]
    live_keys = [key for key, live in zip(keys, has_live, strict=True) if live]
    removed = touched.table
    if not live_keys and not new:
        return DvUpdate(removed, RESTAMPED.empty_table())
    packed = pack([*(united[key] for key in live_keys), *new.values()], uuid=env.new_uuid())
    written.append(packed.key)
    location.store.put(location.store_key(packed.key), packed.data)
    dvs_of_new = dict(zip(new, packed.vectors[len(live_keys) :], strict=True))
    if not live_keys:
        return DvUpdate(removed, RESTAMPED.empty_table(), dvs_of_new)
    texts = pa.chunked_array([texts_of(slab.stats) for slab in touched.slabs], pa.string()).to_pylist()
    old_counts = [len(old.get(key, ())) for key in keys]
    stats = [loosened(text, rows, hides) for text, rows, hides in zip(texts, counts, old_counts, strict=True)]
    readded = removed.append_column("num_records", pa.array(counts, pa.int64())).append_column("stats", strings(stats))
    readded = readded.filter(pa.array(has_live, pa.bool_()))
    vectors = pa.array([vector.as_row() for vector in packed.vectors[: len(live_keys)]], DV)
    readded = readded.set_column(readded.column_names.index("dv"), "dv", vectors).cast(RESTAMPED)
    return DvUpdate(removed, readded, dvs_of_new)


def _counts(location: Location, files: FileTable) -> list[int]:
    """The physical row count of each file: from the log, or else from its footer."""
    stored: list[int | None] = files.num_records.to_pylist()
    rows = zip(files.column("key").to_pylist(), files.column("size").to_pylist(), stored, strict=True)
    uncounted = [(location.store_key(key), size) for key, size, count in rows if count is None]
    footers = each(location.store, lambda file: read_footer(location.store, *file), uncounted)
    return [next(footers).num_rows if count is None else count for count in stored]


def loosened(text: str | None, rows: int, hidden: int) -> str:
    """The statistics of a file that hides rows; null counts of live rows become counts of all rows."""
    stats = decode_stats(text)
    if hidden and stats.get("tightBounds", True) and isinstance(stats.get("nullCount"), dict):
        stats = {**stats, "nullCount": _physical(stats["nullCount"], rows - hidden, rows)}
    return msgspec.json.encode({**stats, "numRecords": rows, "tightBounds": False}).decode()


def _physical(counts: object, live: int, rows: int) -> object:
    """Null counts of live rows as counts of physical rows: all stays all, none stays none."""
    if isinstance(counts, dict):
        return {name: _physical(inner, live, rows) for name, inner in counts.items()}
    return rows if counts == live else counts
