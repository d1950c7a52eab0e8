"""Which files of a snapshot may hold a row id: columns over the files, never a step per row.

A file whose rows are all as they were first written holds the range from its base on. One that rows were moved to
carries their ids; what our own writers noted of it in the log says which, without a look at the file. Of what others
wrote only its footer can tell.

1. No live row's id lies outside of what `lows` and `highs` say of its file.
2. A note is believed only of the file it was made for, which is known by its size.
3. A note about another column than the one this table has its ids in says that the file carries none: a clone reads
   no ids of the table it was made from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import Damaged, NoRowIdentity
from holdfast.model.files import FileTable
from holdfast.model.snapshot import RowIdentity, Snapshot
from holdfast.rows.rowmap import ROW_IDS, checksum
from holdfast.schema.partition import column

Numbers = NDArray[np.int64]

FRESH, CARRIES, UNKNOWN = range(3)

_PARTS = ("size", "column", "low", "high", "derived", "map")
# Numbers of up to 18 digits, because longer ones may not fit.
_NOTE = (
    r"^(?P<size>\d{1,18})"
    r"(?:,(?P<column>[0-9a-f]{8}),(?P<low>\d{1,18}),(?P<high>\d{1,18}),(?P<derived>\d{1,18})(?:,(?P<map>.+))?)?$"
)


@dataclass(frozen=True, eq=False)
class Spans:
    """What each file of a snapshot may hold; by the file's number in it. The arrays are the holder's to update."""

    bases: Numbers
    counts: Numbers
    versions: Numbers  # the row commit version of rows that carry none
    kinds: NDArray[np.int8]  # FRESH, CARRIES, UNKNOWN
    lows: Numbers  # of ids that rows may have
    highs: Numbers
    maps: pa.Array  # what was noted of single rows, as text; null where nothing was


def spans(snapshot: Snapshot) -> Spans:
    """What the log says of files."""
    identity = snapshot.identity
    if identity is None:
        raise NoRowIdentity(
            f"the table at {snapshot.location.url} does not track rows, so its rows have no ids: "
            "call enableRowTracking(), which rewrites nothing"
        )
    files = snapshot.files
    held = spans_of(files, identity)
    unknown = np.flatnonzero((held.bases < 0) | (held.counts < 0))
    if len(unknown):
        key = files.column("key")[int(unknown[0])].as_py()
        raise Damaged(f"the log gives no row ids or no row count for {key}; its rows cannot be located", path=key)
    return held


def spans_of(files: FileTable, identity: RowIdentity) -> Spans:
    """What the log says of some files; a base or a count of -1 is unknown, and then nothing else of the file counts."""
    bases, counts = _numbers(files.column("base_row_id")), _numbers(files.num_records)
    ends = bases + counts - 1
    if identity.id_column is None:
        nothing = pa.nulls(len(files), pa.string())
        return Spans(bases, counts, _versions(files), np.zeros(len(files), np.int8), bases, ends, nothing)
    note = _notes(files)
    low, high, derived = (_numbers(note[name]) for name in ("low", "high", "derived"))
    kinds = _kinds(files, note, identity.id_column)
    # Ids that a file carries are older than its own, so what may lie in an unknown one ends with its own range.
    lows = np.choose(kinds, [bases, np.where(derived > 0, np.minimum(low, bases), low), np.zeros(len(bases), np.int64)])
    highs = np.choose(kinds, [ends, np.where(derived > 0, np.maximum(high, ends), high), ends])
    usable = pa.array(kinds == CARRIES)
    return Spans(bases, counts, _versions(files), kinds, lows, highs, pc.if_else(usable, note["map"], None))


def has_moved_rows(files: FileTable, identity: RowIdentity) -> bool:
    """Whether rows were moved into some of these files, as far as the log says."""
    if identity.id_column is None or not len(files):
        return False
    return bool((_kinds(files, _notes(files), identity.id_column) == CARRIES).any())


def _kinds(files: FileTable, note: Mapping[str, pa.Array], id_column: str) -> NDArray[np.int8]:
    sized = _numbers(note["size"]) == _numbers(files.column("size"))
    ours = pc.fill_null(pc.equal(note["column"], f"{checksum(id_column):08x}"), False).to_numpy(False)
    carries = ours & (_numbers(note["derived"]) < _numbers(files.num_records))
    return np.where(~sized, UNKNOWN, np.where(carries, CARRIES, FRESH)).astype(np.int8)


def _notes(files: FileTable) -> dict[str, pa.Array]:
    """The parts of each file's note, as texts; null where it has none, or none that is understood."""
    texts, sizes = column(files.column("tags"), ROW_IDS), files.column("size").combine_chunks().cast(pa.string())
    # Most notes are a size and nothing else: these need no taking apart.
    plain = pc.fill_null(pc.equal(texts, sizes), False).to_numpy(False)
    longer = np.flatnonzero(texts.is_valid().to_numpy(False) & ~plain)
    parsed = pc.extract_regex(texts.take(pa.array(longer)), _NOTE)
    at = np.zeros(len(files), np.int64)
    at[longer] = np.arange(len(longer))
    chosen = pa.array(at, mask=~np.isin(np.arange(len(files)), longer))
    parts = {name: _full(pc.struct_field(parsed, name)).take(chosen) for name in _PARTS}
    return {**parts, "size": pc.if_else(pa.array(plain), sizes, parts["size"])}


def _full(texts: pa.Array) -> pa.Array:
    """Texts, null where there is nothing."""
    return pc.if_else(pc.equal(texts, ""), None, texts)


def _numbers(values: pa.Array | pa.ChunkedArray) -> Numbers:
    """Whole numbers, -1 where there is none."""
    flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    found: Numbers = pc.fill_null(flat.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return found


def _versions(files: FileTable) -> Numbers:
    return _numbers(files.column("default_row_commit_version"))
