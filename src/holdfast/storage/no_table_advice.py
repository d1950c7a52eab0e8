"""The advice for a user who names a directory that is no Delta table: what is there, and what to do instead.

1. At most MOST_NAMES names of the directory are read.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from holdfast.storage.error_mapping import file_system
from holdfast.storage.location import Location

MOST_NAMES = 2000
_LOG = "_delta_log/"
_NUMBER = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Remedies:
    """What to do with what the directory holds, in terms of Python or of the command line; `{}` is its path."""

    parquet: str
    iceberg: str
    empty: str


IN_PYTHON = Remedies(
    parquet="make one of them, in place, with DeltaTable.convertToDelta(spark, 'parquet.`{}`')",
    iceberg="open it with IcebergTable.forMetadata(spark, '{}')",
    empty="make a table in it with DeltaTable.create(spark).location('{}')",
)


def advice(location: Location, ways: Remedies = IN_PYTHON) -> str:
    """Why there is no table at a location, and what to try."""
    where = _shown(location)
    if inside := _table_above(where):
        return f"{where} is inside a table: name its directory, {inside}"
    prefix = location.key("")
    listed = islice(location.store.list_all(location.directory), MOST_NAMES)
    names = [meta.key.removeprefix(prefix).lstrip("/") for meta in listed]
    if not names:
        return _nothing(location, ways)
    metadata_files = [name for name in names if re.fullmatch(r"metadata/[^/]*\.metadata\.json", name)]
    if metadata_files:
        newest = max(metadata_files, key=lambda name: [int(n) for n in _NUMBER.findall(name.split("/")[-1])[:1]])
        return f"{where} is an Iceberg table: {ways.iceberg.format(f'{where}/{newest}')}"
    if any(name.startswith(_LOG) for name in names):
        return f"there is no table at {where}: no commit is in its {_LOG[:-1]}, so copy the log again or check the path"
    tables = sorted({name.split(_LOG)[0].rstrip("/") for name in names if f"/{_LOG}" in f"/{name}"} - {""})
    if tables:
        shown = ", ".join(tables[:5]) + (" and more" if len(tables) > 5 else "")
        return f"there is no table at {where}, but there are some below it: name one of {shown}"
    if any(name.endswith(".parquet") for name in names):
        return f"{where} holds Parquet files and is no table: {ways.parquet.format(where)}"
    return f"there is no table at {where}, which holds {names[0]} and the like: check the path"


def _shown(location: Location) -> str:
    """The URL of a location, or its path if it is local."""
    return f"/{location.directory}" if location.url.startswith("file:") else location.url


def _table_above(where: str) -> str:
    """The directory of the table around a path; on remote stores only where the path itself names a log."""
    inside, log, _ = f"{where}/".partition(f"/{_LOG}")
    if log:
        return inside
    above = Path(where).parents if where.startswith("/") else ()
    return next((str(parent) for parent in above if os.path.isdir(parent / _LOG)), "")


def _nothing(location: Location, ways: Remedies) -> str:
    path = _shown(location)
    if not path.startswith("/"):
        return f"there is nothing at {path}: check the path, and that your credentials may list it"
    if os.path.isfile(path):
        return f"{path} is a file: name the directory of a table"
    if os.path.isdir(path):
        return f"{path} is an empty directory: {ways.empty.format(path)}"
    parent, name = os.path.split(path)
    while not os.path.isdir(parent):
        parent, name = os.path.split(parent)
    with file_system("list", parent):
        similar = difflib.get_close_matches(name, os.listdir(parent), n=1)
    hint = f"did you mean {os.path.join(parent, similar[0])}?" if similar else "check the path"
    return f"there is nothing at {path}: {hint}"
