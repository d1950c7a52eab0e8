"""Deletes objects of a table in bulk, and finds unfinished files, links and empty directories on local disks.

1. Removing a missing object is no error.
2. A listing of the store never shows unfinished files; `unfinished` lists them with the time of their last change.
3. A directory is removed only if it is empty at that moment, which the operating system checks.
4. Nothing is removed outside of a table's real directory: files behind a link belong to somebody else.
5. A listing of the store does not follow links, but readers do; `behind_links` lists the files behind them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache

from holdfast.storage.base import ObjectMeta
from holdfast.storage.local import LocalStore, file_meta, is_temporary
from holdfast.storage.location import Location
from holdfast.storage.outside import is_below
from holdfast.storage.remote import RemoteStore

_THREADS = 16


def delete_all(location: Location, keys: Sequence[str]) -> None:
    """Remove objects below a location by their store keys, in bulk where the store can, else several at a time."""
    store = location.store
    if isinstance(store, RemoteStore):
        store.delete_many(keys)
        return
    own = behind_no_link(location)
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(store.delete, filter(own, keys)))


def delete_one(location: Location, key: str) -> None:
    """Remove an object below a location by its store key."""
    if behind_no_link(location)(key):
        location.store.delete(key)


def behind_no_link(location: Location) -> Callable[[str], bool]:
    """Returns a test for store keys below a location: whether no link leads out of the location's directory."""
    if not isinstance(location.store, LocalStore):
        return lambda key: True
    root = os.path.realpath(f"/{location.directory}")

    @cache
    def is_own(directory: str) -> bool:
        return is_below(os.path.realpath(f"/{directory}"), root)

    return lambda key: is_own(key.rpartition("/")[0])


def through_link(location: Location) -> Callable[[str], bool]:
    """Returns a test for store keys below a location: whether a link is on the way, so that no listing has the key."""
    if not isinstance(location.store, LocalStore):
        return lambda key: False
    root = os.path.realpath(f"/{location.directory}")

    @cache
    def is_linked(directory: str) -> bool:
        below = os.path.relpath(f"/{directory}", f"/{location.directory}")
        return os.path.realpath(f"/{directory}") != os.path.normpath(os.path.join(root, below))

    return lambda key: is_linked(key.rpartition("/")[0])


def behind_links(location: Location, keys: Iterable[str]) -> Iterator[ObjectMeta]:
    """The files behind links, in the directories that hold these keys; each under the link's name."""
    is_linked = through_link(location)
    for directory in sorted({key.rpartition("/")[0] for key in keys if "://" not in key}):
        if directory and is_linked(location.key(directory, "")):
            path = f"/{location.key(directory)}"
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_file():
                        yield file_meta(location.key(directory, entry.name), entry.stat())


def link_targets(location: Location) -> list[str]:
    """Directories inside a location that links inside it lead to, relative and with a trailing slash."""
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
    """Temporary files below a local directory, left by writers that did not finish."""
    if not isinstance(location.store, LocalStore):
        return
    for directory, _, names in os.walk(f"/{location.directory}"):
        for name in names:
            if is_temporary(name):
                path = os.path.join(directory, name)
                with suppress(FileNotFoundError):  # finished or aborted since it was listed
                    yield file_meta(path.lstrip("/"), os.stat(path))


def remove_empty(location: Location, directories: Iterable[str]) -> int:
    """Remove the empty ones of these directories, and parents that become empty; returns how many it removed."""
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
