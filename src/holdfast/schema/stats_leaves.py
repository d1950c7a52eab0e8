"""Chooses the columns of a table for which statistics are kept.

1. These are the columns that a table property lists, or else the first leaves in schema order (32, or the number of
   another property; -1 is all); a leaf is reached through structs alone, so a list or a map counts as one.
2. Clustering columns always have statistics: layout and pruning depend on their bounds.
3. Partition columns and void columns never have: the log has the values of the former, and the latter have none.
4. A listed name that the table does not have is ignored: the property outlives columns, and statistics are never needed
   for a right result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from holdfast.schema.properties import number
from holdfast.schema.types import Field, Primitive, Struct, leaves

NUM_INDEXED = "delta.dataSkippingNumIndexedCols"
STATS_COLUMNS = "delta.dataSkippingStatsColumns"

LeafPath: TypeAlias = tuple[str, ...]  # physical names from the top column down to a leaf

_FIRST = 32
_PART = r"`(?:[^`]|``)*`|[^`.,]+"
_NAME = re.compile(rf"\s*((?:{_PART})(?:\.(?:{_PART}))*)\s*(?:,|$)")


def stats_leaves(
    schema: Struct,
    partition_columns: Iterable[str],
    properties: Mapping[str, str],
    clustering: Iterable[LeafPath] = (),
) -> tuple[LeafPath, ...]:
    """The leaves for which statistics are kept, in schema order; `clustering` are physical paths."""
    partitions = frozenset(partition_columns)
    candidates = [
        path for path, type_ in leaves(schema) if path[0].name not in partitions and type_ != Primitive("void")
    ]
    always = set(clustering)
    listed = properties.get(STATS_COLUMNS)
    if listed is not None:
        names = list(_names(listed))
        chosen = [any(_is_within(path, name) for name in names) for path in candidates]
    else:
        count = number(NUM_INDEXED, properties.get(NUM_INDEXED, str(_FIRST)))
        chosen = [count < 0 or at < count for at in range(len(candidates))]
    physical = [tuple(f.physical_name for f in path) for path in candidates]
    return tuple(path for path, take in zip(physical, chosen, strict=True) if take or path in always)


def _is_within(path: tuple[Field, ...], name: tuple[str, ...]) -> bool:
    """Whether a name is that of the leaf or of a struct around it."""
    spelled = tuple(f.name.lower() for f in path)
    return spelled[: len(name)] == tuple(part.lower() for part in name)


def _names(listed: str) -> Iterator[tuple[str, ...]]:
    """Column names of a list: separated by commas, their parts by dots, each in backticks where it needs them."""
    for match in _NAME.finditer(listed):
        parts = re.findall(_PART, match[1].strip())
        yield tuple(p[1:-1].replace("``", "`") if p.startswith("`") else p.strip() for p in parts)
