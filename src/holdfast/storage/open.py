"""From what a user types to a Location.

A path is taken as Spark takes it: literally, with or without a scheme. Nothing is decoded, expanded or globbed, so
`Location.url` opens the same place again.

1. Spellings of one place (`s3a://b/t/`, `s3://b/t`, `file:/x`, `/x`) give the same store URL and directory.
2. A scheme nobody knows is refused with the list of those we do.
3. A memory store of one name is one store in the whole process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import islice

from holdfast.errors import Invalid
from holdfast.storage.base import NotFound, ObjectStore
from holdfast.storage.config import StoreConfig
from holdfast.storage.local import LocalStore
from holdfast.storage.location import Location, canonical_scheme
from holdfast.storage.memory import MemoryStore
from holdfast.storage.outside import Outside
from holdfast.storage.remote import RemoteStore

ALLOW_OUTSIDE = "allow_outside"  # the storage option

_LOOKERS = 16
_SPELLED = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)(?://([^/]*))?(.*)", re.DOTALL)
_KNOWN = "a local path, file:, s3://, s3a://, s3n://, gs://, gcs://, abfs://, abfss://, az://, memory://"


def open_location(
    path: str, *, storage_options: Mapping[str, str] | None = None, allow_outside: bool | str | Sequence[str] = False
) -> Location:
    """The place a path names. `storage_options` are obstore's or Hadoop's; without them the environment's are used.

    `allow_outside` are the roots below which the table may refer to files that are not its own, or True for anywhere.
    Where only options can be given, `allow_outside` is one of them, with commas; so is HOLDFAST_ALLOW_OUTSIDE.
    """
    options = dict(storage_options or {})
    told = options.pop(ALLOW_OUTSIDE, None) or os.environ.get("HOLDFAST_ALLOW_OUTSIDE", "")
    outside = _roots(allow_outside or told)
    return replace(_opened(path, options or None), allow_outside=outside)


def told_outside(location: Location) -> dict[str, str]:
    """What a location allows outside, as the option that says it again."""
    match location.allow_outside:
        case bool(anywhere):
            return {ALLOW_OUTSIDE: "true"} if anywhere else {}
        case roots:
            return {ALLOW_OUTSIDE: ",".join(roots)}


def _roots(given: bool | str | Sequence[str]) -> Outside:
    match given:
        case bool():
            return given
        case str() if given.lower() in ("true", "false", ""):
            return given.lower() == "true"
        case str():
            return _roots([root.strip() for root in given.split(",") if root.strip()])
        case os.PathLike():
            return _roots([os.fspath(given)])
        case int() | float():
            raise TypeError(f"allow_outside is True, False, a root or a list of roots, not {given!r}")
        case _:
            return tuple(dict.fromkeys(_opened(os.fspath(root), None).url for root in given))


def _opened(path: str, storage_options: Mapping[str, str] | None) -> Location:
    if not path:
        raise Invalid("an empty path names no place; pass the directory of the table")
    found = _SPELLED.fullmatch(path)
    if found is None:
        return _local(os.path.abspath(path), storage_options)
    scheme, authority = canonical_scheme(found[1]), found[2] or ""
    directory = "/".join(filter(None, found[3].split("/")))
    if ".." in directory.split("/") and scheme != "file":
        raise Invalid(f"{directory} climbs with `..`, which an object store does not have; write the path out")
    match scheme:
        case "file":
            if authority not in ("", "localhost"):
                raise Invalid(f"file://{authority}/ names another machine; write file:/// before an absolute path")
            return _local(os.path.abspath(f"/{directory}"), storage_options)
        case "memory" | "s3" | "gs":
            url, spelled = f"{scheme}://{_name(scheme, authority)}", f"{found[1]}://{authority}"
        case "abfs":
            url, spelled = f"abfs://{_azure_authority(authority)}", f"{found[1]}://{authority}"
        case "az":
            url = f"abfs://{_name(scheme, authority)}@{_azure_account(storage_options)}.dfs.core.windows.net"
            spelled = url.replace("abfs:", "abfss:", 1)
        case _:
            raise Invalid(f"{found[1]}: is not a scheme Holdfast knows; it can open {_KNOWN}")
    store = open_store(StoreConfig.of(url, storage_options))
    return Location(store, directory, spelled=None if spelled == url else spelled)


def place(location: Location, file_key: str) -> tuple[ObjectStore, str]:
    """The store and key of a file; one outside the table is there only because it may be followed."""
    if "://" not in file_key or file_key.startswith(f"{location.store.url}/"):
        return location.store, location.store_key(file_key)
    outside = open_location(location.followed(file_key, file_key))
    return outside.store, outside.directory


def is_there(location: Location, file_key: str) -> bool:
    """Whether a file that a log refers to, or once did, exists."""
    store, name = place(location, file_key)
    try:
        store.head(name)
    except NotFound:
        return False
    return True


def missing(location: Location, file_keys: Iterable[str]) -> Iterator[str]:
    """Those of some files that do not exist, found by looking at each, a few at a time and no further than is asked.

    A file outside that may not be followed is not looked at: for this table it is not there.
    """

    def is_gone(key: str) -> bool:
        if "://" in key and not location.follows(key):
            return True
        return not is_there(location, key)

    waiting = iter(file_keys)
    with ThreadPoolExecutor(_LOOKERS) as pool:
        while some := list(islice(waiting, _LOOKERS * 4)):
            yield from (key for key, gone in zip(some, pool.map(is_gone, some), strict=True) if gone)


def open_store(config: StoreConfig) -> ObjectStore:
    """The store a config describes: the same on the driver and in a task, except that memory is each process's own."""
    match config.scheme:
        case "file":
            return LocalStore()
        case "memory":
            return _memory_store(config.authority)
        case _:
            return RemoteStore(config)


@cache
def _memory_store(name: str) -> MemoryStore:
    return MemoryStore(name)


def _local(path: str, storage_options: Mapping[str, str] | None) -> Location:
    return Location(open_store(StoreConfig.of("file://", storage_options)), path.strip("/"))


def _name(scheme: str, authority: str) -> str:
    if not authority:
        raise Invalid(f"{scheme}:// needs a name after it: {scheme}://name/path/of/the/table")
    if "@" in authority or ":" in authority:
        raise Invalid(f"the name after {scheme}:// may hold no credentials and no port; pass them as storage_options")
    return authority


def _azure_authority(authority: str) -> str:
    container, at, host = authority.partition("@")
    if not container or not at or not host or ":" in authority:
        raise Invalid("abfs:// is spelled abfss://container@account.dfs.core.windows.net/path/of/the/table")
    return f"{container}@{host if '.' in host else host + '.dfs.core.windows.net'}"


def _azure_account(storage_options: Mapping[str, str] | None) -> str:
    options = {name.lower(): value for name, value in (storage_options or {}).items()}
    for name in ("account_name", "azure_storage_account_name"):
        if account := options.get(name) or os.environ.get(name.upper()):
            return account
    raise Invalid(
        "az:// leaves the account open: pass storage_options={'account_name': ...}, set AZURE_STORAGE_ACCOUNT_NAME, "
        "or spell the path abfss://container@account.dfs.core.windows.net/path"
    )
