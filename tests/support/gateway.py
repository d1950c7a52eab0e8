"""A real S3 server on localhost, Versity's gateway, for the lanes in which every table of a test lies in a bucket.

1. The server keeps an object as a file. The bucket is the directory that pytest's temporary paths lie in, so what a
   test puts there by hand is an object too.
2. While `tables_in_the_bucket` is entered, a local path below that directory opens as `s3a://` and nothing else: no
   operation of Holdfast's reads or writes it as a file. Tables of a catalog in an sqlite file lie there too.
3. It decides conditional puts atomically, as S3 does, and handles requests side by side.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from pyiceberg.catalog import Catalog, load_catalog

from holdfast.formats.iceberg.catalog import tables as catalogs
from holdfast.storage import open as opening
from holdfast.storage.location import Location
from tests.support.s3_access import REGION, S3Access

ROOT = Path(__file__).resolve().parents[2]
ACCESS_KEY, SECRET_KEY = "AKIAHOLDFASTLANE", "averysecretkeyofthelanes"
BUCKET = "holdfast-lane"
_STARTS_WITHIN_S = 20

_running: list[Gateway] = []  # the server of this process's lane, if it has one


@dataclass(frozen=True)
class Gateway(S3Access):
    """A running server, and the directory that is its bucket."""

    access_key = ACCESS_KEY
    secret_key = SECRET_KEY
    port: int
    directory: Path
    bucket: str = BUCKET

    @property
    def hadoop_options(self) -> dict[str, str]:
        """The same in Hadoop's."""
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": REGION,
            "fs.s3a.access.key": ACCESS_KEY,
            "fs.s3a.secret.key": SECRET_KEY,
            "fs.s3a.path.style.access": "true",
        }


def home() -> tuple[Path | None, str]:
    """Where `make s3-server` put the server and the connector; without them, why."""
    look = subprocess.run([ROOT / "scripts/s3-server.sh", "--look"], capture_output=True, text=True)
    return (Path(look.stdout.strip()), "") if look.returncode == 0 else (None, look.stderr.strip())


def connector(server: Gateway) -> dict[str, str]:
    """Settings of a Spark session that reaches the server by Hadoop's connector."""
    files, _ = home()
    assert files is not None, "the server of this lane came from there"
    jars = ",".join(str(jar) for jar in sorted((files / "jars").glob("*.jar")))
    return {"spark.jars": jars} | {f"spark.hadoop.{name}": value for name, value in server.hadoop_options.items()}


@contextmanager
def gateway(files: Path, root: Path) -> Iterator[Gateway]:
    """Start the server that is in `files`, whose buckets are the directories of `root`, with one bucket in it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (root / BUCKET).mkdir(parents=True, exist_ok=True)
    command = [files / "versitygw", "--port", f"127.0.0.1:{port}", "--quiet", "--keep-alive"]
    command += ["posix", "--default-etag", "none", root]
    keys = {"ROOT_ACCESS_KEY_ID": ACCESS_KEY, "ROOT_SECRET_ACCESS_KEY": SECRET_KEY}
    running = subprocess.Popen(command, env=os.environ | keys, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + _STARTS_WITHIN_S
        while socket.socket().connect_ex(("127.0.0.1", port)) != 0:
            assert running.poll() is None, "the S3 server ended as it started"
            assert time.monotonic() < until, "the S3 server does not answer"
            time.sleep(0.1)
        yield Gateway(port, root / BUCKET)
    finally:
        running.terminate()
        running.wait()


def address(path: Path | str) -> str:
    """The URL of a local path: `file:`, but on an S3 lane that of the object it is there, if it lies in the bucket."""
    full = str(Path(path).absolute())
    for server in _running:
        if full.startswith(below := f"{server.directory}/"):
            return f"s3a://{BUCKET}/{full.removeprefix(below)}"
    return f"file://{full}"


def placed(root: str) -> str:
    """A root as the metadata of a table in it spells it: as it is, but on an S3 lane the URL of what is there."""
    url = root if "://" in root else address(root)
    return root if url.startswith("file:") else url


def io_settings() -> dict[str, str]:
    """What a catalog of pyiceberg's must know to write files itself; nothing where they are local."""
    found = {}
    for server in _running:
        found = {"s3.endpoint": server.endpoint, "s3.region": REGION}
        found |= {"s3.access-key-id": ACCESS_KEY, "s3.secret-access-key": SECRET_KEY}
    return found


@contextmanager
def tables_in_the_bucket(server: Gateway) -> Iterator[None]:
    """Open local paths below the server's directory through the server, as a user of Spark's connector spells them."""
    local = opening._local

    def in_bucket(path: str, storage_options: Mapping[str, str] | None) -> Location:
        if (url := address(path)).startswith("file:"):
            return local(path, storage_options)
        return opening._opened(url, storage_options)

    def beside(path: str) -> Catalog:
        place = Path(path).absolute()
        return load_catalog("holdfast", type="sql", uri=f"sqlite:///{place}", warehouse=address(place.parent))

    variables = {name.upper(): value for name, value in server.options.items()}
    variables |= {"AWS_ALLOW_HTTP": "true", "AWS_ENDPOINT_URL": server.endpoint}  # obstore's, and that of other clients
    _running.append(server)
    try:
        with (
            patch.object(opening, "_local", in_bucket),
            patch.object(catalogs, "_sqlite", beside),
            patch.dict(os.environ, variables),
        ):
            yield
    finally:
        _running.remove(server)
