"""The location of a table (a store and a directory in it), and the conversions between paths in logs and file keys.

A *file key* names a file everywhere in Holdfast: decoded and relative to the table's directory when the file lies
inside, otherwise its full decoded URL.

1. Paths in a log are untrusted: `storage.outside` decides whether one that leaves the table's directory may be read.
2. Two spellings of one file (encoded, absolute, `file:/x` and `file:///x`, `a//b`, `./a`) give the same key.
3. A key has no empty, `.` or `..` segment, so only a full URL contains `://`.
4. A key is valid UTF-8; a path that decodes to anything else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Invalid
from holdfast.storage.arrays import longs, mask, strings
from holdfast.storage.base import ObjectStore
from holdfast.storage.outside import Outside, follows, refusal

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*|$)", re.DOTALL)
_NETWORK_PATH = re.compile(r"//([^/]+)(/.*|$)", re.DOTALL)  # a URI without a scheme that still names a host

_CANONICAL = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs"}  # other schemes of one store

# A path that does not match is its own file key.
_NEEDS_WORK = r"[%:\x00]|^/|/$|//|(?:^|/)\.\.?(?:/|$)|^$"
_MARKS = (b"%", b":", b"\0")
_SLASH, _DOT = b"/."

# Scalars, because a plain value passed to a kernel would make pyarrow import pandas.
_FALSE, _EMPTY = mask(np.zeros(1, bool))[0], strings([""])[0]
_ZERO, _ONE = longs([0, 1])

# What java.net.URI, and so Spark, percent-encodes in a path: all ASCII but the characters RFC 2396 allows there, and
# beyond ASCII only control and space characters. Letters of any script and emoji stay as they are.
_SPACES = "\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_SPARK_ENCODES = rf'[\x00-\x20"#%<>?\[\\\]^`{{|}}\x7f-\xa0{_SPACES}]'


@dataclass(frozen=True, slots=True)
class Location:
    """A directory in a store, and where its log may refer to files outside of it.

    `spelled` is the store's URL as the user's Spark spells it (`s3a://bucket`) where that is not the store's own.
    """

    store: ObjectStore
    directory: str
    allow_outside: Outside = False
    spelled: str | None = None

    @property
    def url(self) -> str:
        """The decoded URL of the directory, without a trailing slash."""
        return f"{self.store.url}/{self.directory}" if self.directory else self.store.url

    @property
    def anywhere(self) -> Location:
        """The same location with no check of paths outside, for callers that open no file."""
        return replace(self, allow_outside=True)

    def key(self, *parts: str) -> str:
        """The store key of something inside the directory."""
        return "/".join((self.directory, *parts)) if self.directory else "/".join(parts)

    def file_key(self, path: str) -> str:
        """The file key of a path as a log spells it: URI-encoded, relative or absolute."""
        parsed = split_uri(path)
        if parsed is not None:
            return self._absolute_key(*parsed, path)
        if path.startswith("/"):
            return self._own_key(self._segments(path, path), path)
        return self._own_key([*self.directory.split("/"), *self._segments(path, path)], path)

    def file_keys(self, paths: pa.Array | pa.ChunkedArray) -> pa.Array:
        """The file keys of many paths; only those that need decoding or checking are converted one by one."""
        flat = paths.combine_chunks() if isinstance(paths, pa.ChunkedArray) else paths
        if _all_plain(flat):
            return flat.cast(pa.string())
        return _mapped(flat, _NEEDS_WORK, self.file_key, otherwise=flat)

    def store_key(self, file_key: str) -> str:
        """The store key of a file key in the table's own store; any other is Invalid."""
        if "://" not in file_key:
            return self.key(file_key)
        prefix = self.store.url + "/"
        if file_key.startswith(prefix):
            return self.followed(file_key, file_key)[len(prefix) :]
        raise Invalid(f"{file_key} is outside the store of the table at {self.url}: open it through a store of its own")

    def followed(self, url: str, spelled: str) -> str:
        """The URL of a file outside the directory, if it may be read."""
        if not self.follows(url):
            raise refusal(self.url, spelled, url)
        return url

    def follows(self, url: str) -> bool:
        """Whether a file at a URL outside the directory may be read."""
        return follows(self.store, self.allow_outside, url)

    def file_url(self, file_key: str) -> str:
        """The decoded URL of a file key."""
        return file_key if "://" in file_key else f"{self.url}/{file_key}"

    def spark_uri(self, file_key: str) -> str:
        """The URI as Spark's `_metadata.file_path` spells it: percent-encoded, one slash for local files."""
        root, path = self._spark_parts(file_key)
        return root + re.sub(_SPARK_ENCODES, lambda match: quote(match[0], safe=""), path)

    def spark_path(self, file_key: str = "") -> str:
        """The path as Spark's readers and catalogs take it: the same place as `spark_uri`, with nothing encoded."""
        root, path = self._spark_parts(file_key)
        return root + path

    def spark_store(self, file_key: str = "") -> str:
        """The store of a file key as Spark spells it."""
        root, _ = self._spark_parts(file_key)
        return root

    def spark_uris(self, file_keys: pa.Array) -> pa.Array:
        """The URIs of many file keys, as Spark spells them."""
        root = self.spark_uri("").removesuffix("/") + "/"
        plain = pc.binary_join_element_wise(root, file_keys.cast(pa.string()), "")
        return _mapped(file_keys, f"://|{_SPARK_ENCODES}", self.spark_uri, otherwise=plain)

    def spellings(self) -> list[Location]:
        """The same location with each spelling of its store's scheme."""
        scheme, _, authority = self.store.url.partition("://")
        return [replace(self, spelled=f"{one}://{authority}") for one, own in _CANONICAL.items() if own == scheme]

    def _spark_parts(self, file_key: str) -> tuple[str, str]:
        """Store and path of a file key: in the user's spelling, also for other buckets of the same kind."""
        if "://" in file_key:
            self.followed(file_key, file_key)
        scheme, _, rest = (self.file_url(file_key) if file_key else self.url).partition("://")
        authority, _, path = rest.partition("/")
        own_scheme, _, own_authority = self.store.url.partition("://")
        spelled_scheme, _, spelled_authority = (self.spelled or self.store.url).partition("://")
        if (scheme, authority) == (own_scheme, own_authority):
            authority = spelled_authority
        if scheme == own_scheme:
            scheme = spelled_scheme
        return (f"{scheme}://{authority}" if authority else f"{scheme}:"), f"/{path}"

    def _absolute_key(self, scheme: str, authority: str, path: str, spelled: str) -> str:
        segments = self._segments(path, spelled)
        own_scheme, _, own_authority = self.store.url.partition("://")
        if scheme in ("", own_scheme) and authority in ("", own_authority):
            return self._own_key(segments, spelled)
        return self.followed(f"{scheme or own_scheme}://{authority}/{'/'.join(_resolved(segments))}", spelled)

    def _own_key(self, segments: list[str], spelled: str) -> str:
        key = "/".join(_resolved(segments))
        inside = f"{self.directory}/" if self.directory else ""
        if key.startswith(inside) and key != inside:
            return key[len(inside) :]
        return self.followed(f"{self.store.url}/{key}", spelled)

    def _segments(self, encoded: str, spelled: str) -> list[str]:
        try:
            segments = unquote(encoded, errors="strict").split("/")
        except UnicodeDecodeError:
            raise Invalid(f"the log of {self.url} refers to {spelled}, which is not UTF-8 once decoded") from None
        if not any(segments) or any("\x00" in segment for segment in segments):
            raise Invalid(f"the log of {self.url} refers to {spelled!r}, which cannot be the name of a file")
        if ".." in segments and not self.allow_outside:
            raise Invalid(
                f"the log of {self.url} refers to {spelled}, which climbs with `..`; open the table with "
                "allow_outside=[...], the directory that this leads to, if you trust it"
            )
        return segments


def is_inside(key: str) -> bool:
    """Whether a text is the key of something inside a table: no URL, and no empty, `.` or `..` segment."""
    return "\x00" not in key and "://" not in key and all(part not in ("", ".", "..") for part in key.split("/"))


def split_uri(path: str) -> tuple[str, str, str] | None:
    """Canonical scheme, authority and still encoded path of a URI; None for a path that is none."""
    if match := _URI.match(path):
        scheme = canonical_scheme(match[1])
        authority = match[2] or ""
        return scheme, "" if (scheme, authority) == ("file", "localhost") else authority, match[3]
    if match := _NETWORK_PATH.match(path):
        return "", match[1], match[2]
    return None


def canonical_scheme(scheme: str) -> str:
    """The scheme that a store's `url` has for this spelling."""
    return _CANONICAL.get(scheme.lower(), scheme.lower())


def _resolved(segments: list[str]) -> list[str]:
    resolved: list[str] = []
    for segment in segments:
        if segment == "..":
            del resolved[-1:]
        elif segment not in ("", "."):
            resolved.append(segment)
    return resolved


def _all_plain(paths: pa.Array) -> bool:
    """Whether no path needs conversion, by one search through all of them; False may be wrong, True never is."""
    if paths.null_count or not len(paths) or not pa.types.is_string(paths.type):
        return False
    _, offsets, data = paths.buffers()
    if data is None:
        return False
    ends = np.frombuffer(offsets, np.int32)[paths.offset : paths.offset + len(paths) + 1]
    text = data.slice(ends[0], ends[-1] - ends[0]).to_pybytes()
    if any(mark in text for mark in _MARKS) or not (ends[1:] > ends[:-1]).all():
        return False
    letters = np.frombuffer(text, np.uint8)
    starts, lasts = ends[:-1] - ends[0], ends[1:] - ends[0] - 1
    slashes = np.flatnonzero(letters[:-1] == _SLASH)
    # Segments begin where paths do and after slashes; none may be empty or begin with a dot.
    heads = np.concatenate([letters[starts], letters[slashes + 1]])
    return not ((heads == _SLASH) | (heads == _DOT)).any() and not (letters[lasts] == _SLASH).any()


def _mapped(values: pa.Array, pattern: str, convert: Callable[[str], str], otherwise: pa.Array) -> pa.Array:
    """Converts the values that match the pattern; the others are those of `otherwise`."""
    matches = pc.fill_null(pc.match_substring_regex(values, pattern), _FALSE)
    result = otherwise.cast(pa.string())
    if not pc.any(matches).as_py():
        return result
    matching = values.filter(matches).cast(pa.string())
    in_directory = pc.match_substring(matching, "/")
    converted = [convert(value) for value in matching.filter(pc.invert(in_directory)).to_pylist()]
    mapped = pc.replace_with_mask(matching, pc.invert(in_directory), strings(converted))
    mapped = pc.replace_with_mask(
        mapped, in_directory, _mapped_by_directory(matching.filter(in_directory), pattern, convert)
    )
    return pc.replace_with_mask(result, matches, mapped)


def _mapped_by_directory(paths: pa.Array, pattern: str, convert: Callable[[str], str]) -> pa.Array:
    """Converts paths that have a directory, once per directory where the file name itself needs no conversion."""
    parts = pc.split_pattern(paths, "/", max_splits=1, reverse=True)
    directories, names = pc.list_element(parts, _ZERO).dictionary_encode(), pc.list_element(parts, _ONE)
    heads = []
    for number, directory in enumerate(directories.dictionary.to_pylist()):
        try:
            heads.append(convert(f"{directory}/x").removesuffix("x"))
        except Invalid:  # refused by the name of a file in it
            convert(paths.filter(pc.equal(directories.indices, number))[0].as_py())
            raise
    mapped = pc.binary_join_element_wise(strings(heads).take(directories.indices), names, _EMPTY)
    odd_name = pc.match_substring_regex(names, pattern)
    converted = [convert(path) for path in paths.filter(odd_name).to_pylist()]
    return pc.replace_with_mask(mapped, odd_name, strings(converted))
