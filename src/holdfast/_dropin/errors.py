"""Holdfast's errors as delta-spark's users catch them.

An error that leaves the drop-in becomes an instance of two classes: its class in `holdfast.errors`, and the class of
PySpark or `delta.exceptions` that a pipeline expects. It stays the same object, with its fields, cause and traceback.

1. An `except` for the Holdfast class still catches it.
2. `getCondition()` returns delta-spark's error condition, where it has one for the situation.
3. Only errors of `holdfast.errors` change; Spark's own errors pass as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    PySparkException,
    SparkRuntimeException,
    UnsupportedOperationException,
)

from holdfast import errors
from holdfast.sql.cursor import NotUnderstood
from holdfast.verbs.dml.write import REPLACE_WHERE


class DeltaConcurrentModificationException(errors.Conflict, PySparkException):
    """Another writer won."""


class ConcurrentWriteException(errors.ConcurrentCreate, DeltaConcurrentModificationException):
    """Another writer created the table, or wrote what allows no other."""


class MetadataChangedException(errors.MetadataChanged, DeltaConcurrentModificationException):
    """Another writer changed the table's schema, properties or clustering."""


class ProtocolChangedException(errors.ProtocolChanged, DeltaConcurrentModificationException):
    """Another writer changed the table's protocol."""


class ConcurrentAppendException(errors.ConcurrentAppend, DeltaConcurrentModificationException):
    """Another writer added files that would have been read."""


class ConcurrentDeleteReadException(errors.ConcurrentDeleteRead, DeltaConcurrentModificationException):
    """Another writer removed files that were read."""


class ConcurrentDeleteDeleteException(errors.ConcurrentDeleteDelete, DeltaConcurrentModificationException):
    """Another writer removed files that are removed here too."""


class ConcurrentTransactionException(errors.ConcurrentTransaction, DeltaConcurrentModificationException):
    """Another writer wrote for the same application."""


class As(NamedTuple):
    """The class and the condition that an error gets."""

    kind: type[PySparkException]
    condition: str | None = None


_AS: dict[type[errors.TableError], As] = {  # the first that fits counts
    errors.ConcurrentAppend: As(ConcurrentAppendException, "DELTA_CONCURRENT_APPEND"),
    errors.ConcurrentDeleteRead: As(ConcurrentDeleteReadException, "DELTA_CONCURRENT_DELETE_READ"),
    errors.ConcurrentDeleteDelete: As(ConcurrentDeleteDeleteException, "DELTA_CONCURRENT_DELETE_DELETE"),
    errors.ConcurrentTransaction: As(ConcurrentTransactionException, "DELTA_CONCURRENT_TRANSACTION"),
    errors.MetadataChanged: As(MetadataChangedException, "DELTA_METADATA_CHANGED"),
    errors.ProtocolChanged: As(ProtocolChangedException, "DELTA_PROTOCOL_CHANGED"),
    errors.ConcurrentCreate: As(ConcurrentWriteException, "DELTA_CONCURRENT_WRITE"),
    errors.Conflict: As(DeltaConcurrentModificationException),
    errors.NotATable: As(AnalysisException, "DELTA_MISSING_DELTA_TABLE"),
    errors.UnknownColumn: As(AnalysisException, "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    errors.UnknownVersion: As(AnalysisException, "DELTA_VERSION_NOT_FOUND"),
    errors.TypeMismatch: As(AnalysisException, "DELTA_FAILED_TO_MERGE_FIELDS"),
    errors.OutsideReplaced: As(AnalysisException, "DELTA_REPLACE_WHERE_MISMATCH"),
    errors.NoChangeFeed: As(AnalysisException, "DELTA_MISSING_CHANGE_DATA"),
    errors.AppendOnly: As(UnsupportedOperationException, "DELTA_CANNOT_MODIFY_APPEND_ONLY"),
    errors.SchemaMismatch: As(AnalysisException, "DELTA_METADATA_MISMATCH"),
    errors.ConstraintViolated: As(SparkRuntimeException, "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"),
    errors.AmbiguousMatch: As(UnsupportedOperationException, "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"),
    errors.Invalid: As(AnalysisException),
    errors.Unsupported: As(UnsupportedOperationException),
    errors.TableError: As(PySparkException),
}
_ARGUMENTS = frozenset(  # conditions of what delta-spark raises as IllegalArgumentException
    (
        *("DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT", "DELTA_ZORDERING_ON_PARTITION_COLUMN"),
        *("DELTA_CDC_START_VERSION_AFTER_LATEST", "DELTA_INVALID_CDC_RANGE"),
        *("DELTA_ONEOF_IN_TIMETRAVEL", "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"),
    )
)
_combined: dict[tuple[type[errors.TableError], type[PySparkException]], type[errors.TableError]] = {}
TABLE_NOT_FOUND = As(AnalysisException, "DELTA_TABLE_NOT_FOUND")
PATH_NOT_FOUND = As(AnalysisException, "DELTA_PATH_DOES_NOT_EXIST")
PATH_EXISTS = As(AnalysisException, "DELTA_PATH_EXISTS")
TABLE_EXISTS = As(AnalysisException, "TABLE_OR_VIEW_ALREADY_EXISTS")
RETENTION_TOO_SHORT = As(IllegalArgumentException, "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT")
ILLEGAL_OPTION = As(IllegalArgumentException, "DELTA_ILLEGAL_OPTION")


@contextmanager
def as_delta_spark(*, missing: As | None = None, invalid: As | None = None) -> Iterator[None]:
    """Turn Holdfast's errors into delta-spark's; a decorator or a context manager.

    `missing` and `invalid` are what NotATable, and plain Invalid, become here.
    """
    try:
        yield
    except errors.TableError as error:
        if missing is not None and isinstance(error, errors.NotATable) and error.condition is None:
            dress(error, missing)
        elif invalid is not None and type(error) is errors.Invalid and error.condition is None:
            dress(error, invalid)
        else:
            dress(error)
        raise


def dress(error: errors.TableError, become: As | None = None) -> errors.TableError:
    """Make an error also an instance of a class of PySpark's, unless it is one already."""
    if isinstance(error, PySparkException):
        return error
    become = become or _meaning(error)
    message = str(error)
    error.__class__ = _both(type(error), become.kind)
    PySparkException.__init__(error, message, become.condition, {})  # type: ignore[arg-type]
    return error


def _meaning(error: errors.TableError) -> As:
    if isinstance(error, errors.Invalid) and error.condition is not None:
        if isinstance(error, NotUnderstood):
            return As(ParseException, error.condition)
        return As(IllegalArgumentException if error.condition in _ARGUMENTS else AnalysisException, error.condition)
    if isinstance(error, errors.ConstraintViolated) and error.constraint == REPLACE_WHERE:
        return _AS[errors.OutsideReplaced]
    return next(become for kind, become in _AS.items() if isinstance(error, kind))


def _both(ours: type[errors.TableError], theirs: type[PySparkException]) -> type[errors.TableError]:
    if issubclass(theirs, ours):
        return theirs
    if (ours, theirs) not in _combined:
        namespace = {"__module__": ours.__module__, "__doc__": ours.__doc__}
        _combined[ours, theirs] = type(ours.__name__, (ours, theirs), namespace)
    return _combined[ours, theirs]
