"""Read Iceberg tables without Spark, side by side with DuckDB's extension and with pyiceberg.

A table of `--rows` rows in some files, 1 % of them deleted and scattered, once by deletion vectors (version 3) and once
by position-delete files (version 2); the same table asked for nothing but metadata columns; and a table of 100,000
files, of which only manifests exist, asked for the number of its files. Everything runs in this process, on files that
are in the system's cache.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import numpy as np
import pyarrow as pa
from harness import DATA, OURS, Case, Goal, Report, Took, arguments, emit, machine
from pyiceberg.table import StaticTable
from tables import once

from holdfast import IcebergTable
from holdfast.formats.iceberg.avro.reader import read_container
from holdfast.formats.iceberg.avro.writer import write_container

ROWS = {"quick": 400_000, "default": 4_000_000, "full": 20_000_000}
FILES = 8
LISTED = {"quick": 20_000, "default": 100_000, "full": 100_000}
MANIFESTS = 10
ROUNDS = 5
DUCKDB, PYICEBERG = "DuckDB", "pyiceberg"


def main() -> None:
    asked = arguments(__doc__.splitlines()[0], unit="rows the tables have").parse_args()
    size = "quick" if asked.quick else "full" if asked.full else "default"
    rows = asked.rows or ROWS[size]
    cases = []
    for version, how in ((3, "deletion vectors"), (2, "position deletes")):
        place = once(DATA / f"iceberg-{rows}-v{version}", partial(write, rows=rows, version=version))
        metadata = metadata_of(place)
        live = rows - rows // 100
        cases.append(_case(f"all of {rows:,} rows, 1 % deleted by {how}", live, _readers(metadata)))
        where = f"id >= {rows // 2} and id < {rows // 2 + rows // 20}"
        cases.append(_case(f"a twentieth of them by a condition ({how})", live // 20, _readers(metadata, where)))
    place = once(DATA / f"iceberg-{rows}-v3", partial(write, rows=rows, version=3))
    cases.append(_case(f"_file and _pos of {rows:,} rows, and nothing else", live, _addresses(metadata_of(place))))
    files = LISTED[size]
    place = once(DATA / f"iceberg-{files}-files", partial(_write_many, files=files))
    cases.append(_case(f"list {files:,} files in {MANIFESTS} manifests", files, _listings(metadata_of(place))))
    goals = [_not_slower(case, peer) for case in cases for peer in (DUCKDB, PYICEBERG) if peer in case.took]
    emit(Report("iceberg", cases, goals, (machine(),)), as_json=asked.json)


def _case(name: str, expected: int, readers: dict[str, Callable[[], int]]) -> Case:
    """Each reader in turn, some rounds; the first warms up."""
    case = Case(name)
    for round_ in range(ROUNDS + 1):
        for engine, read in readers.items():
            start = time.perf_counter()
            found = read()
            seconds = time.perf_counter() - start
            assert found == expected, f"{engine} found {found} where there are {expected}: {name}"
            if round_:
                case.add(engine, Took(seconds))
    return case


def _not_slower(case: Case, peer: str) -> Goal:
    ratio = case.ratio(peer)
    return Goal(f"not slower than {peer}: {case.name}", ratio is not None and ratio >= 1, ratio)


def _readers(metadata: Path, where: str | None = None) -> dict[str, Callable[[], int]]:
    condition = "" if where is None else f" where {where}"
    connection = _duckdb()

    def theirs() -> int:
        return connection.execute(f"select * from iceberg_scan('{metadata}'){condition}").to_arrow_table().num_rows

    def static() -> int:
        table = StaticTable.from_metadata(str(metadata))
        return int((table.scan() if where is None else table.scan(row_filter=where)).to_arrow().num_rows)

    return {
        OURS: lambda: IcebergTable.forMetadata(None, metadata).toArrow(where=where).num_rows,
        DUCKDB: theirs,
        PYICEBERG: static,
    }


def _addresses(metadata: Path) -> dict[str, Callable[[], int]]:
    """pyiceberg has no such columns."""
    connection = _duckdb()
    query = f"select filename, file_row_number from iceberg_scan('{metadata}')"
    return {
        OURS: lambda: IcebergTable.forMetadata(None, metadata).toArrow([], metadata=["_file", "_pos"]).num_rows,
        DUCKDB: lambda: connection.execute(query).to_arrow_table().num_rows,
    }


def _listings(metadata: Path) -> dict[str, Callable[[], int]]:
    connection = _duckdb()

    def theirs() -> int:
        found = connection.execute(f"select count(*) from iceberg_metadata('{metadata}')").fetchone()
        return 0 if found is None else int(found[0])

    return {
        OURS: lambda: IcebergTable.forMetadata(None, metadata).explain().files_total,
        DUCKDB: theirs,
        PYICEBERG: lambda: len(list(StaticTable.from_metadata(str(metadata)).scan().plan_files())),
    }


def write(place: Path, *, rows: int, version: int) -> None:
    table = _created(place, version)
    each = rows // FILES
    for start in range(0, rows, each):
        ids = np.arange(start, start + each)
        texts = pa.array(ids % 1000).cast(pa.string())
        table.append(pa.table({"id": ids, "name": texts, "x": ids * 0.5}))
    table.delete("id % 100 = 7", mode="merge-on-read")


def _write_many(place: Path, *, files: int) -> None:
    """A table whose manifests list many files that nobody ever wrote, each with the metrics of a real one."""
    table = _created(place, 2)
    table.append(pa.table({"id": np.arange(1000), "name": ["a"] * 1000, "x": np.zeros(1000)}))
    metadata = metadata_of(place)
    told = json.loads(metadata.read_bytes())
    listing = Path(told["snapshots"][-1]["manifest-list"].removeprefix("file://"))
    found = read_container(listing.read_bytes(), where=str(listing))
    (row,) = found.records.to_pylist()
    manifest = Path(row["manifest_path"].removeprefix("file://"))
    inside = read_container(manifest.read_bytes(), where=str(manifest))
    (entry,) = inside.records.to_pylist()
    count, sync = files // MANIFESTS, b"0123456789abcdef"
    rows = []
    for number in range(MANIFESTS):
        paths = (f"{told['location']}/data/{number:03d}-{n:06d}-0123456789abcdef.parquet" for n in range(count))
        entries = ({**entry, "data_file": {**entry["data_file"], "file_path": path}} for path in paths)
        body = write_container(json.loads(inside.header["avro.schema"]), entries, _texts(inside.header), sync=sync)
        copy = manifest.with_name(f"many-{number}.avro")
        copy.write_bytes(body)
        counts: dict[str, Any] = {"added_files_count": count, "added_rows_count": 1000 * count}
        rows.append({**row, "manifest_path": f"file://{copy}", "manifest_length": len(body), **counts})
    body = write_container(json.loads(found.header["avro.schema"]), rows, _texts(found.header), sync=sync)
    listing.write_bytes(body)


def _texts(notes: Any) -> dict[str, str]:
    return {name: value.decode() for name, value in notes.items() if not name.startswith("avro.")}


def _created(place: Path, version: int) -> IcebergTable:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("x", pa.float64())])
    return IcebergTable.create(None, place / "catalog.db", "db.t", schema, formatVersion=version)


def metadata_of(place: Path) -> Path:
    return max(place.rglob("*.metadata.json"), key=lambda path: path.name)


def _duckdb() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"})
    for module in (duckdb_extension_avro, duckdb_extension_iceberg):
        (extension,) = Path(module.__file__).parent.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    return connection


if __name__ == "__main__":
    main()
