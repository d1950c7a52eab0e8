"""What the verbs of a table ask of its format, beyond what the commit loop does.

A verb is written once: it understands what a user asks, a runner carries it out, the commit loop makes it true. Where
it has to know something only the format can say, it asks its dialect.

1. A state handed to a dialect is one of its own format.
2. No dialect decides what a verb does to rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import pyarrow as pa

from holdfast.env import Env
from holdfast.model.files import FileTable
from holdfast.model.mutation import TableDefinition
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.plan.dml.change import Storing
from holdfast.schema.properties import Isolation
from holdfast.schema.types import Struct
from holdfast.storage.location import Location
from holdfast.verbs.commit.loop import TableFormat
from holdfast.verbs.dml.strategy import DmlMode


class TableState(Protocol):
    """A table at one version, in whatever format."""

    @property
    def snapshot(self) -> Snapshot: ...

    @property
    def version(self) -> int: ...


class Dialect(ABC):
    """A format, as verbs see it."""

    @abstractmethod
    def commits(self, location: Location, state: Any | None) -> TableFormat[Any]:
        """The format as the commit loop sees it; `state` is what the transaction read, None where there is no table."""

    @abstractmethod
    def check_writable(self, state: Any) -> None:
        """Refuse by name what this table has and no writer of ours knows."""

    @abstractmethod
    def shape_of(self, state: Any) -> TableDefinition:
        """What a table is now, as a transaction may change it."""

    @abstractmethod
    def grown(self, state: Any, shape: TableDefinition, schema: Struct, env: Env) -> TableDefinition:
        """A shape with another schema, as the format keeps it; what it cannot become is refused by name."""

    @abstractmethod
    def widens(self, state: Any) -> bool:
        """Whether a column's type may become a wider one because rows bring such."""

    @abstractmethod
    def beside(self, state: Any, staged: pa.Table) -> pa.BooleanArray:
        """The files of those partitions that staged files are of."""

    @abstractmethod
    def mode_of(self, state: Any, asked: str | None, verb: str) -> DmlMode:
        """The strategy of a call of a verb: what it asks for, else what the table does."""

    def level_of(self, state: Any, verb: str) -> Isolation | None:
        """What races of a verb are judged by, where the format says it by verb; None: as the table says for all."""
        return None

    @abstractmethod
    def storing(self, state: Any, shape: TableDefinition, *, carried: bool = True, feeds: bool = True) -> Storing:
        """How rows are stored; `carried` with columns for the identity of rows that are not new."""

    @abstractmethod
    def load_hidden(self, location: Location, files: FileTable) -> HiddenRows:
        """The positions that files hide."""

    @abstractmethod
    def at(self, state: Any, version: int) -> TableState:
        """The same table at another version."""

    @abstractmethod
    def tend(self, location: Location, before: Any | None, version: int, env: Env) -> None:
        """Do what a version that this writer committed made due; no failure of that is one of the commit."""


def mode_asked(asked: str) -> DmlMode | None:
    """The mode of this name; None where there is none."""
    return next((mode for mode in DmlMode if mode.value == asked), None)
