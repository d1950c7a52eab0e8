"""The files that one commit added and removed, for following a row through them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from holdfast.model.files import FileTable


@dataclass(frozen=True, slots=True)
class Touch:
    """The files a commit added, and those it removed: of these the columns `key` and `vector`, null without one."""

    version: int
    timestamp_ms: int
    operation: str
    added: FileTable
    removed: pa.Table
    changes_rows: bool  # else it only moved them


@dataclass(frozen=True, slots=True)
class Trail:
    """The commits of a table, oldest first, and the files there were before the first of them.

    `start` is the version of these files; None where the commits begin with the table itself.
    """

    start: int | None
    files: FileTable
    touches: Iterator[Touch]
