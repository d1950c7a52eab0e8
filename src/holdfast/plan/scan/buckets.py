"""Prunes files of Iceberg tables by bucket: drops files whose bucket has none of the values of a condition.

1. A file with a row that satisfies the condition is kept; a predicate other than an equality with a value keeps all.
2. A null bucket keeps the file: it is the bucket of null, or the file has no bucket.
3. Hashes are 32-bit murmur3 of a value's bytes, as Iceberg defines them; they are computed for the values of a
   condition, never for rows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.model.files import PARTITION, FileTable
from holdfast.model.snapshot import Bucketed, Snapshot
from holdfast.parquet.partition_transforms import shortest, unscaled
from holdfast.predicate.evaluate import as_array
from holdfast.predicate.records import And, Column, Compare, In, Op, Or, Predicate, Value, pushed
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import Field

_WORD = 0xFFFFFFFF


def may_hold(files: FileTable, snapshot: Snapshot, where: Predicate) -> NDArray[np.bool_]:
    """The files that may hold a row that satisfies a condition."""
    everything = np.ones(len(files), np.bool_)
    if snapshot.placement is None or not snapshot.placement.buckets or not len(files):
        return everything

    def may(predicate: Predicate) -> NDArray[np.bool_]:
        match predicate:
            case And(parts):
                return reduce(np.logical_and, map(may, parts), everything)
            case Or(parts):
                return reduce(np.logical_or, map(may, parts), ~everything)
            case Compare(Op.EQ | Op.SAME, column, value):
                return _among(files, snapshot, column, (value,))
            case In(column, values):
                return _among(files, snapshot, column, values)
            case _:
                return everything

    return may(pushed(where))


def buckets_tested(snapshot: Snapshot, columns: Iterable[Column]) -> list[str]:
    """The names of the columns that files are bucketed by."""
    placed = set() if snapshot.placement is None else {b.field_id for b in snapshot.placement.buckets}
    fields = [_field(snapshot, column) for column in columns]
    return sorted(f.name for f in fields if f is not None and f.field_id in placed)


def hashed(value: pa.Scalar) -> int | None:
    """The hash of a value; None if its type has none."""
    type_ = value.type
    if pa.types.is_integer(type_):
        return murmur3(struct.pack("<q", value.as_py()))
    if pa.types.is_date(type_):
        return murmur3(struct.pack("<q", value.cast(pa.int32()).as_py()))
    if pa.types.is_timestamp(type_):
        return murmur3(struct.pack("<q", value.cast(pa.int64()).as_py()))
    if pa.types.is_string(type_):
        return murmur3(value.as_py().encode())
    if pa.types.is_binary(type_):
        return murmur3(value.as_py())
    if pa.types.is_decimal(type_):
        (whole,) = unscaled(pa.array([value], type_))
        return None if whole is None else murmur3(shortest(whole))
    return None


def murmur3(data: bytes) -> int:
    """The 32-bit murmur3 hash with seed 0, as an unsigned number."""
    state = 0
    whole = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        state = _rotated(state ^ _mixed(word), 13) * 5 + 0xE6546B64 & _WORD
    if rest := data[whole:]:
        state ^= _mixed(int.from_bytes(rest, "little"))
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & _WORD
    state = (state ^ state >> 13) * 0xC2B2AE35 & _WORD
    return state ^ state >> 16


def _mixed(word: int) -> int:
    return _rotated(word * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & _WORD


def _among(files: FileTable, snapshot: Snapshot, column: Column, values: tuple[Value, ...]) -> NDArray[np.bool_]:
    kept = np.ones(len(files), np.bool_)
    field = _field(snapshot, column)
    assert snapshot.placement is not None, "buckets are looked at where files are placed by specs"
    for bucketed in snapshot.placement.buckets:
        if field is None or bucketed.field_id != field.field_id:
            continue
        hashes = [hashed(v) for v in as_array(values, arrow_type(field.type), column)]
        if None not in hashes:
            kept &= _in_bucket(files, bucketed, [h for h in hashes if h is not None])
    return kept


def _in_bucket(files: FileTable, bucketed: Bucketed, hashes: list[int]) -> NDArray[np.bool_]:
    numbers = pc.struct_field(files.column(PARTITION), bucketed.name)
    buckets = pa.array({(h & 0x7FFFFFFF) % bucketed.count for h in hashes}, numbers.type)
    return np.asarray(pc.or_(pc.is_null(numbers), pc.is_in(numbers, value_set=buckets)))


def _field(snapshot: Snapshot, column: Column) -> Field | None:
    return snapshot.schema.find(column[0]) if len(column) == 1 else None
