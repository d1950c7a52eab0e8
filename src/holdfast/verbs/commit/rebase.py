"""Re-addresses the changes of a transaction to a newer version of the table, row by row.

    what it read -> is it still there? -> followed by id and version where it is not -> the same change, re-addressed

1. The result is what the transaction would have done had it read the newest version; otherwise it is a Clash.
2. A row it changed that others deleted, and one that it would have taken and did not see, stand in its way; a row that
   others only moved does not. A delete of a row that is deleted already is left out.
3. Rows that it copied and that others hid, changed or moved meanwhile are hidden in its own new files.
4. Nothing is written here: vectors are made per attempt.
5. The result is told in terms of the newest version, so that from there it can be rebased again, onto what comes next.
6. Winners that only append bring rows and touch none: they cost a look at their own files, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pyroaring import BitMap64

from holdfast.model.files import FileTable, NoStats, Slab, hiding
from holdfast.model.mutation import Came, Mutation, Winner, staged_files
from holdfast.model.snapshot import HiddenRows, LoadHidden, Snapshot
from holdfast.plan.dml.change import Done, Positions, Work, count
from holdfast.plan.dml.follow import (
    Followed,
    LocatedRows,
    difference,
    hidden_except,
    intersection,
    located_rows,
    rows_at,
    union,
)
from holdfast.plan.dml.rebase import Clash
from holdfast.plan.engine import Engine
from holdfast.schema.properties import ENABLE_DELETION_VECTORS, Isolation, truth

Looks = Callable[[Snapshot, FileTable, HiddenRows], Work]
SHOWN_IDS = 10


@dataclass(frozen=True)
class Recheck:
    """What a transaction looked for: how to look again, and in which files such rows may be."""

    looks: Looks
    keeps: Callable[[Snapshot, FileTable], FileTable]


@dataclass(frozen=True)
class Touched:
    """What a transaction did row by row, in terms of the version it read."""

    taken: Positions = field(default_factory=dict)  # rows it changed or deleted
    seen: Positions = field(default_factory=dict)  # rows its source met and no clause took
    rewritten: frozenset[str] = frozenset()  # removed files whose other rows are in its own new files
    bins: tuple[frozenset[str], ...] = ()  # the same by what was written together; none: all of it was
    deletes: str | None = None  # the metric that counts its deletes, where deleting is all it does to rows
    asks: tuple[Recheck, ...] = ()  # one per verb that looked for rows to take


@dataclass(frozen=True)
class Redo:
    """A transaction's rows, and who can look at them."""

    touched: Touched
    engine: Engine[object]
    load_hidden: LoadHidden


@dataclass(frozen=True)
class Rebased:
    """A transaction that stands on a newer version than it read."""

    mutation: Mutation
    touched: Touched


@dataclass(frozen=True)
class _Drift:
    """What happened to files since they were read."""

    gone: frozenset[str]
    movers: FileTable  # new ones that may hold rows which were elsewhere
    unread: FileTable  # new ones that may hold rows which were not there at all
    hid: Positions  # in files that are still there
    shown: Positions


def rebased(
    mutation: Mutation, redo: Redo, read: Snapshot, newest: Snapshot, came: Came, level: Isolation
) -> Rebased | Clash:
    """The same change on top of the newest version, or what stands in its way. `read` is the version it is told of."""
    return _Rebase(mutation, redo, read, newest, came, level).result()


class _Rebase:
    def __init__(
        self,
        mutation: Mutation,
        redo: Redo,
        read: Snapshot,
        newest: Snapshot,
        came: Came,
        level: Isolation,
    ) -> None:
        self.mutation, self.redo, self.touched = mutation, redo, redo.touched
        self.read, self.newest, self.came, self.level = read, newest, came, level
        self.winners = came.winners

    def result(self) -> Rebased | Clash:
        if self.came.only_appends:
            return self._against_unread(self._brought(), {}) or Rebased(self.mutation, self.touched)
        touched, removed = self.touched, set(self.mutation.removed.column("key").to_pylist())
        if self.read.identity is None and self.newest.identity is not None and self._writes_again:
            clash = self._clash("metadata", "it gave rows ids, which those that this one wrote again do not carry")
            return replace(clash, repeats=True)
        files = self.read.files.among(removed | touched.taken.keys() | touched.seen.keys())
        if any(n is None for n in files.num_records.to_pylist()):
            return self._clash("delete-read", "the log does not say how many rows a file has that both touched")
        before = self.redo.load_hidden(self.read.location, files).positions
        taken, copied = self._rows(files, removed, before)
        drift = self._drift(before)
        if restored := removed & drift.shown.keys():
            clash = self._clash(
                "append", "it brought rows back into files that this one replaces", tuple(sorted(restored))
            )
            return replace(clash, repeats=True)
        lost = _Lost(*(_displaced(rows, drift) for rows in (taken, touched.seen, copied)))
        if lost.any and (refused := self._cannot_follow(lost)):
            return refused
        moved, seen = (self._follow(rows, drift) for rows in (lost.taken, lost.seen))
        dropped = difference(lost.taken, moved.moved, moved.altered)
        if refused := self._against_rows(lost, moved, seen, dropped):
            return refused
        if refused := self._against_unread(drift, union(moved.to, seen.to)):
            return refused
        if not self.mutation.data_change and (again := _written_again(touched.bins, lost.copied, copied)):
            return self._clash("delete-delete", "it wrote the same rows anew", again)
        mutation = self._mutation(drift, removed, lost, moved, self._in_own(lost.copied), dropped)
        return Rebased(
            mutation,
            replace(
                touched,
                taken=union(difference(touched.taken, lost.taken), moved.to),
                seen=union(difference(touched.seen, lost.seen), seen.to),
            ),
        )

    def _brought(self) -> _Drift:
        """What happened where others only appended."""
        counts = self.level is Isolation.SERIALIZABLE  # else it is as if this transaction had run before them
        return _Drift(frozenset(), FileTable(), self.came.added if counts else FileTable(), {}, {})

    @property
    def _writes_again(self) -> bool:
        """Whether rows of its new files were in the table before."""
        return bool(self.mutation.added.num_rows and (self.mutation.removed.num_rows or self.mutation.hidden))

    def _rows(self, files: FileTable, removed: set[str], before: Positions) -> tuple[Positions, Positions]:
        """The rows that were changed, and those that were copied: of a removed file, one or the other is every row."""
        taken, copied = dict(self.touched.taken), dict[str, BitMap64]()
        for key, rows in zip(files.column("key").to_pylist(), files.num_records.to_pylist(), strict=True):
            if key in removed:
                live = BitMap64(range(rows)) - before.get(key, BitMap64())
                if key in self.touched.rewritten:
                    copied[key] = live - taken.get(key, BitMap64())
                else:
                    taken[key] = live
        return taken, {key: rows for key, rows in copied.items() if rows}

    def _drift(self, before: Positions) -> _Drift:
        added = {key for w in self.winners for key in w.added.column("key").to_pylist()}
        removed = {key for w in self.winners for key in w.removed_keys}
        old, new = (s.files.among(added | removed) for s in (self.read, self.newest))
        was, now = (set(files.column("key").to_pylist()) for files in (old, new))
        both = was & now
        hidden = self.redo.load_hidden
        then = {**hidden(self.read.location, old.among(both)).positions, **before}
        since = hidden(self.newest.location, new.among(both)).positions
        hid = {key: since.get(key, BitMap64()) - then.get(key, BitMap64()) for key in both}
        shown = {key: then.get(key, BitMap64()) - since.get(key, BitMap64()) for key in both}
        fresh = new.among(now - was)
        moving = {key for w in self.winners if w.removed_keys for key in w.added.column("key").to_pylist()}
        return _Drift(
            gone=frozenset(was - now),
            movers=fresh.among(moving),
            unread=fresh.among(now - was - self._known(was)),
            hid={key: rows for key, rows in hid.items() if rows},
            shown={key: rows for key, rows in shown.items() if rows},
        )

    def _known(self, was: set[str]) -> set[str]:
        """Files of which every row was read elsewhere: made, without changing any, of files that were there."""
        known: set[str] = set()
        there = set(was)
        for winner in self.winners:
            added = set(winner.added.column("key").to_pylist())
            if not winner.data_change and winner.removed_keys and winner.removed_keys <= there | known:
                known |= added - was
            elif self.level is not Isolation.SERIALIZABLE and winner.blind_append:
                known |= added - was  # as if this transaction had run before it
            else:
                there -= added  # shown again, or hiding more: no longer as it was read
        return known

    def _cannot_follow(self, lost: _Lost) -> Clash | None:
        keys = lost.keys
        if self.read.identity is None or self.newest.identity is None:
            return self._clash("delete-delete", "it changed files that this one changes too", tuple(sorted(keys)[:10]))
        careless = [w for w in self.winners if w.removed_keys & keys and not w.keeps_row_ids and _adds_files(w)]
        if careless:
            return Clash(
                "delete-delete", careless[0], "it rewrote rows without keeping their ids", tuple(sorted(keys)[:10])
            )
        hides = self.newest.hides or truth(self.newest.properties.get(ENABLE_DELETION_VECTORS))
        if not hides:
            return self._clash("delete-delete", "it changed files that this one changes too", tuple(sorted(keys)[:10]))
        return None

    def _follow(self, rows: Positions, drift: _Drift) -> Followed:
        if not rows or not len(drift.movers):
            return Followed()
        hidden = self.redo.load_hidden(self.newest.location, drift.movers)
        return self.redo.engine.follow(self._old(rows), located_rows(self.newest, drift.movers, hidden))

    def _old(self, rows: Positions) -> LocatedRows:
        return rows_at(self.read, self.read.files.among(rows.keys()), rows)

    def _against_rows(self, lost: _Lost, moved: Followed, seen: Followed, dropped: Positions) -> Clash | None:
        """A row that was read must still be what it was."""
        changed = moved.altered
        if self.level is not Isolation.SNAPSHOT:
            changed = union(changed, seen.altered, difference(lost.seen, seen.moved, seen.altered))
        if changed:
            return self._clash("delete-read", "it changed rows that this one read", rows=changed)
        if dropped and self.touched.deletes is None:
            return self._clash("delete-read", "it deleted rows that this one changed", rows=dropped)
        if dropped and self.mutation.feed.num_rows:
            clash = self._clash("delete-read", "it deleted rows that this one's change feed tells of", rows=dropped)
            return replace(clash, repeats=True)
        return None

    def _against_unread(self, drift: _Drift, known: Positions) -> Clash | None:
        """A row that came meanwhile must not be one that this transaction would have taken."""
        if self.level is Isolation.SNAPSHOT:
            return None
        phantoms = difference(union(*(self._phantoms(ask, drift) for ask in self.touched.asks)), known)
        if not phantoms:
            return None
        return self._clash(
            "append",
            "it added rows that this one would have read",
            tuple(sorted(phantoms)[:10]),
            ids=self._ids(self.newest, phantoms),
        )

    def _phantoms(self, ask: Recheck, drift: _Drift) -> dict[str, BitMap64]:
        """Rows that came and that the transaction would have taken, had it seen them."""
        parts: list[Done] = []
        files = ask.keeps(self.newest, drift.unread)
        if len(files):
            hidden = self.redo.load_hidden(self.newest.location, files)
            parts.append(self.redo.engine.change(ask.looks(self.newest, files, hidden)))
        if drift.shown:
            again = self.newest.files.among(drift.shown.keys())
            others = hidden_except(again, drift.shown)
            parts.append(self.redo.engine.change(ask.looks(self.newest, hiding(again), others)))
        return union(*(rows for done in parts for rows in (done.updated, done.deleted, done.seen)))

    def _in_own(self, rows: Positions) -> Positions:
        """Where copied rows are in the transaction's own new files."""
        if not rows:
            return {}
        own = self.mutation.added
        files = FileTable((Slab(staged_files(own, self.newest.placement), NoStats(own.num_rows)),))
        snapshot = replace(self.newest, files=files)
        return self.redo.engine.follow(self._old(rows), located_rows(snapshot, files, HiddenRows())).to

    def _mutation(
        self, drift: _Drift, removed: set[str], lost: _Lost, moved: Followed, cover: Positions, dropped: Positions
    ) -> Mutation:
        there = self.newest.files.among(removed)
        hidden = difference({k: rows for k, rows in self.mutation.hidden.items() if k not in drift.gone}, lost.taken)
        metrics = dict(self.mutation.metrics)
        if dropped and self.touched.deletes is not None:
            metrics[self.touched.deletes] -= count(dropped)
        return replace(
            self.mutation,
            hidden=union(hidden, moved.to),
            removed=there.table,
            covered=union(self.mutation.covered, cover),
            metrics=metrics,
        )

    def _ids(self, snapshot: Snapshot, rows: Positions) -> Sequence[int]:
        """Some ids of rows, where they have any."""
        if snapshot.identity is None:
            return ()
        return self.redo.engine.some_ids(rows_at(snapshot, snapshot.files.among(rows.keys()), rows), SHOWN_IDS)

    def _clash(
        self,
        kind: str,
        reason: str,
        files: tuple[str, ...] = (),
        *,
        rows: Positions | None = None,
        ids: Sequence[int] = (),
    ) -> Clash:
        """The winner that is named is the last that touched one of the files, else the last."""
        if rows is not None:
            files, ids = tuple(sorted(rows)[:10]), self._ids(self.read, rows)
        keys = set(files)
        touching = [w for w in self.winners if keys & (w.removed_keys | set(w.added.column("key").to_pylist()))]
        return Clash(kind, (touching or list(self.winners))[-1], reason, files, tuple(ids))


@dataclass(frozen=True)
class _Lost:
    """Rows that are not where they were."""

    taken: Positions
    seen: Positions
    copied: Positions

    @property
    def any(self) -> bool:
        return bool(self.taken or self.seen or self.copied)

    @property
    def keys(self) -> set[str]:
        return set(self.taken) | set(self.seen) | set(self.copied)


def _written_again(bins: Sequence[frozenset[str]], lost: Positions, copied: Positions) -> tuple[str, ...]:
    """Some files of which others wrote every row that was copied, of a bin or of all."""
    for keys in bins or (frozenset(copied),):
        some = {key: rows for key, rows in lost.items() if key in keys}
        if some and count(some) == count({key: rows for key, rows in copied.items() if key in keys}):
            return tuple(sorted(some)[:10])
    return ()


def _displaced(rows: Positions, drift: _Drift) -> Positions:
    gone = {key: there for key, there in rows.items() if key in drift.gone}
    return union(gone, intersection(rows, drift.hid))


def _adds_files(winner: Winner) -> bool:
    """Whether it has files of its own, and not only vectors on those that were there."""
    return not winner.removed_keys >= set(winner.added.column("key").to_pylist())
