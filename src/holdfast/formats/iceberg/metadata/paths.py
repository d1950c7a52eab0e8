"""Paths as Iceberg spells them: absolute, raw, on the machine that wrote them.

Nothing in them is encoded: a `%20` in a path is three characters of a name. Where a table was copied elsewhere, the
user says which prefix became which.

1. A file key is what the rest of Holdfast knows a file by. A file that is neither below the table's location nor below
   where its properties put data and metadata, in the same store, is refused unless the user named a root above it.
2. Two spellings name the same file when their paths are equal, and their stores are or one of the two names none.
3. Work is done for all paths at once; only what is not below the table's own directory is looked at one by one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import Invalid
from holdfast.storage.location import Location, canonical_scheme
from holdfast.storage.outside import in_roots

_SPELLED = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)(?://([^/]*))?(.*)", re.DOTALL)
_STORE = r"^(?P<store>[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?)?(?P<path>.*)$"


_OWN_PATHS = (
    "write.data.path",
    "write.metadata.path",
    "write.folder-storage.path",
    "write.object-storage.path",
)


@dataclass(frozen=True)
class Paths:
    """How the paths of one table are read."""

    location: Location
    relocate: Mapping[str, str] = field(default_factory=dict)

    @property
    def anywhere(self) -> Paths:
        """The same where paths are only names, of files that nobody opens: they may lead anywhere."""
        return replace(self, location=self.location.anywhere)

    def key(self, path: str) -> str:
        """The file key of one path."""
        moved = relocated(path, self.relocate)
        store, rest = split_store(moved)
        segments = [s for s in rest.split("/") if s not in ("", ".")]
        own = self.location.store.url
        other = store not in ("", own)
        inside = "/".join(segments)
        directory = f"{self.location.directory}/" if self.location.directory else ""
        if not other and ".." not in segments and inside.startswith(directory) and inside != directory:
            return inside[len(directory) :]
        return self._outside(f"{store or own}/{inside}", path)

    def _outside(self, url: str, spelled: str) -> str:
        allowed = self.location.allow_outside
        if allowed is True or (in_roots(allowed, url) and ".." not in url.split("/")):
            return url
        raise Invalid(
            f"the metadata of {self.location.url} refers to {spelled}, which is outside of it; open the table with "
            f"allow_outside=[{url.rpartition('/')[0]!r}], or a directory above that, if you trust it, or with "
            "relocate={old: new} if it was copied"
        )

    def keys(self, paths: pa.Array) -> pa.Array:
        """The file keys of many paths."""
        made = [self._below(paths, prefix) for prefix in self._prefixes()]
        keys = pc.coalesce(*made) if made else pa.nulls(len(paths), pa.string())
        if not keys.null_count:
            return keys
        left = pc.is_null(keys)
        return pc.replace_with_mask(keys, left, pa.array(self._singly(paths.filter(left)), pa.string()))

    def _singly(self, paths: pa.Array) -> list[str]:
        """The file keys of paths, each directory looked at once."""
        heads: dict[str, str] = {}
        keys = []
        for path in paths.to_pylist():  # one per file outside
            directory, slash, name = path.rpartition("/")
            if not slash or name in ("", ".", ".."):
                keys.append(self.key(path))
                continue
            if directory not in heads:
                heads[directory] = self.key(path).removesuffix(name)
            keys.append(heads[directory] + name)
        return keys

    def with_own(self, properties: Mapping[str, str]) -> Paths:
        """The same, and what lies where properties of the table put its files, in its own store."""
        named = [relocated(properties[name].rstrip("/"), self.relocate) for name in _OWN_PATHS if name in properties]
        base = self.location.store.url
        urls = [f"{store or base}{inside}" for store, inside in map(split_store, named) if inside.strip("/")]
        own = [url for url in urls if url.startswith(f"{base}/") and ".." not in url.split("/")]
        if not own or self.location.allow_outside is True:
            return self
        roots = tuple(dict.fromkeys((*(self.location.allow_outside or ()), *own)))
        return replace(self, location=replace(self.location, allow_outside=roots))

    def _prefixes(self) -> list[str]:
        """What a path below the table's directory may begin with."""
        moved = [old for old, new in self.relocate.items() if self._is_root(new)]
        spelled = moved or [self.location.url, *self._spelled()]
        locals_ = [split_store(path)[1] for path in spelled if split_store(path)[0] in ("", "file://")]
        also = [f"{start}{path}" for path in locals_ for start in ("file://", "file:", "") if path.startswith("/")]
        return [f"{path.rstrip('/')}/" for path in dict.fromkeys([*spelled, *also])]

    def _spelled(self) -> list[str]:
        return [one.spark_path() for one in (self.location, *self.location.spellings())]

    def _is_root(self, path: str) -> bool:
        store, rest = split_store(path)
        return store in ("", self.location.store.url) and rest.strip("/") == self.location.directory

    def _below(self, paths: pa.Array, prefix: str) -> pa.Array:
        """The rest of the paths that begin with a prefix and need no more work."""
        rest = pc.utf8_slice_codeunits(paths, len(prefix))
        plain = pc.invert(pc.match_substring_regex(rest, r"^/|//|(^|/)\.\.?(/|$)|^$"))
        return pc.if_else(pc.and_(pc.starts_with(paths, prefix), plain), rest, pa.scalar(None, pa.string()))


def relocated(path: str, relocate: Mapping[str, str]) -> str:
    """A path with the longest prefix that was moved in its new place."""
    store, inside = split_store(path)
    for old in sorted(relocate, key=len, reverse=True):
        old_store, prefix = split_store(_plain(old))
        same_store = store == old_store or {store, old_store} == {"", "file://"}
        if same_store and (inside == prefix or inside.startswith(f"{prefix}/")):
            return _plain(relocate[old]) + inside[len(prefix) :]
    return path


def split_store(path: str) -> tuple[str, str]:
    """Scheme and authority as a store's URL has them, empty where a path names none, and the path inside."""
    found = _SPELLED.fullmatch(path)
    if found is None:
        return "", path.removeprefix("./")
    scheme, authority = canonical_scheme(found[1]), found[2] or ""
    if scheme == "file" and authority in ("", "localhost"):
        return "file://", found[3]
    return f"{scheme}://{authority}", found[3]


def split_stores(paths: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Stores (empty where none is named) and paths inside them, of many paths."""
    found = pc.extract_regex(paths, _STORE)
    spelled = pc.struct_field(found, "store").dictionary_encode()
    # A store is a handful of texts among any number of files.
    stores = [split_store(f"{text}/")[0] if text else "" for text in spelled.dictionary.to_pylist()]
    return pa.array(stores, pa.string()).take(spelled.indices), pc.struct_field(found, "path")


def _plain(prefix: str) -> str:
    return prefix.rstrip("/") or "/"


def match_paths(files: pa.Array, named: pa.Array) -> list[tuple[int, int]]:
    """Which files are named: pairs of a place in `files` and one in `named`; each of `named` at most once."""
    places = path_indices(files, named)
    return [(int(f), int(n)) for n, f in enumerate(places.tolist()) if f >= 0]


def path_indices(files: pa.Array, named: pa.Array) -> NDArray[np.int64]:
    """The place in `files` of each of the named, -1 where it is not among them; names repeat often."""
    encoded = named.dictionary_encode()
    found = _distinct(files, encoded.dictionary)
    indices = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    if not len(found):
        return np.full(len(named), -1, np.int64)
    places: NDArray[np.int64] = np.where(indices >= 0, found[indices], -1)
    return places


def _distinct(files: pa.Array, named: pa.Array) -> NDArray[np.int64]:
    exact = _index(named, files)
    if (exact >= 0).all() or not len(files):
        return exact
    own_stores, own_paths = split_stores(files)
    stores, paths = split_stores(named)
    by_path = _index(paths, own_paths)
    theirs = own_stores.take(pa.array(np.maximum(by_path, 0)))
    nameless = pc.or_(pc.equal(stores, ""), pc.equal(theirs, ""))
    alike = pc.or_(nameless, pc.equal(stores, theirs)).to_numpy(zero_copy_only=False)
    return np.where(exact >= 0, exact, np.where(alike, by_path, -1))


def _index(values: pa.Array, among: pa.Array) -> NDArray[np.int64]:
    found: NDArray[np.int64] = pc.fill_null(pc.index_in(values, value_set=among), -1).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)
