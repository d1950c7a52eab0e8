"""Reads rows by their ids.

1. Row n of the result is the row with the n-th id; an id that is given twice comes twice. A DataFrame has each row
   once, in no order.
2. The caller chooses what happens to ids that no live row has; without a choice they are an error.
3. A DataFrame is a scan of the files that hold the rows, with every other row hidden. Nothing is joined, and this
   process holds an array of ids and a bitmap per file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.errors import Invalid, UnknownRow
from holdfast.index.reader import Metadata, PinnedReader
from holdfast.model.files import hiding
from holdfast.model.snapshot import HiddenRows
from holdfast.parquet.read import output_schema
from holdfast.plan.engine import Engine
from holdfast.plan.scan.request import Request, plan_scan
from holdfast.rows.stamp import LARGEST_ID

RowIds: TypeAlias = Iterable[int] | NDArray[Any] | pa.Array | pa.ChunkedArray
Frame = TypeVar("Frame")

_SHOWN = 5


class Missing(Enum):
    """What to do about ids that no live row has."""

    ERROR = "error"
    NULL = "null"  # a row of nulls
    SKIP = "skip"

    @classmethod
    def of(cls, name: str) -> Missing:
        choices = {choice.value: choice for choice in cls}
        if name not in choices:
            raise Invalid(f"missing= is one of {', '.join(choices)}, not {name!r}")
        return choices[name]


def take(
    reader: PinnedReader,
    row_ids: RowIds,
    columns: Sequence[str] | None = None,
    metadata: Metadata = (),
    missing: Missing = Missing.ERROR,
) -> pa.Table:
    """The rows with these ids."""
    ids = whole_numbers(row_ids)
    schema = output_schema(reader.read_spec(columns, metadata))
    places = reader.locate(ids)
    live = np.flatnonzero(places.live)
    if len(live) < len(ids) and missing is Missing.ERROR:
        raise _unknown(reader, ids[~places.live])
    rows = reader.take_at(places.files[live], places.positions[live], columns, metadata)
    if len(live) == len(ids) or missing is Missing.SKIP:
        return rows
    at = np.zeros(len(ids), np.int64)
    at[live] = np.arange(len(live))
    nullable = pa.schema([f.with_nullable(True) for f in schema], schema.metadata)
    order = pa.array(at, mask=~places.live)
    if not len(live):
        return pa.Table.from_arrays([pa.nulls(len(ids), f.type) for f in nullable], schema=nullable)
    return rows.take(order).cast(nullable)


def take_frame(
    reader: PinnedReader,
    row_ids: NDArray[np.int64],
    engine: Engine[Frame],
    columns: Sequence[str] | None = None,
    metadata: Metadata = (),
    missing: Missing = Missing.ERROR,
) -> Frame:
    """The rows with these ids, as the engine gives rows."""
    if missing is Missing.NULL:
        raise Invalid('a DataFrame has no row for an id that is not there: say missing="skip", or use take()')
    places = reader.locate(row_ids)
    if missing is Missing.ERROR and not places.live.all():
        raise _unknown(reader, row_ids[~places.live])
    numbers, positions = places.files[places.live], places.positions[places.live]
    order = np.argsort(numbers, kind="stable")
    touched, starts = np.unique(numbers[order], return_index=True)
    chosen = np.zeros(len(reader.snapshot.files), np.bool_)
    chosen[touched] = True
    plan = plan_scan(reader.snapshot, Request(columns, None, metadata))
    files = plan.files.filter(pa.array(chosen))
    parts = np.split(positions[order], starts[1:]) if len(touched) else []
    counts = reader.counts[touched].tolist()
    others = [_others(part, count) for part, count in zip(parts, counts, strict=True)]
    keys = files.column("key").to_pylist()  # files that hold a row
    return engine.scan(replace(plan, files=hiding(files)), HiddenRows(dict(zip(keys, others, strict=True))))


def _others(positions: NDArray[np.int64], count: int) -> BitMap64:
    """All positions of a file but these."""
    rest = BitMap64()
    rest.add_range(0, count)
    return rest - BitMap64(positions.astype(np.uint64))


def whole_numbers(row_ids: RowIds) -> NDArray[np.int64]:
    """Row ids as an array; refuses what can be none."""
    if isinstance(row_ids, pa.Array | pa.ChunkedArray):
        if row_ids.null_count:
            raise Invalid(f"row ids are whole numbers, and {row_ids.null_count} of these are null")
        values = row_ids.to_numpy(zero_copy_only=False) if isinstance(row_ids, pa.Array) else row_ids.to_numpy()
    elif isinstance(row_ids, str | bytes) or not isinstance(row_ids, Iterable):
        raise Invalid(f"take() wants a list or an array of row ids, not {row_ids!r}")
    else:
        values = row_ids if isinstance(row_ids, np.ndarray) else _listed(row_ids)
    if values.ndim != 1 or (len(values) and values.dtype.kind not in "iu"):
        raise Invalid(f"row ids are a list of whole numbers, not {values.dtype} of {values.ndim} dimensions")
    ids: NDArray[np.int64] = values.astype(np.int64)  # one beyond the largest turns negative, as no row's is
    return ids


def _listed(row_ids: Iterable[Any]) -> NDArray[Any]:
    values = list(row_ids)
    if set(map(type, values)) <= {int}:
        try:
            return np.array(values, np.int64)
        except OverflowError:  # the way below says what becomes of such
            pass
    wrong = [v for v in values if isinstance(v, bool) or not isinstance(v, int | np.integer)]
    if wrong:
        raise Invalid(f"row ids are whole numbers, not {wrong[0]!r}")
    return np.array([v if 0 <= v <= LARGEST_ID else -1 for v in values], np.int64)


def _unknown(reader: PinnedReader, dead: NDArray[np.int64]) -> UnknownRow:
    some = np.unique(dead)
    shown = ", ".join(map(str, some[:_SHOWN].tolist())) + (", ..." if len(some) > _SHOWN else "")
    snapshot = reader.snapshot
    return UnknownRow(
        f"version {snapshot.version} of {snapshot.location.url} has no row with the id {shown}: "
        f'{len(some)} of the ids asked for were deleted, or never given; leave them out with missing="skip", or have '
        'nulls for them with missing="null"; biography(id) tells what became of one',
        row_ids=tuple(some[:_SHOWN].tolist()),
    )
