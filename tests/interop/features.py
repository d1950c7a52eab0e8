"""What a table may have that a reader has to know, or at least not stumble over.

1. A recipe is a set of features; those of one group exclude each other.
2. A recipe without features is a plain table: protocol 1 and 2, no row tracking, no vectors.
3. The order of FEATURES is the order of every list and page.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

Recipe: TypeAlias = frozenset[str]


@dataclass(frozen=True, slots=True)
class Feature:
    """One thing a table may have."""

    name: str
    title: str
    group: str = ""  # features of one group exclude each other
    needs: frozenset[str] = frozenset()  # features, or groups of which one must be there


FEATURES = (
    Feature("partitioned", "partitioned by string (with `/`, `%`, `=`, spaces, null) and date", group="layout"),
    Feature("clustered", "clustered", group="layout"),
    Feature("mapping_name", "column mapping by name", group="mapping"),
    Feature("mapping_id", "column mapping by id", group="mapping"),
    Feature("vectors", "deletion vectors"),
    Feature("row_tracking", "row tracking"),
    Feature("classic_checkpoint", "classic checkpoint, older commits gone", group="checkpoint"),
    Feature("v2_checkpoint", "V2 checkpoint with sidecars, older commits gone", group="checkpoint"),
    Feature("log_compaction", "log compaction"),
    Feature("all_types", "all primitive types, with their extremes"),
    Feature("nested", "structs, lists and maps in each other"),
    Feature("ntz", "timestamp without zone"),
    Feature("variant", "variant", needs=frozenset(("spark",))),
    Feature("added", "column added later"),
    Feature("widened", "types widened later (int, float, decimal)"),
    Feature("renamed", "column renamed, column dropped", needs=frozenset(("mapping",))),
    Feature("in_commit_timestamps", "in-commit timestamps"),
    Feature("check", "CHECK constraint"),
    Feature("generated", "generated column", needs=frozenset(("spark",))),
    Feature("identity", "identity column"),
    Feature("change_data_feed", "change data feed"),
    Feature("changed", "rows changed by Holdfast's UPDATE and MERGE", needs=frozenset(("spark",))),
    Feature("spark", "written by Spark tasks, not by one process"),
)
BY_NAME = {feature.name: feature for feature in FEATURES}
NAMES = tuple(BY_NAME)


def recipe(*names: str) -> Recipe:
    """A recipe of features by name, with what they need."""
    wanted = set(names)
    for name in names:
        for need in BY_NAME[name].needs:
            if not any(need in (other, BY_NAME[other].group) for other in wanted):
                wanted.add(next(f.name for f in FEATURES if need in (f.name, f.group)))
    return frozenset(wanted)


def ordered(names: Iterable[str]) -> tuple[str, ...]:
    """Names in the order of FEATURES."""
    found = set(names)
    return tuple(name for name in NAMES if name in found)


def title(made_of: Recipe) -> str:
    """A recipe as one word, for file names and reports."""
    return "-".join(ordered(made_of)) or "plain"
