"""Row maps of the files of a snapshot: the id and version of each row, loaded on demand and cached.

    the tag in the log  ->  else the file's footer  ->  else its two columns of ids and versions

1. A file is read at most once, however many versions of the table it is in, because files never change. Files whose
   maps would take too much memory are searched each time.
2. Footers and columns of several files are read at the same time.
3. A file whose row count differs from the log's is Damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.errors import Damaged
from holdfast.model.files import FileTable
from holdfast.model.snapshot import Snapshot
from holdfast.parquet.pages.find import CandidateFile
from holdfast.parquet.rowmap import CarriedIds, MappedRows, decoded, read_carried_ids, read_map, seek
from holdfast.plan.scan.locate import CARRIES, FRESH, UNKNOWN, spans
from holdfast.rows.keys import Numbers
from holdfast.rows.locator import RowLocator
from holdfast.rows.rowmap import RowMap, Runs
from holdfast.rows.sequence import RowIdSequence
from holdfast.storage.base import ObjectStore
from holdfast.storage.open import place

Name: TypeAlias = tuple[str, int, int]  # a file: its key, base row id and default row commit version
Result = TypeVar("Result")

_THREADS = 32
_MOST_BYTES = 256 << 20  # of maps, as stored; in memory an id takes up to three times as much
_ID_BYTES = 8
_FORGET = 1000  # files that are no longer in the table, before their maps are dropped
_SEPARATE_LOCATORS = 8  # locators that are searched one by one before they are merged
_POSITION_BITS = 40
_NOTHING = np.zeros(0, np.int64)


@dataclass
class Learned:
    """Row maps and footers that were read, for all versions of a table."""

    seen: dict[Name, CarriedIds] = field(default_factory=dict)
    maps: dict[Name, RowMap] = field(default_factory=dict)
    bytes: int = 0  # of the maps

    def learn(self, name: Name, row_map: RowMap) -> None:
        if name not in self.maps:
            self.bytes += row_map.encoded_bytes
            self.maps[name] = row_map

    def trim(self, files: FileTable) -> None:
        """Drop files that are not among these, once there are many of them."""
        if max(len(self.seen), len(self.maps)) <= len(files) + _FORGET:
            return
        current = set(files.column("key").to_pylist())
        self.seen = {name: seen for name, seen in self.seen.items() if name[0] in current}
        self.maps = {name: row_map for name, row_map in self.maps.items() if name[0] in current}
        self.bytes = sum(row_map.encoded_bytes for row_map in self.maps.values())


class RowMaps:
    """The row maps of one snapshot, by file number."""

    def __init__(self, snapshot: Snapshot, learned: Learned) -> None:
        self.spans = spans(snapshot)
        self._snapshot = snapshot
        self._learned = learned

    def resolve(self, files: Numbers) -> None:
        """Read whether files carry ids, where the log does not say."""
        s = self.spans
        files = files[s.kinds[files] == UNKNOWN]
        if not len(files):
            return
        names = self._names(files)
        self._read_footers(files, names, range(len(files)))
        for file, name in zip(files.tolist(), names, strict=True):
            seen = self._learned.seen[name]
            self._check_rows(name[0], seen.rows, file)
            s.kinds[file] = CARRIES if seen.carries else FRESH
            if seen.carries:
                base, end = int(s.bases[file]), int(s.bases[file] + s.counts[file]) - 1
                s.lows[file] = min(seen.low, base) if seen.derived else seen.low
                s.highs[file] = max(seen.high, end) if seen.derived else seen.high

    def maps(self, files: Numbers) -> dict[int, RowMap]:
        """The maps of files that carry ids."""
        names, row_maps = self._available(files)
        lacking = [at for at, row_map in enumerate(row_maps) if row_map is None]
        for at, read in zip(lacking, _each(self._carriers(files[lacking]), read_map), strict=True):
            row_maps[at] = read
        maps = {file: row_map for file, row_map in zip(files.tolist(), row_maps, strict=True) if row_map is not None}
        for name, (file, row_map) in zip(names, maps.items(), strict=True):
            self._check_rows(name[0], len(row_map), file)
            self._learned.learn(name, row_map)
        return maps

    def noted(self, files: Numbers) -> list[RowMap | None]:
        """The maps of files that carry ids, from log or footer; None if only the columns have them."""
        names, row_maps = self._available(files)
        for at in self._read_footers(files, names, [at for at, row_map in enumerate(row_maps) if row_map is None]):
            row_maps[at] = self._learned.seen[names[at]].map
        return row_maps

    def scattered(self, files: Numbers) -> NDArray[np.bool_]:
        """Which files to search each time, because their maps would take too much memory."""
        nowhere = np.zeros(len(files), np.bool_)
        if not len(files) or self._learned.bytes + _ID_BYTES * self.spans.counts[files].sum() <= _MOST_BYTES:
            return nowhere
        names, row_maps = self._available(files)
        due = np.array([row_map is None for row_map in row_maps], np.bool_)
        self._read_footers(files, names, np.flatnonzero(due).tolist())
        due &= np.array([name not in self._learned.seen or self._learned.seen[name].map is None for name in names])
        due_bytes = _ID_BYTES * self.spans.counts[files[due]].sum()
        return due if self._learned.bytes + due_bytes > _MOST_BYTES else nowhere

    def search(self, files: Numbers, ascending: Numbers) -> list[MappedRows]:
        """The rows with one of these ids, file by file."""
        return _each(self._carriers(files), lambda store, file: seek(store, file, ascending))

    def map(self, file: int) -> RowMap:
        self.resolve(np.array([file]))
        if self.spans.kinds[file] == CARRIES:
            return self.maps(np.array([file]))[file]
        base, count = int(self.spans.bases[file]), int(self.spans.counts[file])
        rows = slice(0, min(count, 1))  # a file without rows has no run of versions
        versions = Runs(np.array([count])[rows], self.spans.versions[[file]][rows])
        return RowMap(RowIdSequence.from_range(base, count), versions)

    def _available(self, files: Numbers) -> tuple[list[Name], list[RowMap | None]]:
        """The names of files, and the maps that need no read."""
        names, texts = self._names(files), self.spans.maps.take(pa.array(files)).to_pylist()
        return names, [self._cached(*each) for each in zip(files.tolist(), names, texts, strict=True)]

    def _read_footers(self, files: Numbers, names: Sequence[Name], which: Iterable[int]) -> list[int]:
        """Read the footers of those files whose footers were not read before; returns which."""
        unread = [at for at in which if names[at] not in self._learned.seen]
        for at, seen in zip(unread, _each(self._carriers(files[unread]), read_carried_ids), strict=True):
            self._learned.seen[names[at]] = seen
        return unread

    def _cached(self, file: int, name: Name, text: str | None) -> RowMap | None:
        """The map of a file, from the cache or the tag in the log."""
        row_map = self._learned.maps.get(name)
        if row_map is None and (seen := self._learned.seen.get(name)) is not None:
            row_map = seen.map
        identity = self._snapshot.identity
        if row_map is None and text is not None and identity is not None and identity.id_column is not None:
            noted = decoded(text, name[0], identity.id_column)
            if noted is not None and len(noted) == self.spans.counts[file]:
                row_map = noted.bound(*name[1:])
        return row_map

    def _names(self, files: Numbers) -> list[Name]:
        keys = self._snapshot.files.column("key").take(pa.array(files)).to_pylist()
        return list(zip(keys, self.spans.bases[files].tolist(), self.spans.versions[files].tolist(), strict=True))

    def _carriers(self, files: Numbers) -> list[tuple[ObjectStore, CandidateFile]]:
        identity, location = self._snapshot.identity, self._snapshot.location
        assert identity is not None, "spans are of a table that tracks rows"
        chosen = self._snapshot.files.table.take(pa.array(files))
        formats = chosen["format"].to_pylist() if "format" in chosen.column_names else ["parquet"] * len(files)
        carriers = []
        rows = zip(self._names(files), chosen["size"].to_pylist(), formats, strict=True)
        for (key, base, version), size, form in rows:
            store, name = place(location, key)
            columns = identity.id_column, identity.version_column
            carriers.append((store, CandidateFile(name, size, base, version, *columns, form)))
        return carriers

    def _check_rows(self, key: str, rows: int, file: int) -> None:
        if rows != self.spans.counts[file]:
            raise Damaged(
                f"{key} has {rows} rows where the log has {self.spans.counts[file]}: its row ids cannot be trusted; "
                "see check()",
                path=key,
                expected=str(self.spans.counts[file]),
                found=str(rows),
            )


class MovedRows:
    """An index over the row maps that were loaded so far: finds moved rows by id; files are numbers.

    Later maps are merged with earlier ones once that costs no more than it saves, so the cost per map grows with the
    logarithm of their number. All versions are in one array, so that a lookup has no step per file.
    """

    def __init__(self) -> None:
        self._maps: dict[int, RowMap] = {}
        self._locators: list[RowLocator] = []
        self._places = _NOTHING  # file and end of each run of versions, as one number
        self._versions = _NOTHING

    def add(self, maps: Mapping[int, RowMap]) -> None:
        """Add the rows of more files."""
        self._maps.update(maps)
        if len(self._locators) >= _SEPARATE_LOCATORS or 2 * len(maps) >= len(self._maps):
            self._locators, maps = [], self._maps
        sequences = [(file, row_map.ids) for file, row_map in maps.items()]
        self._locators.append(RowLocator.from_ranges(_NOTHING, _NOTHING, sequences=sequences))
        numbers = sorted(self._maps)
        runs = [self._maps[number].versions for number in numbers]
        firsts = np.repeat(np.array(numbers, np.int64) << _POSITION_BITS, [len(r.ends) for r in runs])
        self._places = firsts + np.concatenate([_NOTHING, *(r.ends for r in runs)])
        self._versions = np.concatenate([_NOTHING, *(r.values for r in runs)])

    def candidates(self, ids: Numbers) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
        """Rows with these ids, hidden or not: index into `ids`, file, position."""
        for locator in self._locators:
            yield from locator.candidates(ids)

    def versions(self, files: Numbers, positions: Numbers) -> Numbers:
        """The row commit version of each of these rows."""
        return self._versions[np.searchsorted(self._places, (files << _POSITION_BITS) + positions, side="right")]


def _each(
    carriers: Sequence[tuple[ObjectStore, CandidateFile]], action: Callable[[ObjectStore, CandidateFile], Result]
) -> list[Result]:
    """The result of an action for each file, several at a time."""
    if len(carriers) < 2:
        return [action(*one) for one in carriers]
    with ThreadPoolExecutor(min(_THREADS, len(carriers))) as pool:
        return list(pool.map(lambda one: action(*one), carriers))
