"""Publishes rows in this process: a whole table a few batches at a time, a net change at once."""

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
from holdfast.plan.publish.rows import Arriving, ChangedIds, Storage, Whole, removed_part, stored_part
from holdfast.rows.columns import ROW_ID


def changed_ids(plan: ChangesPlan) -> ChangedIds:
    """The ids of rows that a net change updates or deletes."""
    rows = changes(removed_part(plan))
    updated, deleted = (_ids(rows.filter(pc.equal(rows.column(CHANGE_TYPE), kind))) for kind in (BEFORE, DELETE))
    return ChangedIds(updated, deleted)


def locate(place: LocatedRows, ids: BitMap64) -> Positions:
    """Where the live rows with these ids are."""
    wanted = np.array(ids.to_array(), np.int64)
    by_file: dict[str, BitMap64] = {}
    if not len(wanted):
        return by_file
    for key, batches in files_of(place.plan, place.hidden, RowColumns("", (), identity=True)):
        here = [_positions(batch, wanted) for batch in batches]
        positions = BitMap64(np.concatenate([np.empty(0, np.uint64), *here]))
        if positions:
            by_file[key] = positions
    return by_file


def publish(rows: Arriving, storage: Storage, env: Env, zone: str) -> pa.Table:
    """Store rows with their ids."""
    with ExitStack() as stack:
        stores = Stores(Storing(storage.spec), storage.location, env, stack)
        for part in _parts(rows):
            table = prepare(part, storage.fit, storage.demands, zone=zone).table
            stores.write([Pieces(CarriedRows(table, part.column(ROW_ID).combine_chunks()))])
        return stores.closed()[0]


def _parts(rows: Arriving) -> Iterable[pa.Table]:
    match rows:
        case Whole(plan, hidden):
            return (pa.Table.from_batches([batch]) for batch in scan_batches(plan, hidden))
        case ChangesPlan():
            return (changes(stored_part(rows)),)


def _ids(rows: pa.Table) -> BitMap64:
    return BitMap64(rows.column(ROW_ID).to_numpy().astype(np.uint64))


def _positions(batch: pa.RecordBatch, wanted: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The positions of rows whose ids are among those wanted, which ascend."""
    ids = batch.column(ID).to_numpy(zero_copy_only=False).astype(np.int64)
    at = np.minimum(np.searchsorted(wanted, ids), len(wanted) - 1)
    positions: NDArray[np.uint64] = (
        batch.column(INDEX).to_numpy(zero_copy_only=False)[wanted[at] == ids].astype(np.uint64)
    )
    return positions
