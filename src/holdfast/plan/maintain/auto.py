"""Auto compaction after a write: whether the table enables it, its budget, and the bins to write. Pure.

1. Nothing is compacted before a partition has as many small files as the budget says. A small file has less than half
   of the target rows and bytes.
2. The bytes written are bounded, and no bin begins after the time that the budget gives.
3. A clustered table is clustered; in any other table small files are written together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow.compute as pc

from holdfast.errors import Invalid
from holdfast.model.files import FileTable
from holdfast.plan.maintain.cluster import Paths, plan_clustering
from holdfast.plan.maintain.compact import Bin, CompactionLimits, groups, plan_compaction
from holdfast.schema.properties import AUTO_COMPACT, AUTO_OPTIMIZE, number
from holdfast.storage.arrays import mask

MIN_FILES = "holdfast.autoCompact.minFiles"
MAX_BYTES = "holdfast.autoCompact.maxBytes"
MAX_SECONDS = "holdfast.autoCompact.maxSeconds"
BUDGET = (MIN_FILES, MAX_BYTES, MAX_SECONDS)


@dataclass(frozen=True, slots=True)
class Budget:
    """What auto compaction may spend after a write."""

    min_files: int = 50
    max_bytes: int = 1 << 30
    max_seconds: int = 60


@dataclass(frozen=True, slots=True)
class Auto:
    """The result of an auto compaction; the write before it stands in any case."""

    versions: tuple[int, ...] = ()
    metrics: Mapping[str, int] = field(default_factory=dict)
    left: int = 0  # bins that were planned and not written
    trouble: str | None = None  # why it ended early


def budget_of(properties: Mapping[str, str]) -> Budget | None:
    """The budget of a table; None if it does not enable auto compaction."""
    setting = properties.get(AUTO_COMPACT, properties.get(AUTO_OPTIMIZE, "false")).strip().lower()
    if setting not in ("true", "auto"):
        return None
    default = Budget()
    return Budget(
        _positive(properties, MIN_FILES, default.min_files),
        _positive(properties, MAX_BYTES, default.max_bytes),
        _positive(properties, MAX_SECONDS, default.max_seconds),
    )


def auto_compaction_bins(
    files: FileTable, partition_names: Sequence[str], clustered_by: Paths, limits: CompactionLimits, budget: Budget
) -> tuple[Bin, ...]:
    if len(files) < budget.min_files:
        return ()
    chosen = np.zeros(len(files), bool)
    loose = pc.is_null(files.column("clustering_provider")).to_numpy()
    for group in groups(files, partition_names):
        small = (group.size < limits.target_bytes // 2) & (group.rows < limits.target_rows // 2)
        if clustered_by:
            small &= loose[group.at]
        if small.sum() >= budget.min_files:
            chosen[group.at[small]] = True
    if not chosen.any():
        return ()
    bounded = replace(limits, most_bytes=budget.max_bytes)
    if clustered_by:
        return plan_clustering(files, clustered_by, bounded)
    return plan_compaction(files.filter(mask(chosen)), partition_names, bounded)


def _positive(properties: Mapping[str, str], name: str, default: int) -> int:
    value = number(name, properties.get(name, str(default)))
    if value < 1:
        raise Invalid(f"the property {name} is {value}; it must be at least 1")
    return value
