"""What is on disk, read by code that is none of Holdfast's.

A Delta table is read here from its commits alone: JSON, pyarrow's Parquet and pyroaring's bitmaps. An Iceberg table is
read by DuckDB, and its metadata as the JSON it is.

1. Nothing of the library is imported.
2. A row comes with its id and the version it was last changed in, as the formats define them.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyroaring import BitMap64

from tests.support.iceberg_peers import duckdb_connection

Row = dict[str, Any]
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TRACKING = "delta.rowTracking.materialized"
_TYPES = {"long": int, "string": str}


class Witnessed(NamedTuple):
    """A table as it is: its newest version, and by row id the version and the values of each row."""

    version: int
    rows: dict[int, tuple[int, Row]]


def delta(path: Path) -> Witnessed:
    """A Delta table by its commits, which must all be there."""
    commits = sorted((path / "_delta_log").glob("[0-9]*.json"))
    commits = [file for file in commits if file.name.removesuffix(".json").isdigit()]
    assert [int(file.stem) for file in commits] == list(range(len(commits))), "no commit is missing"
    live: dict[str, Row] = {}
    metadata: Row = {}
    for file in commits:
        for line in file.read_text().splitlines():
            action = json.loads(line)
            metadata = action.get("metaData", metadata)
            if "remove" in action:
                live.pop(_logical(action["remove"]), None)
            if "add" in action:
                live[_logical(action["add"])] = action["add"]
    rows: dict[int, tuple[int, Row]] = {}
    for add in live.values():
        for row_id, found in _file_rows(path, add, metadata):
            assert row_id not in rows, f"two rows have the id {row_id}"
            rows[row_id] = found
    return Witnessed(len(commits) - 1, rows)


def clustered(path: Path) -> bool:
    """Whether a Delta table is clustered by columns."""
    found: list[Any] = []
    for file in sorted((path / "_delta_log").glob("[0-9]*.json")):
        for line in file.read_text().splitlines():
            told = json.loads(line).get("domainMetadata", {})
            if told.get("domain") == "delta.clustering":
                found = [] if told.get("removed") else json.loads(told["configuration"])["clusteringColumns"]
    return bool(found)


def _logical(action: Row) -> str:
    dv = action.get("deletionVector") or {}
    return json.dumps([action["path"], dv.get("storageType"), dv.get("pathOrInlineDv"), dv.get("offset")])


def _file_rows(path: Path, add: Row, metadata: Row) -> Any:
    settings = metadata["configuration"]
    ids_in, versions_in = (settings.get(f"{_TRACKING}{name}ColumnName") for name in ("RowId", "RowCommitVersion"))
    fields = json.loads(metadata["schemaString"])["fields"]
    stored = pq.ParquetFile(path / unquote(add["path"])).read().to_pylist()
    hidden = _hidden(path, add["deletionVector"]) if add.get("deletionVector") else BitMap64()
    assert json.loads(add["stats"])["numRecords"] == len(stored)
    for position, raw in enumerate(stored):
        if position in hidden:
            continue
        row = {}
        for field in fields:
            name = field["metadata"].get("delta.columnMapping.physicalName", field["name"])
            if name in add["partitionValues"]:
                text = add["partitionValues"][name]
                row[field["name"]] = None if text is None else _TYPES[field["type"]](text)
            else:
                row[field["name"]] = raw.get(name)
        own_id, own_version = raw.get(ids_in), raw.get(versions_in)
        row_id = add["baseRowId"] + position if own_id is None else own_id
        yield row_id, (add["defaultRowCommitVersion"] if own_version is None else own_version, row)


def _hidden(path: Path, dv: Row) -> BitMap64:
    """A deletion vector: a magic number, then a bitmap in the portable format."""
    if dv["storageType"] == "i":
        data = _z85(dv["pathOrInlineDv"])[: dv["sizeInBytes"]]
    else:
        assert dv["storageType"] == "u"
        prefix, name = dv["pathOrInlineDv"][:-20], _z85(dv["pathOrInlineDv"][-20:]).hex()
        uuid = "-".join((name[:8], name[8:12], name[12:16], name[16:20], name[20:]))
        file = path / prefix / f"deletion_vector_{uuid}.bin"
        data = file.read_bytes()[dv["offset"] + 4 :][: dv["sizeInBytes"]]
    assert struct.unpack("<I", data[:4]) == (1681511377,)
    found = BitMap64.deserialize(data[4:])
    assert len(found) == dv["cardinality"]
    return found


def _z85(text: str) -> bytes:
    out = b""
    for at in range(0, len(text), 5):
        value = 0
        for letter in text[at : at + 5]:
            value = value * 85 + _ALPHABET.index(letter)
        out += value.to_bytes(4, "big")
    return out


def iceberg(catalog: Path) -> Witnessed:
    """The one table of a catalog, by DuckDB; its version is a sequence number, as rows have it."""
    with sqlite3.connect(catalog) as connection:
        ((location,),) = connection.execute("select metadata_location from iceberg_tables").fetchall()
    path = location.removeprefix("file://")
    metadata = json.loads(Path(path).read_text())
    if metadata.get("current-snapshot-id") in (None, -1):
        return Witnessed(metadata["last-sequence-number"], {})
    current = next(s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])
    names = [*(f'"{f["name"]}"' for f in current["fields"]), "_row_id", "_last_updated_sequence_number"]
    read = duckdb_connection().execute(f"select {', '.join(names)} from iceberg_scan('{path}')").to_arrow_table()
    rows: dict[int, tuple[int, Row]] = {}
    for row in read.to_pylist():
        row_id, version = row.pop("_row_id"), row.pop("_last_updated_sequence_number")
        assert row_id not in rows, f"two rows have the id {row_id}"
        rows[row_id] = version, row
    return Witnessed(metadata["last-sequence-number"], rows)
