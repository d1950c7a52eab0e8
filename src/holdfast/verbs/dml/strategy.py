"""DELETE, UPDATE and MERGE: from what was asked to what the table will hold, in either strategy.

    merge-on-read   one pass: rows are hidden by vectors, changed ones written anew
    copy-on-write   one pass finds the rows, a second writes the files that hold any, changed and neighbours together
    auto            merge-on-read; then files that would mostly hide their rows give up the rest of them too

1. Files in which every row goes are removed unread, where that can be proven, and hidden whole where it shows.
2. Rows before, less those deleted, and those inserted are the rows after: checked before anything is committed.
3. A second pass that takes other rows than the first is refused, never committed.
4. Nothing here writes but through the engine, and nothing it wrote is part of the table until the mutation lands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from holdfast.errors import AmbiguousMatch, Invalid
from holdfast.model.files import FileTable, hiding
from holdfast.model.format import DmlMode, Storing
from holdfast.model.mutation import STAGED
from holdfast.model.snapshot import HiddenRows, LoadHidden, Snapshot
from holdfast.plan.dml.arithmetic import check_rows, live_counts, live_rows
from holdfast.plan.dml.change import (
    Clause,
    Done,
    Inserted,
    Insertion,
    Positions,
    Side,
    Source,
    Work,
    count,
)
from holdfast.plan.dml.follow import union
from holdfast.plan.engine import Engine
from holdfast.plan.scan.metadata_columns import NO_METADATA, MetadataColumns
from holdfast.plan.scan.prune import Pruner, Want, prune
from holdfast.plan.scan.request import Condition, Request, plan_scan
from holdfast.predicate.reader_skipping import may_lose_rows
from holdfast.predicate.records import (
    ALWAYS,
    Predicate,
    columns_of,
    conjunction,
    conjuncts,
    has_opaque,
    is_safe_below,
    untrue,
)
from holdfast.predicate.render import render
from holdfast.schema.types import Struct
from holdfast.verbs.commit.rebase import Recheck, Touched

Rows = TypeVar("Rows")
MOSTLY_HIDDEN = 0.5  # of a file's rows: more than that, and reading around them costs more than moving the others
_SHOWN_COLLISIONS = 3


@dataclass(frozen=True)
class DmlRequest:
    """A change, as it was asked for and understood."""

    snapshot: Snapshot
    clauses: tuple[Clause, ...]
    schema: Struct  # once it is committed
    mode: DmlMode
    store: Storing
    inserts: Storing | None = None  # how new rows are stored: they carry no ids
    predicate: Predicate = ALWAYS  # true of every row of the target that may be taken
    is_exact: bool = False  # the predicate is the whole condition of the only clause
    source: Source | None = None
    keeps: Callable[[FileTable], pa.BooleanArray] | None = None  # files that the source can match
    skips: Predicate = ALWAYS  # beyond the predicate, true of every row that the source can match
    alias: str | None = None
    metadata: MetadataColumns = NO_METADATA  # those that clauses may name
    more: tuple[Pruner, ...] = ()  # passes over the files of this snapshot, and of no other

    @property
    def of_target(self) -> tuple[Clause, ...]:
        return tuple(c for c in self.clauses if c.side is not Side.NEW)

    @property
    def of_source(self) -> tuple[Clause, ...]:
        return tuple(c for c in self.clauses if c.side is Side.NEW)

    @property
    def updates(self) -> bool:
        return any(c.sets is not None for c in self.of_target)


@dataclass(frozen=True, slots=True)
class Strategy:
    """What becomes of one file, and why."""

    key: str
    how: str  # removed, vector, rewritten
    why: str
    rows: int  # taken in it
    of: int | None  # live before; None: the log does not say


@dataclass(frozen=True)
class Effect:
    """What a change does to the files of a table."""

    removed: FileTable = field(default_factory=FileTable)
    hidden: Positions = field(default_factory=dict)
    staged: pa.Table = field(default_factory=STAGED.empty_table)
    feed: pa.Table = field(default_factory=STAGED.empty_table)
    updated: int = 0
    deleted: int = 0
    copied: int = 0
    inserted: int = 0
    searched: int = 0  # files that were read to find rows
    strategies: tuple[Strategy, ...] = ()
    marks: Mapping[str, int] = field(default_factory=dict)
    scan_ms: int = 0
    rewrite_ms: int = 0
    taken: tuple[Positions, Positions] = ({}, {})  # updated and deleted, by file
    new_keys: tuple[str, ...] = ()  # files of inserted rows
    seen: Positions = field(default_factory=dict)  # rows that the source met and no clause took

    @property
    def is_nothing(self) -> bool:
        return not (len(self.removed) or self.hidden or self.staged.num_rows)


def effect(asked: DmlRequest, engine: Engine[object], load_hidden: LoadHidden, now_ms: Callable[[], int]) -> Effect:
    """Carry a change out, up to the commit."""
    started = now_ms()
    whole, search = _candidates(asked)
    hidden = load_hidden(asked.snapshot.location, search)
    cow = asked.mode is DmlMode.COPY_ON_WRITE
    has_feed = asked.store.feed is not None
    stores = not cow and (asked.updates)
    found = engine.change(_work(asked, search, hidden, store=asked.store if stores else None))
    _refuse_doubled(asked, engine, search, hidden, found)
    if cow and has_feed and len(whole) and (found.updated or found.deleted):
        # The feed of this commit must tell of every deleted row, so these files are read after all.
        search, whole = asked.snapshot.files.among({*_keys(search), *_keys(whole)}), FileTable()
        hidden = load_hidden(asked.snapshot.location, search)
        found = engine.change(_work(asked, search, hidden, store=None))
    scanned = now_ms()
    chosen = _choose(asked, search, whole, hidden, found)
    moved = _moved(asked, engine, chosen, hidden, found)
    new = _inserted(asked, engine, found)
    done = found if stores else Done()
    made = Effect(
        removed=chosen.removed,
        hidden=chosen.hidden,
        staged=pa.concat_tables([done.staged, moved.staged, new.staged]),
        feed=pa.concat_tables([done.feed, moved.feed, new.feed]),
        updated=count(found.updated),
        deleted=count(found.deleted) + chosen.unread,
        copied=moved.copied,
        inserted=pc.sum(new.staged.column("num_records")).as_py() or 0,
        searched=len(search),
        strategies=chosen.strategies,
        marks=new.marks,
        scan_ms=scanned - started,
        rewrite_ms=now_ms() - scanned,
        taken=(found.updated, found.deleted),
        new_keys=tuple(new.staged.column("key").to_pylist()),
        seen=found.seen,
    )
    check_rows(
        asked.snapshot,
        removed=chosen.removed,
        hidden=chosen.hidden,
        staged=made.staged,
        deleted=made.deleted,
        inserted=made.inserted,
    )
    return made


def preview(asked: DmlRequest, engine: Engine[object], load_hidden: LoadHidden) -> Effect:
    """What a change would do to which files; rows are read and nothing is written."""
    whole, search = _candidates(asked)
    hidden = load_hidden(asked.snapshot.location, search)
    found = engine.change(_work(asked, search, hidden, store=None))
    _refuse_doubled(asked, engine, search, hidden, found)
    chosen = _choose(asked, search, whole, hidden, found)
    met = count(found.met)
    return Effect(
        removed=chosen.removed,
        hidden=chosen.hidden,
        updated=count(found.updated),
        deleted=count(found.deleted) + chosen.unread,
        inserted=asked.source.rows - met if asked.source is not None and asked.of_source else 0,
        searched=len(search),
        strategies=chosen.strategies,
        taken=(found.updated, found.deleted),
    )


def touched(asked: DmlRequest, made: Effect, *, deletes: str) -> Touched:
    """What a change did row by row; `deletes` is the metric that counts what it deletes."""
    only_deletes = not asked.updates and not asked.of_source

    def looks(snapshot: Snapshot, files: FileTable, hidden: HiddenRows) -> Work:
        # Columns that the transaction itself adds are read as null.
        snapshot = replace(snapshot, schema=asked.snapshot.schema)
        return _work(replace(asked, snapshot=snapshot), files, hidden, store=None)

    def keeps(snapshot: Snapshot, files: FileTable) -> FileTable:
        kept = prune(files, Want(snapshot, asked.predicate, asked.metadata)).files
        return kept if asked.keeps is None else kept.filter(asked.keeps(kept))

    return Touched(
        taken=union(*made.taken),
        seen=made.seen,
        rewritten=frozenset(s.key for s in made.strategies if s.how == "rewritten"),
        deletes=deletes if only_deletes else None,
        asks=(Recheck(looks, keeps),),
    )


def _candidates(asked: DmlRequest) -> tuple[FileTable, FileTable]:
    """Files whose rows are all taken by a delete, proven; and those to be searched."""
    files = prune(asked.snapshot.files, Want(asked.snapshot, asked.predicate, asked.metadata), asked.more).files
    if asked.keeps is not None:
        files = files.filter(asked.keeps(files))
    only = asked.clauses[0] if len(asked.clauses) == 1 and asked.source is None else None
    if only is None or only.sets is not None or not asked.is_exact:
        return FileTable(), files
    rest = prune(files, Want(asked.snapshot, untrue(asked.predicate), asked.metadata)).files
    whole = files.outside(rest.column("key").combine_chunks())
    whole = whole.filter(pc.is_valid(live_counts(whole)))
    return whole, files.outside(whole.column("key").combine_chunks())


def _work(
    asked: DmlRequest, files: FileTable, hidden: HiddenRows, *, store: Storing | None, keep: bool = False
) -> Work:
    skips = ALWAYS if keep else _skips(asked)
    where = None if skips == ALWAYS else Condition(None, render(skips), skips)
    plan = plan_scan(asked.snapshot, Request())
    return Work(
        target=replace(plan, files=files, where=where),
        hidden=hidden,
        clauses=asked.of_target,
        schema=asked.schema,
        source=asked.source,
        alias=asked.alias,
        metadata=asked.metadata,
        keep=keep,
        meets=bool(asked.of_source) and not keep,
        store=store,
    )


def _skips(asked: DmlRequest) -> Predicate:
    """What rows can be skipped by while they are read: comparisons that raise on no row and lose none."""
    parts = (*conjuncts(asked.predicate), *conjuncts(asked.skips))
    schema = asked.snapshot.schema
    safe = [p for p in parts if is_safe_below(p) and not has_opaque(p) and not may_lose_rows(p, schema)]
    # Metadata columns are made of what is read, so nothing can be skipped by them there.
    return conjunction(tuple(p for p in safe if not any(c[0] in asked.metadata.canonical for c in columns_of(p))))


@dataclass(frozen=True)
class _Choice:
    """Files by what becomes of them."""

    removed: FileTable
    rewritten: FileTable  # among the removed: their other rows are copied
    hidden: Positions
    strategies: tuple[Strategy, ...]
    unread: int  # rows of files that were not read


def _choose(asked: DmlRequest, search: FileTable, whole: FileTable, hidden: HiddenRows, found: Done) -> _Choice:
    """Decide file by file."""
    keys = whole.column("key").to_pylist()
    lives = live_rows(whole)
    unread = sum(n for n in lives if n is not None)
    told = [Strategy(key, "removed", "every row is deleted", n or 0, n) for key, n in zip(keys, lives, strict=True)]
    touched = found.updated.keys() | found.deleted.keys()
    some = search.among(touched)
    removed, rewritten, vectors = set(keys), set[str](), dict[str, BitMap64]()
    for key, live, rows in zip(  # one per touched file
        some.column("key").to_pylist(), live_rows(some), some.num_records.to_pylist(), strict=True
    ):
        taken = found.updated.get(key, BitMap64()) | found.deleted.get(key, BitMap64())
        how, why = _how(asked, taken=len(taken), live=live, rows=rows)
        if how == "vector":
            vectors[key] = taken
        else:
            removed.add(key)
        if how == "rewritten":
            rewritten.add(key)
        told.append(Strategy(key, how, why, len(taken), live))
    files = asked.snapshot.files
    return _Choice(files.among(removed), files.among(rewritten), vectors, tuple(told), unread)


def _how(asked: DmlRequest, *, taken: int, live: int | None, rows: int | None) -> tuple[str, str]:
    cow = asked.mode is DmlMode.COPY_ON_WRITE
    if live is not None and taken == live and not (cow and (asked.updates or asked.store.feed is not None)):
        return "removed", "no row of it is left"
    if cow:
        return "rewritten", "the table, or this call, asks for copy-on-write"
    if asked.mode is DmlMode.MERGE_ON_READ or live is None or not rows:
        return "vector", "the table, or this call, asks for merge-on-read"
    share = (rows - live + taken) / rows
    if share <= MOSTLY_HIDDEN:
        return "vector", f"{share:.0%} of its rows would be hidden"
    if asked.store.feed is not None and not asked.updates:
        return "vector", f"{share:.0%} of its rows would be hidden, but the change feed is the vector's"
    return "rewritten", f"{share:.0%} of its rows would be hidden: the others move"


def _moved(asked: DmlRequest, engine: Engine[object], chosen: _Choice, hidden: HiddenRows, found: Done) -> Done:
    """Write the files that are rewritten: whole in copy-on-write, else what their vectors would have left."""
    if not len(chosen.rewritten):
        return Done()
    keys = chosen.rewritten.column("key").to_pylist()
    before = {key: hidden.positions[key] for key in keys if key in hidden.positions}
    if asked.mode is DmlMode.COPY_ON_WRITE:
        left = HiddenRows(before, hidden.by_value)
        done = engine.change(_work(asked, chosen.rewritten, left, store=asked.store, keep=True))
        again = {key: found.updated[key] for key in keys if key in found.updated}
        gone = {key: found.deleted[key] for key in keys if key in found.deleted}
        if done.updated != again or done.deleted != gone:
            raise Invalid(
                f"the condition took {count(again) + count(gone)} rows when they were looked for and "
                f"{count(done.updated) + count(done.deleted)} when they were written: use one that gives the same "
                "answer every time (no random numbers, no current time); nothing was committed"
            )
        return done
    taken = {key: _taken(found, key) | before.get(key, BitMap64()) for key in keys}
    left = HiddenRows(taken, hidden.by_value)
    work = _work(asked, hiding(chosen.rewritten), left, store=replace(asked.store, feed=None), keep=True)
    return engine.change(replace(work, clauses=(), source=None))


def _taken(found: Done, key: str) -> BitMap64:
    return found.updated.get(key, BitMap64()) | found.deleted.get(key, BitMap64())


def _inserted(asked: DmlRequest, engine: Engine[object], found: Done) -> Inserted:
    if asked.source is None or not asked.of_source or count(found.met) == asked.source.rows:
        return Inserted()
    assert asked.inserts is not None, "new rows are stored somehow"
    # Without change files of other rows, new files and vectors tell it all.
    told = bool(found.updated or found.deleted) and (asked.updates or asked.mode is DmlMode.COPY_ON_WRITE)
    store = asked.inserts if told else replace(asked.inserts, feed=None)
    return engine.insert(Insertion(asked.source, found.met, asked.of_source, asked.schema, store, asked.alias))


def _refuse_doubled(
    asked: DmlRequest, engine: Engine[object], files: FileTable, hidden: HiddenRows, found: Done
) -> None:
    matched = [c for c in asked.of_target if c.side is Side.MATCHED]
    only_deletes = len(matched) == 1 and matched[0].sets is None and matched[0].condition is None
    if not found.doubled or only_deletes:
        return
    shown = engine.colliding(_work(asked, files, hidden, store=None), _SHOWN_COLLISIONS)
    listed = "".join(f"\n  {text}" for text in shown)
    raise AmbiguousMatch(
        f"{found.doubled} more rows of the source than of the target would change the same rows; which of them counts "
        f"cannot be known. Rows of the source that meet:{listed}\nLeave one of each, or say which one counts with "
        "merge(..., duplicates='last', orderBy=...); nothing was committed",
        rows=tuple(shown),
    )


def _keys(files: FileTable) -> list[str]:
    found: list[str] = files.column("key").to_pylist()
    return found
