"""Writers on one table, one step at a time: who goes on after each storage operation is drawn from a seed.

    a copy of a table -> writers, each a thread that waits for its turn -> what each was told -> the audit

1. One writer runs at any time; at every call of the store it hands the turn to whoever the seed says.
2. Clock, uuids, pauses and faults come from the seed, and pools work in the thread that asks them: a seed replays.
3. A fault is a call that fails before it happens, one whose answer is lost, or the end of its writer.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from random import Random
from threading import Semaphore, Thread, current_thread
from typing import Any, TypeVar
from unittest.mock import patch

from pyspark.sql import SparkSession

from holdfast.env import Env, fixed, system
from holdfast.errors import OutcomeUnknown, TableError, Unavailable
from holdfast.formats.delta.log.file_names import LOG, commit_name
from holdfast.formats.delta.state import load
from holdfast.model.mutation import TableDefinition
from holdfast.schema.types import LONG, STRING, Field, Struct
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.storage.open import open_location
from holdfast.table.delta import DeltaTable
from holdfast.verbs.commit.loop import commit
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.write import make
from holdfast.verbs.open import handle, open_table
from holdfast.verbs.open.delta_handle import DeltaHandle
from tests.support.faulty import Crash, Fault, _Wrapped
from tests.support.simulation_audit import Ledger, Told, audit, audit_feed, audit_reader
from tests.support.simulation_verbs import Checkpoint, Restore, Row, Upkeep, Verb, arrow_of, changes

T = TypeVar("T")
DIRECTORY = "t"
PATIENCE_S = 120  # a turn that never comes is a deadlock
COLUMNS = Struct((Field("k", LONG), Field("v", LONG), Field("p", STRING)))


@dataclass(frozen=True)
class Kind:
    """What kind of table writers meet on."""

    tracked: bool = True
    vectors: bool = True
    feed: bool = False
    clustered: bool = False
    partitioned: bool = False
    checkpoints: int = 100

    @property
    def shape(self) -> TableDefinition:
        properties = {
            "delta.enableRowTracking": str(self.tracked).lower(),
            "delta.enableDeletionVectors": str(self.vectors).lower(),
            "delta.enableChangeDataFeed": str(self.feed).lower(),
            "delta.checkpointInterval": str(self.checkpoints),
        }
        return TableDefinition(
            COLUMNS,
            partition_columns=("p",) if self.partitioned else (),
            properties=properties,
            clustering_columns=(("k",),) if self.clustered else None,
        )

    @property
    def modes(self) -> Sequence[str | None]:
        return (None, None, "copy-on-write", "auto") if self.vectors else (None,)


KINDS = (
    *([Kind()] * 4),
    Kind(checkpoints=3),
    Kind(feed=True),
    Kind(clustered=True),
    Kind(clustered=True, checkpoints=4),
    Kind(partitioned=True),
    Kind(vectors=False),
    Kind(tracked=False),
    Kind(tracked=False, checkpoints=3),
    Kind(tracked=False, vectors=False),
)


@dataclass(frozen=True)
class Plan:
    """What a seed stands for."""

    kind: Kind
    writers: tuple[tuple[Verb, ...], ...]
    stays: float  # how likely whoever runs goes on
    faults: float  # how likely a call fails


@dataclass
class Ran:
    """A run: its plan, what writers were told, every version, and a digest of all that happened, in order."""

    plan: Plan
    told: list[Told]
    ledger: Ledger
    first: int
    steps: int
    digest: str


def simulate(seed: int) -> Ran:
    """Run a seed without Spark, every storage operation a step, and audit it."""
    rng, env = Random(seed), fixed(seed=seed)
    plan = _plan(rng, env)
    template, ledger = _template(plan.kind)
    store = _copied(template, env)
    turns = Turns(rng, plan.stays)
    stepped = Location(_Stepped(store, turns, rng, plan.faults), DIRECTORY)
    location = Location(store, DIRECTORY)
    with _seeded(env, turns):
        told = _run(plan, turns, lambda: DeltaTable(DeltaHandle(None, load(stepped))), location)
        return _audited(plan, turns, told, location, ledger.copy())


def simulate_on(spark: SparkSession, path: Path, seed: int) -> Ran:
    """Run the writers of a seed on Spark, one step up to a commit and one from there, and audit it."""
    rng = Random(seed)
    plan = _plan(rng, system())
    _make(open_location(str(path)), plan.kind, system())
    location = open_location(str(path))
    ledger = Ledger().read(location)
    turns = Turns(rng, 0.3)

    def late(*given: Any, **named: Any) -> Any:
        turns.pass_on("commit")
        return commit(*given, **named)

    with patch.object(open_table, "commit", late), patch.object(handle, "system", lambda: _pausing(system(), turns)):
        told = _run(plan, turns, lambda: DeltaTable.forPath(spark, path), location)
    return _audited(plan, turns, told, location, ledger)


def _run(plan: Plan, turns: Turns, open_table: Callable[[], DeltaTable], location: Location) -> list[Told]:
    told: list[Told] = []
    turns.run([_writer(str(n), verbs, open_table, location, told) for n, verbs in enumerate(plan.writers)])
    return told


def _audited(plan: Plan, turns: Turns, told: list[Told], location: Location, ledger: Ledger) -> Ran:
    first = len(ledger.states)
    ran = Ran(plan, told, ledger.read(location), first, turns.steps, turns.digest.hexdigest())
    audit(ran.ledger, first, told)
    table = DeltaTable(DeltaHandle(None, load(location)))
    audit_reader(table, ran.ledger)
    if plan.kind.feed:
        audit_feed(table, ran.ledger, first)
    return ran


def _plan(rng: Random, env: Env) -> Plan:
    kind = rng.choice(KINDS)
    versions = len(_template(kind)[1].states)
    row_changes = changes(rng, kind.modes)
    writers: list[tuple[Verb, ...]] = []
    for _ in range(rng.choice((2, 2, 3, 3, 4))):
        upkeep = _upkeep(rng, kind, versions, env)
        writers.append(tuple(next(upkeep if rng.random() < 0.3 else row_changes) for _ in range(rng.choice((1, 1, 2)))))
    faults = rng.choice((0, 0, 0.01, 0.04))
    return Plan(kind, tuple(writers), rng.choice((0.0, 0.5, 0.9, 0.97)), faults)


def _upkeep(rng: Random, kind: Kind, versions: int, env: Env) -> Iterator[Verb]:
    kinds = ["compact", "compact", "purge", "compact log", "checkpoint", "restore"]
    kinds += ["recluster"] * 2 if kind.clustered else []
    kinds += ["track"] * 4 if not kind.tracked else []
    while True:
        match rng.choice(kinds):
            case "restore":
                yield Restore(rng.randrange(1, versions))
            case "checkpoint":
                yield Checkpoint(env)
            case known:
                yield Upkeep(known, rng.choice((4, 8, 1000)))


def _writer(
    name: str, verbs: Sequence[Verb], open_table: Callable[[], DeltaTable], location: Location, told: list[Told]
) -> Callable[[], None]:
    """A process: it opens the table, does its verbs one after another, and keeps what it was told."""

    def live() -> None:
        table: DeltaTable | None = None
        for n, verb in enumerate(verbs):
            tag, done, error = f"{name}.{n}", None, None
            try:
                table = table or open_table()
                done = verb.run(table, tag)
            except (TableError, Crash) as caught:
                error = caught
            read = 0 if table is None else table.handle.state.version
            told.append(Told(tag, verb, read, _newest(location), done, error))
            if isinstance(error, Crash):
                return

    return live


class Turns:
    """Whose turn it is."""

    def __init__(self, rng: Random, stays: float) -> None:
        self.rng, self.stays = rng, stays
        self.steps = 0
        self.digest = hashlib.sha256()
        self._waiting: dict[str, Semaphore] = {}
        self._failed: list[BaseException] = []

    def run(self, lives: Sequence[Callable[[], None]]) -> None:
        """Let all of them live to their ends; what none should raise is raised here."""
        threads = [Thread(target=self._live, args=(life,), name=f"writer {n}") for n, life in enumerate(lives)]
        self._waiting = {thread.name: Semaphore(0) for thread in threads}
        for thread in threads:
            thread.start()
        self._hand_on(None)
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), f"{thread.name} waits for a turn that never comes"
        if self._failed:
            raise self._failed[0]

    def pass_on(self, what: str) -> None:
        """Let somebody else go on, perhaps."""
        me = current_thread().name
        if me not in self._waiting:
            return  # a thread of Arrow's, for whoever has the turn
        self.steps += 1
        self.digest.update(f"{me} {what}\n".encode())
        if self.rng.random() >= self.stays and self._hand_on(me):
            assert self._waiting[me].acquire(timeout=PATIENCE_S), f"{me} waits for a turn that never comes"

    @property
    def is_writer(self) -> bool:
        return current_thread().name in self._waiting

    def _hand_on(self, me: str | None) -> bool:
        """Give the turn away; False where it stays."""
        chosen = self.rng.choice(sorted(self._waiting))
        if chosen == me:
            return False
        self._waiting[chosen].release()
        return True

    def _live(self, life: Callable[[], None]) -> None:
        me = current_thread().name
        self._waiting[me].acquire()
        try:
            life()
        except BaseException as error:
            self._failed.append(error)
        finally:
            del self._waiting[me]
            if self._waiting:
                self._hand_on(None)


class _Stepped(_Wrapped):
    """A store at every call of which the turn may pass and something may fail."""

    def __init__(self, inner: ObjectStore, turns: Turns, rng: Random, faults: float) -> None:
        super().__init__(inner)
        self.turns, self.rng, self.faults = turns, rng, faults
        self.dead: set[str] = set()

    def _call(self, verb: str, key: str, run: Callable[[], T], *, writes: bool = False) -> T:
        me = current_thread().name
        if me in self.dead:
            raise Crash(f"{me} is gone")
        self.turns.pass_on(f"{verb} {key}")
        if not self.turns.is_writer or self.rng.random() >= self.faults:
            return run()
        fault = self.rng.choice(list(Fault))
        what = f"{verb} {key}"
        self.turns.digest.update(f"{fault}\n".encode())
        if fault is Fault.BEFORE:
            raise Unavailable(f"injected before {what}")
        run()
        if fault is Fault.CRASH_AFTER:
            self.dead.add(me)
            raise Crash(f"injected after {what}")
        raise (OutcomeUnknown if writes else Unavailable)(f"injected: answer of {what} lost")


class Inline(Executor):
    """A pool that works at once, in the thread that asks it."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        made: Future[T] = Future()
        try:
            made.set_result(fn(*args, **kwargs))
        except Exception as error:
            made.set_exception(error)
        return made

    def map(self, fn: Callable[..., T], *iterables: Iterable[Any], **_: Any) -> Iterator[T]:
        return iter([fn(*args) for args in zip(*iterables, strict=True)])


@contextmanager
def _seeded(env: Env, turns: Turns) -> Iterator[None]:
    """Everything that differs between two runs comes from the seed."""
    _unlock()
    with patch.object(handle, "system", lambda: _pausing(env, turns)):
        modules = _with_pools()
        for module in modules:
            module.ThreadPoolExecutor = Inline
        try:
            yield
        finally:
            for module in modules:
                module.ThreadPoolExecutor = ThreadPoolExecutor


def _pausing(env: Env, turns: Turns) -> Env:
    return replace(env, pause=lambda _: turns.pass_on("pause"))


def _with_pools() -> list[Any]:
    return [module for module in _modules() if hasattr(module, "ThreadPoolExecutor")]


@cache
def _unlock() -> None:
    """Let a writer wait for its turn while it works out a property, which Python 3.11 locks for all of its class."""
    kinds = [found for module in _modules() for found in vars(module).values() if isinstance(found, type)]
    for kind in kinds:
        for found in vars(kind).values():
            if isinstance(found, cached_property) and hasattr(found, "lock"):
                found.lock = nullcontext()


def _modules() -> list[Any]:
    return [module for name, module in sys.modules.items() if name.startswith("holdfast.")]


@cache
def _template(kind: Kind) -> tuple[MemoryStore, Ledger]:
    """A table and its versions, made once for each kind."""
    env = fixed(seed=-1)
    store = MemoryStore("simulation", env)
    location = Location(store, DIRECTORY)
    with _seeded(env, Turns(Random(0), 1.0)):
        _make(location, kind, env)
    return store, Ledger().read(location)


def _make(location: Location, kind: Kind, env: Env) -> None:
    """A table with a few files, changed and hidden rows."""
    make(location, kind.shape, env, mode=CreateMode.CREATE, plain=not kind.tracked)
    table = DeltaTable(DeltaHandle(None, load(location)))
    for keys in (range(4), range(4, 8), range(8, 11)):
        table.append(arrow_of([Row(k, k % 5) for k in keys]))
    table.delete("k = 5")
    table.update("k = 2", {"v": "7"})


def _copied(template: MemoryStore, env: Env) -> MemoryStore:
    store = MemoryStore("simulation", env)
    store._objects, store._order = dict(template._objects), list(template._order)
    return store


def _newest(location: Location) -> int:
    names = (meta.key.rpartition("/")[2] for meta in location.store.list_from(location.key(LOG), commit_name(0)))
    return max(int(name[:20]) for name in names if name.endswith(".json") and len(name) == len(commit_name(0)))
