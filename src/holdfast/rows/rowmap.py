"""The row map of a file: the row id and row commit version of each row, in few bytes.

Writers store it with the file, so that finding a row need not read the file's columns. Where a row has no materialized
id or version, these follow from the file's entry in the log, which exists only after the commit: until the map is bound
to that entry, such an id is PROVISIONAL plus the row's position, and such a version is DERIVED.

1. A map has an id and a version for every row in its file, with hidden ones.
2. Decoding returns the encoded map or raises Damaged. The bytes name the file and its column of ids, because tools copy
   footers to other files, and a clone reads ids from another column.
3. There is no Python loop over rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from struct import calcsize, pack, unpack_from

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import Damaged
from holdfast.rows.segments import IdRange, Ids, Positions, Segment, choose, width
from holdfast.rows.sequence import RowIdSequence
from holdfast.rows.stamp import PROVISIONAL

ROW_IDS = "holdfast.rowIds"  # the tag of a file in the log that holds its note
DERIVED = -1  # the version of a row without a materialized one

_FORMAT = 1
_HEADER = "<BIQI"  # format, checksum of file and column, rows, bytes of the ids
_RUNS = "<IqBB"  # runs, lowest version, bytes of a version and of a length


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Run-length encoded numbers of consecutive rows."""

    ends: Positions  # the position after each run
    values: NDArray[np.int64]

    @classmethod
    def of(cls, values: NDArray[np.int64]) -> Runs:
        ends = np.append(np.flatnonzero(values[1:] != values[:-1]) + 1, len(values)) if len(values) else values[:0]
        return cls(ends.astype(np.int64), values[ends - 1])

    @classmethod
    def joined(cls, parts: Sequence[Runs]) -> Runs:
        """The parts one after another."""
        lengths = [np.diff(part.ends, prepend=0) for part in parts]
        values = np.concatenate([np.zeros(0, np.int64), *(part.values for part in parts)])
        ends = np.cumsum(np.concatenate([np.zeros(0, np.int64), *lengths]))
        last = np.append(values[1:] != values[:-1], True) if len(values) else np.zeros(0, np.bool_)
        return cls(ends[last], values[last])

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def at(self, positions: Positions) -> NDArray[np.int64]:
        """The number of each of these rows."""
        return self.values[np.searchsorted(self.ends, positions, side="right")]


@dataclass(frozen=True, slots=True, eq=False)
class RowMap:
    """The id and the version of every physical row of a file."""

    ids: RowIdSequence
    versions: Runs

    @classmethod
    def of(cls, ids: NDArray[np.int64], versions: NDArray[np.int64]) -> RowMap:
        return cls(RowIdSequence.from_ids(ids), Runs.of(versions))

    @classmethod
    def joined(cls, parts: Sequence[RowMap]) -> RowMap:
        """The parts one after another."""
        segments: list[Segment] = []
        for segment in (segment for part in parts for segment in part.ids.segments):
            if segments and isinstance(segment, IdRange) and _continues(segments[-1], segment):
                segment = IdRange(segments.pop().low, segment.end)
            segments.append(segment)
        return cls(RowIdSequence(tuple(segments)), Runs.joined([part.versions for part in parts]))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def encoded_bytes(self) -> int:
        """The approximate size of the map when stored."""
        return sum(segment.encoded_bytes for segment in self.ids.segments) + 3 * len(self.versions.ends)

    def carried(self) -> tuple[int, int, int]:
        """The lowest and the highest materialized id, and how many rows have none; (0, -1) where there is none."""
        low, high, derived = PROVISIONAL, -1, 0
        for segment in self.ids.segments:
            if segment.high < PROVISIONAL:
                low, high = min(low, segment.low), max(high, segment.high)
            elif segment.low >= PROVISIONAL:
                derived += len(segment)
            else:
                ids = segment.to_numpy()
                materialized = ids[ids < PROVISIONAL]
                low, high = min(low, int(materialized.min())), max(high, int(materialized.max()))
                derived += len(ids) - len(materialized)
        return (low, high, derived) if high >= 0 else (0, -1, derived)

    def bound(self, base: int, default_version: int) -> RowMap:
        """The map with the ids and versions of rows without materialized ones, which follow from the log."""
        segments = [
            segment if segment.high < PROVISIONAL else choose(_bound(segment.to_numpy(), base))
            for segment in self.ids.segments
        ]
        values = self.versions.values
        return RowMap(
            RowIdSequence(tuple(segments)),
            Runs(self.versions.ends, np.where(values == DERIVED, default_version, values)),
        )

    def encode(self, of: str) -> bytes:
        """The bytes of the map; `of` names the file and its column of ids."""
        ids = self.ids.encode()
        values, lengths = self.versions.values, np.diff(self.versions.ends, prepend=0)
        lowest = int(values.min()) if len(values) else 0
        sizes = width(int(values.max()) - lowest if len(values) else 0), width(int(lengths.max(initial=0)))
        content = b"".join(
            (
                pack(_HEADER, _FORMAT, checksum(of), len(self), len(ids)),
                ids,
                pack(_RUNS, len(values), lowest, *sizes),
                (values - lowest).astype(f"<u{sizes[0]}").tobytes(),
                lengths.astype(f"<u{sizes[1]}").tobytes(),
            )
        )
        return content + pack("<I", zlib.crc32(content))

    @classmethod
    def decode(cls, data: bytes, of: str, *, where: str) -> RowMap | None:
        """Decodes a map; None where it is of another file or column. `where` names it in errors."""
        if len(data) < calcsize(_HEADER) + 4 or data[0] != _FORMAT:
            raise _damaged(where, "is none that this library writes")
        (crc,) = unpack_from("<I", data, len(data) - 4)
        if crc != zlib.crc32(data[:-4]):
            raise _damaged(where, "does not match its CRC-32")
        _, name, rows, size = unpack_from(_HEADER, data)
        if name != checksum(of):
            return None
        at = calcsize(_HEADER)
        ids = RowIdSequence.decode(data[at : at + size], where=where)
        versions = _decode_runs(data[:-4], at + size, where)
        if len(ids) != rows or len(versions) != rows:
            raise _damaged(where, f"has {len(ids)} ids and {len(versions)} versions for {rows} rows")
        return cls(ids, versions)


def note(size: int, carried: str) -> str:
    """The tag of a file of this size in the log; `carried` is its writer's note."""
    return f"{size},{carried}" if carried else str(size)


def checksum(name: str) -> int:
    """A short stand-in for a name."""
    return zlib.crc32(name.encode())


def _continues(before: Segment, segment: IdRange) -> bool:
    return isinstance(before, IdRange) and before.end == segment.start


def _bound(ids: Ids, base: int) -> Ids:
    return np.where(ids >= PROVISIONAL, ids - PROVISIONAL + base, ids)


def _decode_runs(data: bytes, at: int, where: str) -> Runs:
    if len(data) < at + calcsize(_RUNS):
        raise _damaged(where, "ends before its versions")
    count, lowest, value_bytes, length_bytes = unpack_from(_RUNS, data, at)
    at += calcsize(_RUNS)
    if value_bytes not in (1, 2, 4, 8) or length_bytes not in (1, 2, 4, 8):
        raise _damaged(where, "has numbers of no known size")
    if len(data) != at + count * (value_bytes + length_bytes):
        raise _damaged(where, f"has {len(data) - at} bytes for {count} runs of versions")
    values = np.frombuffer(data, f"<u{value_bytes}", count, at).astype(np.int64) + lowest
    lengths = np.frombuffer(data, f"<u{length_bytes}", count, at + count * value_bytes).astype(np.int64)
    if count and (lengths.min() <= 0 or values.min() < DERIVED):
        raise _damaged(where, "has an empty run, or a version below 0")
    return Runs(np.cumsum(lengths), values)


def _damaged(where: str, what: str) -> Damaged:
    return Damaged(f"the row map of {where} {what}", path=where)
