"""Objects in S3, Google Cloud Storage or Azure, through obstore.

1. obstore repeats reads, deletes and plain puts; a conditional put is sent exactly once. Repeated after a lost
   response it would find its own object and report that another writer had won.
2. False from put_if_absent means that the object exists: S3 also refuses a put that merely collided with another
   request in flight, so a `head` confirms a refusal.
3. A request that the server certainly refused raises Invalid (change address or credentials) or Unavailable (try
   again); a write that failed in any other way raises OutcomeUnknown.
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
        with self.translating_errors("read", key):
            response = obstore.get(self._repeating, key)
            check_size(f"{self.url}/{key}", response.meta["size"], most)
            return bytes(response.bytes())

    def get_range(self, key: str, start: int, length: int) -> bytes:
        assert min(start, length) >= 0, "a range is counted from the start of the object"
        if length == 0:
            self.head(key)
            return b""
        with self.translating_errors("read", key):
            try:
                return bytes(obstore.get_range(self._repeating, key, start=start, length=length))
            except BaseError as error:
                if _status(error) == 416:  # the object ends at or before `start`
                    return b""
                raise

    def head(self, key: str) -> ObjectMeta:
        with self.translating_errors("read", key):
            return _meta(obstore.head(self._repeating, key))

    def list_from(self, directory: str, start: str = "") -> Iterator[ObjectMeta]:
        prefix = f"{directory}/" if directory else ""
        metas: list[ObjectMeta] = []
        # obstore lists what comes after its offset; without its last character `start` itself does.
        after: str | None = prefix + start[:-1]
        while after is not None:
            after = self._list_into(metas, prefix, after)
        return iter(sorted((meta for meta in metas if meta.name >= start), key=lambda meta: meta.name.encode()))

    def list_all(self, directory: str) -> Iterator[ObjectMeta]:
        with self.translating_errors("list", directory):
            for page in obstore.list(self._repeating, directory or None, chunk_size=_PAGE):
                yield from (_meta(entry) for entry in page if entry["path"] != directory)

    def put(self, key: str, data: bytes) -> None:
        with self.translating_errors("write", key):
            obstore.put(self._repeating, key, data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        with self.translating_errors("write", key):
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
        """Begin a multipart upload."""
        return Upload(self, key)

    def delete(self, key: str) -> None:
        with self.translating_errors("delete", key):
            try:
                obstore.delete(self._repeating, key)
            except FileNotFoundError as error:
                if _no_container(error):
                    raise

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove objects, as many per request as the server takes; a missing one is no error."""
        with self.translating_errors("delete", keys[0] if keys else ""):
            try:
                obstore.delete(self._repeating, keys)
            except FileNotFoundError as error:
                if _no_container(error):
                    raise
                missing = True
            else:
                missing = False
        if missing:  # some servers stop at a missing object and do not say at which
            for key in keys:
                self.delete(key)

    def _list_into(self, metas: list[ObjectMeta], prefix: str, after: str) -> str | None:
        """List to the end (None), or to a page that ends in a sub-directory: then the offset behind that directory."""
        with self.translating_errors("list", prefix):
            for page in obstore.list(self._repeating, prefix or None, offset=after or None, chunk_size=_PAGE):
                names = [entry["path"][len(prefix) :] for entry in page]
                metas.extend(_meta(entry) for entry, name in zip(page, names, strict=True) if name and "/" not in name)
                directory, slash, _ = names[-1].partition("/")
                next_offset = f"{prefix}{directory}/\U0010ffff"
                if self._seeks and slash and len(page) == _PAGE and next_offset > after:
                    return next_offset
        return None

    @contextmanager
    def translating_errors(self, verb: str, key: str) -> Iterator[None]:
        """Turns errors of obstore into errors of `holdfast.errors`."""
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
        not_written = status in _TRY_AGAIN or _NOT_CONNECTED in str(error)
        if verb in ("read", "list") or not_written:
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
    """A multipart upload, which Arrow writes into as a file: the object appears when `finish` returns, or never."""

    closed = False  # Arrow reads it

    def __init__(self, store: RemoteStore, key: str) -> None:
        self._store = store
        self._key = key
        with store.translating_errors("write", key):
            self._writer = obstore.open_writer(store.client, key, buffer_size=_PART, max_concurrency=_PARTS_AT_ONCE)

    def write(self, data: bytes | memoryview) -> int:
        """Arrow passes buffers of any item type, and obstore takes bytes only."""
        with self._store.translating_errors("write", self._key):
            return self._writer.write(memoryview(data).cast("B"))

    def finish(self) -> None:
        """Make the object appear."""
        with self._store.translating_errors("write", self._key):
            self._writer.close()

    def flush(self) -> None:
        """Arrow calls this; parts are sent when they are full."""

    def close(self) -> None:
        """Arrow closes a file it drops, which must not make half an object appear."""


def _client(config: StoreConfig, *, max_retries: int) -> _Client:
    # obstore types each option by name; StoreConfig has checked the names, and text is accepted for every one.
    settings: dict[str, Any] = {
        "retry_config": {"max_retries": max_retries, "retry_timeout": _PATIENCE},
        "config": config.options,
    }
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
    match = _STATUS.search(str(error))
    return int(match[1]) if match else None


def _no_container(error: Exception) -> bool:
    return any(code in str(error) for code in ("NoSuchBucket", "ContainerNotFound"))


def _redacted(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return _SIGNED.sub(r"\1***", text)


def _meta(entry: obstore.ObjectMeta) -> ObjectMeta:
    return ObjectMeta(entry["path"], entry["size"], int(entry["last_modified"].timestamp() * 1000))
