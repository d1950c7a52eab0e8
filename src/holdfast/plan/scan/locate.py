"""The range of row ids that each file of a snapshot may hold, from the log alone, in columns over the files.

A file with fresh rows holds the range from its base row id on. A file that rows were moved to carries their ids; a tag
that our writers add to the file's log entry gives their range. For files of other writers only the footer has it.

1. The id of every live row lies between `lows` and `highs` of its file.
2. A tag is valid only for the file it was written for, which its size identifies.
3. A tag about another id column than this table's means that the file carries no ids: a clone does not read ids of
   the table it was cloned from.
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
    """The row ids that each file may hold, by file number. The owner may update the arrays."""

    bases: Numbers
    counts: Numbers
    versions: Numbers  # the row commit version of rows that carry none
    kinds: NDArray[np.int8]  # FRESH, CARRIES, UNKNOWN
    lows: Numbers  # of ids that rows may have
    highs: Numbers
    maps: pa.Array  # the row map in the tag, as text; null if there is none


def spans(snapshot: Snapshot) -> Spans:
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
    """The spans of some files; if a base or a count is -1 (unknown), the other values of the file are void."""
    bases, counts = _numbers(files.column("base_row_id")), _numbers(files.num_records)
    ends = bases + counts - 1
    if identity.id_column is None:
        nothing = pa.nulls(len(files), pa.string())
        return Spans(bases, counts, _versions(files), np.zeros(len(files), np.int8), bases, ends, nothing)
    note = _notes(files)
    low, high, derived = (_numbers(note[name]) for name in ("low", "high", "derived"))
    kinds = _kinds(files, note, identity.id_column)
    # Carried ids are older than the file's own range, so the ids of an unknown file end with its own range.
    lows = np.choose(kinds, [bases, np.where(derived > 0, np.minimum(low, bases), low), np.zeros(len(bases), np.int64)])
    highs = np.choose(kinds, [ends, np.where(derived > 0, np.maximum(high, ends), high), ends])
    usable = pa.array(kinds == CARRIES)
    return Spans(bases, counts, _versions(files), kinds, lows, highs, pc.if_else(usable, note["map"], None))


def has_moved_rows(files: FileTable, identity: RowIdentity) -> bool:
    """Whether rows were moved into some of these files, according to the log."""
    if identity.id_column is None or not len(files):
        return False
    return bool((_kinds(files, _notes(files), identity.id_column) == CARRIES).any())


def _kinds(files: FileTable, note: Mapping[str, pa.Array], id_column: str) -> NDArray[np.int8]:
    sized = _numbers(note["size"]) == _numbers(files.column("size"))
    ours = pc.fill_null(pc.equal(note["column"], f"{checksum(id_column):08x}"), False).to_numpy(False)
    carries = ours & (_numbers(note["derived"]) < _numbers(files.num_records))
    return np.where(~sized, UNKNOWN, np.where(carries, CARRIES, FRESH)).astype(np.int8)


def _notes(files: FileTable) -> dict[str, pa.Array]:
    """The parts of each file's tag, as texts; null if it has none that is understood."""
    texts, sizes = column(files.column("tags"), ROW_IDS), files.column("size").combine_chunks().cast(pa.string())
    # Most tags are only a size, and need no parsing.
    plain = pc.fill_null(pc.equal(texts, sizes), False).to_numpy(False)
    longer = np.flatnonzero(texts.is_valid().to_numpy(False) & ~plain)
    parsed = pc.extract_regex(texts.take(pa.array(longer)), _NOTE)
    at = np.zeros(len(files), np.int64)
    at[longer] = np.arange(len(longer))
    chosen = pa.array(at, mask=~np.isin(np.arange(len(files)), longer))
    parts = {name: _null_if_empty(pc.struct_field(parsed, name)).take(chosen) for name in _PARTS}
    return {**parts, "size": pc.if_else(pa.array(plain), sizes, parts["size"])}


def _null_if_empty(texts: pa.Array) -> pa.Array:
    """Texts, with null for the empty text."""
    return pc.if_else(pc.equal(texts, ""), None, texts)


def _numbers(values: pa.Array | pa.ChunkedArray) -> Numbers:
    """Integers, -1 for null."""
    flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return np.asarray(pc.fill_null(flat.cast(pa.int64()), -1).to_numpy(zero_copy_only=False))


def _versions(files: FileTable) -> Numbers:
    return _numbers(files.column("default_row_commit_version"))
