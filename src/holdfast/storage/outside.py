"""Decides whether a table may refer to a file outside of its own directory.

1. A file outside may be read if it lies below a root that the user named, or in the directory of another Delta table of
   the same store, as the files of a shallow clone do.
2. In another store only a root that the user named counts.
3. Local paths are compared with all links resolved.
"""

from __future__ import annotations

import os
import re
from typing import TypeAlias

from holdfast.errors import Invalid
from holdfast.storage.base import ObjectStore

Outside: TypeAlias = bool | tuple[str, ...]  # nothing, anything, or files below these URLs

_LOG = "_delta_log"
_FIRST = "00000000000000000000."
_VERSIONED = re.compile(r"[0-9]{20}\.")
_MOST_TABLES = 10_000
_tables: set[str] = set()  # directories known to be tables


def follows(store: ObjectStore, outside: Outside, url: str) -> bool:
    """Whether a file at a URL may be read for a table in a store."""
    if in_roots(outside, url):
        return True
    return f"{url}/".startswith(f"{store.url}/") and _in_table(store, real(url).rpartition("/")[0])


def in_roots(outside: Outside, url: str) -> bool:
    """Whether the user allowed a URL, by a root above it or by allowing everything."""
    if isinstance(outside, bool):
        return outside
    directory = real(url).rpartition("/")[0]
    return any(is_below(directory, real(root)) for root in outside)


def refusal(table: str, spelled: str, url: str) -> Invalid:
    """The error for a path that is not followed."""
    root = url.rpartition("/")[0]
    return Invalid(
        f"{table} refers to {spelled}, which is outside of it and in no Delta table of the same store: open the table "
        f"with allow_outside=[{root!r}], or a directory above that, if you trust it"
    )


def real(url: str) -> str:
    """A URL with the links of this machine resolved."""
    return f"file://{os.path.realpath(url[len('file://') :] or '/')}".rstrip("/") if url.startswith("file://") else url


def is_below(directory: str, root: str) -> bool:
    """Whether a directory is another, or lies below it."""
    return f"{directory}/".startswith(f"{root.rstrip('/')}/")


def _is_table(store: ObjectStore, directory: str) -> bool:
    """Whether a directory has a log with a commit or a checkpoint: their names begin with a version."""
    try:
        first = next(iter(store.list_from(f"{directory}/{_LOG}", _FIRST)), None)
        return first is not None and _VERSIONED.match(first.name) is not None
    except Invalid:  # this user may not list it
        return False


def _in_table(store: ObjectStore, url: str) -> bool:
    base = f"{store.url}/"
    while url.startswith(base):
        if url in _tables:
            return True
        if _is_table(store, url[len(base) :]):
            if len(_tables) >= _MOST_TABLES:
                _tables.clear()
            _tables.add(url)
            return True
        url = url.rpartition("/")[0]
    return False
