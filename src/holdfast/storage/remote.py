"""Objects in S3, Google Cloud Storage or Azure, through obstore.

1. Reads, deletes and plain puts are repeated inside obstore; a conditional put is sent exactly once. Repeated after a
   lost answer it would meet its own object and report that somebody else had won.
2. False from put_if_absent means that an object is there: S3 also refuses a put that merely collided with another
   request in flight, so a refusal is confirmed by looking.
3. What a server certainly refused raises Invalid (change address or credentials) or Unavailable (try again); a write
   that failed in any other way raises OutcomeUnknown.
4. No error carries a credential, and none carries obstore's own exception, whose text quotes whole requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeAlias

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, S3Store

from holdfast.errors import Invalid, OutcomeUnknown, TableError, Unavailable
from holdfast.storage.base import LARGEST_BYTES, NotFound, ObjectMeta, check_size
from holdfast.storage.config import StoreConfig

_Client: TypeAlias = S3Store | GCSStore | AzureStore

_TRIES = 5
_PATIENCE = timedelta(seconds=60)
_PART = 8 << 20
_PARTS_AT_ONCE = 4
_PAGE = 1000  # what every server returns per listing request

_STATUS = re.compile(r"status code: (\d{3})")
_SERVER_CODE = re.compile(r"<Code>(\w+)</Code>")
_NOT_CONNECTED = "kind: Connect,"
_SERVER = re.compile(r"Error performing \w+ (\w+://[^/\s@]+)[/\s]")
_TRY_AGAIN = {408, 409, 429}
_SIGNED = re.compile(r"((?:sig|signature|token|key|credential|X-(?:Amz|Goog)-\w+)=)[^&\s\"]+", re.IGNORECASE)


class RemoteStore:
    """One bucket or container."""

    def __init__(self, config: StoreConfig) -> None:
        self.config = config
        self._repeating = _client(config, max_retries=_TRIES)
        self._once = _client(config, max_retries=0)
        # Only S3 is known to start a listing at an offset on the server; its directory buckets list in no order.
        self._seeks = config.scheme == "s3" and not config.authority.endswith("--x-s3")

    def __repr__(self) -> str:
        return f"RemoteStore({self.url})"

    def __reduce__(self) -> tuple[type[RemoteStore], tuple[StoreConfig]]:
        return RemoteStore, (self.config,)

    @property
    def url(self) -> str:
        return self.config.url

    @property
    def client(self) -> _Client:
        """obstore's own store, which repeats what can be repeated."""
        return self._repeating

    def get(self, key: str, most: int = LARGEST_BYTES) -> bytes:
        with self.asking("read", key):
            answer = obstore.get(self._repeating, key)
            check_size(f"{self.url}/{key}", answer.meta["size"], most)
            return bytes(answer.bytes())

    def get_range(self, key: str, start: int, length: int) -> bytes:
        assert min(start, length) >= 0, "a range is counted from the start of the object"
        if length == 0:
            self.head(key)
            return b""
        with self.asking("read", key):
            try:
                return bytes(obstore.get_range(self._repeating, key, start=start, length=length))
            except BaseError as error:
                if _status(error) == 416:  # the object ends at or before `start`
                    return b""
                raise

    def head(self, key: str) -> ObjectMeta:
        with self.asking("read", key):
            return _meta(obstore.head(self._repeating, key))

    def list_from(self, directory: str, start: str = "") -> Iterator[ObjectMeta]:
        prefix = f"{directory}/" if directory else ""
        found: list[ObjectMeta] = []
        # obstore lists what comes after its offset; without its last character `start` itself does.
        after: str | None = prefix + start[:-1]
        while after is not None:
            after = self._list_into(found, prefix, after)
        return iter(sorted((meta for meta in found if meta.name >= start), key=lambda meta: meta.name.encode()))

    def list_all(self, directory: str) -> Iterator[ObjectMeta]:
        with self.asking("list", directory):
            for page in obstore.list(self._repeating, directory or None, chunk_size=_PAGE):
                yield from (_meta(entry) for entry in page if entry["path"] != directory)

    def put(self, key: str, data: bytes) -> None:
        with self.asking("write", key):
            obstore.put(self._repeating, key, data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        with self.asking("write", key):
            try:
                obstore.put(self._once, key, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                pass
            else:
                return True
        try:
            self.head(key)
        except NotFound:
            raise Unavailable(f"{self.url}/{key} was being changed by somebody else; nothing was written") from None
        return False

    def upload(self, key: str) -> Upload:
        """Begin an object that is written piece by piece."""
        return Upload(self, key)

    def delete(self, key: str) -> None:
        with self.asking("delete", key):
            try:
                obstore.delete(self._repeating, key)
            except FileNotFoundError as error:
                if _no_container(error):
                    raise

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove objects, as many per request as the server takes; what is not there is no error."""
        with self.asking("delete", keys[0] if keys else ""):
            try:
                obstore.delete(self._repeating, keys)
            except FileNotFoundError as error:
                if _no_container(error):
                    raise
                missing = True
            else:
                missing = False
        if missing:  # some servers stop there, and do not say at which
            for key in keys:
                self.delete(key)

    def _list_into(self, found: list[ObjectMeta], prefix: str, after: str) -> str | None:
        """List until done, or until a page ends inside a sub-directory: then where to go on, behind it."""
        with self.asking("list", prefix):
            for page in obstore.list(self._repeating, prefix or None, offset=after or None, chunk_size=_PAGE):
                names = [entry["path"][len(prefix) :] for entry in page]
                found.extend(_meta(entry) for entry, name in zip(page, names, strict=True) if name and "/" not in name)
                below, inside, _ = names[-1].partition("/")
                behind = f"{prefix}{below}/\U0010ffff"
                if self._seeks and inside and len(page) == _PAGE and behind > after:
                    return behind
        return None

    @contextmanager
    def asking(self, verb: str, key: str) -> Iterator[None]:
        """Errors of obstore as those that say what to do next."""
        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            raise self._failure(verb, key, error) from None

    def _failure(self, verb: str, key: str, error: BaseError | OSError | ValueError) -> TableError:
        place, reason, status = f"{self.url}/{key}", self._reason(error), _status(error)
        if isinstance(error, FileNotFoundError) and verb == "read" and not _no_container(error):
            return NotFound(key, url=self.url)
        if status == 404 or _no_container(error):
            return Invalid(f"cannot {verb} {place}: {self.url} does not exist ({reason})")
        if isinstance(error, PermissionDeniedError | UnauthenticatedError) or status in (401, 403):
            return Invalid(f"cannot {verb} {place}: the credentials are not accepted ({reason})")
        if isinstance(error, ValueError) or (status is not None and 400 <= status < 500 and status not in _TRY_AGAIN):
            return Invalid(f"cannot {verb} {place}: {reason}")
        certain = status in _TRY_AGAIN or _NOT_CONNECTED in str(error)
        if verb in ("read", "list") or certain:
            return Unavailable(f"cannot {verb} {place}: {reason}")
        return OutcomeUnknown(f"no answer whether the {verb} of {place} was done: {reason}")

    def _reason(self, error: Exception) -> str:
        text = str(error)
        if status := _status(error):
            code = _SERVER_CODE.search(text)
            return f"status {status}, {code[1]}" if code else f"status {status}"
        if _NOT_CONNECTED in text:
            server = _SERVER.search(text)
            return f"{server[1] if server else 'the server'} cannot be reached; check the address, or try again later"
        return _redacted(text.partition("\n")[0], self.config.secrets)


class Upload:
    """An object in the making: it appears whole when it is finished, and never if it is not."""

    closed = False  # as Arrow asks of a file

    def __init__(self, store: RemoteStore, key: str) -> None:
        self._store = store
        self._key = key
        with store.asking("write", key):
            self._writer = obstore.open_writer(store.client, key, buffer_size=_PART, max_concurrency=_PARTS_AT_ONCE)

    def write(self, data: bytes | memoryview) -> int:
        """`data` is whatever has bytes in a row: Arrow hands over memory of any item type, and obstore takes `u8`."""
        with self._store.asking("write", self._key):
            return self._writer.write(memoryview(data).cast("B"))

    def finish(self) -> None:
        """Make the object appear."""
        with self._store.asking("write", self._key):
            self._writer.close()

    def flush(self) -> None:
        """Nothing can be seen before the end."""

    def close(self) -> None:
        """Arrow closes what it lets go of, which must not make half an object appear."""


def _client(config: StoreConfig, *, max_retries: int) -> _Client:
    # obstore types each option by name; StoreConfig has checked the names, and text is accepted for every one.
    settings: Any = {"retry_config": {"max_retries": max_retries, "retry_timeout": _PATIENCE}, "config": config.options}
    try:
        match config.scheme:
            case "s3":
                return S3Store(config.authority, **settings)
            case "gs":
                return GCSStore(config.authority, **settings)
            case "abfs":
                container, _, host = config.authority.partition("@")
                settings["config"].setdefault("account_name", host.partition(".")[0])
                return AzureStore(container, **settings)
            case other:
                raise AssertionError(f"{other} is not a remote scheme")
    except (BaseError, ValueError) as error:
        reason = _redacted(str(error).partition("\n")[0], config.secrets)
        raise Invalid(f"cannot open {config.url} with these storage options: {reason}") from None


def _status(error: Exception) -> int | None:
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def _no_container(error: Exception) -> bool:
    return any(code in str(error) for code in ("NoSuchBucket", "ContainerNotFound"))


def _redacted(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return _SIGNED.sub(r"\1***", text)


def _meta(entry: obstore.ObjectMeta) -> ObjectMeta:
    return ObjectMeta(entry["path"], entry["size"], int(entry["last_modified"].timestamp() * 1000))
