"""A REST catalog in this process, with the requests that creating, loading and committing need."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from pyiceberg.catalog import MetastoreCatalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    update_table_metadata,
)
from pyiceberg.typedef import IcebergBaseModel

from holdfast.formats.iceberg.catalog.store_io import through_stores
from tests.support.gateway import address

_OF_A_NEW_TABLE = (AddSnapshotUpdate, SetSnapshotRefUpdate, SetPropertiesUpdate)


class Server(ThreadingHTTPServer):
    """What the handler works on."""

    catalog: MetastoreCatalog
    lock: Lock
    staged: dict[tuple[str, str], Table]  # tables that are made with their first commit
    lost: int = 0  # answers to commits that get lost from now on


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._answer(None)

    def do_HEAD(self) -> None:
        self._answer(None)

    def do_DELETE(self) -> None:
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
            case ["v1", "namespaces"], None:
                return {"namespaces": [list(name) for name in catalog.list_namespaces()]}
            case ["v1", "namespaces"], {"namespace": name}:
                catalog.create_namespace(tuple(name))
                return {"namespace": name, "properties": {}}
            case ["v1", "namespaces", name], _:
                return {"namespace": [name], "properties": dict(catalog.load_namespace_properties(name))}
            case ["v1", "namespaces", name, "tables"], None:
                return {"identifiers": [{"namespace": [name], "name": t[-1]} for t in catalog.list_tables(name)]}
            case ["v1", "namespaces", name, "tables"], dict():
                staged = body.get("stage-create")
                table = (catalog._create_staged_table if staged else catalog.create_table)(
                    (name, body["name"]),
                    Schema.model_validate(body["schema"]),
                    body.get("location"),
                    PartitionSpec.model_validate(body.get("partition-spec") or {"spec-id": 0, "fields": []}),
                    properties=body.get("properties") or {},
                )
                if staged:
                    self.server.staged[name, body["name"]] = table
                return _told(table)
            case ["v1", "namespaces", name, "tables", table_name], None if self.command == "DELETE":
                catalog.drop_table((name, table_name))
                return {}
            case ["v1", "namespaces", name, "tables", table_name], None:
                return _told(catalog.load_table((name, table_name)))
            case ["v1", "transactions", "commit"], {"table-changes": [change]}:
                (name,) = change["identifier"]["namespace"]
                self._commit((name, change["identifier"]["name"]), change)
                return {}
            case ["v1", "namespaces", name, "tables", table_name], dict():
                self._commit((name, table_name), body)
                if self.server.lost:
                    self.server.lost -= 1
                    raise InterruptedError("the answer got lost")
                return _told(catalog.load_table((name, table_name)))
            case _:
                raise NoSuchTableError(f"{self.command} {path}")

    def _commit(self, identifier: tuple[str, str], body: dict[str, Any]) -> None:
        named = {
            "identifier": {"namespace": identifier[:1], "name": identifier[1]},
            **body,
        }  # Java leaves it to the URL
        catalog, asked = self.server.catalog, CommitTableRequest.model_validate(named)
        if (staged := self.server.staged.pop(identifier, None)) is None:
            catalog.commit_table(catalog.load_table(identifier), asked.requirements, asked.updates)
            return
        # The table is what was agreed on when it was staged, and the client says all of that once more.
        rest = tuple(update for update in asked.updates if isinstance(update, _OF_A_NEW_TABLE))
        made = update_table_metadata(staged.metadata, rest)
        catalog._write_metadata(made, staged.io, staged.metadata_location)
        catalog.register_table(identifier, staged.metadata_location)


def _told(table: Table) -> dict[str, Any]:
    metadata = json.loads(IcebergBaseModel.model_dump_json(table.metadata, exclude_none=True))
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


def _error(error: Exception, code: int) -> dict[str, Any]:
    return {"error": {"message": str(error), "type": type(error).__name__, "code": code}}


@contextmanager
def rest_catalog(home: Path) -> Iterator[tuple[dict[str, str], Server]]:
    """The properties of a REST catalog, and the server behind it."""
    server = Server(("127.0.0.1", 0), Handler)
    inner = load_catalog("inner", type="sql", uri=f"sqlite:///{home}/rest.db", warehouse=address(home))
    catalog = through_stores(inner)
    assert isinstance(catalog, MetastoreCatalog), "a database keeps the tables"
    server.catalog, server.lock, server.staged = catalog, Lock(), {}
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield {"type": "rest", "uri": f"http://127.0.0.1:{server.server_address[1]}"}, server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
