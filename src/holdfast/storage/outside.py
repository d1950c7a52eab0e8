"""What a table may refer to outside of its own directory.

The store is the machine, or a bucket with other people's data; only the directory is the table.

1. A file outside is followed below a root that the user named, or into a directory that is a Delta table itself: the
   nearest `_delta_log` above the file is that of a table whose files are its own, as a shallow clone's source is.
2. In another store only a root that the user named counts.
3. On this machine places are compared as they really are, with links resolved, those of the file itself too.
"""

from __future__ import annotations

import os
import re
from typing import TypeAlias

from holdfast.errors import Invalid
from holdfast.storage.base import ObjectStore

Outside: TypeAlias = bool | tuple[str, ...]  # nothing, anything, or what is below these URLs

_LOG = "_delta_log"
_FIRST = "00000000000000000000."
_VERSIONED = re.compile(r"[0-9]{20}\.")
_MOST_TABLES = 10_000
_tables: set[str] = set()  # directories that were seen to be tables: once is enough


def follows(store: ObjectStore, outside: Outside, url: str) -> bool:
    """Whether a file at a URL may be read for a table in a store."""
    if outside is True:
        return True
    directory = real(url).rpartition("/")[0]
    if outside and any(is_below(directory, real(root)) for root in outside):
        return True
    return f"{url}/".startswith(f"{store.url}/") and _in_table(store, directory)


def in_roots(outside: Outside, url: str) -> bool:
    """Whether a file at a URL is below a root, without a look at what lies there."""
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
    """Whether there is a log with a commit or a checkpoint: their names begin with a version."""
    try:
        first = next(iter(store.list_from(f"{directory}/{_LOG}", _FIRST)), None)
        return first is not None and _VERSIONED.match(first.name) is not None
    except Invalid:  # who may not look there may not be led there
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
