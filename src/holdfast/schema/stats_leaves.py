"""Which columns of a table have statistics kept of them.

1. The columns a table lists, or else its first leaves in schema order (32, or as many as it says; -1 is all); a leaf is
   reached through structs alone, so a list or a map counts as one.
2. Clustering columns are always among them: layout and pruning depend on their bounds.
3. Partition columns and void ones never are; the log has the values of the former, and nobody those of the latter.
4. A name in the list that the table does not have says nothing: the property outlives columns, and statistics are never
   needed for a right answer.
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
    """The leaves of a table that statistics are kept of, in schema order; `clustering` are physical paths."""
    partitions = frozenset(partition_columns)
    found = [path for path, type_ in leaves(schema) if path[0].name not in partitions and type_ != Primitive("void")]
    always = set(clustering)
    listed = properties.get(STATS_COLUMNS)
    if listed is not None:
        wanted = list(_names(listed))
        chosen = [any(_is_within(path, name) for name in wanted) for path in found]
    else:
        count = number(NUM_INDEXED, properties.get(NUM_INDEXED, str(_FIRST)))
        chosen = [count < 0 or at < count for at in range(len(found))]
    physical = [tuple(f.physical_name for f in path) for path in found]
    return tuple(path for path, take in zip(physical, chosen, strict=True) if take or path in always)


def _is_within(path: tuple[Field, ...], name: tuple[str, ...]) -> bool:
    """Whether a name is that of the leaf or of a struct around it."""
    spelled = tuple(f.name.lower() for f in path)
    return spelled[: len(name)] == tuple(part.lower() for part in name)


def _names(listed: str) -> Iterator[tuple[str, ...]]:
    """Column names of a list: separated by commas, their parts by dots, each in backticks where it needs them."""
    for found in _NAME.finditer(listed):
        parts = re.findall(_PART, found[1].strip())
        yield tuple(p[1:-1].replace("``", "`") if p.startswith("`") else p.strip() for p in parts)
