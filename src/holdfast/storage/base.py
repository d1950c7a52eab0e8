"""The protocol of an object store, through which Holdfast reads and writes every file.

A store covers one scheme and authority (all local files, one bucket). A key is a decoded path inside it, without a
leading slash. Tests make any operation fail by wrapping a store.

1. An object appears whole or not at all, and its bytes never change under a reader.
2. put_if_absent creates exactly once, whoever races: True for the one that created, False for the others.
3. list_from is in ascending order of the name's UTF-8 bytes, covers one directory and never its sub-directories.
4. `get` reads an object only if it has at most `most` bytes, and checks its size before it reads the first byte: a
   table may refer to objects of any size.
5. A missing object raises NotFound; an unreachable store raises Unavailable; a write whose response was lost raises
   OutcomeUnknown. A store repeats only idempotent calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from holdfast.errors import Damaged, TableError

LARGEST_BYTES = 4 << 30  # of an object that is read whole: a commit of two gigabytes is large, and legal


class NotFound(TableError):
    """No object has this key; `url` is the store's."""

    def __init__(self, key: str, *, url: str = "") -> None:
        super().__init__(f"no object at {url}/{key}" if url else f"no object at {key}")
        self.key = key


class TooLarge(Damaged):
    """An object has more bytes than one of its kind may have."""

    def __init__(self, path: str, size: int, most: int) -> None:
        super().__init__(
            f"{path} has {size:,} bytes where at most {most:,} can be: it is not the file that is meant; restore it",
            path=path,
            expected=f"at most {most} bytes",
            found=f"{size} bytes",
        )
        self.size = size


def check_size(path: str, size: int, most: int) -> None:
    """Refuse an object that is larger than its reader allows."""
    if size > most:
        raise TooLarge(path, size, most)


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    key: str
    size: int
    modified_ms: int

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]


class ObjectStore(Protocol):
    """What Holdfast needs of storage."""

    @property
    def url(self) -> str:
        """Scheme and authority of the store with no trailing slash: `file://`, `s3://bucket`, `memory://x`."""

    def get(self, key: str, most: int = LARGEST_BYTES) -> bytes:
        """All bytes of an object; one that has more than `most` raises TooLarge before it is read."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Exactly `length` bytes from `start`, or fewer where the object ends first."""

    def head(self, key: str) -> ObjectMeta: ...

    def list_from(self, directory: str, start: str = "") -> Iterator[ObjectMeta]:
        """Objects directly in `directory` whose name is at or after `start`; nothing when there is no directory."""

    def list_all(self, directory: str) -> Iterator[ObjectMeta]:
        """Every object below `directory`, in no particular order."""

    def put(self, key: str, data: bytes) -> None:
        """Create or replace."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Create; False when an object was already there."""

    def delete(self, key: str) -> None:
        """Remove; removing what is not there is no error."""


def is_on_this_machine(store: ObjectStore) -> bool:
    """Whether a request to the store costs no network round trip."""
    return store.url.startswith(("file://", "memory://"))
