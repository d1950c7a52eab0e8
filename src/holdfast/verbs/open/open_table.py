"""A table of any format at one version, with everything that verbs ask of it: scans, writes and commits.

Whoever reads or changes rows of a table (its own verbs, SQL, the drop-in, the command line) takes one of these and an
engine. Its format and the type of its state are hidden behind it.

1. It is one version for good: what others commit is not in it.
2. A scan with a condition may read less metadata, and gives the same rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar

import pyarrow as pa

from holdfast.env import Env
from holdfast.errors import ConcurrentWrite
from holdfast.model.files import FileTable
from holdfast.model.format import DmlMode, State, Storing, TableFormat
from holdfast.model.mutation import AppVersion, Committed, Mutation, TableDefinition
from holdfast.model.publication import Publication
from holdfast.model.snapshot import HiddenRows, LoadHidden, Snapshot
from holdfast.plan.engine import Engine
from holdfast.plan.scan.prune import Pruner
from holdfast.plan.scan.request import Request, ScanPlan, plan_scan
from holdfast.predicate.records import ALWAYS, Predicate
from holdfast.schema.properties import Isolation
from holdfast.schema.types import Struct
from holdfast.storage.location import Location
from holdfast.terminal import phase
from holdfast.verbs.commit.loop import Landed, commit, would_conflict
from holdfast.verbs.commit.rebase import Redo
from holdfast.verbs.commit.staged import refuse_lost
from holdfast.verbs.read.explain import Explanation, explain

Frame = TypeVar("Frame")
PrunersOf: TypeAlias = Callable[[State, Predicate], tuple[Pruner, ...]]  # given what is true of every wanted row


class OpenTable(ABC):
    """A table at one version."""

    @property
    @abstractmethod
    def snapshot(self) -> Snapshot: ...

    @property
    @abstractmethod
    def definition(self) -> TableDefinition:
        """The table's definition, as a transaction may change it."""

    @abstractmethod
    def pruners(self, also: Predicate = ALWAYS) -> tuple[Pruner, ...]:
        """Passes over files that row ids and indexes offer; `also` is true of every row that is wanted."""

    @abstractmethod
    def plan(self, request: Request) -> tuple[ScanPlan, HiddenRows]:
        """What a scan reads, and the rows that are hidden in it."""

    def scan(self, request: Request, engine: Engine[Frame]) -> Frame:
        """The rows of a request, as the engine gives them."""
        return engine.scan(*self.plan(request))

    def explain(self, request: Request, engine: Engine[object]) -> Explanation:
        """What a scan of the request would read of all files, and why."""
        return explain(self.snapshot, request, engine, more=self.pruners())

    @abstractmethod
    def load_hidden(self, location: Location, files: FileTable) -> HiddenRows:
        """The rows that deletes hide in files of the table, at this version or another."""

    @abstractmethod
    def newest(self) -> OpenTable:
        """The table as it is now, at the cost of what came since."""

    @abstractmethod
    def at(self, version: int) -> OpenTable:
        """The table at another version."""

    @abstractmethod
    def check_writable(self) -> None:
        """Refuse by name what this table has and no writer of ours knows."""

    @abstractmethod
    def evolved(self, definition: TableDefinition, schema: Struct, env: Env) -> TableDefinition:
        """The definition with another schema, as the format stores it; refuses by name what it cannot become."""

    @property
    @abstractmethod
    def widens_types(self) -> bool:
        """Whether the type of a column may become wider because new rows need it."""

    @abstractmethod
    def same_partitions(self, staged: pa.Table) -> pa.BooleanArray:
        """Which files of the table are in a partition of the staged files."""

    @abstractmethod
    def dml_mode(self, mode: str | None, verb: str) -> DmlMode:
        """The mode that a call of a verb names, else that of the table."""

    @abstractmethod
    def isolation_of(self, verb: str) -> Isolation | None:
        """The isolation level of a verb, where the format has one per verb; None: that of the table."""

    @abstractmethod
    def storing(self, definition: TableDefinition, *, carried: bool = True, feeds: bool = True) -> Storing:
        """How rows are stored; `carried` with columns for the identity of rows that are not new."""

    @abstractmethod
    def app_version(self, app_id: str) -> int | None:
        """How far an application has written."""

    @abstractmethod
    def has_app_version(self, app: AppVersion | None) -> bool:
        """Whether the table has what a version of an application wrote: asked before rows are read or stored, and
        again by the commit."""

    @property
    @abstractmethod
    def publication(self) -> Publication | None:
        """Which table's rows were published into this one, and how far; None where none were."""

    @abstractmethod
    def changed_since(self, publication: Publication) -> tuple[int, str] | None:
        """A version, and its operation, that changed rows since they were published; None: there is none."""

    @abstractmethod
    def commit(
        self, mutation: Mutation, env: Env, *, redo: Redo | None = None, level: Isolation | None = None
    ) -> Landed:
        """Commit what a transaction did that read this version, or raise what stands in its way."""

    @abstractmethod
    def would_conflict(
        self, mutation: Mutation, *, redo: Redo | None = None, level: Isolation | None = None
    ) -> ConcurrentWrite | None:
        """What `commit` would raise now; None: it would land, or it has."""

    @abstractmethod
    def commit_next(self, mutation: Mutation, env: Env, *, vacuumed: bool) -> int | None:
        """Commit as the very next version, and give it; None: another writer has that version.

        `vacuumed`: a vacuum may have come since files of the mutation were written.
        """


def opened(
    format_: TableFormat[State],
    state: State,
    pruners: PrunersOf[State] | None = None,
    load_hidden: LoadHidden | None = None,
) -> OpenTable:
    """A state of a table; `load_hidden` instead of the format's own, for states that only a transaction sees."""
    return _FormatTable(format_, state, pruners, load_hidden)


@dataclass(frozen=True)
class _FormatTable(OpenTable, Generic[State]):
    """A state, and the format that reads and writes it."""

    format: TableFormat[State]
    state: State
    pruners_of: PrunersOf[State] | None
    overlay: LoadHidden | None

    @property
    def snapshot(self) -> Snapshot:
        return self.state.snapshot

    @property
    def definition(self) -> TableDefinition:
        return self.format.definition_of(self.state)

    def pruners(self, also: Predicate = ALWAYS) -> tuple[Pruner, ...]:
        return () if self.pruners_of is None else self.pruners_of(self.state, also)

    def plan(self, request: Request) -> tuple[ScanPlan, HiddenRows]:
        table = self
        if request.where is not None:
            table = replace(self, state=self.format.narrowed(self.state, request.where.predicate))
        plan = plan_scan(table.snapshot, request, more=table.pruners())
        load = self.overlay or self.format.loader(table.state)
        return plan, load(table.snapshot.location, plan.files)

    def load_hidden(self, location: Location, files: FileTable) -> HiddenRows:
        return (self.overlay or self.format.load_hidden)(location, files)

    def newest(self) -> OpenTable:
        newest = self.format.newest(self.state)
        assert newest is not None, "a table does not go away"
        return self if newest is self.state else replace(self, state=newest)

    def at(self, version: int) -> OpenTable:
        return replace(self, state=self.format.at_version(self.state, version))

    def check_writable(self) -> None:
        self.format.check_writable(self.state)

    def evolved(self, definition: TableDefinition, schema: Struct, env: Env) -> TableDefinition:
        return self.format.evolved(self.state, definition, schema, env)

    @property
    def widens_types(self) -> bool:
        return self.format.widens_types(self.state)

    def same_partitions(self, staged: pa.Table) -> pa.BooleanArray:
        return self.format.same_partitions(self.state, staged)

    def dml_mode(self, mode: str | None, verb: str) -> DmlMode:
        return self.format.dml_mode(self.state, mode, verb)

    def isolation_of(self, verb: str) -> Isolation | None:
        return self.format.isolation_of(self.state, verb)

    def storing(self, definition: TableDefinition, *, carried: bool = True, feeds: bool = True) -> Storing:
        return self.format.storing(self.state, definition, carried=carried, feeds=feeds)

    def app_version(self, app_id: str) -> int | None:
        return self.format.app_version(self.state, app_id)

    def has_app_version(self, app: AppVersion | None) -> bool:
        return self.format.has_app_version(self.state, app)

    @property
    def publication(self) -> Publication | None:
        return self.format.publication_of(self.state)

    def changed_since(self, publication: Publication) -> tuple[int, str] | None:
        return self.format.changed_since(self.state, publication)

    def commit(
        self, mutation: Mutation, env: Env, *, redo: Redo | None = None, level: Isolation | None = None
    ) -> Landed:
        return commit(self.format, self.state, mutation, env, redo=redo, level=level)

    def would_conflict(
        self, mutation: Mutation, *, redo: Redo | None = None, level: Isolation | None = None
    ) -> ConcurrentWrite | None:
        return would_conflict(self.format, self.state, mutation, redo=redo, level=level)

    def commit_next(self, mutation: Mutation, env: Env, *, vacuumed: bool) -> int | None:
        attempts = self.format.begin()
        with phase("committing"):
            keeps_ms = attempts.keeps_ms(self.state)
            refuse_lost(self.snapshot, mutation, env, keeps_ms=keeps_ms, vacuumed=vacuumed)
            outcome = attempts.attempt(self.state, mutation, env)
        if not isinstance(outcome, Committed):
            return None
        self.format.post_commit(self.state, outcome.version, env)
        return outcome.version
