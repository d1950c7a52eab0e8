"""Writes changed rows into data files, and into change data files where the table has a change data feed.

1. Rows are written in the order they come, but partition by partition within what is handed over at once.
2. Nothing refers to the files yet; one that was begun when something failed is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa

from holdfast.env import Env
from holdfast.model.format import Storing
from holdfast.model.mutation import STAGED
from holdfast.parquet.carried import CarriedIdNotes
from holdfast.parquet.write import RowWriter, WriteSpec, file_names
from holdfast.schema.types import Field
from holdfast.storage.location import Location
from holdfast.storage.sink import open_sink


@dataclass(frozen=True, slots=True)
class CarriedRows:
    """Rows of a table, with the ids and versions they carry; None: they are new, or the table does not track rows."""

    rows: pa.Table
    ids: pa.Array | None = None
    versions: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """Rows of the change data feed, and the kind of change of each."""

    rows: pa.Table
    kinds: pa.Array


@dataclass(frozen=True, slots=True)
class Pieces:
    """What is written together; `copied` of the rows are as they were."""

    data: CarriedRows | None = None
    feed: ChangeRows | None = None
    copied: int = 0


class Stores:
    """Writes rows and their feed below a table."""

    def __init__(self, store: Storing, location: Location, env: Env, stack: ExitStack) -> None:
        """What is open when an error unwinds the stack leaves no file."""
        sink = open_sink(location, env.now_ms)
        self._data, self._feed = store.data, store.feed
        names = file_names(0, env.new_uuid, store.data.codec)
        self._rows = stack.enter_context(RowWriter(store.data, sink, names, notes=CarriedIdNotes))
        self._changes = None
        if store.feed is not None:
            names = file_names(0, env.new_uuid, store.feed.codec, first="cdc")
            self._changes = stack.enter_context(RowWriter(store.feed, sink, names))

    def write(self, pieces: Sequence[Pieces]) -> None:
        """Store rows, and tell of changes where there is a feed."""
        data = [piece.data for piece in pieces if piece.data is not None]
        _write(self._rows, self._data, [_columns(self._data.fields, s.rows, _carried(self._data, s)) for s in data])
        if self._changes is not None and self._feed is not None:
            changes = [piece.feed for piece in pieces if piece.feed is not None]
            fields = self._feed.fields[:-1]  # the last is the kind of change
            _write(self._changes, self._feed, [_columns(fields, t.rows, [t.kinds]) for t in changes])

    def write_parts(self, parts: Iterable[CarriedRows]) -> None:
        """Store rows, each part in files of its own."""
        for part in parts:
            self.write([Pieces(part)])
            self._rows.close()

    def closed(self) -> tuple[pa.Table, pa.Table]:
        """The files that were written: rows, and feed."""
        return _staged(self._rows), STAGED.empty_table() if self._changes is None else _staged(self._changes)


def _carried(spec: WriteSpec, stored: CarriedRows) -> list[pa.Array]:
    nothing = pa.nulls(stored.rows.num_rows, pa.int64())
    pairs = ((spec.id_column, stored.ids), (spec.version_column, stored.versions))
    return [nothing if values is None else values for name, values in pairs if name is not None]


def _columns(fields: Sequence[Field], rows: pa.Table, after: Sequence[pa.Array]) -> pa.Table:
    """Columns by position, as a writer takes them: under plain names, because two may have the same."""
    columns = [*(rows.column(f.name) for f in fields), *after]
    return pa.Table.from_arrays(columns, names=[f"c{at}" for at in range(len(columns))])


def _write(writer: RowWriter, spec: WriteSpec, tables: Sequence[pa.Table]) -> None:
    if not tables:
        return
    rows = pa.concat_tables(tables)
    if spec.partition_columns:
        at = {f.name: number for number, f in enumerate(spec.fields)}
        rows = rows.sort_by([(f"c{at[name]}", "ascending") for name in spec.partition_columns])
    for batch in rows.to_batches():
        writer.write(batch)


def _staged(writer: RowWriter) -> pa.Table:
    writer.close()
    return pa.Table.from_batches([writer.taken()]).cast(STAGED)
