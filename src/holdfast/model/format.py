"""What a table format does for the verbs and for the commit loop.

Verbs are written once. A verb plans a change, an engine carries it out, and the commit loop commits it; each asks the
table's format for what only the format can tell.

1. A state that is passed to a format is one of its own.
2. No format decides what a verb does to rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, Protocol, Self, TypeVar

import pyarrow as pa

from holdfast.env import Env
from holdfast.errors import Invalid
from holdfast.model.files import FileTable
from holdfast.model.mutation import AppVersion, Came, Mutation, Outcome, TableDefinition
from holdfast.model.publication import Publication
from holdfast.model.snapshot import HiddenRows, LoadHidden, Snapshot
from holdfast.parquet.write import WriteSpec
from holdfast.predicate.records import Predicate
from holdfast.schema.properties import Isolation
from holdfast.schema.types import Struct
from holdfast.storage.location import Location


class DmlMode(Enum):
    """How DELETE, UPDATE and MERGE change rows."""

    MERGE_ON_READ = "merge-on-read"
    COPY_ON_WRITE = "copy-on-write"
    AUTO = "auto"

    @classmethod
    def of(cls, name: str) -> DmlMode:
        """The mode of this name."""
        for mode in cls:
            if mode.value == name:
                return mode
        raise Invalid(f"mode is one of {', '.join(repr(m.value) for m in cls)}, not {name!r}")


@dataclass(frozen=True, slots=True)
class Storing:
    """How changed rows are stored."""

    data: WriteSpec  # with the names under which ids and versions are carried, where the table tracks rows
    feed: WriteSpec | None = None  # change data files: the table's columns and the kind of change; None: no feed
    properties: Mapping[str, str] = field(default_factory=dict)  # for the constraints they hold


class TableState(Protocol):
    """A table at one version, as its format holds it."""

    @property
    def snapshot(self) -> Snapshot: ...

    @property
    def version(self) -> int: ...


State = TypeVar("State", bound=TableState)


class TableFormat(ABC, Generic[State]):
    """One table of a format."""

    @abstractmethod
    def newest(self, state: State | None) -> State | None:
        """The table as it is now, read from an older state at the cost of what came since; None: there is no table."""

    @abstractmethod
    def at_version(self, state: State, version: int) -> State:
        """The same table at another version."""

    @abstractmethod
    def load_hidden(self, location: Location, files: FileTable) -> HiddenRows:
        """The rows that deletes hide in these files."""

    def loader(self, state: State) -> LoadHidden:
        """The same for the files of one state alone, where that is known with less reading."""
        return self.load_hidden

    def narrowed(self, state: State, where: Predicate) -> State:
        """The state with only the files that may hold a row for a condition, where that reads less metadata."""
        return state

    @abstractmethod
    def check_writable(self, state: State) -> None:
        """Refuse by name what this table has and no writer of ours knows."""

    @abstractmethod
    def definition_of(self, state: State) -> TableDefinition:
        """The table's definition, as a transaction may change it."""

    @abstractmethod
    def evolved(self, state: State, definition: TableDefinition, schema: Struct, env: Env) -> TableDefinition:
        """The definition with another schema, as the format stores it; refuses by name what it cannot become."""

    def widens_types(self, state: State) -> bool:
        """Whether the type of a column may become wider because new rows need it."""
        return False

    @abstractmethod
    def same_partitions(self, state: State, staged: pa.Table) -> pa.BooleanArray:
        """Which files of the table are in a partition of the staged files."""

    @abstractmethod
    def dml_mode(self, state: State, mode: str | None, verb: str) -> DmlMode:
        """The mode that a call of a verb names, else that of the table."""

    def isolation_of(self, state: State, verb: str) -> Isolation | None:
        """The isolation level of a verb, where the format has one per verb; None: that of the table."""
        return None

    @abstractmethod
    def storing(
        self, state: State, definition: TableDefinition, *, carried: bool = True, feeds: bool = True
    ) -> Storing:
        """How rows are stored; `carried` with columns for the identity of rows that are not new."""

    @abstractmethod
    def publication_of(self, state: State) -> Publication | None:
        """Which table's rows were published into this one, and how far; None where none were."""

    @abstractmethod
    def changed_since(self, state: State, publication: Publication) -> tuple[int, str] | None:
        """A version, and its operation, that changed rows since they were published; None: there is none."""

    @abstractmethod
    def begin(self) -> Self:
        """The format for one transaction: what its attempts write beside data files is kept for the next attempt."""

    @abstractmethod
    def attempt(self, state: State | None, mutation: Mutation, env: Env) -> Outcome:
        """Try to commit a mutation as the version after `state`; None: as a new table."""

    def turn(self, mutation: Mutation, env: Env) -> AbstractContextManager[None]:
        """Keep others from committing while the transaction makes one attempt, where the format can do that."""
        return nullcontext()

    @abstractmethod
    def since(self, state: State) -> tuple[State, Came]:
        """The table as it is now and what was committed since, oldest first, at the cost of that."""

    @abstractmethod
    def abandon(self, state: State) -> None:
        """Delete what attempts wrote, none of which landed or ever will; failures of that are ignored."""

    @abstractmethod
    def post_commit(self, before: State | None, version: int, env: Env) -> None:
        """Write what a committed version calls for, such as a checkpoint; no failure of that is one of the commit."""

    @abstractmethod
    def keeps_ms(self, state: State) -> int:
        """How long files that nobody refers to stay at least, whoever takes them."""

    @abstractmethod
    def app_version(self, state: State, app_id: str) -> int | None:
        """How far an application has written."""

    def has_app_version(self, state: State, app: AppVersion | None) -> bool:
        """Whether the table has what a version of an application wrote; never where nobody names one."""
        if app is None:
            return False
        last = self.app_version(state, app.app_id)
        return last is not None and last >= app.version
