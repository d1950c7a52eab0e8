"""Computes the tail of an index: the rows of a snapshot that its segments may have no entry for. Pure.

An index is complete for one version: every row that was live there has an entry. So the tail follows from the files of
that version and those of the snapshot, and is never stored:

    file of the indexed version   rows that were hidden then and are live now
    other file                    rows that changed since; all rows, if rows may have come back since, or if the
                                  snapshot is older than the index

1. A row outside the tail has an entry in some segment, with its row id and row commit version.
2. A file is identified by its base row id, which no two files of a table share, and its default row commit version.
3. Without proof that no row came back since (`Steady`), all rows of other files are in the tail.
4. If an old deletion vector cannot be read, all rows of its file are in the tail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.errors import TableError
from holdfast.model.files import DV, FILES, FileTable, NoStats, Slab, hiding
from holdfast.model.snapshot import HiddenRows, LoadHidden, Snapshot
from holdfast.plan.indexing import IndexedFiles
from holdfast.rows.keys import Numbers
from holdfast.storage.arrays import mask, strings
from holdfast.storage.error_mapping import parsing
from holdfast.storage.location import Location

_KNOWN = pa.schema([("base", pa.int64()), ("default", pa.int64()), ("path", pa.string()), ("dv", DV)])


@dataclass(frozen=True, slots=True)
class Steady:
    """Every commit after the indexed version was read; rows stayed tracked, and no removed row came back."""


@dataclass(frozen=True, slots=True)
class Unsteady:
    """Rows may have come back since, or were not tracked for a while, or the commits were not read."""

    why: str


Since: TypeAlias = Steady | Unsteady


@dataclass(frozen=True, slots=True, eq=False)
class KnownFiles:
    """The files of the indexed version, by base row id; `hiding` are those with a deletion vector."""

    bases: Numbers  # ascending
    defaults: Numbers
    hiding: pa.Table  # base, path and deletion vector of each


@dataclass(frozen=True)
class Tail:
    """Rows of a snapshot that a lookup has to read."""

    whole: FileTable = field(default_factory=FileTable)  # every row
    newer: FileTable = field(default_factory=FileTable)  # rows with a commit version above `version`
    version: int = 0
    again: FileTable = field(default_factory=FileTable)  # rows at the positions in `shown`
    shown: Mapping[str, BitMap64] = field(default_factory=dict)  # by file key
    why: str | None = None  # why it has more than the rows written since

    def __len__(self) -> int:
        return len(self.whole) + len(self.newer) + len(self.again)

    @cached_property
    def most_rows(self) -> int:
        """The largest number of rows, from the log."""
        counted = [pc.sum(files.num_records).as_py() or 0 for files in (self.whole, self.newer) if len(files)]
        return sum(counted) + sum(map(len, self.shown.values()))

    @property
    def keys(self) -> list[str]:
        return [key for files in (self.whole, self.newer, self.again) for key in files.column("key").to_pylist()]


def known_files(snapshot: Snapshot) -> KnownFiles:
    """The files of a snapshot, in the form that an index stores."""
    files = snapshot.files.table
    table = pa.Table.from_arrays(
        [files.column(name) for name in ("base_row_id", "default_row_commit_version", "path", "dv")], schema=_KNOWN
    )
    table = table.filter(pc.and_(pc.is_valid(table.column("base")), pc.is_valid(table.column("default"))))
    table = table.sort_by("base")
    return KnownFiles(
        table.column("base").to_numpy(),
        table.column("default").to_numpy(),
        table.filter(pc.is_valid(table.column("dv"))).select(["base", "path", "dv"]),
    )


def known_bytes(known: KnownFiles) -> bytes:
    at = np.searchsorted(known.bases, known.hiding.column("base").to_numpy())
    where = np.full(len(known.bases), -1, np.int64)
    where[at] = np.arange(len(at))
    indices = pa.array(where, mask=where < 0)
    table = pa.Table.from_arrays(
        [
            pa.array(known.bases),
            pa.array(known.defaults),
            known.hiding.column("path").combine_chunks().take(indices),
            known.hiding.column("dv").combine_chunks().take(indices),
        ],
        schema=_KNOWN,
    )
    sink = pa.BufferOutputStream()
    encodings = {"base": "DELTA_BINARY_PACKED", "default": "DELTA_BINARY_PACKED"}
    pq.write_table(table, sink, compression="zstd", use_dictionary=False, column_encoding=encodings)
    return bytes(sink.getvalue().to_pybytes())


def known_from(data: bytes, *, where: str) -> KnownFiles:
    with parsing(where, "cannot be read as Parquet", remedy="rebuild the index"):
        table = pq.read_table(pa.BufferReader(data)).cast(_KNOWN)
    hides = table.filter(pc.is_valid(table.column("dv"))).select(["base", "path", "dv"])
    return KnownFiles(table.column("base").to_numpy(), table.column("default").to_numpy(), hides)


def tail_of(snapshot: Snapshot, known: KnownFiles, version: int, since: Since, load_hidden: LoadHidden) -> Tail:
    """The tail of an index that is complete for `version` with the files `known`."""
    files = snapshot.files
    if not len(files):
        return Tail(version=version)
    bases = pc.fill_null(files.column("base_row_id"), -1).to_numpy()
    defaults = pc.fill_null(files.column("default_row_commit_version"), -1).to_numpy()
    at = np.minimum(np.searchsorted(known.bases, bases), max(len(known.bases) - 1, 0))
    was_there = np.zeros(len(bases), bool)
    if len(known.bases):
        was_there = (bases >= 0) & (known.bases[at] == bases) & (known.defaults[at] == defaults)
    if isinstance(since, Steady) and snapshot.version >= version:
        newer = ~was_there & (bases >= 0) & (defaults > version)
        whole = ~was_there & ~newer
        return Tail(_some(files, whole), _some(files, newer), version)
    again, shown, lost = _live_again(snapshot, _some(files, was_there), known, load_hidden)
    whole = ~was_there | np.isin(bases, lost)
    older = f"version {snapshot.version} is older than version {version}, which is indexed"
    why = since.why if isinstance(since, Unsteady) else older
    return Tail(_some(files, whole), version=version, again=again, shown=shown, why=why)


def parts_of(snapshot: Snapshot, tail: Tail, load_hidden: LoadHidden) -> tuple[IndexedFiles, ...]:
    """The parts of a tail, each with its hidden rows."""
    location = snapshot.location
    parts = []
    if len(tail.whole):
        parts.append(IndexedFiles(tail.whole, load_hidden(location, tail.whole)))
    if len(tail.newer):
        parts.append(IndexedFiles(tail.newer, load_hidden(location, tail.newer), tail.version))
    if len(tail.again):
        keys, rows = tail.again.column("key").to_pylist(), tail.again.num_records.to_pylist()
        rest = {key: BitMap64(range(count)) - tail.shown[key] for key, count in zip(keys, rows, strict=True)}
        parts.append(IndexedFiles(hiding(tail.again), HiddenRows(rest)))
    return tuple(parts)


def whole_of(snapshot: Snapshot, load_hidden: LoadHidden) -> tuple[IndexedFiles, ...]:
    """All live rows of a snapshot, as parts."""
    return parts_of(snapshot, Tail(snapshot.files), load_hidden)


def _live_again(
    snapshot: Snapshot, files: FileTable, known: KnownFiles, load_hidden: LoadHidden
) -> tuple[FileTable, dict[str, BitMap64], Numbers]:
    """Files of the indexed version with rows that are live again, these rows, and bases of files without an answer."""
    none = FileTable(), dict[str, BitMap64](), np.zeros(0, np.int64)
    if not len(files) or not known.hiding.num_rows:
        return none
    then_bases = known.hiding.column("base").to_numpy()
    now_ids = pc.struct_field(files.column("dv").combine_chunks(), "id")
    then_ids = pc.struct_field(known.hiding.column("dv").combine_chunks(), "id")
    at = pc.index_in(files.column("base_row_id").combine_chunks(), value_set=pa.array(then_bases))
    differs = pc.and_(pc.is_valid(at), pc.invert(pc.fill_null(pc.equal(now_ids, then_ids.take(at)), False)))
    files = files.filter(differs)
    if not len(files):
        return none
    keys = files.column("key").to_pylist()
    bases = files.column("base_row_id").to_numpy()
    counts = files.num_records
    then = known.hiding.take(at.filter(differs))
    now = load_hidden(snapshot.location, files).positions
    shown: dict[str, BitMap64] = {}
    lost: list[int] = []
    for row, key in enumerate(keys):  # one per file whose deletion vector changed
        before = _old_dv(snapshot.location, files, row, then.slice(row, 1), load_hidden)
        if before is None or not counts[row].is_valid:
            lost.append(int(bases[row]))
        elif back := before - now.get(key, BitMap64()):
            shown[key] = back
    is_shown = pc.is_in(files.column("key").combine_chunks(), value_set=strings(list(shown)))
    return files.filter(is_shown), shown, np.array(lost, np.int64)


def _old_dv(location: Location, files: FileTable, row: int, then: pa.Table, load_hidden: LoadHidden) -> BitMap64 | None:
    """The positions that a file hid at the indexed version; None if they cannot be read."""
    one = files.table.slice(row, 1)
    old = one.set_column(FILES.get_field_index("dv"), "dv", then.column("dv"))
    try:
        positions = load_hidden(location, FileTable((Slab(old, NoStats(1)),))).positions
    except TableError:
        return None
    return positions.get(one.column("key")[0].as_py(), BitMap64())


def _some(files: FileTable, chosen: NDArray[np.bool_]) -> FileTable:
    return files.filter(mask(chosen))
