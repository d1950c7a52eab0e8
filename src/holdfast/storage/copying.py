"""Copies an object below another directory, which may be in another store.

1. Within one bucket the server copies; otherwise bytes pass through this process in pieces of 8 MiB.
2. The copy appears whole or not at all. An object of the same size at the target counts as the copy, because a failed
   attempt may have made it and objects never change.
"""

from __future__ import annotations

from collections.abc import Callable

import obstore

from holdfast.errors import Invalid, MissingFile
from holdfast.storage.base import NotFound, ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.remote import RemoteStore
from holdfast.storage.sink import open_sink, put

_PIECE = 8 << 20


def copy(source: ObjectStore, key: str, target: Location, file_key: str, now_ms: Callable[[], int]) -> int:
    """Copy an object below a directory; gives its size."""
    try:
        size = source.head(key).size
    except NotFound as error:
        path = f"{source.url}/{key}"
        raise MissingFile(f"{path} is not there, so it cannot be copied; restore it", path=path) from error
    if _is_there(target, file_key, size):
        return size
    if (
        isinstance(source, RemoteStore)
        and isinstance(target.store, RemoteStore)
        and source.config == target.store.config
    ):
        with source.translating_errors("write", target.key(file_key)):
            obstore.copy(source.client, key, target.key(file_key))
        return size
    pieces = (source.get_range(key, start, min(_PIECE, size - start)) for start in range(0, size, _PIECE))
    put(open_sink(target, now_ms), file_key, pieces)
    return size


def _is_there(target: Location, file_key: str, size: int) -> bool:
    try:
        actual = target.store.head(target.key(file_key)).size
    except NotFound:
        return False
    if actual != size:
        raise Invalid(
            f"{target.file_url(file_key)} is there already, with {actual} bytes instead of {size}: another file has "
            "its name; choose an empty directory"
        )
    return True
