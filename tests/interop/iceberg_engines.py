"""The near end of Iceberg's other engines: each reads a table, and says of its rows what metadata columns it knows.

1. An engine is asked for the rows of one metadata file; Sail, which takes a directory, for the newest in it.
2. What an engine refuses is raised as `Refused`, in its own words.
3. Rows come with the metadata columns that were asked for, under our names; `tells` lists those that an engine has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.feather
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.table import StaticTable

from bench.harness import Engine as Process
from tests.interop.answers import Refused
from tests.interop.iceberg_home import PYTHON, ROOT
from tests.interop.peer import sentence

LINEAGE = ("_row_id", "_last_updated_sequence_number")
ADDRESS = ("_file", "_pos")
PLACE = ("_spec_id", "_partition", "_deleted")
_PATIENCE_S = 600
_numbers = count()


class Reader(Protocol):
    """Someone else who reads Iceberg tables."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def tells(self) -> tuple[str, ...]:
        """The metadata columns it has."""

    def rows(self, metadata: Path, asked: Sequence[str] = ()) -> pa.Table:
        """The rows of a table, with these of the columns it tells."""


@dataclass(frozen=True)
class Apart:
    """An engine in a process of its own, which takes text and gives rows."""

    name: str
    process: Process
    version: str
    scratch: Path
    tells: tuple[str, ...]
    asking: Callable[[Path, Sequence[str]], str]

    def rows(self, metadata: Path, asked: Sequence[str] = ()) -> pa.Table:
        return self.run(self.asking(metadata, asked))

    def run(self, text: str) -> pa.Table:
        """The answer to a statement."""
        out = self.scratch / f"answer-{next(_numbers)}"
        answer = self.process.call("run", limit_s=_PATIENCE_S, text=text, out=str(out))
        if answer["refused"] is not None:
            raise Refused(sentence(answer["refused"]))
        return pyarrow.feather.read_table(str(out), memory_map=False)


@dataclass(frozen=True)
class PyIceberg:
    """pyiceberg, in this process."""

    name: str = "pyiceberg"
    version: str = version("pyiceberg")
    tells: tuple[str, ...] = ()

    def rows(self, metadata: Path, asked: Sequence[str] = ()) -> pa.Table:
        try:
            return StaticTable.from_metadata(str(metadata)).scan().to_arrow()
        except (ValueError, NotImplementedError, OSError, KeyError) as error:
            raise Refused(str(error)) from error


@dataclass(frozen=True)
class Engines:
    """All of them."""

    java: Apart
    duckdb: Apart
    rust: Apart
    sail: Apart
    pyiceberg: PyIceberg

    @property
    def readers(self) -> tuple[Reader, ...]:
        return (self.java, self.duckdb, self.rust, self.sail, self.pyiceberg)


def start(scratch: Path, uri: str, catalog: MetastoreCatalog, stack: ExitStack) -> Engines:
    """Start all engines; `uri` is where the REST catalog answers that stands before `catalog`."""

    def apart(name: str, tells: tuple[str, ...], asking: Callable[[Path, Sequence[str]], str]) -> Apart:
        command = [PYTHON, "-m", "tests.interop.iceberg_peer", name, uri]
        process = Process(command, {"PYTHONPATH": str(ROOT), "RUST_LOG": "error"})
        stack.callback(process.close)
        return Apart(name, process, process.call("start", limit_s=_PATIENCE_S), scratch, tells, asking)

    def registered(metadata: Path, asked: Sequence[str]) -> str:
        name = f"seen_{next(_numbers)}"
        catalog.register_table(("db", name), f"file://{metadata}")
        return f"SELECT {', '.join(['*', *asked])} FROM rest.db.{name}"

    def scanned(metadata: Path, asked: Sequence[str]) -> str:
        theirs = {"_file": "filename AS _file", "_pos": "file_row_number AS _pos"}
        return f"SELECT {', '.join(['*', *(theirs.get(n, n) for n in asked)])} FROM iceberg_scan('{metadata}')"

    return Engines(
        java=apart("Iceberg Java", (*ADDRESS, *PLACE, *LINEAGE), registered),
        duckdb=apart("DuckDB", (*ADDRESS, *LINEAGE), scanned),
        rust=apart("iceberg-rust", (), lambda metadata, _: str(metadata)),
        sail=apart("Sail", (), lambda metadata, _: f"SELECT * FROM iceberg.`{metadata.parents[1]}`"),
        pyiceberg=PyIceberg(),
    )
