"""Opens the location and the store that a user's path names.

A path is taken literally, with or without a scheme, as Spark does: nothing is decoded, expanded or globbed, so
`Location.url` opens the same location again.

1. Spellings of one place (`s3a://b/t/`, `s3://b/t`, `file:/x`, `/x`) give the same store URL and directory.
2. An unknown scheme is refused with the list of the known ones.
3. A name of a memory store means one store in the whole process.
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

_THREADS = 16
_SPELLED = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)(?://([^/]*))?(.*)", re.DOTALL)
_KNOWN = "a local path, file:, s3://, s3a://, s3n://, gs://, gcs://, abfs://, abfss://, az://, memory://"


def open_location(
    path: str, *, storage_options: Mapping[str, str] | None = None, allow_outside: bool | str | Sequence[str] = False
) -> Location:
    """The location of a path. `storage_options` are obstore's or Hadoop's; without them the environment's are used.

    `allow_outside` are the roots below which the table may refer to files that are not its own, or True for anywhere.
    It can also be a storage option or HOLDFAST_ALLOW_OUTSIDE, with commas between roots.
    """
    options = dict(storage_options or {})
    configured = options.pop(ALLOW_OUTSIDE, None) or os.environ.get("HOLDFAST_ALLOW_OUTSIDE", "")
    return replace(_opened(path, options or None), allow_outside=_roots(allow_outside or configured))


def allow_outside_option(location: Location) -> dict[str, str]:
    """The storage option with which a location's `allow_outside` is opened again."""
    match location.allow_outside:
        case bool(anywhere):
            return {ALLOW_OUTSIDE: "true"} if anywhere else {}
        case roots:
            return {ALLOW_OUTSIDE: ",".join(roots)}


def _roots(setting: bool | str | Sequence[str]) -> Outside:
    match setting:
        case bool():
            return setting
        case str() if setting.lower() in ("true", "false", ""):
            return setting.lower() == "true"
        case str():
            return _roots([root.strip() for root in setting.split(",") if root.strip()])
        case os.PathLike():
            return _roots([os.fspath(setting)])
        case int() | float():
            raise TypeError(f"allow_outside is True, False, a root or a list of roots, not {setting!r}")
        case _:
            return tuple(dict.fromkeys(_opened(os.fspath(root), None).url for root in setting))


def _opened(path: str, storage_options: Mapping[str, str] | None) -> Location:
    if not path:
        raise Invalid("an empty path names no place; pass the directory of the table")
    match = _SPELLED.fullmatch(path)
    if match is None:
        return _local(os.path.abspath(path), storage_options)
    scheme, authority = canonical_scheme(match[1]), match[2] or ""
    directory = "/".join(filter(None, match[3].split("/")))
    if ".." in directory.split("/") and scheme != "file":
        raise Invalid(f"{directory} climbs with `..`, which an object store does not have; write the path out")
    match scheme:
        case "file":
            if authority not in ("", "localhost"):
                raise Invalid(f"file://{authority}/ names another machine; write file:/// before an absolute path")
            return _local(os.path.abspath(f"/{directory}"), storage_options)
        case "memory" | "s3" | "gs":
            url, spelled = f"{scheme}://{_name(scheme, authority)}", f"{match[1]}://{authority}"
        case "abfs":
            url, spelled = f"abfs://{_azure_authority(authority)}", f"{match[1]}://{authority}"
        case "az":
            url = f"abfs://{_name(scheme, authority)}@{_azure_account(storage_options)}.dfs.core.windows.net"
            spelled = url.replace("abfs:", "abfss:", 1)
        case _:
            raise Invalid(f"{match[1]}: is not a scheme Holdfast knows; it can open {_KNOWN}")
    store = open_store(StoreConfig.of(url, storage_options))
    return Location(store, directory, spelled=None if spelled == url else spelled)


def place(location: Location, file_key: str) -> tuple[ObjectStore, str]:
    """The store and key of a file, which may lie outside the table's store."""
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
    """The files that do not exist, checked a few at a time and lazily.

    A file outside that the table may not read counts as missing.
    """

    def is_missing(key: str) -> bool:
        return ("://" in key and not location.follows(key)) or not is_there(location, key)

    keys = iter(file_keys)
    with ThreadPoolExecutor(_THREADS) as pool:
        while chunk := list(islice(keys, _THREADS * 4)):
            yield from (key for key, absent in zip(chunk, pool.map(is_missing, chunk), strict=True) if absent)


def open_store(config: StoreConfig) -> ObjectStore:
    """The store of a config, the same on the driver and in a task; a memory store belongs to its process."""
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
