"""Explains in words why pruning kept a file.

Each part of a condition that did not exclude a file gets a reason: the values overlap, there are no statistics, or only
Spark can evaluate it. Reasons are computed for the few files shown, never for all.

1. A reason is about a part that may hold in that file; a file has at least one reason.
2. A reason states the values that pruning used, so a reader can compare them with the statistics in the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from holdfast.model.files import FileTable
from holdfast.plan.scan.prune import Want, column_bounds
from holdfast.plan.scan.request import ScanPlan
from holdfast.predicate.bounds import ColumnBounds, Range, Single, may_match
from holdfast.predicate.records import (
    ALWAYS,
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    Leaf,
    Not,
    Op,
    Opaque,
    Or,
    Predicate,
    StartsWith,
    conjuncts,
    tested_columns,
)
from holdfast.predicate.render import column_text, render, value_text

TRUNCATED_LENGTH = 32  # writers truncate longer strings, and end a truncated maximum with a tie-breaker
_TIE_BREAKERS = ("\x7f", "\U0010ffff")


@dataclass(frozen=True, slots=True)
class Reason:
    file: str
    why: tuple[str, ...]


def reasons(plan: ScanPlan, *, limit: int = 10) -> tuple[Reason, ...]:
    """Why each of the first files of a plan is read; at most `limit` of them."""
    count = len(plan.files)
    shown = min(count, limit)
    if shown <= 0:
        return ()
    files = plan.files.filter(pa.concat_arrays([_all(True, shown), _all(False, count - shown)]))
    where = ALWAYS if plan.where is None else plan.where.predicate
    parts = conjuncts(where)
    facts = _Facts.of(files, Want(plan.snapshot, where, plan.metadata), parts)
    keys = files.column("key").to_pylist()
    return tuple(Reason(key, tuple(_whole(parts, facts, at))) for at, key in enumerate(keys))


@dataclass(frozen=True, slots=True)
class _Facts:
    """The bounds of the files shown."""

    known: dict[Column, ColumnBounds]
    num_records: pa.Array
    tight: pa.Array

    @classmethod
    def of(cls, files: FileTable, want: Want, parts: tuple[Predicate, ...]) -> _Facts:
        known, num_records = column_bounds(files, want, frozenset[Column]().union(*map(tested_columns, parts)))
        return cls(known, num_records, files.stats({}).tight)

    def may(self, predicate: Predicate, at: int) -> bool:
        return bool(may_match(predicate, self.known, self.num_records)[at].as_py())


def _whole(parts: tuple[Predicate, ...], facts: _Facts, at: int) -> Iterator[str]:
    if not parts:
        yield "no condition"
    for part in parts:
        yield from _why(part, facts, at)


def _why(predicate: Predicate, facts: _Facts, at: int) -> Iterator[str]:
    match predicate:
        case And(parts):
            for part in parts:
                yield from _why(part, facts, at)
        case Or(parts):
            for part in parts:
                if facts.may(part, at):
                    yield from _why(part, facts, at)
        case Opaque(text):
            yield f"`{text}` is left to Spark"
        case Constant():
            yield f"the condition says {render(predicate)}"
        case Not(Compare() | In() | IsNull() | StartsWith() as leaf):
            yield _leaf_words(leaf, True, predicate, facts, at)
        case Not():
            yield f"`{render(predicate)}` may hold"
        case _:
            yield _leaf_words(predicate, False, predicate, facts, at)


def _leaf_words(leaf: Leaf, negated: bool, whole: Predicate, facts: _Facts, at: int) -> str:
    name, test = column_text(leaf.column), render(whole)
    match facts.known.get(leaf.column):
        case None:
            return f"statistics do not cover {name}, so {test} is left to Spark"
        case Single(value):
            return f"{name} = {_shown(value[at])} satisfies {test}" if value[at].is_valid else f"{name} is null"
        case Range() as bounds:
            nulls = bounds.null_count[at].as_py()
            if isinstance(leaf, IsNull):
                return _null_words(name, test, nulls, negated, facts, at)
            return _range_words(leaf, name, test, bounds.low[at], bounds.high[at], nulls)


def _null_words(name: str, test: str, nulls: int | None, negated: bool, facts: _Facts, at: int) -> str:
    rows = facts.num_records[at].as_py()
    if nulls is None or (negated and rows is None):
        return f"no null count for {name}"
    if facts.tight[at].as_py() is False:
        return f"a deletion vector makes the null count of {name} inexact"
    total = "an unknown number of" if rows is None else rows
    return f"{name} is null in {nulls} of {total} rows, so {test} may hold"


def _range_words(leaf: Leaf, name: str, test: str, low: pa.Scalar, high: pa.Scalar, nulls: int | None) -> str:
    if not low.is_valid and not high.is_valid:
        return f"no statistics for {name}" if nulls is None else f"no minimum and maximum for {name}"
    bounds = f"{name} in [{_shown(low)}, {_shown(high)}]"
    if pa.types.is_floating(high.type) and isinstance(leaf, Compare) and leaf.op in (Op.GT, Op.GE, Op.NE):
        return f"{bounds}, but NaN, which bounds leave out, satisfies {test}"
    return f"{bounds} overlaps {test}" + (" (a string bound is truncated)" if _is_cut(low, high) else "")


def _shown(value: pa.Scalar) -> str:
    if not value.is_valid:
        return "?"
    try:
        return value_text(value.as_py())
    except (ValueError, OverflowError):  # a date or time in a year that Python has no value for
        return str(value.cast(pa.int64() if pa.types.is_timestamp(value.type) else pa.int32()))


def _is_cut(low: pa.Scalar, high: pa.Scalar) -> bool:
    if not pa.types.is_string(low.type):
        return False
    texts = [t for t in (low.as_py(), high.as_py()) if t is not None]
    return any(len(t) >= TRUNCATED_LENGTH for t in texts) or (high.is_valid and high.as_py().endswith(_TIE_BREAKERS))


def _all(value: bool, count: int) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(value), count)
