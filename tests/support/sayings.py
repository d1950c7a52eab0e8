"""SQL texts and what they mean in plain Python, as Spark has it: three truth values, NaN equal to itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from holdfast.plan.dml.change import Clause, Key, Set, Side

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """A text about a row of the target and one of the source, what it means, and the keys a condition compares."""

    text: str
    means: Callable[[Row, Row], Any]
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True)
class When:
    """A clause, as a text and as what it means; `sets` of None deletes."""

    side: Side
    condition: Said | None
    sets: tuple[tuple[str, Said], ...] | None

    @property
    def clause(self) -> Clause:
        sets = None if self.sets is None else tuple(Set((name,), said.text) for name, said in self.sets)
        return Clause(self.side, None if self.condition is None else self.condition.text, sets)

    def takes(self, t: Row, s: Row) -> bool:
        return self.condition is None or self.condition.means(t, s) is True

    def after(self, t: Row, s: Row) -> Row:
        """The row that an update leaves."""
        return {**t, **{name: said.means(t, s) for name, said in self.sets or ()}}


def takers(t: Row, incoming: Sequence[Row], on: Said | None, whens: Sequence[When]) -> list[tuple[When, Row]]:
    """The clauses that take a row of the target, each with its row of the source; more than one are ambiguous."""
    partners = [] if on is None else [s for s in incoming if on.means(t, s) is True]
    if not partners:
        return [(when, t) for when in whens if when.side is Side.ALONE and when.takes(t, t)][:1]
    firsts = ((_first(Side.MATCHED, t, s, whens), s) for s in partners)
    return [(when, s) for when, s in firsts if when is not None]


def _first(side: Side, t: Row, s: Row, whens: Sequence[When]) -> When | None:
    return next((when for when in whens if when.side is side and when.takes(t, s)), None)


def only_deletes(whens: Sequence[When]) -> bool:
    """Whether a match can do nothing but delete, however often it does."""
    return [(when.condition, when.sets) for when in whens if when.side is Side.MATCHED] == [(None, None)]


def same(a: Any, b: Any) -> bool:
    """What `<=>` says."""
    return bool(a == b) or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


def equal(a: Any, b: Any) -> bool | None:
    return None if a is None or b is None else same(a, b)


def less(a: Any, b: Any) -> bool | None:
    if a is None or b is None:
        return None
    return not math.isnan(a) if isinstance(b, float) and math.isnan(b) else bool(a < b)


def both(a: bool | None, b: bool | None) -> bool | None:
    return False if a is False or b is False else None if a is None or b is None else True


def either(a: bool | None, b: bool | None) -> bool | None:
    return True if a is True or b is True else None if a is None or b is None else False


def plus(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a + b


def shown(rows: Sequence[Row]) -> str:
    """Rows as text: NaN is NaN and -0.0 is not 0.0, whatever the order of the columns."""
    return repr([sorted(row.items()) for row in rows])
