"""Stores temporary objects of a scan, such as file lists, where Spark can read them.

Spark must be able to read it. For tables on local files it is a temporary directory of this process, gone when the
process ends, as its DataFrames are. For others it lies in the table's own directory, because that is the one place
which Spark, its executors and this process are known to share; vacuum cleans it.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import dataclass, replace
from functools import cache

from holdfast.storage.local import LocalStore
from holdfast.storage.location import Location


@dataclass(frozen=True, slots=True)
class Scratch:
    """A directory to which only whole, never changing objects are written."""

    location: Location

    @property
    def is_free(self) -> bool:
        """Whether writing here costs next to nothing and needs no permission."""
        return self.location.store.url == "file://"

    def write(self, name: str, data: bytes) -> None:
        """Write an object named by its content; one that is there already has the same bytes."""
        self.location.store.put_if_absent(self.location.key(name), data)

    def path(self, name: str) -> str:
        """Where Spark reads what was written under a name."""
        return self.location.spark_path(name)


def scratch_for(table: Location) -> Scratch:
    """Where plans over this table may leave things for Spark to read."""
    if table.store.url == "file://":
        return Scratch(Location(LocalStore(), _process_directory().lstrip("/")))
    return Scratch(replace(table, directory=table.key("_holdfast", "scan")))  # in the same spelling


@cache
def _process_directory() -> str:
    directory = tempfile.mkdtemp(prefix="holdfast-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory
