"""What the tests of a module leave behind in their process and in its Spark session, for the next to stumble over.

1. Each thing is told once: by the first look that finds it.
2. Views, settings and streams are also taken out of the session, so that no test depends on the modules before it.
3. A session counts from when it starts; the settings it starts with are its own. A setting put back to its default
   is no leftover.
"""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.errors import AnalysisException, SparkNoSuchElementException
from pyspark.sql import SparkSession

_RUNNING = "PYTEST_CURRENT_TEST"  # pytest's own


class Leftovers:
    """Remembers what was there, and tells what is new."""

    def __init__(self) -> None:
        self._known = _of_process()
        self._session: SparkSession | None = None
        self._settings: dict[str, str] = {}

    def watch(self, session: SparkSession) -> None:
        """From now on the session counts too."""
        self._known |= _of_process()  # starting Spark sets variables
        self._session = session
        self._settings = _settings(session)

    def new(self) -> list[str]:
        """What was not there when this was last asked, in words."""
        present = _of_process()
        taken_out: list[str] = []
        if self._session is not None:
            taken_out = self._settings_taken_back(self._session) + _streams_stopped(self._session)
            tables = self._session.catalog.listTables()
            for view in (table.name for table in tables if table.isTemporary):
                self._session.catalog.dropTempView(view)
                taken_out.append(f"the view {view}")
            present |= {f"the table {table.name}" for table in tables if not table.isTemporary}
            present.add(f"the current database {self._session.catalog.currentDatabase()}")
        left = sorted([*(present - self._known), *taken_out])
        self._known |= present
        return left

    def _settings_taken_back(self, session: SparkSession) -> list[str]:
        left = []
        for key, value in _settings(session).items():
            before = self._settings.get(key)
            if value == before:
                continue
            try:
                session.conf.unset(key) if before is None else session.conf.set(key, before)
            except AnalysisException:  # fixed since Spark began, which tells of some only later: no test's doing
                continue
            if _in_force(session, key) != value:
                left.append(f"the setting {key}={value}")
        return left


def _of_process() -> set[str]:
    found = {f"the variable {name}={value}" for name, value in os.environ.items() if name != _RUNNING}
    return found | {f"the working directory {Path.cwd()}", "the current database default"}


def _settings(session: SparkSession) -> dict[str, str]:
    return dict(session.conf.getAll)


def _in_force(session: SparkSession, key: str) -> str | None:
    try:
        return session.conf.get(key)
    except SparkNoSuchElementException:  # not one of Spark's own, and not set
        return None


def _streams_stopped(session: SparkSession) -> list[str]:
    active = session.streams.active
    for query in active:
        query.stop()
    return [f"the running stream {query.name or query.id}" for query in active]
