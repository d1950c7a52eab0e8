"""More rows hidden in live files: vectors written, and the files removed and added again with them.

Made per attempt, on the version the attempt is made on: what another writer hid meanwhile stays hidden.

1. The new vector of a file is its old one and the new positions together; a file with no row left is only removed.
2. All vectors of an attempt are in one file, written before the commit that refers to it.
3. An attempt after another one, on files that did not change meanwhile, has the same vectors and writes none.
4. Bounds of a file that hides rows are no longer tight, and its row count is the physical one.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
from pyroaring import BitMap64

from holdfast.env import Env
from holdfast.errors import Damaged, TableError
from holdfast.formats.delta.deletion_vectors import load_hidden, pack
from holdfast.formats.delta.log.actions import DeletionVector
from holdfast.formats.delta.state import DeltaState
from holdfast.formats.delta.stats.render import texts_of
from holdfast.model.files import DV, FILES, FileTable
from holdfast.model.mutation import RESTAMPED
from holdfast.parquet.pages.footer import read_footer
from holdfast.storage.arrays import strings
from holdfast.storage.error_mapping import MALFORMED_JSON
from holdfast.storage.location import Location

_READERS = 16
REUSED_MS = 60_000  # what nothing refers to is no older than this when a commit begins to


@dataclass(frozen=True, slots=True)
class Rehidden:
    """Files as they were, to be removed, and those of them that have rows left, with their new vectors."""

    gone: pa.Table  # with the columns of FILES
    again: pa.Table  # with the columns of RESTAMPED
    born: Mapping[str, DeletionVector] = field(default_factory=dict)  # of new files; one with no row left has none


# Not `empty_table`, which would load pandas with this module.
NOTHING = Rehidden(pa.Table.from_batches([], FILES), pa.Table.from_batches([], RESTAMPED))


class HiddenVectors:
    """What the attempts of one transaction know of the files in which it hides rows."""

    def __init__(self) -> None:
        self._files: tuple[int, FileTable] | None = None  # as they are at a version
        self._last: tuple[pa.Table, Mapping[str, BitMap64], Mapping[str, tuple[BitMap64, int]], Rehidden] | None = None
        self._since_ms = 0
        self.written: list[str] = []

    def drop(self, location: Location) -> None:
        """Delete every vector that was written: nobody refers to one. No failure of that is told."""
        for key in self.written:
            with suppress(TableError):
                location.store.delete(location.store_key(key))
        self.written.clear()
        self._last = None

    def carry(self, old: int, new: int) -> None:
        """Between these versions no file went or came back."""
        if self._files is not None and self._files[0] == old:
            self._files = new, self._files[1]

    def files(self, state: DeltaState, hidden: Mapping[str, BitMap64]) -> FileTable:
        """The files of these keys."""
        if self._files is None or self._files[0] != state.version or not self._has_just(hidden):
            self._files = state.version, _touched(state, hidden)
        return self._files[1]

    def _has_just(self, hidden: Mapping[str, BitMap64]) -> bool:
        return self._files is not None and hidden.keys() == set(self._files[1].column("key").to_pylist())

    def again(
        self,
        files: pa.Table,
        hidden: Mapping[str, BitMap64],
        born: Mapping[str, tuple[BitMap64, int]],
        now_ms: int,
    ) -> Rehidden | None:
        """What was written for the same rows of the same files; None where there is no such thing."""
        if self._last is None or now_ms - self._since_ms > REUSED_MS:
            return None
        known, rows, new, rehidden = self._last
        return rehidden if rows == hidden and new == born and known.equals(files) else None

    def note(
        self,
        hidden: Mapping[str, BitMap64],
        born: Mapping[str, tuple[BitMap64, int]],
        rehidden: Rehidden,
        now_ms: int,
    ) -> Rehidden:
        self._last, self._since_ms = (rehidden.gone, hidden, born, rehidden), now_ms
        return rehidden


def rehide(
    state: DeltaState,
    hidden: Mapping[str, BitMap64],
    env: Env,
    *,
    born: Mapping[str, tuple[BitMap64, int]],
    vectors: HiddenVectors,
) -> Rehidden:
    """Hide these positions too, beyond those the files hide at this version.

    `born` are positions in new files, and how many rows each of them has.
    """
    if not hidden and not born:
        return NOTHING
    now = env.now_ms()
    touched = vectors.files(state, hidden)
    again = vectors.again(touched.table, hidden, born, now)
    if again is not None:
        return again
    rehidden = _rehidden(state.snapshot.location, touched, hidden, env, born, vectors.written)
    return vectors.note(hidden, born, rehidden, now)


def _touched(state: DeltaState, hidden: Mapping[str, BitMap64]) -> FileTable:
    touched = state.snapshot.files.among(hidden)
    if len(touched) != len(hidden):
        missing = sorted(set(hidden) - set(touched.column("key").to_pylist()))
        where = state.snapshot.location.url
        raise Damaged(f"{missing[0]} is no file of version {state.version} of {where}", path=missing[0])
    return touched


def _rehidden(
    location: Location,
    touched: FileTable,
    hidden: Mapping[str, BitMap64],
    env: Env,
    born: Mapping[str, tuple[BitMap64, int]],
    written: list[str],
) -> Rehidden:
    new = {key: rows for key, (rows, physical) in born.items() if len(rows) < physical}
    old = load_hidden(location, touched).positions
    keys = touched.column("key").to_pylist()  # one per touched file, as all that follows
    counts = _counts(location, touched)
    united = {key: hidden[key] | old[key] if key in old else hidden[key] for key in keys}
    for key, rows in zip(keys, counts, strict=True):
        if united[key].max() >= rows:
            raise Damaged(f"row {united[key].max()} of {key} is to be hidden, which has {rows} rows", path=key)
    left = [len(united[key]) < rows for key, rows in zip(keys, counts, strict=True)]
    kept = [key for key, some in zip(keys, left, strict=True) if some]
    gone = touched.table
    if not kept and not new:
        return Rehidden(gone, RESTAMPED.empty_table())
    packed = pack([*(united[key] for key in kept), *new.values()], uuid=env.new_uuid())
    written.append(packed.key)
    location.store.put(location.store_key(packed.key), packed.data)
    of_new = dict(zip(new, packed.vectors[len(kept) :], strict=True))
    if not kept:
        return Rehidden(gone, RESTAMPED.empty_table(), of_new)
    texts = pa.chunked_array([texts_of(slab.stats) for slab in touched.slabs], pa.string()).to_pylist()
    loose = [loosened(text, rows, len(old.get(key, ()))) for text, rows, key in zip(texts, counts, keys, strict=True)]
    again = gone.append_column("num_records", pa.array(counts, pa.int64())).append_column("stats", strings(loose))
    again = again.filter(pa.array(left, pa.bool_()))
    vectors = pa.array([_described(vector) for vector in packed.vectors[: len(kept)]], DV)
    return Rehidden(gone, again.set_column(again.column_names.index("dv"), "dv", vectors).cast(RESTAMPED), of_new)


def _counts(location: Location, files: FileTable) -> list[int]:
    """Physical rows of each file: from the log, else from its footer."""
    told: list[int | None] = files.num_records.to_pylist()
    rows = zip(files.column("key").to_pylist(), files.column("size").to_pylist(), told, strict=True)
    silent = [(key, size) for key, size, count in rows if count is None]
    with ThreadPoolExecutor(_READERS) as pool:
        read = pool.map(lambda it: read_footer(location.store, location.store_key(it[0]), it[1]).num_rows, silent)
        found = iter(list(read))
    return [next(found) if count is None else count for count in told]


def _described(vector: DeletionVector) -> dict[str, Any]:
    return {
        "id": vector.unique_id,
        "storage": vector.storage_type,
        "path": vector.path_or_inline_dv,
        "offset": vector.offset,
        "size": vector.size_in_bytes,
        "cardinality": vector.cardinality,
    }


def loosened(text: str | None, rows: int, hidden: int) -> str:
    """Statistics of a file that hides rows. Tight ones of a file that hid some so far count nulls among the others."""
    try:
        old = msgspec.json.decode(text or "{}")
    except MALFORMED_JSON:
        old = {}
    said = old if isinstance(old, dict) else {}
    if hidden and said.get("tightBounds", True) and isinstance(said.get("nullCount"), dict):
        said = {**said, "nullCount": _physical(said["nullCount"], rows - hidden, rows)}
    return msgspec.json.encode({**said, "numRecords": rows, "tightBounds": False}).decode()


def _physical(counts: Any, live: int, rows: int) -> Any:
    """Null counts of live rows as counts of physical rows: all stays all, none stays none."""
    if isinstance(counts, dict):
        return {name: _physical(inner, live, rows) for name, inner in counts.items()}
    return rows if counts == live else counts
