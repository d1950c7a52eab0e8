"""Compacts or clusters a table: plans bins, writes each, and commits those that are ready.

1. The bins of a clustered table are its unfinished cubes, those of any other table its small neighbouring files.
2. Bins are committed in their order, whichever is written first; those that are ready go into one commit.
3. A bin that another writer was faster with is reported and skipped; the others are committed all the same.
4. With a lease, a bin that another worker holds, or was faster with, is skipped. A bin is held until its commit has
   landed, so none waits for others longer than a quarter of its lease. One whose lease ends all the same is lost alone.
5. Bins of a commit read one version, the newest when the first of them began, if their files are those they were
   planned with. So they race only with commits made while they are written, and not with the bins before them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.env import Env
from holdfast.errors import ConcurrentWrite, Invalid
from holdfast.model.mutation import Mutation
from holdfast.plan.maintain.cluster import plan_clustering, plan_purge, plan_z_order
from holdfast.plan.maintain.compact import HIDDEN_SHARE, TARGET_ROWS, Bin, CompactionLimits, plan_compaction
from holdfast.plan.scan.prune import Want, prune
from holdfast.plan.scan.request import partition_fields, refuse_unknown
from holdfast.predicate.parse import unknown_names
from holdfast.predicate.records import ALWAYS, Predicate
from holdfast.schema.show import path_text
from holdfast.storage.arrays import strings
from holdfast.terminal import phase
from holdfast.verbs.commit.rebase import Redo, Touched
from holdfast.verbs.dml.delete_update import ExecutionContext, predicate_of, text_of
from holdfast.verbs.maintain.clustering import clustered_by, z_ordered_by
from holdfast.verbs.maintain.compact import compacted, rewritten
from holdfast.verbs.maintain.lease import Lease, Leases
from holdfast.verbs.open.open_table import OpenTable
from holdfast.verbs.open.spark_values import stated

if TYPE_CHECKING:
    from pyspark.sql import Column

GROUP_BYTES, GROUP_MS = 1 << 30, 60_000  # what waits for a commit at most, and for how long


@dataclass(frozen=True)
class Compacted:
    """What a compaction did: bins that were ready together are one version."""

    versions: tuple[int, ...]
    metrics: Mapping[str, int]
    lost: tuple[str, ...] = ()  # bins that another writer was faster with, and who
    left: int = 0  # bins that were not begun, because the time for them was over
    held: int = 0  # bins that were left to another worker
    bins: int = 0  # that were committed


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

    table: OpenTable
    caller: ExecutionContext
    limits: CompactionLimits
    full: bool = False
    predicate: Predicate = field(default=ALWAYS)
    lease: Lease | None = None

    def __post_init__(self) -> None:
        if self.full and not self.table.snapshot.clustering_columns:
            raise Invalid("full=True puts all rows of a clustered table in order again, and this one is not clustered")
        if self.full and self.limits.most_bytes is not None:
            raise Invalid("full=True puts all rows in order, however many bytes they have: leave maxBytes out")

    def where(self, condition: str | Column) -> DeltaOptimizeBuilder:
        """Only files that may hold rows which satisfy a condition; not of a clustered table."""
        wanted = stated(condition, "optimize().where()")
        if self.table.snapshot.clustering_columns:
            shown = ", ".join(path_text(path) for path in clustered_by(self.table))
            raise Invalid(
                f"the table is clustered by {shown}, and its rows are put in order together: leave where() out, and "
                "bound what is written with optimize(maxBytes=...)"
            )
        schema = self.table.snapshot.schema
        refuse_unknown(unknown_names(text_of(wanted), schema), schema)
        predicate, _ = predicate_of(wanted, schema, self.caller)
        if predicate == ALWAYS:
            raise Invalid(f"nothing of {condition!r} says which files to leave out: compare columns with literals")
        return replace(self, predicate=predicate)

    def plan(self, zOrderBy: Sequence[str] = ()) -> CompactionPlan:
        """What `executeCompaction()` would write, and why; or `executeZOrderBy` with these columns."""
        snapshot = self.table.snapshot
        files = prune(snapshot.files, Want(snapshot, self.predicate)).files
        if zOrderBy:
            names = [zOrderBy] if isinstance(zOrderBy, str) else list(zOrderBy)
            bins = plan_z_order(files, _partitions(self.table), z_ordered_by(self.table, names), self.limits)
        elif columns := clustered_by(self.table):
            bins = plan_clustering(files, columns, self.limits, full=self.full)
        else:
            bins = plan_compaction(files, _partitions(self.table), self.limits)
        return CompactionPlan(bins, len(files))

    def executeCompaction(self) -> Compacted:
        """Write small files together, and files that hide many rows anew; bins that are ready are one commit.

        Of a clustered table, put in order what is not, and join what lies in many orders.
        """
        return self._run(self.plan().bins)

    def executeZOrderBy(self, *cols: str | Sequence[str]) -> Compacted:
        """Put rows with near values of some columns into the same files; bins that are ready are one commit."""
        names = [name for col in cols for name in ([col] if isinstance(col, str) else col)]
        z_ordered_by(self.table, names)
        return self._run(self.plan(names).bins)

    def _run(self, bins: Sequence[Bin]) -> Compacted:
        return run_bins(self.table, bins, self.caller, where=self.predicate, full=self.full, lease=self.lease)


def purge(table: OpenTable, caller: ExecutionContext, limits: CompactionLimits) -> Compacted:
    """Write every file that hides rows anew, so that no deletion vector is left."""
    bins = plan_purge(table.snapshot.files, _partitions(table), clustered_by(table), limits)
    return run_bins(table, bins, caller, purges=True)


def run_bins(
    table: OpenTable,
    bins: Sequence[Bin],
    caller: ExecutionContext,
    *,
    where: Predicate = ALWAYS,
    full: bool = False,
    purges: bool = False,
    auto: bool = False,
    lease: Lease | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> Compacted:
    """Write and commit bins, until the time for them is over."""
    table.check_writable()
    store = table.storing(table.definition, feeds=False)
    engine = caller.engine
    # Where a bar of tasks is shown, it is that of the only bin; bars of several would overwrite each other.
    label = "writing files anew" if len(bins) == 1 else ""

    def write(each: Bin, read: OpenTable) -> pa.Table:
        return rewritten(read.snapshot, each, engine, table.load_hidden, store, label=label)

    reads = _Reads(table)
    claims = _Claims(reads, None if lease is None else Leases(table.snapshot.location, lease, caller.env))

    def mutation(group: _Group) -> Mutation:
        snapshot, new_uuid = group.read.snapshot, caller.env.new_uuid
        return compacted(snapshot, group.bins, group.staged, where, new_uuid, full=full, auto=auto, purges=purges)

    versions, lost, landed, total = list[int](), list[str](), 0, Counter[str]()

    def commit(group: _Group) -> None:
        nonlocal landed
        keys = tuple(frozenset(each.keys) for each in group.bins)
        touched = Touched(rewritten=frozenset().union(*keys), bins=keys)
        change = mutation(group)
        try:
            done = group.read.commit(change, caller.env, redo=Redo(touched, engine, table.load_hidden))
        except ConcurrentWrite as conflict:
            if len(group.bins) == 1:
                lost.append(str(conflict))
                return
            for alone in group.apart():
                commit(alone)
            return
        assert done.version is not None, "a compaction is written for no application"
        versions.append(done.version)
        landed += len(group.bins)
        total.update(change.metrics)

    def commit_ready(group: _Group | None) -> None:
        if group is not None:
            try:
                commit(group)
            finally:
                reads.renew()
                for each in group.bins:
                    claims.over(each)

    waiting = _Waiting(caller.env, GROUP_MS if lease is None else min(GROUP_MS, int(1000 * lease.seconds / 4)))
    with claims:
        try:
            for each, read, staged in _written(bins, write, reads, claims, caller, is_over):
                if not waiting.goes_with(read):
                    commit_ready(waiting.taken())
                waiting.put(each, read, staged)
                if waiting.is_full:
                    commit_ready(waiting.taken())
        finally:
            commit_ready(waiting.taken())  # also where a bin failed: what is written is not lost with it
    left = len(bins) - landed - len(lost) - claims.held
    return Compacted(tuple(versions), dict(total), tuple(lost), left, claims.held, landed)


@dataclass(frozen=True)
class _Group:
    """Bins that are written and committed together, and the version all of them read."""

    read: OpenTable
    bins: tuple[Bin, ...]
    staged: tuple[pa.Table, ...]

    def apart(self) -> Iterator[_Group]:
        """The same, bin by bin."""
        for each, staged in zip(self.bins, self.staged, strict=True):
            yield _Group(self.read, (each,), (staged,))


class _Waiting:
    """Bins that are written and wait for their commit, as many as a bound of bytes and of time allows."""

    def __init__(self, env: Env, longest_ms: int) -> None:
        self._env, self._longest_ms = env, longest_ms
        self._group: _Group | None = None
        self._since_ms = 0

    def goes_with(self, read: OpenTable) -> bool:
        """Whether a bin can be committed with those that wait."""
        return self._group is None or self._group.read is read

    def put(self, each: Bin, read: OpenTable, staged: pa.Table) -> None:
        if self._group is None:
            self._group, self._since_ms = _Group(read, (), ()), self._env.now_ms()
        self._group = replace(self._group, bins=(*self._group.bins, each), staged=(*self._group.staged, staged))

    @property
    def is_full(self) -> bool:
        bins = () if self._group is None else self._group.bins
        is_late = bool(bins) and self._env.now_ms() - self._since_ms >= self._longest_ms
        return is_late or sum(each.bytes for each in bins) >= GROUP_BYTES

    def taken(self) -> _Group | None:
        """What waits, which then no longer does."""
        group, self._group = self._group, None
        return group


class _Reads:
    """What each bin reads: the newest version, unless its files or its settings are not those it was planned with."""

    def __init__(self, planned: OpenTable) -> None:
        self._planned = self._newest = planned
        self._is_old = False  # the first bins begin right after the plan

    def renew(self) -> None:
        """Bins that begin from here on read what the table is then."""
        self._is_old = True

    def newest(self) -> OpenTable:
        """The table as it is now."""
        self._newest, self._is_old = self._newest.newest(), False
        return self._newest

    def of(self, each: Bin) -> OpenTable:
        newest = self.newest() if self._is_old else self._newest
        same = newest is self._planned or newest.definition == self._planned.definition
        return newest if same and _as_planned(each, newest) else self._planned


def _as_planned(each: Bin, newest: OpenTable) -> bool:
    """Whether a version has a bin's files, and they hide what they hid."""
    files = newest.snapshot.files
    if files is each.files:
        return True
    columns = [name for name in ("key", "dv", "lost_by") if name in files.table.column_names]
    wanted = pc.is_in(files.table.column("key"), value_set=strings(list(each.keys)))
    now, then = files.table.select(columns).filter(wanted), each.files.table.select(columns)
    return bool(now.sort_by("key").combine_chunks() == then.sort_by("key").combine_chunks())


class _Claims:
    """Which bins are this worker's to write: all, unless there are leases."""

    def __init__(self, reads: _Reads, leases: Leases | None) -> None:
        self._reads, self._leases = reads, leases
        self._mine: dict[tuple[str, ...], Leases] = {}
        self.held = 0

    def __enter__(self) -> _Claims:
        return self

    def __exit__(self, *raised: object) -> None:
        for keys in list(self._mine):  # none, unless something went wrong
            self._give_up(keys)

    def claim(self, each: Bin) -> bool:
        """Whether nobody else is at a bin, or was: then its files are another's already."""
        if self._leases is None:
            return True
        if self._leases.claim(each.keys):
            self._mine[each.keys] = self._leases
            now = self._reads.newest().snapshot.files
            there = pc.is_in(strings(list(each.keys)), value_set=now.column("key"))
            if pc.all(there).as_py():
                return True
            self._give_up(each.keys)
        self.held += 1
        return False

    def over(self, each: Bin) -> None:
        """Nobody is at this bin any more."""
        if each.keys in self._mine:
            self._give_up(each.keys)

    def _give_up(self, keys: tuple[str, ...]) -> None:
        self._mine.pop(keys).release(keys)


def _written(
    bins: Sequence[Bin],
    write: Callable[[Bin, OpenTable], pa.Table],
    reads: _Reads,
    claims: _Claims,
    caller: ExecutionContext,
    is_over: Callable[[], bool],
) -> Iterator[tuple[Bin, OpenTable, pa.Table]]:
    """Bins, what each read and what was written of it, in their order; on Spark some are written while others wait."""
    at_once = caller.engine.parallel_bins
    waiting: deque[tuple[Bin, OpenTable, Future[pa.Table]]] = deque()
    left = deque(bins)
    with ThreadPoolExecutor(at_once) as pool:
        while waiting or left:
            while left and len(waiting) < at_once and not is_over():
                each = left.popleft()
                if claims.claim(each):
                    read = reads.of(each)
                    waiting.append((each, read, pool.submit(write, each, read)))
            if not waiting:
                return
            each, read, coming = waiting.popleft()
            done = len(bins) - len(left) - len(waiting)
            progress = caller.engine.progress if len(bins) == 1 else phase
            with progress(f"writing bin {done} of {len(bins)}"):
                staged = coming.result()
            yield each, read, staged


def limits_of(
    table: OpenTable,
    *,
    target_rows: int = TARGET_ROWS,
    target_bytes: int | None = None,
    threshold: float = HIDDEN_SHARE,
    most_bytes: int | None = None,
) -> CompactionLimits:
    """What a compaction strives for: what the call says, else the table's target size."""
    if target_rows < 1 or (target_bytes is not None and target_bytes < 1):
        raise Invalid("a target is at least one row, and at least one byte")
    if not 0 <= threshold <= 1:
        raise Invalid(f"a share of hidden rows is between 0 and 1, not {threshold}")
    if target_bytes is None:
        target_bytes = table.storing(table.definition, carried=False, feeds=False).data.target_bytes
    return CompactionLimits(target_rows, target_bytes, threshold, most_bytes)


def _partitions(table: OpenTable) -> list[str]:
    return [f.physical_name for f in partition_fields(table.snapshot)]
