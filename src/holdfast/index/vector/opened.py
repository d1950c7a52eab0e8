"""A vector segment that is searched: its files read and checked once, and kept in memory.

1. What contradicts the checksums of the segment is Damaged.
2. An entry is valid in a snapshot iff the row with its id is live there and has its commit version. Whether it is, is
   asked of entries that were found; of all entries only where so many turn out dead that too few are left.
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
    """What the segments of a generation share."""
    try:
        return Trained.from_json(ref.extra["trained"])
    except MALFORMED as error:
        raise Damaged(
            f"{ref.directory} is no vector segment that is understood: {error!r}", path=ref.directory
        ) from error


def quantizer_of(location: Location, ref: SegmentRef) -> bytes:
    """The trained quantizer of a segment's generation; nothing where it needs none."""
    told: Mapping[str, Any] | None = ref.extra.get("quantizer")
    if told is None:
        return b""
    return get_file(location, told["directory"], QUANTIZER, FileSum(told["bytes"], told["crc"]))


@dataclass(eq=False)
class OpenSegment:
    """A segment in memory."""

    ref: SegmentRef
    trained: Trained
    ids: Numbers
    versions: Numbers
    coder: Coder | None  # entries from the first on
    flat: Matrix  # entries after those
    _order: tuple[Numbers, Numbers] | None = None  # entries by row id, and the ids
    _live: tuple[Snapshot, NDArray[np.bool_]] | None = None  # in the snapshot that was asked for last
    _flat: tuple[Snapshot, Points] | None = None  # likewise

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def coded(self) -> int:
        """How many entries the quantizer has."""
        return len(self.ids) - len(self.flat)

    def locate(self, entries: Numbers, reader: PinnedReader) -> tuple[Located, NDArray[np.bool_]]:
        """Where the rows of entries are, and which of them are valid."""
        found = reader.locate(self.ids[entries])
        return found, found.live & (found.versions == self.versions[entries])

    def live(self, reader: PinnedReader) -> NDArray[np.bool_]:
        """Which of all entries are valid."""
        if self._live is None or self._live[0] is not reader.snapshot:
            self._live = reader.snapshot, self.locate(np.arange(len(self)), reader)[1]
        return self._live[1]

    def known_live(self, reader: PinnedReader) -> NDArray[np.bool_] | None:
        """Which entries are valid, where that was asked before."""
        return self._live[1] if self._live is not None and self._live[0] is reader.snapshot else None

    def live_flat(self, reader: PinnedReader) -> Points:
        """Vectors of valid flat entries."""
        if self._flat is None or self._flat[0] is not reader.snapshot:
            _, live = self.locate(np.arange(self.coded, len(self)), reader)
            ids = self.ids[self.coded :]
            points = Points(self.flat, ids) if live.all() else Points(self.flat[live], ids[live])
            self._flat = reader.snapshot, points
        return self._flat[1]

    def having(self, ascending: Numbers) -> NDArray[np.bool_]:
        """Which entries are about rows with one of these ids."""
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
    """A segment, from memory where it was opened before."""
    known: dict[str, OpenSegment] = reader.memory.setdefault(_MEMORY, {})
    name = f"{ref.directory} {ref.checksum}"
    found = known.pop(name, None) or read_segment(reader.snapshot.location, ref)
    known[name] = found
    held = sum(segment.ref.bytes for segment in known.values())
    for old in list(known)[:-1]:
        if held <= MOST_BYTES:
            break
        held -= known.pop(old).ref.bytes
    return found


def read_segment(location: Location, ref: SegmentRef) -> OpenSegment:
    """Read a segment and check it."""
    meta = read_meta(location, ref)
    trained = trained_of(ref)
    where = f"{location.url}/{ref.directory}"
    files = {name: get_file(location, ref.directory, name, told) for name, told in meta.files.items()}
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
        except RuntimeError as error:  # faiss's own word for what it cannot read
            raise Damaged(f"{where}/{LISTS} is not understood: {error}", path=where) from error
    ids, versions = (entries.column(name).to_numpy() for name in (ROW_ID, VERSION))
    if len(ids) != len(flat) + (0 if coder is None else len(coder)):
        raise Damaged(f"{where} has {len(ids)} entries for another number of vectors", path=where)
    return OpenSegment(ref, trained, ids, versions, coder, flat)
