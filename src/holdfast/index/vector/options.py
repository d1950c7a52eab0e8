"""The options of a vector index.

    auto        flat while there are few rows, else ivf_sq8
    flat        the vectors themselves: exact, and slow for many rows
    ivf_flat    lists of near vectors, of which a search visits some; vectors are not encoded
    ivf_sqfp16  the same, with elements of 16 bits
    ivf_sq8     the same, with elements of 8 bits
    ivf_pq      the same, with 8 bits per group of elements: the smallest
    hnsw        a graph of near vectors: fast to search, slow to build, the largest

1. Any method only finds candidates: distances are computed from the table's own vectors.
2. An option that a method does not have is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from holdfast.errors import Invalid
from holdfast.index.vector.metric import Metric

VECTOR = "vector"  # the kind of index
FLAT_ROWS = 20_000  # up to here comparing all vectors is faster than training lists
LIST_ROWS = 2_048
FEWEST_LISTS = 16
MANY_LISTS = 4_096  # beyond, training takes so long that lists grow first
LONG_LIST_ROWS = 8_192
MOST_LISTS = 16_384  # by default
_MOST = 65_536
_NAMES = ("metric", "method", "lists", "groups", "links")
_TRAINED_ROWS = 64  # of a list at least, for a meaningful centre


class Method(Enum):
    AUTO = "auto"
    FLAT = "flat"
    IVF_FLAT = "ivf_flat"
    IVF_SQFP16 = "ivf_sqfp16"
    IVF_SQ8 = "ivf_sq8"
    IVF_PQ = "ivf_pq"
    HNSW = "hnsw"

    @property
    def has_lists(self) -> bool:
        return self.value.startswith("ivf_")


Choice = TypeVar("Choice", bound=Enum)


@dataclass(frozen=True, slots=True)
class VectorOptions:
    metric: Metric = Metric.L2
    method: Method = Method.AUTO
    lists: int | None = None  # None: by the number of rows
    groups: int | None = None  # of elements, for ivf_pq; None: one for every four
    links: int | None = None  # of a vector in the graph of hnsw; None: 16

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> VectorOptions:
        """Parse the options of a user."""
        for name in params:
            if name not in _NAMES:
                raise Invalid(f"a vector index has no option {name!r}: it has {', '.join(_NAMES)}")
        options = cls.kept(params)
        for name, fits in (
            ("lists", options.method.has_lists or options.method is Method.AUTO),
            ("groups", options.method is Method.IVF_PQ),
            ("links", options.method is Method.HNSW),
        ):
            if getattr(options, name) is not None and not fits:
                raise Invalid(
                    f"{name}= says nothing to a vector index of method {options.method.value!r}: leave it out"
                )
        return options

    @classmethod
    def kept(cls, params: Mapping[str, Any]) -> VectorOptions:
        """Parse the options that a definition stores."""
        return cls(
            _chosen(Metric, params.get("metric", Metric.L2.value), "metric"),
            _chosen(Method, params.get("method", Method.AUTO.value), "method"),
            *(_count(params.get(name), name) for name in _NAMES[2:]),
        )

    @property
    def params(self) -> dict[str, Any]:
        """The options that a definition stores: those that were given."""
        counts = {"lists": self.lists, "groups": self.groups, "links": self.links}
        kept = {name: count for name, count in counts.items() if count is not None}
        return {"metric": self.metric.value, "method": self.method.value, **kept}

    def method_for(self, rows: int) -> Method:
        if self.method is not Method.AUTO:
            return self.method
        return Method.FLAT if rows <= FLAT_ROWS and self.lists is None else Method.IVF_SQ8

    def lists_for(self, rows: int) -> int:
        if self.lists is not None:
            return min(self.lists, max(1, rows))
        lists = max(min(rows // LIST_ROWS, MANY_LISTS), rows // LONG_LIST_ROWS, FEWEST_LISTS)
        return min(lists, MOST_LISTS, max(1, rows // _TRAINED_ROWS))


def _chosen(kind: type[Choice], value: object, name: str) -> Choice:
    for each in kind:
        if each.value == value:
            return each
    raise Invalid(f"{name}= of a vector index is one of {', '.join(each.value for each in kind)}, not {value!r}")


def _count(value: object, name: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
        raise Invalid(f"{name}= of a vector index is a whole number from 1 to {_MOST}, not {value!r}")
    return value
