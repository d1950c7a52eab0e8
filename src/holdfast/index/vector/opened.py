"""Reads a vector segment into memory, and checks which of its entries are valid in a snapshot.

1. A segment that does not match its checksums is Damaged.
2. An entry is valid if the row with its id is live in the snapshot and has its row commit version. A search checks the
   entries it finds; it checks all entries only if so many are dead that too few are left.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from holdfast.errors import Damaged
from holdfast.index.reader import Located, PinnedReader
from holdfast.index.registry import SegmentRef
from holdfast.index.segment import FileSum, get_file, read_meta
from holdfast.index.vector.coder import Coder, Trained
from holdfast.index.vector.fill import ENTRIES, FLAT, LISTS, ROW_ID, VERSION
from holdfast.index.vector.metric import Matrix, Numbers, Points
from holdfast.model.snapshot import Snapshot
from holdfast.storage.error_mapping import MALFORMED
from holdfast.storage.location import Location

QUANTIZER = "ivf.faiss"
MOST_BYTES = 4 << 30  # of segments that are kept open

_MEMORY = "vector segments"


def trained_of(ref: SegmentRef) -> Trained:
    """The parameters that segments of a generation share."""
    try:
        return Trained.from_json(ref.extra["trained"])
    except MALFORMED as error:
        raise Damaged(
            f"{ref.directory} is no vector segment that is understood: {error!r}", path=ref.directory
        ) from error


def quantizer_of(location: Location, ref: SegmentRef) -> bytes:
    """The trained quantizer of a segment's generation; empty if it has none."""
    stored: Mapping[str, Any] | None = ref.extra.get("quantizer")
    if stored is None:
        return b""
    return get_file(location, stored["directory"], QUANTIZER, FileSum(stored["bytes"], stored["crc"]))


@dataclass(eq=False)
class OpenSegment:
    ref: SegmentRef
    trained: Trained
    ids: Numbers
    versions: Numbers
    coder: Coder | None  # entries from the first on
    flat: Matrix  # entries after those
    _order: tuple[Numbers, Numbers] | None = None  # entries by row id, and the ids
    _live: tuple[Snapshot, NDArray[np.bool_]] | None = None  # in the snapshot of the last call
    _flat: tuple[Snapshot, Points] | None = None  # likewise

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def coded(self) -> int:
        """The number of encoded entries."""
        return len(self.ids) - len(self.flat)

    def locate(self, entries: Numbers, reader: PinnedReader) -> tuple[Located, NDArray[np.bool_]]:
        """The locations of the rows of entries, and which entries are valid."""
        located = reader.locate(self.ids[entries])
        return located, located.live & (located.versions == self.versions[entries])

    def live(self, reader: PinnedReader) -> NDArray[np.bool_]:
        """Which entries are valid."""
        if self._live is None or self._live[0] is not reader.snapshot:
            self._live = reader.snapshot, self.locate(np.arange(len(self)), reader)[1]
        return self._live[1]

    def known_live(self, reader: PinnedReader) -> NDArray[np.bool_] | None:
        """Which entries are valid, if that is cached."""
        return self._live[1] if self._live is not None and self._live[0] is reader.snapshot else None

    def live_flat(self, reader: PinnedReader) -> Points:
        if self._flat is None or self._flat[0] is not reader.snapshot:
            _, live = self.locate(np.arange(self.coded, len(self)), reader)
            ids = self.ids[self.coded :]
            points = Points(self.flat, ids) if live.all() else Points(self.flat[live], ids[live])
            self._flat = reader.snapshot, points
        return self._flat[1]

    def having(self, ascending: Numbers) -> NDArray[np.bool_]:
        """Which entries belong to rows with one of these ids."""
        if self._order is None:
            order = np.argsort(self.ids, kind="stable")
            self._order = order, self.ids[order]
        order, ordered = self._order
        inside = np.zeros(len(ordered) + 1, np.int64)  # counts up where an id begins, and down where it ends
        inside[: len(ordered)] += np.bincount(np.searchsorted(ordered, ascending, "left"), minlength=len(inside))[:-1]
        inside -= np.bincount(np.searchsorted(ordered, ascending, "right"), minlength=len(inside))
        chosen = np.zeros(len(ordered), bool)
        chosen[order] = np.cumsum(inside[:-1]) > 0
        return chosen


def opened(reader: PinnedReader, ref: SegmentRef) -> OpenSegment:
    """An open segment, cached with the reader."""
    cache: dict[str, OpenSegment] = reader.memory.setdefault(_MEMORY, {})
    cache_key = f"{ref.directory} {ref.checksum}"
    segment = cache.pop(cache_key, None) or read_segment(reader.snapshot.location, ref)
    cache[cache_key] = segment
    held = sum(each.ref.bytes for each in cache.values())
    for old in list(cache)[:-1]:
        if held <= MOST_BYTES:
            break
        held -= cache.pop(old).ref.bytes
    return segment


def read_segment(location: Location, ref: SegmentRef) -> OpenSegment:
    meta = read_meta(location, ref)
    trained = trained_of(ref)
    where = f"{location.url}/{ref.directory}"
    files = {name: get_file(location, ref.directory, name, sums) for name, sums in meta.files.items()}
    try:
        entries = pq.read_table(pa.BufferReader(files[ENTRIES]))
        flat = np.zeros((0, trained.length), np.float32)
        if FLAT in files:
            flat = np.load(io.BytesIO(files[FLAT]), allow_pickle=False)
    except (KeyError, ValueError, OSError, pa.ArrowException) as error:
        raise Damaged(f"{where} is no vector segment that is understood: {error!r}", path=where) from error
    coder = None
    if LISTS in files:
        coder = Coder(trained, quantizer_of(location, ref))
        try:
            coder.load(files[LISTS])
        except RuntimeError as error:  # faiss raises it for what it cannot read
            raise Damaged(f"{where}/{LISTS} is not understood: {error}", path=where) from error
    ids, versions = (entries.column(name).to_numpy() for name in (ROW_ID, VERSION))
    if len(ids) != len(flat) + (0 if coder is None else len(coder)):
        raise Damaged(f"{where} has {len(ids)} entries for another number of vectors", path=where)
    return OpenSegment(ref, trained, ids, versions, coder, flat)
