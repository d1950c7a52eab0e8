"""Leases files to a worker that compacts a table, so that no two workers write the same rows.

1. A lease is an object `_holdfast/lease/<digest of its files>.json`, created by the first worker. It names its holder
   and its end, by the holder's clock.
2. It is a hint. Commits are judged as if there were none, so a lost, stale or damaged lease costs work at most.
3. An expired lease does not count, and anybody may replace it. A worker that returns under its name continues its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from holdfast.env import Env
from holdfast.errors import Invalid, OutcomeUnknown, TableError
from holdfast.storage.base import NotFound
from holdfast.storage.error_mapping import MALFORMED_JSON
from holdfast.storage.location import Location

DIRECTORY = ("_holdfast", "lease")


@dataclass(frozen=True, slots=True)
class Lease:
    """The name a worker goes by, and how long others leave it what it began."""

    worker: str
    seconds: float = 1800.0

    def __post_init__(self) -> None:
        if not self.worker or self.seconds <= 0:
            raise Invalid("a lease has the name of a worker, and lasts longer than no time")


class _StoredLease(msgspec.Struct, frozen=True, rename="camel"):
    """A lease, as it is stored."""

    holder: str
    until_ms: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leases:
    """The leases of a table, in the hands of one worker."""

    location: Location
    mine: Lease
    env: Env

    def claim(self, files: Sequence[str]) -> bool:
        """Take files to work on, unless another worker has one of them."""
        store, key, now = self.location.store, self._key(files), self.env.now_ms()
        if any(set(files) & set(lease.files) for lease in self._of_others(now)):
            return False
        until = now + int(1000 * self.mine.seconds)
        body = msgspec.json.encode(_StoredLease(self.mine.worker, until, tuple(files)))
        with suppress(OutcomeUnknown):  # then what is there tells
            if store.put_if_absent(key, body):
                return True
        if self._is_of_other(self._read(key), now):
            return False  # it came between
        store.put(key, body)
        return not self._is_of_other(self._read(key), now)

    def release(self, files: Sequence[str]) -> None:
        """Leave files to others; a lease that cannot be deleted ends by itself."""
        with suppress(TableError):
            self.location.store.delete(self._key(files))

    def _of_others(self, now_ms: int) -> Iterator[_StoredLease]:
        directory = self.location.key(*DIRECTORY)
        for meta in self.location.store.list_from(directory):  # as many as bins are being written
            lease = self._read(meta.key)
            if lease is not None and self._is_of_other(lease, now_ms):
                yield lease

    def _is_of_other(self, lease: _StoredLease | None, now_ms: int) -> bool:
        return lease is not None and lease.holder != self.mine.worker and lease.until_ms > now_ms

    def _read(self, key: str) -> _StoredLease | None:
        try:
            return msgspec.json.decode(self.location.store.get(key), type=_StoredLease)
        except NotFound:
            return None
        except MALFORMED_JSON:
            return None

    def _key(self, files: Sequence[str]) -> str:
        digest = hashlib.sha256("\n".join(sorted(files)).encode()).hexdigest()[:32]
        return self.location.key(*DIRECTORY, f"{digest}.json")


def lease_of(lease: bool | str | Lease, env: Env) -> Lease | None:
    """What a user asks for: none, one under a name made up, the name of a worker, or a lease."""
    match lease:
        case Lease():
            return lease
        case str():
            return Lease(lease)
        case _:
            return Lease(str(env.new_uuid())) if lease else None
