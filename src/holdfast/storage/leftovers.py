"""Taking away what is left: many objects at once and, on this machine, unfinished files and empty directories.

1. Removing what is not there is no error.
2. A listing never shows unfinished files; here they are, with the time of their last change.
3. A directory is removed only if it is empty at that moment, which the operating system sees to.
4. Nothing is removed outside of a table's real directory: what lies behind a link is somebody else's.
5. A listing does not go through links, and readers do: whoever asks what is there looks behind them too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from holdfast.storage.base import ObjectMeta
from holdfast.storage.local import TEMPORARY, LocalStore
from holdfast.storage.location import Location
from holdfast.storage.remote import RemoteStore

_HANDS = 16


def delete_all(location: Location, keys: Sequence[str]) -> None:
    """Remove objects of a place by the store's keys, in bulk where the store can, else several at a time."""
    store = location.store
    if isinstance(store, RemoteStore):
        store.delete_many(keys)
        return
    own = behind_no_link(location)
    with ThreadPoolExecutor(_HANDS) as pool:
        list(pool.map(store.delete, filter(own, keys)))


def delete_one(location: Location, key: str) -> None:
    """Remove an object of a place by the store's key."""
    if behind_no_link(location)(key):
        location.store.delete(key)


def behind_no_link(location: Location) -> Callable[[str], bool]:
    """Whether the store's key of something below a place is really there: no directory on the way is a link."""
    if not isinstance(location.store, LocalStore):
        return lambda key: True
    root = os.path.realpath(f"/{location.directory}")
    known: dict[str, bool] = {}

    def is_own(key: str) -> bool:
        directory = key.rpartition("/")[0]
        if directory not in known:
            there = os.path.realpath(f"/{directory}")
            known[directory] = there == root or there.startswith(f"{root.rstrip('/')}/")
        return known[directory]

    return is_own


def through_link(location: Location) -> Callable[[str], bool]:
    """Whether the store's key of something below a place leads through a link, so that no listing shows it."""
    if not isinstance(location.store, LocalStore):
        return lambda key: False
    root = os.path.realpath(f"/{location.directory}")
    known: dict[str, bool] = {}

    def is_linked(key: str) -> bool:
        directory = key.rpartition("/")[0]
        if directory not in known:
            below = os.path.relpath(f"/{directory}", f"/{location.directory}")
            known[directory] = os.path.realpath(f"/{directory}") != os.path.normpath(os.path.join(root, below))
        return known[directory]

    return is_linked


def behind_links(location: Location, keys: Iterable[str]) -> Iterator[ObjectMeta]:
    """The files in those directories of some keys below a place that are behind a link, under the link's name."""
    is_linked = through_link(location)
    for directory in sorted({key.rpartition("/")[0] for key in keys if "://" not in key}):
        if directory and is_linked(location.key(directory, "")):
            path = f"/{location.key(directory)}"
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_file():
                        facts = entry.stat()
                        key = location.key(directory, entry.name)
                        yield ObjectMeta(key, facts.st_size, facts.st_mtime_ns // 1_000_000)


def link_targets(location: Location) -> list[str]:
    """Directories of a place, by key below it and with their slash, that links of the same place lead to."""
    if not isinstance(location.store, LocalStore):
        return []
    root = os.path.realpath(f"/{location.directory}")
    targets = set()
    for directory, names, _ in os.walk(root):
        for path in (os.path.join(directory, name) for name in names):
            if os.path.islink(path) and os.path.realpath(path).startswith(f"{root}/"):
                targets.add(f"{os.path.relpath(os.path.realpath(path), root)}/")
    return sorted(targets)


def unfinished(location: Location) -> Iterator[ObjectMeta]:
    """Files below a place whose writing ended before they had their name; none where objects appear whole."""
    if not isinstance(location.store, LocalStore):
        return
    for directory, _, names in os.walk(f"/{location.directory}"):
        for name in names:
            if name.startswith(".") and name.endswith(TEMPORARY):
                path = os.path.join(directory, name)
                with suppress(FileNotFoundError):  # finished or given up since it was listed
                    found = os.stat(path)
                    yield ObjectMeta(path.lstrip("/"), found.st_size, found.st_mtime_ns // 1_000_000)


def remove_empty(location: Location, directories: Iterable[str]) -> int:
    """Remove those of these directories, given by key below a place, that are empty, and what becomes so; how many."""
    if not isinstance(location.store, LocalStore):
        return 0
    removed = 0
    for directory in sorted(directories, key=lambda name: -name.count("/")):
        while directory:
            try:
                os.rmdir(f"/{location.key(directory)}")
            except OSError:
                break  # not empty, or gone already
            removed += 1
            directory = directory.rpartition("/")[0]
    return removed
