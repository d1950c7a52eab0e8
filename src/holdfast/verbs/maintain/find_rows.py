"""Searches files of any version for rows with certain ids or values.

1. Every row of a file is read, hidden ones too, unless the caller says which to leave out.
2. A row that has one of the ids and satisfies the condition counts once.
3. A file without a base row id, from before its table tracked rows, is searched by the condition only.
4. A file of no version is searched for the ids it carries itself; one that cannot be read may hold anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from holdfast.errors import Damaged, MissingFile, Unsupported
from holdfast.model.files import FileTable
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.parquet.source import open_source
from holdfast.plan.engine import Engine
from holdfast.plan.scan.request import Condition, Request, known_columns, plan_scan
from holdfast.plan.scan.search import FILE_COLUMN, ID_COLUMN, INDEX_COLUMN, RowSearch
from holdfast.rows.columns import FILE, ROW_ID, ROW_INDEX
from holdfast.storage.location import Location
from holdfast.verbs.dml.assignments import Value
from holdfast.verbs.dml.delete_update import ExecutionContext

_READERS = 16


@dataclass(frozen=True)
class Sought:
    """Rows that are looked for: those with any of the ids, and those that satisfy the condition."""

    ids: BitMap64 = field(default_factory=BitMap64)
    where: Condition | None = None


def understood(snapshot: Snapshot, condition: Value, caller: ExecutionContext) -> Condition:
    """A condition, as files of any age can be asked for it."""
    columns = known_columns(snapshot, ())
    where = caller.engine.condition(condition, columns)
    if not caller.engine.understands(where.predicate):
        raise Unsupported(
            f"without Spark nobody can look for rows with {condition} in files of old versions: compare columns with "
            "literals, or open the table with a session"
        )
    return where


def holders(
    snapshot: Snapshot,
    files: FileTable,
    sought: Sought,
    engine: Engine[object],
    *,
    hidden: HiddenRows | None = None,
) -> Mapping[str, int]:
    """How many of the rows each file holds; files without any are absent."""
    searches = list(_searches(snapshot, files, sought))
    if not searches:
        return {}
    keys = files.column("key").to_pylist()  # one per file
    by_uri = dict(zip(map(snapshot.location.spark_uri, keys), keys, strict=True))
    counts = engine.rows_by_file(searches, hidden or HiddenRows())
    return {by_uri[uri]: rows for uri, rows in counts.items()}


def ids_where(snapshot: Snapshot, files: FileTable, where: Condition, engine: Engine[object]) -> BitMap64:
    """The ids of rows in some files that satisfy a condition, hidden ones too; files without ids give none."""
    tracked = files.filter(pc.is_valid(files.column("base_row_id")).combine_chunks()) if len(files) else files
    if not len(tracked):
        return BitMap64()
    plan = replace(plan_scan(snapshot, Request((), where, {ROW_ID: ID_COLUMN})), files=tracked)
    return engine.id_bitmap(plan, HiddenRows(), ID_COLUMN)


def carriers(location: Location, keys: Sequence[str], column: str | None, ids: BitMap64) -> list[str]:
    """Those of some files that no version has which carry one of these ids, or cannot be read."""
    wanted = np.fromiter(ids, np.int64, len(ids))

    def carries(key: str) -> bool:
        try:
            file = pq.ParquetFile(open_source(location.store, location.key(key), None))
            if column is None or column not in file.schema_arrow.names:
                return False
            own = file.read([column]).column(0).drop_null().to_numpy()
        except MissingFile:
            return False
        except (Damaged, pa.ArrowException, OSError):
            return True
        return bool(np.isin(own, wanted).any())

    with ThreadPoolExecutor(_READERS) as pool:
        return [key for key, carries_one in zip(keys, pool.map(carries, keys), strict=True) if carries_one]


def _searches(snapshot: Snapshot, files: FileTable, sought: Sought) -> Iterator[RowSearch]:
    """The scans of a search."""
    if not len(files):
        return
    if sought.where is not None:
        request = Request((), sought.where, {FILE: FILE_COLUMN, ROW_INDEX: INDEX_COLUMN})
        yield RowSearch(replace(plan_scan(snapshot, request), files=files))
    tracked = files.filter(pc.is_valid(files.column("base_row_id")).combine_chunks())
    if sought.ids and len(tracked):
        request = Request((), None, {FILE: FILE_COLUMN, ROW_INDEX: INDEX_COLUMN, ROW_ID: ID_COLUMN})
        yield RowSearch(replace(plan_scan(snapshot, request), files=tracked), sought.ids)
