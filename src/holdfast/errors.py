"""What can go wrong, sorted by what the caller must do next.

1. Every error a user can meet is a TableError; a bug in Holdfast is an AssertionError instead.
2. The class says the next step; the fields carry the facts (strings and integers only).
3. The message alone is enough to act on: it names the thing, what is wrong with it, and what to do.
"""

from __future__ import annotations


class TableError(Exception):
    """Root of everything Holdfast raises on purpose."""


class Unavailable(TableError):
    """Try again: storage did not answer, and nothing was written."""


class OutcomeUnknown(TableError):
    """Look before repeating: a write may have landed."""


class Conflict(TableError):
    """Read again and decide: another writer won."""


class ConcurrentWrite(Conflict):
    """Another writer committed something this transaction cannot stand beside.

    `kind` says what: write, append, delete-read, delete-delete, metadata, protocol or transaction.
    """

    def __init__(self, message: str, *, kind: str, version: int, files: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.version = version
        self.files = files


class Invalid(TableError):
    """Change the request."""


class NotATable(Invalid):
    """There is no table at this place."""

    def __init__(self, message: str, *, location: str) -> None:
        super().__init__(message)
        self.location = location


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


class LimitReached(Invalid):
    """The request needs more than the format can express."""


class NoRowIdentity(Invalid):
    """Row ids were asked of a table that does not track rows."""


class SchemaMismatch(Invalid):
    """Rows do not fit the table; the message shows both schemas side by side."""

    def __init__(self, message: str, *, table: str, incoming: str, columns: tuple[str, ...]) -> None:
        super().__init__(message)
        self.table = table
        self.incoming = incoming
        self.columns = columns  # those that differ, as dotted paths


class ConstraintViolated(Invalid):
    """A row breaks what the table demands of its rows."""

    def __init__(self, message: str, *, constraint: str, row: str) -> None:
        super().__init__(message)
        self.constraint = constraint
        self.row = row


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
