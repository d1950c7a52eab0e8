"""The exceptions that Holdfast raises, one class per thing the caller can do next.

1. Every error that a user can cause or meet is a TableError; a bug in Holdfast is an AssertionError.
2. The class says what to do next; its fields hold the facts (strings and integers only).
3. The message alone is enough to act on: it names the thing, what is wrong with it, and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self


class TableError(Exception):
    """Root of everything Holdfast raises on purpose."""


class Unavailable(TableError):
    """Try again: storage did not answer, and nothing was written."""


class OutcomeUnknown(TableError):
    """Look before repeating: a write may have landed."""


class Conflict(TableError):
    """Read again and decide: another writer won."""


class ConcurrentWrite(Conflict):
    """Another writer committed a change that conflicts with this transaction; the class says which kind of change.

    `kind` names it in a word; `version`, `operation` and `when_ms` are those of the commit that won; `files` are the
    conflicting ones and `row_ids` some of the rows, where they are known; `can_retry` says whether the same operation
    can succeed on the table as it is now, and `repeats` that the conflict is only with this transaction's own bytes.
    """

    kind: ClassVar[str]

    def __init__(
        self,
        message: str,
        *,
        version: int,
        files: tuple[str, ...] = (),
        operation: str = "",
        when_ms: int = 0,
        row_ids: tuple[int, ...] = (),
        can_retry: bool = True,
        repeats: bool = False,
    ) -> None:
        super().__init__(message)
        self.version = version
        self.files = files
        self.operation = operation
        self.when_ms = when_ms
        self.row_ids = row_ids
        self.can_retry = can_retry
        self.repeats = repeats


class ConcurrentCreate(ConcurrentWrite):
    """It created the table."""

    kind = "write"


class ConcurrentAppend(ConcurrentWrite):
    """It added files that this transaction would have read."""

    kind = "append"


class ConcurrentDeleteRead(ConcurrentWrite):
    """It removed files that this transaction read."""

    kind = "delete-read"


class ConcurrentDeleteDelete(ConcurrentWrite):
    """It removed files that this transaction removes too."""

    kind = "delete-delete"


class MetadataChanged(ConcurrentWrite):
    """It changed the table's schema, properties or clustering."""

    kind = "metadata"


class NumbersTaken(MetadataChanged):
    """It handed out the numbers of identity columns that this transaction's rows have: write the rows again."""

    kind = "numbers"


class ProtocolChanged(ConcurrentWrite):
    """It changed the table's protocol, as this transaction would."""

    kind = "protocol"


class ConcurrentTransaction(ConcurrentWrite):
    """It wrote for the same application."""

    kind = "transaction"


class StagedFilesGone(ConcurrentWrite):
    """It deleted files that this transaction had written and not committed yet, as a vacuum does: run it again."""

    kind = "staged"


CONCURRENT_WRITES: Mapping[str, type[ConcurrentWrite]] = {
    each.kind: each
    for each in (
        ConcurrentCreate,
        ConcurrentAppend,
        ConcurrentDeleteRead,
        ConcurrentDeleteDelete,
        MetadataChanged,
        NumbersTaken,
        ProtocolChanged,
        ConcurrentTransaction,
    )
}


class Invalid(TableError):
    """Change the request. `condition` is the name of Spark's error condition, where Spark has one for it."""

    condition: str | None = None

    def named(self, condition: str) -> Self:
        """The same error with a `condition`."""
        self.condition = condition
        return self


class NotATable(Invalid):
    """There is no table at this place."""

    def __init__(self, message: str, *, location: str) -> None:
        super().__init__(message)
        self.location = location


class NotACondition(Invalid, TypeError):
    """A condition is neither SQL text nor a Column; `given` is its type."""

    def __init__(self, message: str, *, given: str) -> None:
        super().__init__(message)
        self.given = given


class UnknownColumn(Invalid):
    """The request names a column the table does not have."""

    def __init__(self, message: str, *, column: str) -> None:
        super().__init__(message)
        self.column = column


class UnknownVersion(Invalid):
    """The request names a version that does not exist, or no longer does."""

    def __init__(self, message: str, *, version: int | None = None) -> None:
        super().__init__(message)
        self.version = version


class UnknownRow(Invalid):
    """The request names rows that are not in the version it reads; `row_ids` are some of them."""

    def __init__(self, message: str, *, row_ids: tuple[int, ...]) -> None:
        super().__init__(message)
        self.row_ids = row_ids


class LimitReached(Invalid):
    """The request needs more than the format can express."""


class NoRowIdentity(Invalid):
    """The request needs row ids, and the table does not track rows."""


class SchemaMismatch(Invalid):
    """Rows do not fit the table; the message shows both schemas side by side."""

    def __init__(self, message: str, *, table: str, incoming: str, columns: tuple[str, ...]) -> None:
        super().__init__(message)
        self.table = table
        self.incoming = incoming
        self.columns = columns  # those that differ, as dotted paths


class TypeMismatch(SchemaMismatch):
    """Rows have a column of the table, with a type that does not become the table's."""


class AppendOnly(Invalid):
    """The request deletes or changes rows of a table that only takes appends."""


class OutsideReplaced(Invalid):
    """Rows to write do not match the condition of the rows they would replace."""


class NoChangeFeed(Invalid):
    """The request reads the change data feed of versions that did not record it."""


class ConstraintViolated(Invalid):
    """A row breaks a constraint of the table."""

    def __init__(self, message: str, *, constraint: str, row: str) -> None:
        super().__init__(message)
        self.constraint = constraint
        self.row = row


class AmbiguousMatch(Invalid):
    """Several rows of a source would change one row; the message and `rows` show some of them."""

    def __init__(self, message: str, *, rows: tuple[str, ...]) -> None:
        super().__init__(message)
        self.rows = rows


class Unsupported(TableError):
    """The table needs a feature this library lacks."""

    def __init__(self, message: str, *, features: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.features = features


class Damaged(TableError):
    """Repair: stored bytes contradict the format."""

    def __init__(
        self,
        message: str,
        *,
        path: str,
        offset: int | None = None,
        expected: str | None = None,
        found: str | None = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.offset = offset
        self.expected = expected
        self.found = found


class MissingFile(Damaged):
    """A file that the table refers to is not there."""
