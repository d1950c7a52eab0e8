"""Paths as Iceberg spells them: absolute, raw, on the machine that wrote them.

Nothing in them is encoded: a `%20` in a path is three characters of a name. Where a table was copied elsewhere, the
user says which prefix became which.

1. A file key is what the rest of Holdfast knows a file by; one outside the table's store is refused unless allowed.
2. Two spellings name the same file when their paths are equal, and their stores are or one of the two names none.
3. Work is done for all paths at once; only what is not below the table's own directory is looked at one by one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Invalid
from holdfast.storage.location import Location, canonical_scheme

_SPELLED = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)(?://([^/]*))?(.*)", re.DOTALL)
_STORE = r"^(?P<store>[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?)?(?P<path>.*)$"


@dataclass(frozen=True)
class Paths:
    """How the paths of one table are read."""

    location: Location
    relocate: Mapping[str, str] = field(default_factory=dict)

    def key(self, path: str) -> str:
        """The file key of one path."""
        moved = relocated(path, self.relocate)
        store, rest = split(moved)
        segments = [s for s in rest.split("/") if s not in ("", ".")]
        own = self.location.store.url
        outside = store not in ("", own)
        if (outside or ".." in segments) and not self.location.allow_outside:
            raise Invalid(
                f"the metadata of {self.location.url} refers to {path}, which is outside {own}; open the table with "
                "allow_outside=True if you trust it, or with relocate={old: new} if it was copied"
            )
        inside = "/".join(segments)
        directory = f"{self.location.directory}/" if self.location.directory else ""
        if not outside and inside.startswith(directory) and inside != directory:
            return inside[len(directory) :]
        return f"{store or own}/{inside}"

    def keys(self, paths: pa.Array) -> pa.Array:
        """The file keys of many paths."""
        made = [self._below(paths, prefix) for prefix in self._prefixes()]
        keys = pc.coalesce(*made) if made else pa.nulls(len(paths), pa.string())
        if not keys.null_count:
            return keys
        left = pc.is_null(keys)
        singly = [self.key(path) for path in paths.filter(left).to_pylist()]
        return pc.replace_with_mask(keys, left, pa.array(singly, pa.string()))

    def _prefixes(self) -> list[str]:
        """What a path below the table's directory may begin with."""
        moved = [old for old, new in self.relocate.items() if self._is_root(new)]
        spelled = moved or [self.location.url, *self._spelled()]
        locals_ = [split(path)[1] for path in spelled if split(path)[0] in ("", "file://")]
        also = [f"{start}{path}" for path in locals_ for start in ("file://", "file:", "") if path.startswith("/")]
        return [f"{path.rstrip('/')}/" for path in dict.fromkeys([*spelled, *also])]

    def _spelled(self) -> list[str]:
        return [one.spark_path() for one in (self.location, *self.location.spellings())]

    def _is_root(self, path: str) -> bool:
        store, rest = split(path)
        return store in ("", self.location.store.url) and rest.strip("/") == self.location.directory

    def _below(self, paths: pa.Array, prefix: str) -> pa.Array:
        """The rest of the paths that begin with a prefix and need no more work."""
        rest = pc.utf8_slice_codeunits(paths, len(prefix))
        plain = pc.invert(pc.match_substring_regex(rest, r"^/|//|(^|/)\.\.?(/|$)|^$"))
        return pc.if_else(pc.and_(pc.starts_with(paths, prefix), plain), rest, pa.scalar(None, pa.string()))


def relocated(path: str, relocate: Mapping[str, str]) -> str:
    """A path with the longest prefix that was moved in its new place."""
    store, inside = split(path)
    for old in sorted(relocate, key=len, reverse=True):
        old_store, prefix = split(_plain(old))
        same_store = store == old_store or {store, old_store} == {"", "file://"}
        if same_store and (inside == prefix or inside.startswith(f"{prefix}/")):
            return _plain(relocate[old]) + inside[len(prefix) :]
    return path


def split(path: str) -> tuple[str, str]:
    """Scheme and authority as a store's URL has them, empty where a path names none, and the path inside."""
    found = _SPELLED.fullmatch(path)
    if found is None:
        return "", path.removeprefix("./")
    scheme, authority = canonical_scheme(found[1]), found[2] or ""
    if scheme == "file" and authority in ("", "localhost"):
        return "file://", found[3]
    return f"{scheme}://{authority}", found[3]


def parts(paths: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Stores (empty where none is named) and paths inside them, of many paths."""
    found = pc.extract_regex(paths, _STORE)
    spelled = pc.struct_field(found, "store").dictionary_encode()
    # A store is a handful of texts among any number of files.
    stores = [split(f"{text}/")[0] if text else "" for text in spelled.dictionary.to_pylist()]
    return pa.array(stores, pa.string()).take(spelled.indices), pc.struct_field(found, "path")


def _plain(prefix: str) -> str:
    return prefix.rstrip("/") or "/"
