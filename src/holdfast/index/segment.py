"""A segment of an index on storage: a directory of immutable files, and a `meta.json` with their checksums.

    domain of the table  ->  checksum of meta.json  ->  size and checksum of every file

1. Nothing refers to a segment before all of its files are written.
2. A file that is missing, or does not match its size or checksum, is Damaged; the caller scans instead.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.errors import Damaged, TableError
from holdfast.index.registry import SegmentRef
from holdfast.parquet.index_runs import ROW_ID, ROW_IDS
from holdfast.parquet.source import open_source
from holdfast.storage.base import LARGEST_BYTES, NotFound, TooLarge
from holdfast.storage.error_mapping import MALFORMED, json_record
from holdfast.storage.location import Location, is_inside

META = "meta.json"
META_BYTES = 256 << 20  # at most
_AT_ONCE = 4


class FileSum(msgspec.Struct, frozen=True):
    """Size and checksum of a file of a segment."""

    bytes: int
    crc: int  # CRC-32 of all of it
    extra: dict[str, Any] = {}


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """The content of `meta.json`."""

    kind: str
    uuid: str
    version: int  # of the snapshot it was built from
    entries: int
    low_id: int
    high_id: int
    files: dict[str, FileSum]
    extra: dict[str, Any] = {}
    format: int = 1


def checksum(data: bytes | pa.Buffer) -> int:
    return zlib.crc32(data)


class SegmentWriting:
    """Writes files of a segment, a few at a time; leaving the block waits for all of them."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="holdfast-index")
        self._begun: deque[Future[None]] = deque()

    def __enter__(self) -> SegmentWriting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._pool:
            while error is None and self._begun:
                self._begun.popleft().result()

    def put(self, directory: str, name: str, data: bytes) -> FileSum:
        """Begin to write a file."""
        while len(self._begun) >= _AT_ONCE:
            self._begun.popleft().result()
        key = self._location.key(directory, name)
        self._begun.append(self._pool.submit(self._location.store.put, key, data))
        return FileSum(len(data), checksum(data))


def put_file(location: Location, directory: str, name: str, data: bytes) -> FileSum:
    location.store.put(location.key(directory, name), data)
    return FileSum(len(data), checksum(data))


def put_meta(directory: str, meta: Meta, writing: SegmentWriting, extra: Mapping[str, Any] | None = None) -> SegmentRef:
    """Write the `meta.json` of a segment; returns the reference to the segment, `extra` included."""
    data = msgspec.json.encode(meta)
    writing.put(directory, META, data)
    return SegmentRef(
        meta.uuid,
        directory,
        meta.version,
        meta.entries,
        meta.low_id,
        meta.high_id,
        len(data) + sum(one.bytes for one in meta.files.values()),
        f"{checksum(data):08x}",
        extra=dict(extra or {}),
    )


def read_meta(location: Location, ref: SegmentRef) -> Meta:
    """Read the `meta.json` of a segment and check its checksum."""
    data = get_file(location, ref.directory, META, None)
    where = f"{location.url}/{ref.directory}/{META}"
    if f"{checksum(data):08x}" != ref.checksum:
        raise Damaged(
            f"{where} is not what was written: its checksum is {checksum(data):08x} instead of {ref.checksum}",
            path=where,
            expected=ref.checksum,
            found=f"{checksum(data):08x}",
        )
    return json_record(data, Meta, path=where, what="is not understood", remedy="rebuild the index")


def get_file(location: Location, directory: str, name: str, sums: FileSum | None) -> bytes:
    """Read a file and check its size and checksum; `sums` None: no check."""
    where = f"{location.url}/{directory}/{name}"
    if not is_inside(name):
        raise Damaged(f"the index refers to {where}, which is not in the table's directory: rebuild it", path=where)
    try:
        data = location.store.get(
            location.key(directory, name), META_BYTES if sums is None else min(sums.bytes, LARGEST_BYTES)
        )
    except NotFound as error:
        raise Damaged(f"{where} is not there, but the index refers to it", path=where) from error
    except TooLarge as error:
        raise Damaged(f"{where} is not what was written: {error}; rebuild the index", path=where) from error
    if sums is not None and (len(data), checksum(data)) != (sums.bytes, sums.crc):
        raise Damaged(
            f"{where} is not what was written: {len(data)} bytes with checksum {checksum(data):08x} instead of "
            f"{sums.bytes} with {sums.crc:08x}",
            path=where,
            expected=f"{sums.bytes} bytes, {sums.crc:08x}",
            found=f"{len(data)} bytes, {checksum(data):08x}",
        )
    return data


def id_version_pairs(ids: NDArray[np.int64], versions: NDArray[np.int64]) -> NDArray[np.void]:
    """Row ids and versions as one array of pairs, to compare entries with rows."""
    pairs = np.ascontiguousarray(np.stack((ids, versions), axis=1))
    return pairs.view([("id", np.int64), ("version", np.int64)]).ravel()


def files_holding(location: Location, keys: Sequence[str], ids: BitMap64) -> Mapping[str, int]:
    """The index files, out of these keys, that hold entries of rows with these ids, and of how many rows.

    Entries hold values of their rows, so all files of the index directory matter, even if no index refers to them. A
    file that cannot be read, or does not list its rows, counts as soon as it may hold one of them.
    """
    row_ids = np.frombuffer(ids.to_array(), np.uint64).astype(np.int64)
    counts = {key: _rows_held(location, key, ids, row_ids) for key in keys}  # one per file of an index
    return {key: count for key, count in counts.items() if count}


def _rows_held(location: Location, key: str, ids: BitMap64, row_ids: NDArray[np.int64]) -> int:
    name = key.rpartition("/")[2]
    try:
        if name == META:
            path = f"{location.store.url}/{location.key(key)}"
            data = location.store.get(location.key(key), META_BYTES)
            meta = json_record(data, Meta, path=path, what="is no meta of a segment")
            # The rows of a segment with runs are in the runs, which are among the files.
            return 0 if "runs" in meta.extra else int(((row_ids >= meta.low_id) & (row_ids <= meta.high_id)).sum())
        if not name.startswith(("run-", "part-")):
            return 0
        file = pq.ParquetFile(open_source(location.store, location.key(key), None))
        if ROW_IDS in file.schema_arrow.names:
            bitmaps = file.read([ROW_IDS]).column(0).to_pylist()
            return sum(BitMap64.deserialize(data).intersection_cardinality(ids) for data in bitmaps)
        return int(np.isin(file.read([ROW_ID]).column(0).to_numpy(), row_ids).sum())
    except (TableError, OSError):
        return len(ids)
    except MALFORMED:
        return len(ids)
