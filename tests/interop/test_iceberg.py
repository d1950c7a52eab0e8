"""Iceberg stories with the readers of this environment, and the page that a whole run would write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.interop.answers import KnownBug, Refused, Refuses, Works, Wrong
from tests.interop.iceberg import reads
from tests.interop.iceberg_engines import ADDRESS, LINEAGE, PyIceberg, Reader
from tests.interop.iceberg_foreign import AFTERWARDS, OURS, THEIRS, Kind
from tests.interop.iceberg_page import section
from tests.interop.iceberg_stories import PLOTS, Plot, tell
from tests.support.iceberg_peers import duckdb_connection


@dataclass(frozen=True)
class DuckDB:
    """DuckDB in this process, as it is asked in its own."""

    name: str = "DuckDB"
    version: str = duckdb.__version__
    tells: tuple[str, ...] = (*ADDRESS, *LINEAGE)

    def rows(self, metadata: Path, asked: Sequence[str] = ()) -> pa.Table:
        theirs = {"_file": "filename AS _file", "_pos": "file_row_number AS _pos"}
        columns = ", ".join(["*", *(theirs.get(name, name) for name in asked)])
        try:
            return duckdb_connection().execute(f"select {columns} from iceberg_scan('{metadata}')").to_arrow_table()
        except duckdb.Error as error:
            raise Refused(str(error)) from error


@pytest.mark.parametrize(
    "plot",
    [Plot("2 to 3", "partitioned anew", "merge-on-read"), Plot("3", "by bucket and day", "copy-on-write")],
    ids=lambda plot: plot.title,
)
def test_stories_are_read_by_others(plot: Plot, tmp_path: Path) -> None:
    assert plot in PLOTS
    for told in tell(plot, tmp_path):
        assert reads(DuckDB(), told) == Works(), told.step
        assert isinstance(reads(PyIceberg(), told), KnownBug), told.step  # null lists of structs, and nothing else


def test_the_page_says_yes_only_where_all_was_right() -> None:
    readers: tuple[Reader, ...] = (DuckDB(), PyIceberg())
    ours = {(reader.name, plot): [] for reader in readers for plot in PLOTS}
    steps = [verb for verb, _ in THEIRS] + [f"{verb} by Holdfast" for verb, _ in OURS] + [v for v, _ in AFTERWARDS]
    right, refused, wrong = Kind(2, False, None), Kind(2, True, None), Kind(3, True, None)
    theirs = {
        ("DuckDB", right): [(step, Works()) for step in steps],
        ("DuckDB", refused): [("create", Refuses("not implemented"))],
        ("DuckDB", wrong): [*((step, Works()) for step in steps[:-1]), (steps[-1], Wrong("a row too many"))],
    }
    text = section(readers, ours, theirs)
    lines = {line.split(" | ")[1]: line for line in text.splitlines() if line.startswith("| DuckDB ")}
    assert lines[right.title].count("yes") == len(dict.fromkeys(steps[:-2])) + 1
    assert "| no [1](#notes-on-iceberg) | - |" in lines[refused.title]
    assert lines[wrong.title].endswith("| **wrong** [2](#notes-on-iceberg) |")
    assert "1. DuckDB: `not implemented`" in text
