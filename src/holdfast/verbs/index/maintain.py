"""Creates, refreshes, rebuilds, renames, verifies and drops the indexes of a Delta table.

1. A commit of its own domain registers an index. Other commits do not matter, unless they change the same index: then
   the work is done again on the newest version, or refused where it makes no sense.
2. A writer never brings back an index that was dropped, or dropped and made anew, after it began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from holdfast.env import Env
from holdfast.errors import ConcurrentWrite, Damaged, Invalid, NoRowIdentity, TableError
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.history.resurrected_rows import came_back
from holdfast.formats.delta.protocol.features import check_writable, writer_features
from holdfast.formats.delta.state import DeltaState, refresh
from holdfast.index.kinds import IndexKind, Site
from holdfast.index.registry import Index, Registered, checked_name, fields_of, registered, unfit
from holdfast.index.scalar.kind import BITMAP, ENTRIES, ScalarKind
from holdfast.index.search import Indexes
from holdfast.index.tail import Since, Steady, Tail, Unsteady
from holdfast.index.vector.kind import VectorKind
from holdfast.index.vector.options import VECTOR
from holdfast.model.mutation import Mutation
from holdfast.model.snapshot import Snapshot
from holdfast.plan.scan.request import known_columns, refuse_unknown
from holdfast.schema.types import Field
from holdfast.verbs.dml.delete_update import ExecutionContext
from holdfast.verbs.index import build as ops
from holdfast.verbs.index.pinned_readers import Pin
from holdfast.verbs.open.delta import open_delta

SYNCHRONOUS = "synchronous"
_AGAIN = 20  # times, before so many commits of one index are the user's business
_STEADY = "holdfast.index.steady"

KINDS: dict[str, IndexKind] = {
    ENTRIES: ScalarKind(ENTRIES),
    BITMAP: ScalarKind(BITMAP),
    VECTOR: VectorKind(),
}


class TrackedTable(Protocol):
    """A table at one version whose rows have ids, in whatever format."""

    @property
    def snapshot(self) -> Snapshot: ...

    @property
    def table_id(self) -> str: ...


@dataclass(frozen=True)
class IndexInfo:
    """An index of a table. Printing it shows it."""

    name: str
    kind: str
    columns: tuple[str, ...]  # logical names; of a column that is gone the physical one
    version: int  # the version it is complete for
    entries: int
    segments: int
    bytes: int
    synchronous: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)
    unusable: str | None = None  # why it answers for nothing now

    def __str__(self) -> str:
        state = "" if self.unusable is None else f"; not usable: {self.unusable}"
        return (
            f"{self.name} ({self.kind} on {', '.join(self.columns)}): {self.entries} entries in {self.segments} "
            f"segments, {self.bytes} bytes, complete for version {self.version}{state}"
        )


@dataclass(frozen=True)
class IndexStats:
    """What an index holds and what it leaves. Printing it shows it."""

    info: IndexInfo
    tail_files: int  # files that are looked into beside it
    tail_rows: int  # rows of them at most
    dead_share: float | None  # of its entries, by a sample; None: it cannot be told
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        dead = "" if self.dead_share is None else f", {self.dead_share:.1%} of the entries dead"
        more = "".join(f", {name} {value}" for name, value in self.extra.items())
        return f"{self.info}; tail: {self.tail_rows} rows in {self.tail_files} files{dead}{more}"


@dataclass(frozen=True)
class Verified:
    """What a comparison of an index with its table found."""

    name: str
    troubles: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        return not self.troubles

    def __str__(self) -> str:
        return f"{self.name}: " + ("; ".join(self.troubles) if self.troubles else "right")


def indexes_of(state: DeltaState, newest: DeltaState | None = None) -> Registered:
    """The indexes that a version has; and those that came later, which serve it as well."""
    known = registered({name: domain.configuration for name, domain in state.domains.items()})
    if newest is None or newest.version <= state.version:
        return known
    later = indexes_of(newest)
    missing = {name: index for name, index in later.indexes.items() if name not in known.indexes}
    return Registered({**missing, **known.indexes}, known.troubles)


def opened(pin: Pin, newest: DeltaState | None = None) -> Indexes:
    """The indexes of a pinned version, ready to be asked."""
    if pin.opened and pin.opened[0][0] is newest:
        return pin.opened[0][1]
    state = pin.state

    def since(version: int) -> Since:
        if version >= state.version:
            return Steady()
        known: dict[int, int] = pin.reader.memory.setdefault(_STEADY, {})
        why = came_back(state, version, checked=known.get(version))
        if why is not None:
            return Unsteady(why)
        known[version] = max(state.version, known.get(version, 0))
        return Steady()

    indexes = Indexes(pin.reader, indexes_of(state, newest), state.table_id, since, load_hidden)
    pin.opened[:] = [(newest, indexes)]
    return indexes


def create(
    state: DeltaState,
    columns: Sequence[str],
    name: str | None,
    kind: str,
    params: Mapping[str, Any],
    caller: ExecutionContext,
) -> Index:
    """Make an index, and register it."""
    refuse_unable(state)
    maker = kind_of(kind)
    fields = fields_asked(state, columns)
    name = checked_name("_".join(f.name for f in fields) if name is None else name)
    if name in (known := indexes_of(state)).indexes or name in known.troubles:
        raise Invalid(f"there is an index {name!r} already: drop it, rebuild it, or choose another name")
    options = dict(params)
    synchronous = options.pop(SYNCHRONOUS, False)
    if not isinstance(synchronous, bool):
        raise Invalid(f"synchronous= is True or False, not {synchronous!r}")
    kept = {**maker.define(state.snapshot, fields, options), **({SYNCHRONOUS: True} if synchronous else {})}
    definition = ops.defined(state.snapshot, state.table_id, name, kind, fields, kept)
    index = ops.made(site_of(state, caller), maker, definition)
    _land(state, ops.saying("CREATE INDEX", index), caller.env, {name: None})
    return index


def refresh_index(
    state: DeltaState, name: str, caller: ExecutionContext, pin: Callable[[DeltaState], Pin]
) -> Index | None:
    """Index the tail; None where there is none. Where the same index moved on meanwhile, once more from there."""
    begun = indexes_of(state).named(name)
    for _ in range(_AGAIN):
        index = indexes_of(state).named(name)
        if index.uuid != begun.uuid:
            raise Invalid(f"the index {name!r} was dropped and made anew meanwhile: look at it before refreshing it")
        refuse_unable(state)
        indexes = opened(pin(state))
        if reason := indexes.unusable(index):
            raise Invalid(f"the index {name!r} cannot be refreshed: {reason}; call rebuildIndex({name!r})")
        kind, site = kind_of(index.definition.kind), site_of(state, caller)
        new: Index | None
        if kind.outgrown(index) is not None:
            new = ops.made(site, kind, index.definition, generation=index.generation + 1)
        else:
            new = ops.refreshed(site, kind, index, indexes.reader, _tail(indexes, index))
        if new is None:
            return None
        try:
            _land(state, ops.saying("REFRESH INDEX", new), caller.env, {name: index})
            return new
        except ConcurrentWrite:
            state = refresh(state)
    raise Invalid(f"others commit the index {name!r} all the time: try again later")


def rebuild(state: DeltaState, name: str, caller: ExecutionContext) -> Index:
    """Make an index anew from every row, with the columns and options it has."""
    refuse_unable(state)
    old = indexes_of(state).named(name)
    fields = fields_of(old.definition, state.snapshot)
    if fields is None:
        raise Invalid(f"a column of the index {name!r} is gone: drop it")
    params = {k: v for k, v in old.definition.params.items() if k != SYNCHRONOUS}
    kind = kind_of(old.definition.kind)
    kept = dict(kind.define(state.snapshot, fields, params))
    kept |= {k: v for k, v in old.definition.params.items() if k == SYNCHRONOUS}
    definition = ops.defined(state.snapshot, state.table_id, name, old.definition.kind, fields, kept)
    index = ops.made(site_of(state, caller), kind, definition, generation=old.generation + 1)
    _land(state, ops.saying("REBUILD INDEX", index), caller.env, {name: old})
    return index


def drop(state: DeltaState, name: str, caller: ExecutionContext, *, if_exists: bool) -> bool:
    """Take an index away; its files go with a vacuum."""
    known = indexes_of(state)
    if name not in known.troubles and name not in known.indexes:
        if if_exists:
            return False
        known.named(name)
    check_writable(state.protocol, table=state.snapshot.location.url)
    _land(state, ops.unsaying(name), caller.env, {name: known.indexes.get(name)})
    return True


def rename(state: DeltaState, old: str, new: str, caller: ExecutionContext) -> None:
    """Give an index another name."""
    known = indexes_of(state)
    index = known.named(old)
    checked_name(new)
    if new in known.indexes or new in known.troubles:
        raise Invalid(f"there is an index {new!r} already: choose another name")
    check_writable(state.protocol, table=state.snapshot.location.url)
    _land(state, ops.renaming(index, new), caller.env, {old: index, new: None})


def info_of(index: Index, state: TrackedTable) -> IndexInfo:
    """An index as its table has it now."""
    known = {f.physical_name: f.name for f in state.snapshot.schema.fields}
    params = {k: v for k, v in index.definition.params.items() if k != SYNCHRONOUS}
    return IndexInfo(
        index.name,
        index.definition.kind,
        tuple(known.get(c.name, c.name) for c in index.definition.columns),
        index.version,
        index.entries,
        len(index.segments),
        index.bytes,
        bool(index.definition.params.get(SYNCHRONOUS)),
        params,
        unfit(index.definition, state.snapshot, state.table_id),
    )


def stats_of(index: Index, pin: Pin, sample: int | None) -> IndexStats:
    """What an index holds and what it leaves."""
    info, indexes = info_of(index, pin.state), opened(pin)
    if info.unusable is not None:
        rows = indexes.rows()
        return IndexStats(info, len(indexes.reader.snapshot.files), rows, None)
    try:
        tail = indexes.tail(index)
        stats = dict(kind_of(info.kind).stats(index, indexes.reader, sample=sample))
    except Damaged as error:
        return IndexStats(replace(info, unusable=str(error)), len(indexes.reader.snapshot.files), indexes.rows(), None)
    return IndexStats(info, len(tail), tail.most_rows, stats.pop("dead_share", None), stats)


def verify(index: Index, indexes: Indexes, caller: ExecutionContext, sample: int | None) -> Verified:
    """Compare an index with its table."""
    if reason := indexes.unusable(index):
        return Verified(index.name, (reason,))
    site = Site(indexes.reader.snapshot, load_hidden, caller.env, caller.engine.workers)
    try:
        tail = indexes.tail(index)
    except TableError as error:
        return Verified(index.name, (str(error),))
    kind = kind_of(index.definition.kind)
    return Verified(index.name, tuple(kind.verify(site, index, indexes.reader, tail, sample=sample)))


def follow(state: DeltaState, caller: ExecutionContext, pin: Callable[[DeltaState], Pin]) -> None:
    """Bring up to date the indexes that ask for it after every write."""
    for name, index in indexes_of(state).indexes.items():
        if index.definition.params.get(SYNCHRONOUS):
            refresh_index(refresh(state), name, caller, pin)


def kind_of(name: str) -> IndexKind:
    """A kind of index, by name."""
    if name not in KINDS:
        raise Invalid(f"there is no kind of index {name!r}: there are {', '.join(sorted(KINDS))}")
    return KINDS[name]


def site_of(state: DeltaState, caller: ExecutionContext) -> Site:
    return Site(state.snapshot, load_hidden, caller.env, caller.engine.workers)


def refuse_unable(state: DeltaState) -> None:
    """Refuse an index where rows have no ids, or where the table cannot keep it."""
    check_writable(state.protocol, table=state.snapshot.location.url)
    if state.snapshot.identity is None:
        raise NoRowIdentity(
            f"an index needs rows with ids, which the table at {state.snapshot.location.url} does not have: "
            "call enableRowTracking(), which rewrites nothing"
        )
    if "domainMetadata" not in writer_features(state.protocol):
        raise Invalid(
            f"indexes are kept in the table's domains, which the table at {state.snapshot.location.url} does not have: "
            "call addFeatureSupport('domainMetadata') first (its writers must then know that feature)"
        )


def _tail(indexes: Indexes, index: Index) -> Tail:
    try:
        return indexes.tail(index)
    except Damaged as error:
        raise Damaged(f"{error}; call rebuildIndex({index.name!r})", path=error.path) from error


def fields_asked(state: TrackedTable, columns: Sequence[str]) -> tuple[Field, ...]:
    """Columns to index, by their names."""
    known = known_columns(state.snapshot, ())
    refuse_unknown(list(columns), known)
    fields = tuple(f for name in columns if (f := known.find(name)) is not None)
    if not fields:
        raise Invalid("an index is on at least one column: createIndex('id') or createIndex(['a', 'b'])")
    if len(set(fields)) < len(fields):
        raise Invalid(f"an index has a column once, and {', '.join(columns)} names one twice")
    return fields


def _land(state: DeltaState, mutation: Mutation, env: Env, expected: Mapping[str, Index | None]) -> None:
    """Commit what is said of indexes. What others did to the table does not matter; what they did to these does."""
    for attempt in range(_AGAIN):
        try:
            open_delta(state).commit(mutation, env)
            return
        except ConcurrentWrite:
            read, state = indexes_of(state), refresh(state)
            now = indexes_of(state)
            same = all(now.indexes.get(name) == index for name, index in expected.items())
            if not same or now.troubles != read.troubles or attempt == _AGAIN - 1:
                raise
            check_writable(state.protocol, table=state.snapshot.location.url)
    raise AssertionError("the last attempt returns or raises")
