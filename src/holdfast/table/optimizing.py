"""Compaction, put together: plan the bins, write each, commit each, tell what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import Column

from holdfast.delta.features import check_writable
from holdfast.delta.state import DeltaState
from holdfast.delta.vectors import load_hidden
from holdfast.errors import ConcurrentWrite, Invalid
from holdfast.ops.compact import compacted, rewritten
from holdfast.plan.compact import HIDDEN_SHARE, TARGET_ROWS, Bin, Limits, plan_compaction, purged
from holdfast.plan.prune import Want, prune
from holdfast.plan.scan import partition_fields
from holdfast.plan.write import write_spec
from holdfast.predicate.records import ALWAYS, Predicate
from holdfast.table.changing import Caller, predicate_of, storing
from holdfast.table.writing import land, shape_of


@dataclass(frozen=True)
class Compacted:
    """What a compaction did, bin by bin."""

    versions: tuple[int, ...]
    metrics: Mapping[str, int]
    lost: tuple[str, ...] = ()  # bins that another writer was faster with, and who


@dataclass(frozen=True)
class CompactionPlan:
    """What a compaction would do. Printing it shows it."""

    bins: tuple[Bin, ...]
    of: int  # files that were looked at

    @property
    def bytes(self) -> int:
        """What would be written, about."""
        return sum(b.bytes for b in self.bins)

    def __str__(self) -> str:
        files = sum(len(b.files) for b in self.bins)
        lines = [f"{len(self.bins)} bins of {files} of {self.of} files, about {self.bytes} bytes to write"]
        lines += [f"  {b.rows} rows, about {b.bytes} bytes: {b.why}" for b in self.bins[:50]]
        return "\n".join([*lines, *([f"  and {len(self.bins) - 50} more"] if len(self.bins) > 50 else [])])


@dataclass(frozen=True)
class DeltaOptimizeBuilder:
    """A compaction in the making, as in delta-spark."""

    state: DeltaState
    caller: Caller
    limits: Limits
    predicate: Predicate = field(default=ALWAYS)

    def where(self, condition: str | Column) -> DeltaOptimizeBuilder:
        """Only files that may hold rows which satisfy a condition."""
        predicate, _ = predicate_of(condition, self.state.snapshot.schema, self.caller)
        if predicate == ALWAYS:
            raise Invalid(f"nothing of {condition!r} says which files to leave out: compare columns with literals")
        return replace(self, predicate=predicate)

    def plan(self) -> CompactionPlan:
        """What it would write, and why."""
        snapshot = self.state.snapshot
        files = prune(snapshot.files, Want(snapshot, self.predicate)).files
        return CompactionPlan(plan_compaction(files, _partitions(self.state), self.limits), len(files))

    def executeCompaction(self) -> Compacted:
        """Write small files together, and files that hide many rows anew; one commit each."""
        return run(self.state, self.plan().bins, self.predicate, self.caller, purges=False)


def purge(state: DeltaState, caller: Caller, limits: Limits) -> Compacted:
    """Write every file that hides rows anew, so that no deletion vector is left."""
    bins = purged(state.snapshot.files, _partitions(state), limits)
    return run(state, bins, ALWAYS, caller, purges=True)


def run(state: DeltaState, bins: tuple[Bin, ...], where: Predicate, caller: Caller, *, purges: bool) -> Compacted:
    """Write and commit bins; one that another writer was faster with is told and left."""
    location = state.snapshot.location
    check_writable(state.protocol, table=location.url)
    store = storing(state, shape_of(state))
    changer = caller.changer()
    versions, lost, total = [], [], Counter[str]()
    for each in bins:
        staged = rewritten(state.snapshot, each, changer, load_hidden, store)
        mutation = compacted(state.snapshot, each, staged, where, purges=purges)
        try:
            landed = land(state, location, mutation, caller.env)
        except ConcurrentWrite as conflict:
            lost.append(str(conflict))
            continue
        assert landed.version is not None, "a compaction is written for no application"
        versions.append(landed.version)
        total.update(mutation.metrics)
    return Compacted(tuple(versions), dict(total), tuple(lost))


def limits_of(
    state: DeltaState,
    *,
    target_rows: int = TARGET_ROWS,
    target_bytes: int | None = None,
    threshold: float = HIDDEN_SHARE,
    most_bytes: int | None = None,
) -> Limits:
    """What a compaction strives for: what the call says, else the table's target size."""
    if target_rows < 1 or (target_bytes is not None and target_bytes < 1):
        raise Invalid("a target is at least one row, and at least one byte")
    if not 0 <= threshold <= 1:
        raise Invalid(f"a share of hidden rows is between 0 and 1, not {threshold}")
    spec = write_spec(state.snapshot.schema, state.snapshot.partition_columns, state.snapshot.properties)
    return Limits(target_rows, target_bytes or spec.target_bytes, threshold, most_bytes)


def _partitions(state: DeltaState) -> list[str]:
    return [f.physical_name for f in partition_fields(state.snapshot)]
