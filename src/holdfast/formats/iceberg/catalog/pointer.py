"""Reads, moves and locks the row of an SQL catalog that points to a table's newest metadata file.

pyiceberg reads and checks the whole metadata file whenever it loads a table, and again when it commits. Holdfast has
read the file already and needs neither.

1. A pointer moves only from where the caller saw it, in one atomic statement, so that the new metadata file always
   follows the one that the pointer leaves.
2. A catalog class that overrides loading or committing does both by itself.
3. A writer that holds a pointer keeps others from moving it, until it moves the pointer, the hold ends, or its process
   does. Others can still read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from sqlite3 import SQLITE_BUSY
from typing import Any, TypeGuard

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from sqlalchemy import ColumnElement, Connection, Update, select, update
from sqlalchemy.exc import OperationalError

from holdfast.env import Env

_OVERRIDABLE = ("load_table", "commit_table")  # bypassed here
_LOOK_AGAIN_S = (0.001, 0.004)  # between two looks for a lock that another writer has


def has_pointer(catalog: Catalog) -> TypeGuard[SqlCatalog]:
    """Whether a catalog is pyiceberg's SQL catalog with its own `load_table` and `commit_table`."""
    if not isinstance(catalog, SqlCatalog) or not catalog.engine.dialect.supports_sane_rowcount:
        return False
    return all(getattr(type(catalog), name) is getattr(SqlCatalog, name) for name in _OVERRIDABLE) and not any(
        name in vars(catalog) for name in _OVERRIDABLE
    )


def pointer(catalog: SqlCatalog, identifier: str | tuple[str, ...]) -> str | None:
    """The path of a table's newest metadata file; None where the catalog has no such table."""
    of_tables = catalog._iceberg_type_filter()
    query = select(IcebergTables.metadata_location).where(*_row(catalog, identifier))
    with catalog.engine.connect() as connection:
        return connection.scalar(query if of_tables is None else query.where(of_tables))


def move_pointer(
    catalog: SqlCatalog, identifier: str | tuple[str, ...], old: str, new: str, hold: Connection | None = None
) -> bool:
    """Points a table to a new metadata file; False: it no longer pointed to the old one, and nothing changed.

    `hold` is what `holding` gave; it ends with this.
    """
    moving = (
        update(IcebergTables)
        .where(*_row(catalog, identifier), IcebergTables.metadata_location == old)
        .values(metadata_location=new, previous_metadata_location=old)
    )
    with nullcontext(hold) if hold is not None else catalog.engine.connect() as connection:
        try:
            is_moved = bool(connection.execute(moving).rowcount)
            connection.commit()
        except OperationalError as error:
            connection.rollback()
            if not _is_busy(error):
                raise
            return False  # SQLite stopped waiting for another writer or reader; nothing changed
        return is_moved


@contextmanager
def holding(catalog: SqlCatalog, identifier: str | tuple[str, ...], env: Env) -> Iterator[Connection | None]:
    """Keep others from moving a table's pointer; None where the database does not give the lock in time."""
    locking = update(IcebergTables).where(*_row(catalog, identifier))  # any database locks the row it updates
    locking = locking.values(metadata_location=IcebergTables.metadata_location)
    with catalog.engine.connect() as connection:
        if catalog.engine.dialect.name != "sqlite":
            connection.execute(locking)
            yield connection
        else:
            yield connection if _locked(connection, locking, env) else None


def _locked(connection: Connection, locking: Update, env: Env) -> bool:
    """Take SQLite's lock; False where that takes too long.

    SQLite itself looks for the lock every 100 ms in the end, so that a writer that looks more often gets it first.
    """
    usual_ms = int(connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one())
    until_ms = env.now_ms() + usual_ms
    connection.exec_driver_sql("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                connection.execute(locking)
                return True
            except OperationalError as error:
                connection.rollback()
                if not _is_busy(error):
                    raise
            if env.now_ms() >= until_ms:
                return False
            env.pause(env.rng.uniform(*_LOOK_AGAIN_S))
    finally:
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {usual_ms}")


def _is_busy(error: OperationalError) -> bool:
    """Whether SQLite waited for another writer's lock in vain."""
    return getattr(error.orig, "sqlite_errorcode", None) == SQLITE_BUSY


def _row(catalog: SqlCatalog, identifier: str | tuple[str, ...]) -> tuple[ColumnElement[bool], ...]:
    namespace = Catalog.namespace_to_string(Catalog.namespace_from(identifier))
    named: Any = Catalog.table_name_from(identifier)
    return (
        IcebergTables.catalog_name == catalog.name,
        IcebergTables.table_namespace == namespace,
        IcebergTables.table_name == named,
    )
