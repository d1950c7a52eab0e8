"""Finds the rows of a target to which the clauses of a change apply, batch by batch.

1. The first clause of its side whose condition is true applies to a row. The whole condition of a MERGE decides whether
   a row is matched; its keys only find candidates.
2. A row that several rows of the source change counts as doubled, and gets the values of the first.
3. Expressions are bound, and refused if need be, before a row is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.engines.local.expressions.evaluable import Evaluable, Scope, conversion
from holdfast.engines.local.expressions.evaluate import condition, evaluable
from holdfast.engines.local.expressions.values import common
from holdfast.engines.local.join import KeyIndex, Rows, index
from holdfast.engines.local.reading import INDEX, SOURCE_PREFIX, TARGET_PREFIX, Pool, pool_of
from holdfast.errors import Invalid
from holdfast.plan.dml.change import SOURCE_ALIAS, Clause, Key, Side, Source, Work
from holdfast.predicate.evaluate import matches
from holdfast.predicate.records import Predicate, columns_of, has_opaque
from holdfast.schema.constraints import quoted

TARGET = "__hf_target"  # alias where the user gave none
MOST_PAIRS = 50_000_000  # to be looked at where no equality says which rows can match
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class TakenRows:
    """What becomes of the rows of a batch: each row's clause and its partner in the source, -1 for none."""

    clause: Rows
    partner: Rows
    pairs: tuple[Rows, Rows]  # rows of the batch and of the source, one for each time a row was taken by a match
    is_met: NDArray[np.bool_]  # by some row of the source, whether a clause took it or not

    @property
    def doubled(self) -> Rows:
        """Rows that more than one row of the source takes."""
        rows, times = np.unique(self.pairs[0], return_counts=True)
        return rows[times > 1]


def target_relation(work: Work) -> Scope:
    """The target's columns, as expressions name them."""
    return Scope(work.named, work.alias or TARGET, TARGET_PREFIX)


def source_relation(source: Source) -> Scope:
    """The source's columns, as expressions name them."""
    return Scope(source.snapshot.schema, source.alias or SOURCE_ALIAS, SOURCE_PREFIX)


def relations_of(work: Work, side: Side) -> tuple[Scope, ...]:
    """What a clause may name."""
    if side is Side.MATCHED and work.source is not None:
        return target_relation(work), source_relation(work.source)
    return (target_relation(work),)


class Finder:
    """The conditions of a change, ready; and the source's rows once they are needed."""

    def __init__(self, work: Work, zone: str, *, also: frozenset[str] = frozenset()) -> None:
        """`also` names further columns that the rows of source must have."""
        self._work = work
        self._conditions = [
            None if c.condition is None else condition(c.condition, relations_of(work, c.side), zone=zone)
            for c in work.clauses
        ]
        source = work.source
        self._on = None if source is None else condition(source.on, relations_of(work, Side.MATCHED), zone=zone)
        self._keys = () if source is None else tuple(_joinable(work, source, zone))
        self._where = _decidable(work)
        self._looked_at = 0
        self._also = also

    @property
    def columns(self) -> frozenset[str]:
        """The columns of either side that finding rows needs."""
        ready = [e for e in (*self._conditions, self._on) if e is not None]
        keys = [part for _, *pair in self._keys for part in pair]
        where = columns_of(self._where) if self._where is not None else ()
        named = frozenset(TARGET_PREFIX + column[0] for column in where)
        return named.union(self._also, *(e.columns for e in (*ready, *keys)))

    @cached_property
    def pool(self) -> Pool:
        """The rows of the source."""
        assert self._work.source is not None, "a change without a source has no rows of it"
        return pool_of(self._work.source.snapshot, self.columns)

    @cached_property
    def met(self) -> NDArray[np.bool_]:
        """Which rows of the source have found a row so far."""
        return np.zeros(len(self.pool), bool)

    def taken(self, batch: pa.RecordBatch) -> TakenRows:
        """Give the rows of a batch to the clauses."""
        clause, partner = np.full(batch.num_rows, -1), np.full(batch.num_rows, -1)
        alone = self._possible(batch)
        pairs = _NONE, _NONE
        is_met = np.zeros(batch.num_rows, bool)
        if self._on is not None:
            rows, partners = self._matches(batch, alone)
            self.met[partners] = True
            is_met[rows] = True
            alone = alone[~is_met[alone]]
            by = self._first(Side.MATCHED, self.paired(batch, rows, partners, self._tested))
            rows, partners, by = rows[by >= 0], partners[by >= 0], by[by >= 0]
            pairs = rows, partners
            # The last assignment to a place counts: the first partner is written last.
            clause[rows[::-1]], partner[rows[::-1]] = by[::-1], partners[::-1]
        clause[alone] = self._first(Side.ALONE, batch.take(pa.array(alone)))
        return TakenRows(clause, partner, pairs, is_met)

    def paired(self, batch: pa.RecordBatch, rows: Rows, partners: Rows, needed: frozenset[str]) -> pa.RecordBatch:
        """Rows of a batch and their partners side by side, with the columns that are needed."""
        ours = batch.select([name for name in batch.schema.names if name in needed or name == INDEX])
        theirs = self.pool.rows.select([name for name in self.pool.rows.column_names if name in needed])
        at, partner_at = pa.array(rows), pa.array(partners)
        columns = [*(c.take(at) for c in ours.columns), *(c.take(partner_at).combine_chunks() for c in theirs.columns)]
        return pa.RecordBatch.from_arrays(columns, [*ours.schema.names, *theirs.column_names])

    @cached_property
    def _tested(self) -> frozenset[str]:
        """The columns that conditions on matches look at."""
        columns = [holds.columns for _, holds in self._of(Side.MATCHED) if holds is not None]
        return frozenset[str]().union(*columns)

    def _possible(self, batch: pa.RecordBatch) -> Rows:
        """The rows that may be taken at all."""
        if self._where is None:
            return np.arange(batch.num_rows)
        named = [name for name in batch.schema.names if name.startswith(TARGET_PREFIX)]
        plain = batch.select(named).rename_columns([name.removeprefix(TARGET_PREFIX) for name in named])
        return np.flatnonzero(np.asarray(matches(plain, self._where)))

    def _matches(self, batch: pa.RecordBatch, rows: Rows) -> tuple[Rows, Rows]:
        assert self._on is not None, "only a source has matches"
        part = batch.take(pa.array(rows))
        matches = [(_NONE, _NONE)]
        for ours, theirs in self._index.pairs([key(part) for _, key, _ in self._keys], rows):
            self._count(len(ours))
            held = self._on.holds(self.paired(batch, ours, theirs, self._on.columns))
            matches.append((ours[held], theirs[held]))
        return np.concatenate([a for a, _ in matches]), np.concatenate([b for _, b in matches])

    @cached_property
    def _index(self) -> KeyIndex:
        rows = self.pool.rows
        whole = pa.RecordBatch.from_arrays([c.combine_chunks() for c in rows.columns], rows.column_names)
        return index([key(whole) for *_, key in self._keys], [k.null_safe for k, *_ in self._keys], len(self.pool))

    def _count(self, pairs: int) -> None:
        assert self._on is not None, "only a source has matches"
        self._looked_at += 0 if self._keys else pairs
        if self._looked_at > MOST_PAIRS:
            raise Invalid(
                f"no column of the target equals one of the source in `{self._on.text}`, and there are more than "
                f"{MOST_PAIRS:,} pairs of rows to look at: add an equality, or merge with a Spark session"
            )

    def _first(self, side: Side, rows: pa.RecordBatch) -> Rows:
        """The first clause of a side that takes each row; -1 for none."""
        by = np.full(rows.num_rows, -1)
        for number, holds in self._of(side):
            left = np.flatnonzero(by < 0)
            by[left if holds is None else left[holds.holds(rows.take(pa.array(left)))]] = number
        return by

    def _of(self, side: Side) -> Iterator[tuple[int, Evaluable | None]]:
        clauses: Sequence[Clause] = self._work.clauses
        return ((n, self._conditions[n]) for n, clause in enumerate(clauses) if clause.side is side)


def _joinable(work: Work, source: Source, zone: str) -> Iterator[tuple[Key, Evaluable, Evaluable]]:
    """Keys whose two columns can be brought together here; the condition itself is applied in any case."""
    for key in source.keys:
        ours = evaluable(quoted(key.target), [target_relation(work)], zone=zone)
        theirs = evaluable(quoted(key.source), [source_relation(source)], zone=zone)
        meeting = common(ours.type, theirs.type)
        pair = None if meeting is None else (conversion(ours, meeting, zone), conversion(theirs, meeting, zone))
        if pair is not None and pair[0] is not None and pair[1] is not None:
            yield key, pair[0], pair[1]


def _decidable(work: Work) -> Predicate | None:
    """What is true of every row that may be taken, where it can be told here."""
    where = work.target.where
    return None if where is None or has_opaque(where.predicate) else where.predicate
