"""What the files of a snapshot hold, learned as far as it is asked for.

    noted in the log  ->  noted in the file's footer  ->  read from its two columns of identity

1. A file is looked into at most once, however many versions of the table it is in: files never change. Only where
   more rows are scattered than are worth their memory, files are searched each time.
2. Footers and columns of several files are read at the same time.
3. A file with another number of rows than the log gives it is Damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from holdfast.rows.rowmap import RowMap, Runs
from holdfast.rows.sequence import RowIdSequence
from holdfast.storage.base import ObjectStore
from holdfast.storage.open import place

Numbers: TypeAlias = NDArray[np.int64]
Name: TypeAlias = tuple[str, int, int]  # of a file: its key, and the base row id and default version the log gives it
Got = TypeVar("Got")

_LOOKERS = 32
_MOST_BYTES = 256 << 20  # of maps, as they are stored; in memory an id takes up to three times as much
_ID_BYTES = 8
_FORGET = 1000  # files that are not there any more, before they are forgotten


@dataclass
class Learned:
    """What files say of themselves."""

    seen: dict[Name, CarriedIds] = field(default_factory=dict)
    maps: dict[Name, RowMap] = field(default_factory=dict)
    bytes: int = 0  # of the maps

    def learn(self, name: Name, known: RowMap) -> None:
        """Keep the map of a file."""
        if name not in self.maps:
            self.bytes += known.encoded_bytes
            self.maps[name] = known

    def trim(self, files: FileTable) -> None:
        """Forget files that are not among these, once there are many of them."""
        if max(len(self.seen), len(self.maps)) <= len(files) + _FORGET:
            return
        there = set(files.column("key").to_pylist())
        self.seen = {name: seen for name, seen in self.seen.items() if name[0] in there}
        self.maps = {name: known for name, known in self.maps.items() if name[0] in there}
        self.bytes = sum(known.encoded_bytes for known in self.maps.values())


class RowMaps:
    """The files of one snapshot, by number, and what is known of their rows."""

    def __init__(self, snapshot: Snapshot, learned: Learned) -> None:
        self.spans = spans(snapshot)
        self._snapshot = snapshot
        self._learned = learned

    def resolve(self, files: Numbers) -> None:
        """Learn whether files carry ids, where nobody noted it in the log."""
        s = self.spans
        files = files[s.kinds[files] == UNKNOWN]
        if not len(files):
            return
        names = self._names(files)
        lacking = [at for at, name in enumerate(names) if name not in self._learned.seen]
        for at, seen in zip(lacking, _each(self._carriers(files[lacking]), read_carried_ids), strict=True):
            self._learned.seen[names[at]] = seen
        for file, name in zip(files.tolist(), names, strict=True):  # one per file looked into
            seen = self._learned.seen[name]
            self._check_rows(name[0], seen.rows, file)
            s.kinds[file] = CARRIES if seen.carries else FRESH
            if seen.carries:
                base, end = int(s.bases[file]), int(s.bases[file] + s.counts[file]) - 1
                s.lows[file] = min(seen.low, base) if seen.derived else seen.low
                s.highs[file] = max(seen.high, end) if seen.derived else seen.high

    def maps(self, files: Numbers) -> dict[int, RowMap]:
        """The maps of files that carry ids."""
        names = self._names(files)
        texts = self.spans.maps.take(pa.array(files)).to_pylist()
        found = [self._known(*told) for told in zip(files.tolist(), names, texts, strict=True)]
        lacking = [at for at, known in enumerate(found) if known is None]
        for at, made in zip(lacking, _each(self._carriers(files[lacking]), read_map), strict=True):
            found[at] = made
        maps = {file: known for file, known in zip(files.tolist(), found, strict=True) if known is not None}
        for name, (file, known) in zip(names, maps.items(), strict=True):
            self._check_rows(name[0], len(known), file)
            self._learned.learn(name, known)
        return maps

    def noted(self, files: Numbers) -> list[RowMap | None]:
        """The maps of files that carry ids as their writers noted them; None where only their columns would tell."""
        names = self._names(files)
        texts = self.spans.maps.take(pa.array(files)).to_pylist()
        found = [self._known(*told) for told in zip(files.tolist(), names, texts, strict=True)]
        unseen = [at for at, known in enumerate(found) if known is None and names[at] not in self._learned.seen]
        for at, seen in zip(unseen, _each(self._carriers(files[unseen]), read_carried_ids), strict=True):
            self._learned.seen[names[at]] = seen
            found[at] = seen.map
        return found

    def scattered(self, files: Numbers) -> NDArray[np.bool_]:
        """Which of some files that carry ids are to be searched, because their maps would take too much memory."""
        nowhere = np.zeros(len(files), np.bool_)
        if not len(files) or self._learned.bytes + _ID_BYTES * self.spans.counts[files].sum() <= _MOST_BYTES:
            return nowhere
        names = self._names(files)
        texts = self.spans.maps.take(pa.array(files)).to_pylist()
        told = zip(files.tolist(), names, texts, strict=True)
        due = np.array([self._known(*each) is None for each in told], np.bool_)
        unseen = [at for at in np.flatnonzero(due).tolist() if names[at] not in self._learned.seen]
        for at, seen in zip(unseen, _each(self._carriers(files[unseen]), read_carried_ids), strict=True):
            self._learned.seen[names[at]] = seen
        due &= np.array([name not in self._learned.seen or self._learned.seen[name].map is None for name in names])
        due_bytes = _ID_BYTES * self.spans.counts[files[due]].sum()
        return due if self._learned.bytes + due_bytes > _MOST_BYTES else nowhere

    def search(self, files: Numbers, ascending: Numbers) -> list[MappedRows]:
        """Rows of files that have one of these ids, file by file."""
        return _each(self._carriers(files), lambda store, file: seek(store, file, ascending))

    def map(self, file: int) -> RowMap:
        """The map of any file."""
        self.resolve(np.array([file]))
        if self.spans.kinds[file] == CARRIES:
            return self.maps(np.array([file]))[file]
        base, count = int(self.spans.bases[file]), int(self.spans.counts[file])
        rows = slice(0, min(count, 1))  # a file without rows has no run of versions
        versions = Runs(np.array([count])[rows], self.spans.versions[[file]][rows])
        return RowMap(RowIdSequence.from_range(base, count), versions)

    def _known(self, file: int, name: Name, text: str | None) -> RowMap | None:
        """The map of a file, as far as it takes no look at the file."""
        known = self._learned.maps.get(name)
        if known is None and (seen := self._learned.seen.get(name)) is not None:
            known = seen.map
        identity = self._snapshot.identity
        if known is None and text is not None and identity is not None and identity.id_column is not None:
            noted = decoded(text, name[0], identity.id_column)
            if noted is not None and len(noted) == self.spans.counts[file]:
                known = noted.bound(*name[1:])
        return known

    def _names(self, files: Numbers) -> list[Name]:
        keys = self._snapshot.files.column("key").take(pa.array(files)).to_pylist()
        return list(zip(keys, self.spans.bases[files].tolist(), self.spans.versions[files].tolist(), strict=True))

    def _carriers(self, files: Numbers) -> list[tuple[ObjectStore, CandidateFile]]:
        identity, location = self._snapshot.identity, self._snapshot.location
        assert identity is not None, "spans are of a table that tracks rows"
        chosen = self._snapshot.files.table.take(pa.array(files))
        formats = chosen["format"].to_pylist() if "format" in chosen.column_names else ["parquet"] * len(files)
        found = []
        told = zip(self._names(files), chosen["size"].to_pylist(), formats, strict=True)
        for (key, base, version), size, form in told:
            store, name = place(location, key)
            columns = identity.id_column, identity.version_column
            found.append((store, CandidateFile(name, size, base, version, *columns, form)))
        return found

    def _check_rows(self, key: str, rows: int, file: int) -> None:
        if rows != self.spans.counts[file]:
            raise Damaged(
                f"{key} has {rows} rows where the log has {self.spans.counts[file]}: its row ids cannot be trusted; "
                "see check()",
                path=key,
                expected=str(self.spans.counts[file]),
                found=str(rows),
            )


def _each(
    asked: Sequence[tuple[ObjectStore, CandidateFile]], what: Callable[[ObjectStore, CandidateFile], Got]
) -> list[Got]:
    """The same of several files, some at a time: they may be far away."""
    if len(asked) < 2:
        return [what(*one) for one in asked]
    with ThreadPoolExecutor(min(_LOOKERS, len(asked))) as pool:
        return list(pool.map(lambda one: what(*one), asked))
