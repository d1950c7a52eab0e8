"""Identity columns, whose values the table assigns itself.

1. A value is `start + k * step`; the next one is beyond the high-water mark in the direction of the step.
2. The high-water mark never moves against the step, and only identity columns have one.
3. A value that no 64-bit integer holds is LimitReached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from holdfast.errors import LimitReached
from holdfast.schema.types import Field, Struct

START = "delta.identity.start"
STEP = "delta.identity.step"
HIGH_WATER = "delta.identity.highWaterMark"
ALLOW_EXPLICIT = "delta.identity.allowExplicitInsert"

SMALLEST, LARGEST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class IdentityColumn:
    """The sequence of an identity column."""

    name: str
    start: int
    step: int
    high_water: int | None
    explicit: bool  # whether users may give values themselves

    @property
    def next_value(self) -> int:
        """The next value to assign."""
        if self.high_water is None:
            return self.start
        return self.start + max(0, (self.high_water - self.start) // self.step + 1) * self.step

    def mark_for(self, value: int) -> int | None:
        """The high-water mark after a value was used; None where the sequence starts beyond it."""
        steps = -(-(value - self.start) // self.step)
        mark = self.start + steps * self.step
        if not SMALLEST <= mark <= LARGEST:
            raise overflow(self)
        return None if steps < 0 else mark

    def last_of(self, count: int) -> int:
        """The last of the next `count` values; `count` is at least 1."""
        last = self.next_value + (count - 1) * self.step
        if not SMALLEST <= last <= LARGEST:
            raise overflow(self)
        return last


def overflow(identity: IdentityColumn) -> LimitReached:
    """The error for an identity column that has no numbers left."""
    return LimitReached(
        f"the identity column {identity.name} has no numbers left: the next is {identity.next_value}, "
        f"the step {identity.step}"
    )


def identity_of(f: Field) -> IdentityColumn | None:
    """The sequence of a column; None for an ordinary column."""
    if START not in f.metadata and STEP not in f.metadata:
        return None
    mark = f.metadata.get(HIGH_WATER)
    return IdentityColumn(
        f.name,
        int(f.metadata.get(START, 1)),
        int(f.metadata.get(STEP, 1)),
        None if mark is None else int(mark),
        bool(f.metadata.get(ALLOW_EXPLICIT, False)),
    )


def identity_metadata(*, start: int, step: int, explicit: bool) -> dict[str, int | bool]:
    """The metadata of a new identity column; `step` is not 0."""
    assert step != 0, "an identity column moves"
    return {START: start, STEP: step, ALLOW_EXPLICIT: explicit}


def advanced(schema: Struct, marks: Mapping[str, int]) -> Struct:
    """The schema with these high-water marks, by column name."""
    return Struct(tuple(_advanced(f, marks.get(f.name)) for f in schema.fields))


def without_identity(f: Field) -> Field:
    """The column as an ordinary one."""
    return replace(f, metadata={k: v for k, v in f.metadata.items() if not k.startswith("delta.identity.")})


def _advanced(f: Field, mark: int | None) -> Field:
    identity = identity_of(f)
    if identity is None or mark is None:
        return f
    old = identity.high_water
    if old is not None and (mark - old) * identity.step <= 0:
        return f
    return replace(f, metadata={**f.metadata, HIGH_WATER: mark})
