"""A set of table versions, stored as spans.

1. Spans ascend and do not touch; both ends of a span belong to it.
2. Printed, they read as people write them: `0 to 3, 7`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Versions:
    """A set of versions."""

    spans: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, versions: Iterable[int]) -> Versions:
        """These versions, in whatever order they come."""
        spans: list[tuple[int, int]] = []
        for version in sorted(set(versions)):
            if spans and version == spans[-1][1] + 1:
                spans[-1] = (spans[-1][0], version)
            else:
                spans.append((version, version))
        return cls(tuple(spans))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and any(first <= version <= last for first, last in self.spans)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.spans:
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.spans)

    def __sub__(self, other: Versions) -> Versions:
        return Versions.of(set(self) - self._shared(other))

    def __and__(self, other: Versions) -> Versions:
        return Versions.of(set(self) & self._shared(other))

    def _shared(self, other: Versions) -> set[int]:
        """Versions of the other between the ends of this one: spans that come from a file may have any length."""
        if not self.spans:
            return set()
        first, last = self.spans[0][0], self.spans[-1][1]
        return {v for low, high in other.spans for v in range(max(low, first), min(high, last) + 1)}

    def __str__(self) -> str:
        shown = [f"{first}" if first == last else f"{first} to {last}" for first, last in self.spans]
        return ", ".join(shown if len(shown) <= _SHOWN else [*shown[:3], "...", *shown[-2:]]) or "none"
