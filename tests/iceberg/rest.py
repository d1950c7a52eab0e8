"""A REST catalog in this process: as much of one as a client that creates, loads and commits asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.typedef import IcebergBaseModel

from holdfast.iceberg.commit_io import through_stores


class Server(ThreadingHTTPServer):
    """What the handler works on."""

    catalog: Catalog
    lock: Lock
    lost: int = 0  # answers to commits that get lost from now on


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._answer(None)

    def do_HEAD(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}"))

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _answer(self, body: dict[str, Any] | None) -> None:
        try:
            with self.server.lock:
                status, answer = 200, self._done(self.path.partition("?")[0].strip("/").split("/"), body)
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            status, answer = 404, _error(error, 404)
        except (CommitFailedException, NamespaceAlreadyExistsError) as error:
            status, answer = 409, _error(error, 409)
        except InterruptedError as error:
            status, answer = 502, _error(error, 502)
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _done(self, path: list[str], body: dict[str, Any] | None) -> Any:
        catalog = self.server.catalog
        match path, body:
            case ["v1", "config"], _:
                return {"defaults": {}, "overrides": {}}
            case ["v1", "namespaces"], {"namespace": name}:
                catalog.create_namespace(tuple(name))
                return {"namespace": name, "properties": {}}
            case ["v1", "namespaces", name], _:
                return {"namespace": [name], "properties": dict(catalog.load_namespace_properties(name))}
            case ["v1", "namespaces", name, "tables"], dict():
                table = catalog.create_table(
                    (name, body["name"]),
                    Schema.model_validate(body["schema"]),
                    body.get("location"),
                    PartitionSpec.model_validate(body.get("partition-spec") or {"spec-id": 0, "fields": []}),
                    properties=body.get("properties") or {},
                )
                return _told(table)
            case ["v1", "namespaces", name, "tables", table_name], None:
                return _told(catalog.load_table((name, table_name)))
            case ["v1", "namespaces", name, "tables", table_name], dict():
                asked = CommitTableRequest.model_validate(body)
                catalog.commit_table(catalog.load_table((name, table_name)), asked.requirements, asked.updates)
                if self.server.lost:
                    self.server.lost -= 1
                    raise InterruptedError("the answer got lost")
                return _told(catalog.load_table((name, table_name)))
            case _:
                raise NoSuchTableError(f"{self.command} {path}")


def _told(table: Table) -> dict[str, Any]:
    metadata = json.loads(IcebergBaseModel.model_dump_json(table.metadata, exclude_none=True))
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


def _error(error: Exception, code: int) -> dict[str, Any]:
    return {"error": {"message": str(error), "type": type(error).__name__, "code": code}}


@contextmanager
def rest_catalog(home: Path) -> Iterator[tuple[dict[str, str], Server]]:
    """The properties of a REST catalog, and the server behind it."""
    server = Server(("127.0.0.1", 0), Handler)
    inner = load_catalog("inner", type="sql", uri=f"sqlite:///{home}/rest.db", warehouse=f"file://{home}")
    server.catalog, server.lock = through_stores(inner), Lock()
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield {"type": "rest", "uri": f"http://127.0.0.1:{server.server_address[1]}"}, server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
