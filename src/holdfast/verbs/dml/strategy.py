"""Carries out DELETE, UPDATE and MERGE up to the commit, as merge-on-read or copy-on-write.

    merge-on-read   one pass: deletion vectors hide rows, changed rows are written to new files
    copy-on-write   one pass finds the rows, a second rewrites the files that hold any
    auto            merge-on-read, but files that would hide most of their rows are rewritten

1. A file of which every row is deleted is removed unread where statistics prove it, and else without a rewrite.
2. Rows before, less those deleted, plus those inserted are the rows after: checked before anything is committed.
3. A second pass that takes other rows than the first is refused, never committed.
4. Only the engine writes, and nothing it wrote is part of the table until the mutation lands.
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


def effect(request: DmlRequest, engine: Engine[object], load_hidden: LoadHidden, now_ms: Callable[[], int]) -> Effect:
    """Carry a change out, up to the commit."""
    started = now_ms()
    whole, search = _candidates(request)
    hidden = load_hidden(request.snapshot.location, search)
    cow = request.mode is DmlMode.COPY_ON_WRITE
    has_feed = request.store.feed is not None
    stores = not cow and (request.updates)
    matches = engine.change(_work(request, search, hidden, store=request.store if stores else None))
    _refuse_doubled(request, engine, search, hidden, matches)
    if cow and has_feed and len(whole) and (matches.updated or matches.deleted):
        # The feed of this commit must tell of every deleted row, so these files are read after all.
        search, whole = request.snapshot.files.among({*_keys(search), *_keys(whole)}), FileTable()
        hidden = load_hidden(request.snapshot.location, search)
        matches = engine.change(_work(request, search, hidden, store=None))
    scanned = now_ms()
    chosen = _choose(request, search, whole, hidden, matches)
    moved = _moved(request, engine, chosen, hidden, matches)
    new = _inserted(request, engine, matches)
    stored = matches if stores else Done()
    result = Effect(
        removed=chosen.removed,
        hidden=chosen.hidden,
        staged=pa.concat_tables([stored.staged, moved.staged, new.staged]),
        feed=pa.concat_tables([stored.feed, moved.feed, new.feed]),
        updated=count(matches.updated),
        deleted=count(matches.deleted) + chosen.unread,
        copied=moved.copied,
        inserted=pc.sum(new.staged.column("num_records")).as_py() or 0,
        searched=len(search),
        strategies=chosen.strategies,
        marks=new.marks,
        scan_ms=scanned - started,
        rewrite_ms=now_ms() - scanned,
        taken=(matches.updated, matches.deleted),
        new_keys=tuple(new.staged.column("key").to_pylist()),
        seen=matches.seen,
    )
    check_rows(
        request.snapshot,
        removed=chosen.removed,
        hidden=chosen.hidden,
        staged=result.staged,
        deleted=result.deleted,
        inserted=result.inserted,
    )
    return result


def preview(request: DmlRequest, engine: Engine[object], load_hidden: LoadHidden) -> Effect:
    """What a change would do to which files; rows are read and nothing is written."""
    whole, search = _candidates(request)
    hidden = load_hidden(request.snapshot.location, search)
    matches = engine.change(_work(request, search, hidden, store=None))
    _refuse_doubled(request, engine, search, hidden, matches)
    chosen = _choose(request, search, whole, hidden, matches)
    met = count(matches.met)
    return Effect(
        removed=chosen.removed,
        hidden=chosen.hidden,
        updated=count(matches.updated),
        deleted=count(matches.deleted) + chosen.unread,
        inserted=request.source.rows - met if request.source is not None and request.of_source else 0,
        searched=len(search),
        strategies=chosen.strategies,
        taken=(matches.updated, matches.deleted),
    )


def touched(request: DmlRequest, result: Effect, *, deletes: str) -> Touched:
    """What a change did row by row; `deletes` is the metric that counts what it deletes."""
    only_deletes = not request.updates and not request.of_source

    def looks(snapshot: Snapshot, files: FileTable, hidden: HiddenRows) -> Work:
        # Columns that the transaction itself adds are read as null.
        snapshot = replace(snapshot, schema=request.snapshot.schema)
        return _work(replace(request, snapshot=snapshot), files, hidden, store=None)

    def keeps(snapshot: Snapshot, files: FileTable) -> FileTable:
        kept = prune(files, Want(snapshot, request.predicate, request.metadata)).files
        return kept if request.keeps is None else kept.filter(request.keeps(kept))

    return Touched(
        taken=union(*result.taken),
        seen=result.seen,
        rewritten=frozenset(s.key for s in result.strategies if s.how == "rewritten"),
        deletes=deletes if only_deletes else None,
        asks=(Recheck(looks, keeps),),
    )


def _candidates(request: DmlRequest) -> tuple[FileTable, FileTable]:
    """Files whose rows are all taken by a delete, proven; and those to be searched."""
    files = prune(
        request.snapshot.files, Want(request.snapshot, request.predicate, request.metadata), request.more
    ).files
    if request.keeps is not None:
        files = files.filter(request.keeps(files))
    only = request.clauses[0] if len(request.clauses) == 1 and request.source is None else None
    if only is None or only.sets is not None or not request.is_exact:
        return FileTable(), files
    rest = prune(files, Want(request.snapshot, untrue(request.predicate), request.metadata)).files
    whole = files.outside(rest.column("key").combine_chunks())
    whole = whole.filter(pc.is_valid(live_counts(whole)))
    return whole, files.outside(whole.column("key").combine_chunks())


def _work(
    request: DmlRequest, files: FileTable, hidden: HiddenRows, *, store: Storing | None, keep: bool = False
) -> Work:
    skips = ALWAYS if keep else _skips(request)
    where = None if skips == ALWAYS else Condition(None, render(skips), skips)
    plan = plan_scan(request.snapshot, Request())
    return Work(
        target=replace(plan, files=files, where=where),
        hidden=hidden,
        clauses=request.of_target,
        schema=request.schema,
        source=request.source,
        alias=request.alias,
        metadata=request.metadata,
        keep=keep,
        meets=bool(request.of_source) and not keep,
        store=store,
    )


def _skips(request: DmlRequest) -> Predicate:
    """What rows can be skipped by while they are read: comparisons that raise on no row and lose none."""
    parts = (*conjuncts(request.predicate), *conjuncts(request.skips))
    schema = request.snapshot.schema
    safe = [p for p in parts if is_safe_below(p) and not has_opaque(p) and not may_lose_rows(p, schema)]
    # Metadata columns are made of what is read, so nothing can be skipped by them there.
    return conjunction(tuple(p for p in safe if not any(c[0] in request.metadata.canonical for c in columns_of(p))))


@dataclass(frozen=True)
class _Choice:
    """Files by what becomes of them."""

    removed: FileTable
    rewritten: FileTable  # among the removed: their other rows are copied
    hidden: Positions
    strategies: tuple[Strategy, ...]
    unread: int  # rows of files that were not read


def _choose(request: DmlRequest, search: FileTable, whole: FileTable, hidden: HiddenRows, matches: Done) -> _Choice:
    """Decide file by file."""
    keys = whole.column("key").to_pylist()
    lives = live_rows(whole)
    unread = sum(n for n in lives if n is not None)
    strategies = [
        Strategy(key, "removed", "every row is deleted", n or 0, n) for key, n in zip(keys, lives, strict=True)
    ]
    touched = matches.updated.keys() | matches.deleted.keys()
    some = search.among(touched)
    removed, rewritten, vectors = set(keys), set[str](), dict[str, BitMap64]()
    for key, live, rows in zip(  # one per touched file
        some.column("key").to_pylist(), live_rows(some), some.num_records.to_pylist(), strict=True
    ):
        taken = matches.updated.get(key, BitMap64()) | matches.deleted.get(key, BitMap64())
        how, why = _how(request, taken=len(taken), live=live, rows=rows)
        if how == "vector":
            vectors[key] = taken
        else:
            removed.add(key)
        if how == "rewritten":
            rewritten.add(key)
        strategies.append(Strategy(key, how, why, len(taken), live))
    files = request.snapshot.files
    return _Choice(files.among(removed), files.among(rewritten), vectors, tuple(strategies), unread)


def _how(request: DmlRequest, *, taken: int, live: int | None, rows: int | None) -> tuple[str, str]:
    cow = request.mode is DmlMode.COPY_ON_WRITE
    if live is not None and taken == live and not (cow and (request.updates or request.store.feed is not None)):
        return "removed", "no row of it is left"
    if cow:
        return "rewritten", "the table, or this call, asks for copy-on-write"
    if request.mode is DmlMode.MERGE_ON_READ or live is None or not rows:
        return "vector", "the table, or this call, asks for merge-on-read"
    share = (rows - live + taken) / rows
    if share <= MOSTLY_HIDDEN:
        return "vector", f"{share:.0%} of its rows would be hidden"
    if request.store.feed is not None and not request.updates:
        return "vector", f"{share:.0%} of its rows would be hidden, but the change feed is the vector's"
    return "rewritten", f"{share:.0%} of its rows would be hidden: the others move"


def _moved(request: DmlRequest, engine: Engine[object], chosen: _Choice, hidden: HiddenRows, matches: Done) -> Done:
    """Write the files that are rewritten: whole in copy-on-write, else what their vectors would have left."""
    if not len(chosen.rewritten):
        return Done()
    keys = chosen.rewritten.column("key").to_pylist()
    before = {key: hidden.positions[key] for key in keys if key in hidden.positions}
    if request.mode is DmlMode.COPY_ON_WRITE:
        left = HiddenRows(before, hidden.by_value)
        done = engine.change(_work(request, chosen.rewritten, left, store=request.store, keep=True))
        again = {key: matches.updated[key] for key in keys if key in matches.updated}
        gone = {key: matches.deleted[key] for key in keys if key in matches.deleted}
        if done.updated != again or done.deleted != gone:
            raise Invalid(
                f"the condition took {count(again) + count(gone)} rows when they were looked for and "
                f"{count(done.updated) + count(done.deleted)} when they were written: use one that gives the same "
                "answer every time (no random numbers, no current time); nothing was committed"
            )
        return done
    taken = {key: _taken(matches, key) | before.get(key, BitMap64()) for key in keys}
    left = HiddenRows(taken, hidden.by_value)
    work = _work(request, hiding(chosen.rewritten), left, store=replace(request.store, feed=None), keep=True)
    return engine.change(replace(work, clauses=(), source=None))


def _taken(matches: Done, key: str) -> BitMap64:
    return matches.updated.get(key, BitMap64()) | matches.deleted.get(key, BitMap64())


def _inserted(request: DmlRequest, engine: Engine[object], matches: Done) -> Inserted:
    if request.source is None or not request.of_source or count(matches.met) == request.source.rows:
        return Inserted()
    assert request.inserts is not None, "new rows are stored somehow"
    # Without change files of other rows, new files and vectors tell it all.
    has_change_files = bool(matches.updated or matches.deleted) and (
        request.updates or request.mode is DmlMode.COPY_ON_WRITE
    )
    store = request.inserts if has_change_files else replace(request.inserts, feed=None)
    return engine.insert(
        Insertion(request.source, matches.met, request.of_source, request.schema, store, request.alias)
    )


def _refuse_doubled(
    request: DmlRequest, engine: Engine[object], files: FileTable, hidden: HiddenRows, matches: Done
) -> None:
    matched = [c for c in request.of_target if c.side is Side.MATCHED]
    only_deletes = len(matched) == 1 and matched[0].sets is None and matched[0].condition is None
    if not matches.doubled or only_deletes:
        return
    shown = engine.colliding(_work(request, files, hidden, store=None), _SHOWN_COLLISIONS)
    listed = "".join(f"\n  {text}" for text in shown)
    raise AmbiguousMatch(
        f"{matches.doubled} more rows of the source than of the target would change the same rows; which of them "
        f"counts cannot be known. Rows of the source that meet:{listed}\nLeave one of each, or say which one counts "
        "with merge(..., duplicates='last', orderBy=...); nothing was committed",
        rows=tuple(shown),
    )


def _keys(files: FileTable) -> list[str]:
    keys: list[str] = files.column("key").to_pylist()
    return keys
