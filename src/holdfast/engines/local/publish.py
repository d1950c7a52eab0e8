"""Publish rows from this process, with Arrow: a few batches at a time for a whole table, all of them for a change."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.engines.local.changefeed import changes
from holdfast.engines.local.constraints import prepare
from holdfast.engines.local.reading import ID, INDEX, RowColumns, files_of
from holdfast.engines.local.scan import scan_batches
from holdfast.engines.local.storing import CarriedRows, Pieces, Stores
from holdfast.env import Env
from holdfast.model.format import Storing
from holdfast.plan.changefeed.query import BEFORE, CHANGE_TYPE, DELETE, ChangesPlan
from holdfast.plan.dml.change import Positions
from holdfast.plan.dml.follow import LocatedRows
from holdfast.plan.publish.rows import Arriving, ChangedIds, Storage, Whole, coming, going
from holdfast.rows.columns import ROW_ID


def changed_ids(plan: ChangesPlan) -> ChangedIds:
    """The ids of rows that a net change updates or deletes."""
    told = changes(going(plan))
    updated, deleted = (_ids(told.filter(pc.equal(told.column(CHANGE_TYPE), kind))) for kind in (BEFORE, DELETE))
    return ChangedIds(updated, deleted)


def locate(place: LocatedRows, ids: BitMap64) -> Positions:
    """Where the live rows with these ids are."""
    wanted = np.array(ids.to_array(), np.int64)
    found: dict[str, BitMap64] = {}
    if not len(wanted):
        return found
    for key, batches in files_of(place.plan, place.hidden, RowColumns("", (), identity=True)):
        here = [_positions(batch, wanted) for batch in batches]
        positions = BitMap64(np.concatenate([np.empty(0, np.uint64), *here]))
        if positions:
            found[key] = positions
    return found


def publish(rows: Arriving, storage: Storage, env: Env, zone: str) -> pa.Table:
    """Store rows with their ids."""
    with ExitStack() as stack:
        stores = Stores(Storing(storage.spec), storage.location, env, stack)
        for part in _parts(rows):
            made = prepare(part, storage.fit, storage.demands, zone=zone).table
            stores.write([Pieces(CarriedRows(made, part.column(ROW_ID).combine_chunks()))])
        return stores.closed()[0]


def _parts(rows: Arriving) -> Iterable[pa.Table]:
    match rows:
        case Whole(plan, hidden):
            return (pa.Table.from_batches([batch]) for batch in scan_batches(plan, hidden))
        case ChangesPlan():
            return (changes(coming(rows)),)


def _ids(told: pa.Table) -> BitMap64:
    return BitMap64(told.column(ROW_ID).to_numpy().astype(np.uint64))


def _positions(batch: pa.RecordBatch, wanted: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The positions of rows whose ids are among those wanted, which ascend."""
    ids = batch.column(ID).to_numpy(zero_copy_only=False).astype(np.int64)
    at = np.minimum(np.searchsorted(wanted, ids), len(wanted) - 1)
    positions: NDArray[np.uint64] = (
        batch.column(INDEX).to_numpy(zero_copy_only=False)[wanted[at] == ids].astype(np.uint64)
    )
    return positions
