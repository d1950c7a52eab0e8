"""An S3 server on localhost: moto's, in a thread of the test process.

1. Requests are handled one at a time. moto looks for an object and then stores it without holding a lock, so nothing
   keeps two conditional puts from both succeeding (300 races without the lock below did not show it); real S3 decides
   atomically. The order is made here, inside the server, and clients race for it as they would elsewhere.
2. `next_answer` makes one request go wrong on its way: refused before it is handled, or handled with its answer lost.
3. Requests signed with another access key than ACCESS_KEY are refused, and all are while `locked` is entered. A refusal
   quotes what was signed, as S3's do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from tests.support.s3_access import REGION, S3Access

ACCESS_KEY = "AKIAHOLDFASTTEST"
SECRET_KEY = "verysecretkeyofthetests"
BUCKET = "holdfast-test"

_REFUSAL = (
    '<?xml version="1.0" encoding="UTF-8"?><Error><Code>InvalidAccessKeyId</Code>'
    "<Message>The key does not exist.</Message><StringToSign>{}</StringToSign></Error>"
)


@dataclass
class S3Server(S3Access):
    """A running server, one bucket in it, and how to reach it."""

    access_key = ACCESS_KEY
    secret_key = SECRET_KEY
    port: int
    broken: list[tuple[str, int, bool]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    refusing: bool = False
    bucket: str = BUCKET

    @property
    def hadoop_options(self) -> dict[str, str]:
        """The same in Hadoop's."""
        return {
            "fs.s3a.endpoint": f"127.0.0.1:{self.port}",
            "fs.s3a.endpoint.region": REGION,
            "fs.s3a.access.key": ACCESS_KEY,
            "spark.hadoop.fs.s3a.secret.key": SECRET_KEY,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
        }

    def next_answer(self, method: str, status: int, *, handled: bool) -> None:
        """Answer the next request of this method with `status`, after handling it or instead."""
        self.broken.append((method, status, handled))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Refuse everybody for a while, as when credentials expire."""
        self.refusing = True
        try:
            yield
        finally:
            self.refusing = False

    def fill(self, keys: Iterable[str]) -> None:
        """Put empty objects straight into the server, which is much faster than asking it."""
        backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        for key in keys:
            backend.put_object(BUCKET, key, b"")


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Start a server on a free port and make the bucket; all of it is gone afterwards."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = DomainDispatcherApplication(create_backend_app)
    one_at_a_time = Lock()

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with one_at_a_time:
            method = environ["REQUEST_METHOD"]
            server.requests.append(f"{method} {environ['PATH_INFO']}?{environ['QUERY_STRING']}")
            signed = environ.get("HTTP_AUTHORIZATION", "")
            if server.refusing or (signed and f"={ACCESS_KEY}/" not in signed):
                body = _REFUSAL.format(signed).encode()
                start_response(
                    "403 Forbidden", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
                )
                return [body]
            broken = next((one for one in server.broken if one[0] == method), None)
            if broken is None:
                return list(app(environ, start_response))
            server.broken.remove(broken)
            _, status, handled = broken
            if handled:
                list(app(environ, lambda *_: None))
            start_response(f"{status} Broken", [("Content-Length", "0")])
            return [b""]

    http = make_server("127.0.0.1", 0, serve, threaded=True)
    server = S3Server(http.server_port)
    thread = Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        server.client().create_bucket(Bucket=BUCKET)
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
