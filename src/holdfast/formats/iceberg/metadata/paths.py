"""Converts the file paths of Iceberg metadata to file keys, and finds paths that name the same file.

Iceberg stores absolute paths as the writer spelled them. They are not encoded: a `%20` is three characters of a name.
For a table that was copied elsewhere, the user states which prefix became which.

1. The rest of Holdfast knows a file by its key. A file must lie below the table's location, or below the paths that its
   properties name in the same store; any other is refused unless the user allowed a root above it.
2. Two paths name the same file when what follows scheme and authority is equal, and their stores are equal or one of
   them names no store.
3. Many paths are converted at once; only those outside the table's directory are converted one by one.
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
_WRITE_PATHS = tuple(f"write.{kind}.path" for kind in ("data", "metadata", "folder-storage", "object-storage"))


@dataclass(frozen=True)
class Paths:
    """Converts the paths of one table."""

    location: Location
    relocate: Mapping[str, str] = field(default_factory=dict)

    @property
    def anywhere(self) -> Paths:
        """The same without the check of rule 1, for files that nobody opens."""
        return replace(self, location=self.location.anywhere)

    def key(self, path: str) -> str:
        """The file key of one path."""
        store, rest = split_store(relocated(path, self.relocate))
        segments = [s for s in rest.split("/") if s not in ("", ".")]
        own = self.location.store.url
        inside = "/".join(segments)
        directory = f"{self.location.directory}/" if self.location.directory else ""
        if store in ("", own) and ".." not in segments and inside.startswith(directory) and inside != directory:
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
        inside = [self._below(paths, prefix) for prefix in self._prefixes()]
        keys = pc.coalesce(*inside) if inside else pa.nulls(len(paths), pa.string())
        if not keys.null_count:
            return keys
        outside = pc.is_null(keys)
        return pc.replace_with_mask(keys, outside, pa.array(self._outside_keys(paths.filter(outside)), pa.string()))

    def _outside_keys(self, paths: pa.Array) -> list[str]:
        """The file keys of paths, with one conversion per directory."""
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

    def with_write_paths(self, properties: Mapping[str, str]) -> Paths:
        """The same, with the paths that table properties name in the table's own store allowed too."""
        paths = [relocated(properties[name].rstrip("/"), self.relocate) for name in _WRITE_PATHS if name in properties]
        base = self.location.store.url
        urls = [f"{store or base}{inside}" for store, inside in map(split_store, paths) if inside.strip("/")]
        own = [url for url in urls if url.startswith(f"{base}/") and ".." not in url.split("/")]
        if not own or self.location.allow_outside is True:
            return self
        roots = tuple(dict.fromkeys((*(self.location.allow_outside or ()), *own)))
        return replace(self, location=replace(self.location, allow_outside=roots))

    def _prefixes(self) -> list[str]:
        """The spellings of the table's directory that a path may begin with."""
        moved = [old for old, new in self.relocate.items() if self._is_root(new)]
        spelled = moved or [
            self.location.url,
            *(one.spark_path() for one in (self.location, *self.location.spellings())),
        ]
        locals_ = [split_store(path)[1] for path in spelled if split_store(path)[0] in ("", "file://")]
        also = [f"{start}{path}" for path in locals_ for start in ("file://", "file:", "") if path.startswith("/")]
        return [f"{path.rstrip('/')}/" for path in dict.fromkeys([*spelled, *also])]

    def _is_root(self, path: str) -> bool:
        store, rest = split_store(path)
        return store in ("", self.location.store.url) and rest.strip("/") == self.location.directory

    def _below(self, paths: pa.Array, prefix: str) -> pa.Array:
        """What follows a prefix in each path; null where the path does not begin with it or is not normalized."""
        rest = pc.utf8_slice_codeunits(paths, len(prefix))
        plain = pc.invert(pc.match_substring_regex(rest, r"^/|//|(^|/)\.\.?(/|$)|^$"))
        return pc.if_else(pc.and_(pc.starts_with(paths, prefix), plain), rest, pa.scalar(None, pa.string()))


def relocated(path: str, relocate: Mapping[str, str]) -> str:
    """A path with its longest relocated prefix replaced."""
    store, inside = split_store(path)
    for old in sorted(relocate, key=len, reverse=True):
        old_store, prefix = split_store(_plain(old))
        same_store = store == old_store or {store, old_store} == {"", "file://"}
        if same_store and (inside == prefix or inside.startswith(f"{prefix}/")):
            return _plain(relocate[old]) + inside[len(prefix) :]
    return path


def split_store(path: str) -> tuple[str, str]:
    """The store's URL (empty where the path names none), and the path inside the store."""
    match = _SPELLED.fullmatch(path)
    if match is None:
        return "", path.removeprefix("./")
    scheme, authority = canonical_scheme(match[1]), match[2] or ""
    if scheme == "file" and authority in ("", "localhost"):
        return "file://", match[3]
    return f"{scheme}://{authority}", match[3]


def split_stores(paths: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The same for many paths."""
    parts = pc.extract_regex(paths, _STORE)
    spelled = pc.struct_field(parts, "store").dictionary_encode()  # few stores for many files
    stores = [split_store(f"{text}/")[0] if text else "" for text in spelled.dictionary.to_pylist()]
    return pa.array(stores, pa.string()).take(spelled.indices), pc.struct_field(parts, "path")


def _plain(prefix: str) -> str:
    return prefix.rstrip("/") or "/"


def match_paths(files: pa.Array, paths: pa.Array) -> list[tuple[int, int]]:
    """Pairs of an index in `files` and one in `paths` that name the same file; each of `paths` at most once."""
    return [(f, p) for p, f in enumerate(path_indices(files, paths).tolist()) if f >= 0]


def path_indices(files: pa.Array, paths: pa.Array) -> NDArray[np.int64]:
    """The index in `files` of each path, -1 where it is not among them; paths repeat often."""
    encoded = paths.dictionary_encode()
    distinct = _distinct_indices(files, encoded.dictionary)
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    if not len(distinct):
        return np.full(len(paths), -1, np.int64)
    indices: NDArray[np.int64] = np.where(codes >= 0, distinct[codes], -1)
    return indices


def _distinct_indices(files: pa.Array, paths: pa.Array) -> NDArray[np.int64]:
    exact = _index(paths, files)
    if (exact >= 0).all() or not len(files):
        return exact
    file_stores, file_paths = split_stores(files)
    stores, inside = split_stores(paths)
    by_path = _index(inside, file_paths)
    matched = file_stores.take(pa.array(np.maximum(by_path, 0)))
    storeless = pc.or_(pc.equal(stores, ""), pc.equal(matched, ""))
    same = pc.or_(storeless, pc.equal(stores, matched)).to_numpy(zero_copy_only=False)
    return np.where(exact >= 0, exact, np.where(same, by_path, -1))


def _index(values: pa.Array, among: pa.Array) -> NDArray[np.int64]:
    indices: NDArray[np.int32] = pc.fill_null(pc.index_in(values, value_set=among), -1).to_numpy(zero_copy_only=False)
    return indices.astype(np.int64)
