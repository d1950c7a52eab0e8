"""Sorts rows along a curve, or by row id, in memory, and cuts them into the parts of the curve.

1. The curve is that of `engines.spark.dml.cluster`, from a sample where there are many rows.
2. Rows with the same place stay in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.engines.local.storing import CarriedRows, Pieces
from holdfast.plan.dml.change import Order
from holdfast.plan.maintain.curve import PLACE_BITS, SAMPLE_ROWS, curve_of


def in_order(pieces: Sequence[Pieces], order: Order) -> Iterator[CarriedRows]:
    """The rows, part by part."""
    stored = [piece.data for piece in pieces if piece.data is not None]
    if not stored:
        return
    rows = pa.concat_tables([s.rows for s in stored])
    columns = [_column(rows, path) for path in order.columns]
    step = max(1, -(-rows.num_rows // SAMPLE_ROWS))
    sample = pa.array(np.arange(0, rows.num_rows, step))
    curve = curve_of([c.take(sample) for c in columns], order.along, order.parts)
    places = curve.place(columns)
    at = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[at] >> PLACE_BITS, np.arange(curve.parts), side="right")
    carried = _Carried.of(stored)
    for part in np.split(at, ends[:-1]):
        if len(part):
            yield carried.stored(rows, pa.array(part))


def by_id(pieces: Sequence[Pieces]) -> Iterator[CarriedRows]:
    """The rows in the order of their ids."""
    stored = [piece.data for piece in pieces if piece.data is not None]
    carried = _Carried.of(stored)
    if carried.ids is not None:
        yield carried.stored(pa.concat_tables([s.rows for s in stored]), pc.sort_indices(carried.ids))
    else:
        yield from stored


@dataclass(frozen=True)
class _Carried:
    """The identity of rows, where they have one."""

    ids: pa.ChunkedArray | None
    versions: pa.ChunkedArray | None

    @classmethod
    def of(cls, stored: Sequence[CarriedRows]) -> _Carried:
        ids = [s.ids for s in stored if s.ids is not None]
        versions = [s.versions for s in stored if s.versions is not None]
        assert len(ids) == len(versions), "what has an id has a version"
        assert len(ids) in (0, len(stored)), "every row of a table has an id, or none has"
        return cls(pa.chunked_array(ids), pa.chunked_array(versions)) if ids else cls(None, None)

    def stored(self, rows: pa.Table, at: pa.Array) -> CarriedRows:
        if self.ids is None or self.versions is None:
            return CarriedRows(rows.take(at))
        return CarriedRows(rows.take(at), self.ids.take(at).combine_chunks(), self.versions.take(at).combine_chunks())


def _column(rows: pa.Table, path: tuple[str, ...]) -> pa.Array:
    column = rows.column(path[0]).combine_chunks()
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column
