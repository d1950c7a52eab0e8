"""Engines that share this process: delta-rs (`deltalake`) and DuckDB with its delta extension.

1. An engine gives the rows of a table, all of them or those a condition leaves, as one Arrow table, and makes the
   changes it offers.
2. Neither needs the network: DuckDB loads its extension from the wheel.
3. What an engine refuses is raised as `Refused`, in its own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import deltalake
import duckdb
import duckdb_extension_delta
import pyarrow as pa

from holdfast import DeltaTable
from tests.interop.answers import Refused, plain
from tests.interop.changes import APPEND, DELETE, MERGE, OPTIMIZE, UPDATE, Change
from tests.interop.features import Recipe
from tests.interop.rows import canonical, expected, written


class Engine(Protocol):
    """Someone else who reads and changes tables."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def offers(self) -> tuple[Change, ...]:
        """The changes it can be asked for, in the order in which they are made."""

    def rows(
        self, recipe: Recipe, path: Path, where: Sequence[str] = ("true",), *, ids: bool = False
    ) -> list[pa.Table]:
        """The rows that each condition leaves, with row ids if asked and if it knows them."""

    def change(self, recipe: Recipe, path: Path, wanted: Change) -> None: ...


@dataclass(frozen=True)
class InProcess:
    """An engine that is a library."""

    name: str
    version: str
    offers: tuple[Change, ...]
    read: Callable[[Path, str], pa.Table]
    make: Callable[[Recipe, Path, Change], None]

    def rows(
        self, recipe: Recipe, path: Path, where: Sequence[str] = ("true",), *, ids: bool = False
    ) -> list[pa.Table]:
        with _refusing():
            return [self.read(path, condition) for condition in where]

    def change(self, recipe: Recipe, path: Path, wanted: Change) -> None:
        with _refusing():
            self.make(recipe, path, wanted)


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except (deltalake.exceptions.DeltaError, duckdb.Error, OSError, ValueError) as error:
        raise Refused(str(error)) from error


def _read_delta_rs(path: Path, where: str) -> pa.Table:
    table = deltalake.DeltaTable(str(path))
    found = deltalake.QueryBuilder().register("t", table).execute(f"select * from t where {where}").read_all()
    return pa.table(found)


def _change_delta_rs(recipe: Recipe, path: Path, wanted: Change) -> None:
    table = deltalake.DeltaTable(str(path))
    match wanted.name:
        case APPEND.name:
            deltalake.write_deltalake(table, _given(recipe, path, wanted.added), mode="append")
        case UPDATE.name:
            table.update(predicate=f"id IN {wanted.updated}", updates={"v": str(wanted.value)})
        case MERGE.name:
            rows = _given(recipe, path, (*wanted.updated, *wanted.added))
            given = {name: f"s.{name}" for name in rows.column_names}
            merge = table.merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
            merge.when_matched_update({"v": str(wanted.value)}).when_not_matched_insert(given).execute()
        case DELETE.name:
            table.delete(f"id IN {wanted.deleted}")
        case OPTIMIZE.name:
            table.optimize.compact()


def _given(recipe: Recipe, path: Path, ids: Sequence[int]) -> pa.Table:
    """Rows for delta-rs, which takes variants only as the two binaries that they are stored as."""
    rows = written(recipe, ids)
    if "variant" not in recipe:
        return rows
    there = DeltaTable.forPath(None, path).toArrow(columns=["var"])
    stored = dict(zip(plain(there)["var"].to_pylist(), there["var"].to_pylist(), strict=True))
    made = pa.array([stored[canonical(text)] for text in rows["var"].to_pylist()], _VARIANT)
    return rows.set_column(rows.column_names.index("var"), "var", made)


_VARIANT = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])


def _read_duckdb(path: Path, where: str) -> pa.Table:
    return _duckdb().execute(f"select * from delta_scan('{path}') where {where}").to_arrow_table()


def _change_duckdb(recipe: Recipe, path: Path, wanted: Change) -> None:
    assert wanted is APPEND, "DuckDB only appends"
    connection = _duckdb()
    rows = expected(recipe, wanted.added)  # every column: it computes none
    if "identity" in recipe and "number" not in rows.column_names:
        rows = rows.append_column("number", rows["id"])
    connection.register("given", rows)
    connection.execute(f"ATTACH '{path}' AS target (TYPE delta)")
    connection.execute("INSERT INTO target BY NAME SELECT * FROM given")


def _duckdb() -> duckdb.DuckDBPyConnection:
    """A connection of its own for every request: an internal error ends the whole database of a connection."""
    (extension,) = Path(duckdb_extension_delta.__file__).parent.rglob("*.duckdb_extension")
    offline = {"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"}
    connection = duckdb.connect(config=offline)
    connection.execute(f"LOAD '{extension}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


DELTA_RS = InProcess(
    "delta-rs", deltalake.__version__, (APPEND, UPDATE, MERGE, DELETE, OPTIMIZE), _read_delta_rs, _change_delta_rs
)
DUCKDB = InProcess("DuckDB", duckdb.__version__, (APPEND,), _read_duckdb, _change_duckdb)
IN_PROCESS = (DELTA_RS, DUCKDB)
