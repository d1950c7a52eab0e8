"""Reads rows by their ids, or by the values of columns through indexes where those help.

1. `take` and `lookup` of a Delta table read one version until a verb of the same table object reads or writes the
   table. Commits of others are visible after `refresh()`.
2. A given version or timestamp is read instead, and does not move the pinned version.
3. `lookup` gives the rows of a scan with the same condition, in the order of a scan, each row once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.errors import TableError
from holdfast.index.keyed import condition_of
from holdfast.index.search import Indexes, pays
from holdfast.plan.scan.request import Condition, Request
from holdfast.predicate.evaluate import matches
from holdfast.predicate.records import Predicate, columns_of, conjunction
from holdfast.predicate.render import render
from holdfast.verbs.open.engine import LOCAL
from holdfast.verbs.open.handle import Handle, Metadata, Timestamp, Version
from holdfast.verbs.read import take as taking
from holdfast.verbs.read.take import Missing, RowIds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def take(
    handle: Handle,
    row_ids: RowIds,
    columns: Sequence[str] | None,
    version: Version,
    timestamp: Timestamp,
    metadata: Metadata,
    missing: str,
) -> pa.Table:
    """The rows with these ids, in the order of the ids."""
    choice = Missing.of(missing)
    return taking.take(handle.reader(version, timestamp), row_ids, columns, metadata, choice)


def take_frame(
    handle: Handle,
    row_ids: RowIds | DataFrame,
    columns: Sequence[str] | None,
    version: Version,
    timestamp: Timestamp,
    metadata: Metadata,
    missing: str,
) -> DataFrame:
    """The rows with these ids as a DataFrame; of ids in a DataFrame only a bitmap reaches this process."""
    engine, choice = handle.on_spark(), Missing.of(missing)
    ids = engine.frame_ids(row_ids)
    if ids is None:
        ids = taking.whole_numbers(row_ids)
    return taking.take_frame(handle.reader(version, timestamp), ids, engine, columns, metadata, choice)


def lookup(
    handle: Handle,
    keys: Mapping[str, Any],
    columns: Sequence[str] | None,
    version: Version,
    timestamp: Timestamp,
    metadata: Metadata,
) -> pa.Table:
    """Rows by the values of columns: through an index where there is one that helps, else by a scan."""
    searchable = handle.searchable(version, timestamp)
    where = condition_of(searchable.snapshot, keys)
    if searchable.indexes is not None:
        rows = by_index(searchable.indexes(), where, columns, metadata)
        if rows is not None:
            return rows
    request = Request(columns, Condition(None, render(where), where), metadata)
    return searchable.opened.scan(request, LOCAL)


def lookup_frame(
    handle: Handle,
    keys: Mapping[str, Any],
    columns: Sequence[str] | None,
    version: Version,
    timestamp: Timestamp,
    metadata: Metadata,
) -> DataFrame:
    """The same rows as a DataFrame: files in which an index finds none are not read."""
    engine, opened = handle.on_spark(), handle.open(version, timestamp)
    where = condition_of(opened.snapshot, keys)
    return opened.scan(Request(columns, engine.column_condition(where), metadata), engine)


def by_index(indexes: Indexes, where: Predicate, columns: Sequence[str] | None, metadata: Metadata) -> pa.Table | None:
    """Rows through an index; None where a scan is better or the only way."""
    choice, _ = indexes.choose(where)
    if choice is None or not pays(choice.hits, indexes.rows()):
        return None
    try:
        files, positions = indexes.places(choice)
    except TableError:  # of a block that only now was read, or of ids that are there twice
        return None
    if choice.query.unsettled:
        left = conjunction(choice.query.unsettled)
        used = sorted({column[0] for column in columns_of(left)})
        kept = matches(indexes.reader.take_at(files, positions, used), left).to_numpy(zero_copy_only=False)
        files, positions = files[kept], positions[kept]
    return indexes.reader.take_at(files, positions, columns, metadata)
