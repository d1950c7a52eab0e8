"""What writers of a simulation do, each thing twice: as a call of the table, and as a pure function of plain rows.

1. A verb says of any rows what becomes of them, which of them it takes and which it only meets; nothing else counts.
2. A row that is changed loses its version and a new one has no id: both are the table's to give.
3. A source has a key once, so that no merge is ambiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from holdfast import DeltaTable
from holdfast.env import Env
from holdfast.formats.delta.checkpoint.writer import write_checkpoint
from holdfast.formats.delta.state import load
from holdfast.plan.dml.change import Side

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("p", pa.string())])
KEYS = range(14)  # of rows that writers meet on; the table begins with most of them


class Row(NamedTuple):
    """A row, and who it is where the table tells."""

    k: int
    v: int
    id: int | None = None
    version: int | None = None


Pair: TypeAlias = tuple[int, int]  # key and value of a row of a source


@dataclass(frozen=True)
class Said:
    """A text of SQL, and what it means of a row and its partner."""

    text: str
    means: Callable[[Row, Pair], Any]

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class When:
    """A clause: `sets` is the new value, None deletes, or inserts a row as it is."""

    side: Side
    condition: Said | None = None
    sets: Said | None = None

    def __repr__(self) -> str:
        return f"{self.side.name} if {self.condition}: {self.sets}"

    def takes(self, t: Row, s: Pair) -> bool:
        return self.condition is None or bool(self.condition.means(t, s))


@dataclass(frozen=True)
class Applied:
    """What a verb makes of rows."""

    rows: tuple[Row, ...]
    updated: int = 0
    deleted: int = 0
    inserted: int = 0

    @property
    def is_nothing(self) -> bool:
        return not (self.updated or self.deleted or self.inserted)


@dataclass(frozen=True)
class Change:
    """A delete, an update or a merge."""

    kind: str
    whens: tuple[When, ...]
    source: tuple[Pair, ...] = ()
    on: Said | None = None
    mode: str | None = None
    retry: int | None = None

    @property
    def only_deletes(self) -> bool:
        return all(w.side is not Side.NEW and w.sets is None for w in self.whens)

    def applied(self, rows: Sequence[Row]) -> Applied:
        """The rows afterwards."""
        left, updated, deleted = [], 0, 0
        for row in rows:
            when, partner = self._taker(row)
            if when is None:
                left.append(row)
            elif when.sets is None:
                deleted += 1
            else:
                left.append(row._replace(v=when.sets.means(row, partner), version=None))
                updated += 1
        new = [Row(*s) for s in self.source if self._inserts(s, rows)]
        return Applied((*left, *new), updated, deleted, len(new))

    def taken(self, rows: Sequence[Row]) -> set[Row]:
        """Rows that it changes or deletes."""
        return {row for row in rows if self._taker(row)[0] is not None}

    def seen(self, rows: Sequence[Row]) -> set[Row]:
        """Rows that it leaves, and that keep it from inserting others."""
        if not any(w.side is Side.NEW for w in self.whens):
            return set()
        return {row for row in rows if self._partner(row) is not None} - self.taken(rows)

    def run(self, table: DeltaTable, tag: str) -> Any:
        options: dict[str, Any] = {"mode": self.mode, "retry": self.retry, "userMetadata": tag}
        match self.kind:
            case "delete":
                return table.delete(_text(self.whens[0].condition), **options)
            case "update":
                sets = self.whens[0].sets
                assert sets is not None, "an update sets something"
                return table.update(_text(self.whens[0].condition), {"v": sets.text}, **options)
        assert self.on is not None, "a merge has a condition"
        merge: Any = table.alias("t").merge(arrow_of([Row(*s) for s in self.source]), self.on.text, **options)
        for when in self.whens:
            condition = _text(when.condition)
            match when.side, when.sets:
                case Side.NEW, _:
                    merge = merge.whenNotMatchedInsertAll(condition)
                case Side.MATCHED, None:
                    merge = merge.whenMatchedDelete(condition)
                case Side.MATCHED, Said(text):
                    merge = merge.whenMatchedUpdate(condition, {"v": text})
                case Side.ALONE, None:
                    merge = merge.whenNotMatchedBySourceDelete(condition)
                case Side.ALONE, Said(text):
                    merge = merge.whenNotMatchedBySourceUpdate(condition, {"v": text})
        return merge.execute()

    def _taker(self, row: Row) -> tuple[When | None, Pair]:
        partner = self._partner(row)
        side = Side.ALONE if partner is None else Side.MATCHED
        whens = (w for w in self.whens if w.side is side and w.takes(row, partner or (0, 0)))
        return next(whens, None), partner or (0, 0)

    def _partner(self, row: Row) -> Pair | None:
        return None if self.on is None else next((s for s in self.source if self.on.means(row, s)), None)

    def _inserts(self, s: Pair, rows: Sequence[Row]) -> bool:
        news = [w for w in self.whens if w.side is Side.NEW and w.takes(Row(*s), s)]
        return bool(news) and not any(self.on is not None and self.on.means(row, s) for row in rows)


@dataclass(frozen=True)
class Append:
    """New rows, whatever is there."""

    rows: tuple[Pair, ...]

    def applied(self, rows: Sequence[Row]) -> Applied:
        return Applied((*rows, *(Row(*r) for r in self.rows)), inserted=len(self.rows))

    def run(self, table: DeltaTable, tag: str) -> Any:
        rows: Any = arrow_of([Row(*r) for r in self.rows])
        if table.handle.spark is not None:
            rows = table.handle.spark.createDataFrame(rows)
        return table.append(rows, userMetadata=tag)


@dataclass(frozen=True)
class Restore:
    """The rows of an earlier version."""

    version: int

    def run(self, table: DeltaTable, tag: str) -> Any:
        return table.restoreToVersion(self.version)


@dataclass(frozen=True)
class Upkeep:
    """What changes no row: compact, recluster, purge, checkpoint, compact log, track."""

    kind: str
    rows: int  # in a file, where files are written

    def run(self, table: DeltaTable, tag: str) -> Any:
        match self.kind:
            case "compact":
                return table.optimize(targetRows=self.rows).executeCompaction()
            case "recluster":
                return table.optimize(full=True, targetRows=self.rows).executeCompaction()
            case "purge":
                return table.purge()
            case "compact log":
                return table.compactLog()
            case "track":
                return table.enableRowTracking(batchFiles=1)
        raise AssertionError(f"nobody knows {self.kind}")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of the newest version, beside those that commits make due."""

    env: Env

    def run(self, table: DeltaTable, tag: str) -> Any:
        write_checkpoint(load(table.handle.state.snapshot.location), self.env)


Verb: TypeAlias = Change | Append | Restore | Upkeep | Checkpoint


def arrow_of(rows: Sequence[Row]) -> pa.Table:
    """Rows as they are handed to a table."""
    return pa.Table.from_pylist([{"k": r.k, "v": r.v, "p": partition(r.k)} for r in rows], COLUMNS)


def partition(k: int) -> str:
    """The partition of a key."""
    return "ab"[k % 2]


def changes(rng: Random, modes: Sequence[str | None]) -> Iterator[Change | Append]:
    """Things to do to rows, without end."""
    while True:
        mode, retry = rng.choice(modes), rng.choice((None, None, None, 3))
        match rng.choice(("append", "delete", "update", "update", "merge", "merge")):
            case "append":
                yield Append(tuple((k, rng.randrange(10)) for k in _some_keys(rng, 2)))
            case "delete":
                yield Change("delete", (When(Side.ALONE, _condition(rng)),), mode=mode, retry=retry)
            case "update":
                when = When(Side.ALONE, _condition(rng), _value(rng))
                yield Change("update", (when,), mode=mode, retry=retry)
            case _:
                source = tuple((k, rng.randrange(10)) for k in _some_keys(rng, 3))
                yield Change("merge", _whens(rng), source, _on(rng), mode, retry)


def _whens(rng: Random) -> tuple[When, ...]:
    least = rng.randrange(10)
    from_source = Said("s.v", lambda t, s: s[1])
    both = Said("t.v + s.v", lambda t, s: t.v + s[1])
    even = Said("s.v % 2 = 0", lambda t, s: s[1] % 2 == 0)
    large = Said(f"t.v > {least}", lambda t, s: t.v > least)
    matched = rng.choice(
        (
            (When(Side.MATCHED, None, both),),
            (When(Side.MATCHED, large, from_source),),
            (When(Side.MATCHED, even), When(Side.MATCHED, None, from_source)),
            (When(Side.MATCHED),),
            (),
        )
    )
    new = rng.choice(((), (When(Side.NEW),), (When(Side.NEW),), (When(Side.NEW, Said("s.v > 3", _above_three)),)))
    key = rng.choice(KEYS)
    mine = Said(f"t.k = {key}", lambda t, s: t.k == key)
    alone = rng.choice(
        ((), (), (), (When(Side.ALONE, mine),), (When(Side.ALONE, mine, Said("t.v + 1", lambda t, s: t.v + 1)),))
    )
    return (*matched, *new, *alone) or (When(Side.MATCHED, None, both),)


def _above_three(t: Row, s: Pair) -> bool:
    return s[1] > 3


def _on(rng: Random) -> Said:
    most = rng.randrange(4, 12)
    return rng.choice(
        (
            Said("t.k = s.k", lambda t, s: t.k == s[0]),
            Said("t.k = s.k", lambda t, s: t.k == s[0]),
            Said(f"t.k = s.k AND t.v < {most}", lambda t, s: t.k == s[0] and t.v < most),
        )
    )


def _condition(rng: Random) -> Said | None:
    a, b, m = rng.choice(KEYS), rng.choice(KEYS), rng.choice((3, 4, 5))
    rest = a % m
    return rng.choice(
        (
            Said(f"k = {a}", lambda t, s: t.k == a),
            Said(f"k = {a}", lambda t, s: t.k == a),
            Said(f"k IN ({a}, {b})", lambda t, s: t.k in (a, b)),
            Said(f"k % {m} = {rest}", lambda t, s: t.k % m == rest),
            Said(f"k >= {a} AND k <= {a + 2}", lambda t, s: a <= t.k <= a + 2),
            Said(f"v > {b}", lambda t, s: t.v > b),
            Said(f"k = {a} OR v = {b}", lambda t, s: t.k == a or t.v == b),
            None if rng.random() < 0.1 else Said(f"p = 'a' AND k < {a}", lambda t, s: t.k % 2 == 0 and t.k < a),
        )
    )


def _value(rng: Random) -> Said:
    n = rng.randrange(10)
    return rng.choice((Said(str(n), lambda t, s: n), Said(f"v + {n}", lambda t, s: t.v + n)))


def _some_keys(rng: Random, most: int) -> list[int]:
    return rng.sample(KEYS, rng.randint(1, most))


def _text(said: Said | None) -> str | None:
    return None if said is None else said.text
