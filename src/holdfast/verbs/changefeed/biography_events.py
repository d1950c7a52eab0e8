"""Follows one row through the commits of a table.

A row leaves its file only by a commit that removes the file or gives it another deletion vector. So this module reads
only commits that touch the row's own file, and of these only the files that they added.

1. A file carries only ids below its own base row id, so files older than the row are never opened. Files of a commit
   that removed nothing are not opened either, unless the commit published rows of another table under their ids.
2. Of a file that may hold the row, the footer and the columns of row ids and commit versions are read.
3. Places are remembered: a restore that brings a file back brings the row back, unless its deletion vector hides it.
4. Where a file that would tell is gone, the biography says so and goes on from the newest version.
5. Where a deletion vector that would tell is gone, later commits decide: a row that is found again was not hidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow.compute as pc

from holdfast.errors import Damaged, MissingFile
from holdfast.model.files import FileTable
from holdfast.model.publication import PUBLISHES
from holdfast.model.snapshot import LoadHidden, Snapshot
from holdfast.model.touch import Touch, Trail
from holdfast.parquet.pages.find import CandidateFile, RowPosition, find_row
from holdfast.plan.changefeed.biography import Biography, Event, What
from holdfast.storage.arrays import mask, strings, truths
from holdfast.storage.open import is_there, place

_Logical = tuple[str, str | None]  # a file and the vector it has


@dataclass(frozen=True, slots=True)
class _Doubt:
    """Commits, the first and the last, whose vectors are gone: the row may have been hidden by one, or by none.

    `back`: it was gone before, and may have come back. `elsewhere` is a file it may have moved to, which is gone too.
    """

    first: Touch
    last: Touch
    back: bool
    elsewhere: str | None = None


def biography(snapshot: Snapshot, trail: Trail, row_id: int, load_hidden: LoadHidden) -> Biography:
    """What happened to a row, from what is left of commits and files; `snapshot` is the newest version."""
    follower = _Follower(snapshot, row_id, load_hidden)
    if trail.start is not None:
        follower.begin(trail.start, trail.files)
    for touch in trail.touches:
        follower.follow(touch)
    return follower.told()


@dataclass
class _Follower:
    """Where the row is, where it has been, and what happened on the way."""

    snapshot: Snapshot
    row_id: int
    load_hidden: LoadHidden
    events: list[Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)  # every file the row was in, and its position there
    at: _Logical | None = None
    doubt: _Doubt | None = None
    lost: bool = False
    vacuums: list[Touch] = field(default_factory=list)

    def begin(self, version: int, files: FileTable) -> None:
        """Look for the row in the oldest version that is left."""
        self.notes.append(f"the log begins with version {version}; what was before is not known")
        gone = None
        for file in self._possible(files, carriers=True):
            key, spot = file["key"], self._find(file)
            if spot is None:
                continue
            hides = self._hides(files, key, spot.position) if isinstance(spot, RowPosition) else None
            if hides is None:
                gone = key
            if not isinstance(spot, RowPosition):
                continue
            self.places[key] = spot.position
            if hides is False:
                self.at = _logical(file)
                detail = "" if spot.version is None else f"last changed in version {spot.version}"
                self._happened(What.SEEN, None, key, spot.position, detail, version=version)
                return
        if gone is not None:
            self.lost = True
            self._happened(What.LOST, None, detail=f"{gone}, or its vector, is gone", version=version)
        elif self.places:
            key, position = next(iter(self.places.items()))
            self._happened(What.DELETED, None, key, position, f"before version {version}")

    def follow(self, touch: Touch) -> None:
        """What a commit did to the row."""
        if touch.operation.upper() == "VACUUM END":
            self.vacuums.append(touch)
        if not self.places:
            if not self.lost:
                self._birth(touch)
            return
        left = self.at is not None and self._removes(touch, self.at)
        if self.at is not None and not left:
            return
        shown, maybe = self._back(touch)
        if shown is not None:
            self._resolve()
            if self.at is None or shown[0] != self.at[0]:
                self._happened(What.RESTORED, touch, shown[0], self.places[shown[0]])
            self.at, self.lost = shown, False
        elif left:
            self._leave(touch, maybe)
        elif maybe is not None:
            self.at, self.doubt = maybe, _Doubt(touch, touch, back=True)
        elif self.at is None and touch.operation == PUBLISHES:
            self._brought(touch, What.RESTORED)

    def told(self) -> Biography:
        """The biography, once every commit was followed."""
        if self.lost:
            self._look_again()
        held = self.places if self.at is None else ()
        remains = tuple(sorted(key for key in held if is_there(self.snapshot.location, key)))
        if self.at is None and self.places and not remains and not self.lost:
            gone = self.events[-1].version
            by = next((v for v in self.vacuums if gone is not None and v.version > gone), None)
            self._happened(What.PURGED, by, detail="no file that held it is left")
        if not self.events:
            self.notes.append(f"no row has had the id {self.row_id}, though it may have been set aside for one")
        location = self.snapshot.location
        return Biography(location.url, self.row_id, tuple(self.events), self.at is not None, remains, tuple(self.notes))

    def _birth(self, touch: Touch) -> None:
        if touch.operation == PUBLISHES:
            self._brought(touch, What.BORN)
            return
        for file in self._possible(touch.added, carriers=False):
            match self._find(file):
                case RowPosition(position, _):
                    detail = ""
                case None:
                    continue
                case _:
                    position, detail = self.row_id - file["base_row_id"], "the file is gone"
                    if touch.removed.num_rows:
                        detail += ", and may have held other ids"
            self.places[file["key"]], self.at = position, _logical(file)
            self._happened(What.BORN, touch, file["key"], position, detail)
            return

    def _brought(self, touch: Touch, what: What) -> None:
        """A publication brings rows under the ids they have elsewhere: any of its files may hold the row."""
        unclear = None
        for file in self._possible(touch.added, carriers=True):
            match self._find(file):
                case RowPosition(position, _):
                    self.places[file["key"]], self.at = position, _logical(file)
                    self._happened(what, touch, file["key"], position)
                    return
                case None:
                    continue
                case _:
                    unclear = file["key"]
        if unclear is not None:
            self.lost = True
            self._happened(What.LOST, touch, detail=f"{unclear}, which may have held it, is gone")

    def _leave(self, touch: Touch, maybe: _Logical | None) -> None:
        """The row's file went, or has another vector: the row is in a file of the same commit, or hidden by now."""
        assert self.at is not None, "what leaves was there"
        was = self.at[0]
        unclear = None
        for file in self._possible(touch.added, carriers=True):
            if file["key"] in self.places:
                continue
            match self._find(file):
                case RowPosition(position, version):
                    self._resolve()
                    self.places[file["key"]], self.at = position, _logical(file)
                    what = What.CHANGED if version == touch.version else What.MOVED
                    self._happened(what, touch, file["key"], position)
                    return
                case None:
                    continue
                case _:
                    unclear = file["key"]
        if maybe is not None:
            doubt = self.doubt or _Doubt(touch, touch, back=False)
            self.at, self.doubt = maybe, replace(doubt, last=touch, elsewhere=doubt.elsewhere or unclear)
            return
        self.at = None
        unclear = unclear or (self.doubt and self.doubt.elsewhere)
        if unclear is not None:
            self.lost = True
            self._happened(What.LOST, touch, was, self.places[was], f"{unclear}, which may have held it next, is gone")
        elif self.doubt is None or not self.doubt.back:
            by, detail = _deleted_by(touch, self.doubt)
            self._happened(What.DELETED, by, was, self.places[was], detail)
        self.doubt = None

    def _resolve(self) -> None:
        """The row is there, so it was there all along."""
        if self.doubt is not None and self.doubt.back and self.at is not None:
            self._happened(What.RESTORED, self.doubt.first, self.at[0], self.places[self.at[0]])
        self.doubt = None

    def _look_again(self) -> None:
        """The row in the newest version, where its way there cannot be followed."""
        for file in self._possible(self.snapshot.files, carriers=True):
            spot = self._find(file)
            if isinstance(spot, RowPosition) and self._hides(self.snapshot.files, file["key"], spot.position) is False:
                self.places[file["key"]], self.at = spot.position, _logical(file)
                detail = "" if spot.version is None else f"last changed in version {spot.version}"
                now = f"in version {self.snapshot.version}"
                self._happened(What.FOUND, None, file["key"], spot.position, f"{now}{', ' + detail if detail else ''}")
                return
        self.notes.append(f"it is not in version {self.snapshot.version}; when it was deleted cannot be told")

    def _possible(self, files: FileTable, *, carriers: bool) -> Iterator[dict[str, Any]]:
        """Files that may hold the row: their range has its id, or they are younger and may carry it."""
        if not len(files):
            return
        bases = files.column("base_row_id").combine_chunks()
        counts = pc.fill_null(files.num_records, self.row_id + 1)
        own = pc.and_(pc.less_equal(bases, self.row_id), pc.greater(pc.add(bases, counts), self.row_id))
        wanted = pc.or_(own, pc.greater(bases, self.row_id)) if carriers else own
        chosen = truths(pc.fill_null(wanted, False))
        yield from files.filter(mask(chosen)).table.to_pylist()  # files that may hold the row

    def _removes(self, touch: Touch, logical: _Logical) -> bool:
        hits = touch.removed.filter(pc.equal(touch.removed.column("key"), logical[0]))
        return logical[1] in hits.column("vector").to_pylist()

    def _back(self, touch: Touch) -> tuple[_Logical | None, _Logical | None]:
        """Where the row shows after a commit that added a file it was in, and where it may show."""
        maybe = None
        if not len(touch.added):
            return None, None
        known = pc.is_in(touch.added.column("key"), value_set=strings(list(self.places)))
        files = touch.added.filter(mask(truths(known)))
        for file in files.table.to_pylist():  # at most the places of one row
            match self._hides(files, file["key"], self.places[file["key"]]):
                case False:
                    return _logical(file), None
                case None:
                    maybe = _logical(file)
        return None, maybe

    def _hides(self, files: FileTable, key: str, position: int) -> bool | None:
        """Whether a file hides a position; None where the vector that would tell is gone."""
        one = files.filter(mask(truths(pc.equal(files.column("key"), key))))
        try:
            hidden = self.load_hidden(self.snapshot.location, one).positions.get(key)
        except MissingFile:
            return None
        return hidden is not None and position in hidden

    def _find(self, file: dict[str, Any]) -> RowPosition | Damaged | None:
        """The row in a file; the error where the file is not there."""
        location, identity = self.snapshot.location, self.snapshot.identity
        store, key = place(location, file["key"])
        carrier = CandidateFile(
            key,
            file["size"],
            file["base_row_id"],
            file["default_row_commit_version"],
            None if identity is None else identity.id_column,
            None if identity is None else identity.version_column,
            file.get("format") or "parquet",
        )
        try:
            return find_row(store, carrier, self.row_id)
        except MissingFile as error:
            return error

    def _happened(
        self,
        what: What,
        touch: Touch | None,
        file: str | None = None,
        position: int | None = None,
        detail: str = "",
        *,
        version: int | None = None,
    ) -> None:
        at = version if touch is None else touch.version
        when = None if touch is None else touch.timestamp_ms
        by = None if touch is None else touch.operation
        self.events.append(Event(what, at, when, by, file, position, detail))


def _deleted_by(touch: Touch, doubt: _Doubt | None) -> tuple[Touch, str]:
    """The commit that deleted a row which is gone after `touch`, as far as it can be told."""
    if doubt is None:
        return touch, ""
    if touch.changes_rows:
        return touch, f"or before, since version {doubt.first.version}: vectors that would tell are gone"
    if doubt.first is doubt.last:
        return doubt.first, ""
    return doubt.first, f"or later, until version {doubt.last.version}: vectors that would tell are gone"


def _logical(file: dict[str, Any]) -> _Logical:
    return file["key"], None if file["dv"] is None else file["dv"]["id"]
