"""Runs DELETE, UPDATE, MERGE and compaction in this process, with Arrow.

1. Files are read in the plan's order; changed and copied rows of a file are written together, in their order.
2. Memory holds the source and the rows to write of one file; all rows where they are sorted.
3. What only Spark can evaluate, convert or check is refused before anything is read or written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.engines.local.assign import Recipe, copied, inserted, updated
from holdfast.engines.local.cluster import by_id, in_order
from holdfast.engines.local.expressions.evaluate import condition
from holdfast.engines.local.find import Finder, TakenRows, relations_of, source_relation, target_relation
from holdfast.engines.local.join import Rows
from holdfast.engines.local.reading import (
    ID,
    INDEX,
    SOURCE_PREFIX,
    TARGET_PREFIX,
    VERSION,
    Pool,
    RowColumns,
    files_of,
    pool_of,
)
from holdfast.engines.local.storing import CarriedRows, ChangeRows, Pieces, Stores
from holdfast.env import Env
from holdfast.model.mutation import STAGED
from holdfast.plan.dml.change import Clause, Done, Inserted, Insertion, Side, Work
from holdfast.rows.stamp import PROVISIONAL
from holdfast.schema.identity import advanced

_BEFORE, _AFTER, _DELETE, _INSERT = "update_preimage", "update_postimage", "delete", "insert"
_NONE = pa.scalar(None, pa.int64())
_SHOWN_ROWS = 3  # of the source, per row of the target that they take


def change(work: Work, env: Env, zone: str) -> Done:
    """Find the rows that clauses take, and store what becomes of them."""
    recipes = None if work.store is None else _recipes(work, zone)
    also = frozenset[str]() if recipes is None else recipes.needs
    finder = Finder(work, zone, also=also)
    changed, removed, seen = dict[str, BitMap64](), dict[str, BitMap64](), dict[str, BitMap64]()
    waiting: list[Pieces] = []
    doubled = kept = 0
    carries = work.store is not None and work.store.data.id_column is not None
    wanted = RowColumns(TARGET_PREFIX, finder.columns, carries, work.metadata)
    with ExitStack() as stack:
        location = work.target.snapshot.location
        stores = None if work.store is None else Stores(work.store, location, env, stack)
        for key, batches in files_of(work.target, work.hidden, wanted):
            pieces: list[Pieces] = []
            for batch in batches:
                taken = finder.taken(batch)
                doubled += len(taken.doubled)
                sets = _setting(work.clauses, taken.clause)
                _mark(changed, key, batch, sets)
                _mark(removed, key, batch, (taken.clause >= 0) & ~sets)
                if work.meets:
                    _mark(seen, key, batch, taken.is_met & (taken.clause < 0))
                if recipes is not None:
                    pieces.append(recipes.made(finder, batch, taken))
            if stores is not None and work.order is None and not work.by_id:
                stores.write(pieces)
            elif stores is not None:
                waiting += pieces
            kept += sum(piece.copied for piece in pieces)
        if stores is not None and work.order is not None:
            stores.write_parts(in_order(waiting, work.order))
        elif stores is not None and work.by_id:
            stores.write_parts(by_id(waiting))
        staged, feed = (STAGED.empty_table(), STAGED.empty_table()) if stores is None else stores.closed()
    met = finder.pool.addresses(finder.met) if work.source is not None and work.meets else {}
    doubled = 0 if _only_deletes(work.clauses) else doubled
    return Done(staged, feed, changed, removed, copied=kept, met=met, doubled=doubled, seen=seen)


def insert(work: Insertion, env: Env, zone: str) -> Inserted:
    """Store the rows of a source that found no row."""
    relation = source_relation(work.source)
    holds = [None if c.condition is None else condition(c.condition, [relation], zone=zone) for c in work.clauses]
    schema, properties, marks = work.schema, work.store.properties, dict[str, int]()
    recipes = [inserted(c.sets or (), relation, schema, properties, zone=zone) for c in work.clauses]
    ready = [e.columns for e in holds if e is not None]
    pool = pool_of(work.source.snapshot, frozenset[str]().union(*ready, *(r.needs for r in recipes)))
    rows = pool.unmet(work.met)
    with ExitStack() as stack:
        stores = Stores(work.store, work.source.snapshot.location, env, stack)
        for clause, holding in zip(work.clauses, holds, strict=True):
            batch = _rows_of(pool, rows)
            takes = np.ones(len(rows), bool) if holding is None else holding.holds(batch)
            # Made again, because numbers go on where the clause before it ended.
            recipe = inserted(clause.sets or (), relation, schema, properties, zone=zone)
            new = recipe.made(batch.filter(pa.array(takes)))
            changes = ChangeRows(new.table, pa.repeat(_INSERT, new.table.num_rows))
            stores.write([Pieces(CarriedRows(new.table), changes)])
            marks |= new.marks
            schema, rows = advanced(schema, new.marks), rows[~takes]
        return Inserted(*stores.closed(), marks)


def colliding(work: Work, limit: int, zone: str) -> Sequence[str]:
    """Some rows of the source that take one row of the target together."""
    assert work.source is not None, "only a source has rows that collide"
    names = frozenset(SOURCE_PREFIX + f.name for f in work.source.snapshot.schema.fields)
    finder = Finder(work, zone, also=names)
    shown: list[str] = []
    wanted = RowColumns(TARGET_PREFIX, finder.columns, metadata=work.metadata)
    for _, batches in files_of(work.target, work.hidden, wanted):
        for batch in batches:
            shown += _collisions(finder.pool, finder.taken(batch), limit - len(shown))
            if len(shown) >= limit:
                return shown
    return shown


@dataclass(frozen=True)
class _Recipes:
    """How the rows of a target are made: as they were, and by each clause that sets something."""

    copied: Recipe
    updated: tuple[Recipe | None, ...]
    keep: bool
    feeds: bool
    provisional: bool  # some rows have ids and versions that are not stored

    @property
    def needs(self) -> frozenset[str]:
        recipes = [r for r in self.updated if r is not None]
        return self.copied.needs.union(*(r.needs for r in recipes))

    def made(self, finder: Finder, batch: pa.RecordBatch, taken: TakenRows) -> Pieces:
        """Rows of a batch as they are to be written, and as the feed tells of them."""
        after: list[tuple[Rows, pa.Table]] = []
        for number, recipe in enumerate(self.updated):
            rows = np.flatnonzero(taken.clause == number)
            if recipe is None or not len(rows):
                continue
            partners = taken.partner[rows]
            matched = partners[0] >= 0  # all rows of a clause are of one side
            sides = finder.paired(batch, rows, partners, recipe.needs) if matched else batch.take(pa.array(rows))
            after.append((rows, recipe.made(sides).table))
        left = np.flatnonzero(taken.clause < 0) if self.keep else np.empty(0, np.int64)
        stays = [(left, self.copied.made(batch.take(pa.array(left))).table)] if len(left) else []
        return Pieces(
            data=_in_order(batch, [*after, *stays], taken.clause, provisional=self.provisional),
            feed=self._change_rows(batch, taken, after) if self.feeds else None,
            copied=len(left),
        )

    def _change_rows(
        self, batch: pa.RecordBatch, taken: TakenRows, after: Sequence[tuple[Rows, pa.Table]]
    ) -> ChangeRows | None:
        """What was there before, and what is there now, row by row."""
        changed = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in after)])
        gone = np.setdiff1d(np.flatnonzero(taken.clause >= 0), changed)
        before = [
            (rows, self.copied.made(batch.take(pa.array(rows))).table, kind)
            for rows, kind in ((changed, _BEFORE), (gone, _DELETE))
            if len(rows)
        ]
        parts = [*before, *((rows, table, _AFTER) for rows, table in after)]
        if not parts:
            return None
        order = pa.array(np.argsort(np.concatenate([rows for rows, *_ in parts]), kind="stable"))
        kinds = pa.concat_arrays([pa.repeat(kind, len(rows)) for rows, _, kind in parts])
        return ChangeRows(pa.concat_tables([table for _, table, _ in parts]).take(order), kinds.take(order))


def _recipes(work: Work, zone: str) -> _Recipes:
    assert work.store is not None, "rows are made where they are stored"
    properties = work.store.properties
    updates = [
        None if c.sets is None else updated(c.sets, relations_of(work, c.side), work.schema, properties, zone=zone)
        for c in work.clauses
    ]
    feeds, provisional = work.store.feed is not None, work.has_provisional
    return _Recipes(copied(target_relation(work), work.schema), tuple(updates), work.keep, feeds, provisional)


def _setting(clauses: Sequence[Clause], taken: Rows) -> NDArray[np.bool_]:
    """Where the clause that takes a row sets something."""
    sets = np.array([*(c.sets is not None for c in clauses), False])
    return sets[taken]  # no clause is -1: the last


def _mark(positions: dict[str, BitMap64], key: str, batch: pa.RecordBatch, chosen: NDArray[np.bool_]) -> None:
    if chosen.any():
        marked = BitMap64(batch.column(INDEX).to_numpy()[chosen].astype(np.uint64))
        positions[key] = positions.get(key, BitMap64()) | marked


def _only_deletes(clauses: Sequence[Clause]) -> bool:
    """Whether a match can do nothing but delete, so that it does not matter how often it does."""
    matched = [c for c in clauses if c.side is Side.MATCHED]
    return len(matched) == 1 and matched[0].sets is None and matched[0].condition is None


def _in_order(
    batch: pa.RecordBatch, parts: Sequence[tuple[Rows, pa.Table]], clause: Rows, *, provisional: bool
) -> CarriedRows | None:
    """Rows in the order of the batch, with the identity they keep."""
    if not parts:
        return None
    rows = np.concatenate([rows for rows, _ in parts])
    order = np.argsort(rows)
    at = pa.array(rows[order])
    table = pa.concat_tables([table for _, table in parts]).take(pa.array(order))
    if ID not in batch.schema.names:
        return CarriedRows(table)
    changed = pa.array(clause[rows[order]] >= 0)
    ids, versions = batch.column(ID).take(at), batch.column(VERSION).take(at)
    if provisional:
        ids, versions = (pc.if_else(pc.less(values, PROVISIONAL), values, _NONE) for values in (ids, versions))
    return CarriedRows(table, ids, pc.if_else(changed, _NONE, versions))


def _rows_of(pool: Pool, rows: Rows) -> pa.RecordBatch:
    chosen = pool.rows.take(pa.array(rows))
    return pa.RecordBatch.from_arrays([c.combine_chunks() for c in chosen.columns], chosen.column_names)


def _collisions(pool: Pool, taken: TakenRows, limit: int) -> Iterator[str]:
    """The rows of the source that meet in one row of the target, for the first rows of which that is true."""
    rows, partners = taken.pairs
    for row in taken.doubled[:limit].tolist():  # a handful, for people to read
        met = pool.rows.take(pa.array(partners[rows == row][:_SHOWN_ROWS])).drop_columns([INDEX]).to_pylist()
        plain = ({name.removeprefix(SOURCE_PREFIX): v for name, v in one.items() if v is not None} for one in met)
        yield " and ".join(json.dumps(one, ensure_ascii=False, default=str, separators=(",", ":")) for one in plain)
