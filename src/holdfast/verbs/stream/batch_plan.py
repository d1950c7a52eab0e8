"""Plans a batch of a stream, whole or in parts.

1. Files that are given become inserts, so rows of a first snapshot, of appends and of changes are read in one way.
2. Together the parts hold every row once; rows that have to be paired are in one part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from holdfast.model.files import FILES, FileTable
from holdfast.model.snapshot import HiddenRows, LoadHidden, Snapshot
from holdfast.plan.changefeed.moves import LogicalFiles, Move, Reading, readings
from holdfast.plan.changefeed.query import INSERT, ChangesPlan, Times
from holdfast.verbs.define.backfill import row_counts

PART_BYTES = 16 << 20
PART_FILES = 64


def planned_rows(
    snapshot: Snapshot, files: pa.Table, times: Times, load_hidden: LoadHidden, *, with_ids: bool
) -> ChangesPlan:
    """Plan to read every row of some files as inserted; `files` have the columns of FILES, num_records and version."""
    location = snapshot.location
    entries = LogicalFiles(files.select([*FILES.names, "num_records"]).combine_chunks(), 0)
    entries = entries.counted(row_counts(location, entries.uncounted(), {}))
    hidden = load_hidden(location, entries.hiding())
    rows = zip(entries.ids, files.column("key").to_pylist(), files.column("version").to_pylist(), strict=True)
    moves = [
        Move(n, key, version, None, hidden.positions.get(id_), INSERT) for n, (id_, key, version) in enumerate(rows)
    ]
    tracked = with_ids and snapshot.identity is not None
    read = readings(moves, entries, tracked=tracked)
    plain = snapshot if with_ids else replace(snapshot, identity=None)
    return ChangesPlan(plain, (), (), read, (), frozenset({INSERT}), times, with_ids=with_ids)


def parts(plan: ChangesPlan) -> Iterator[ChangesPlan]:
    """The plan in parts that can be carried out one apart from the other; none where there is nothing to read."""
    plan = replace(plan, snapshot=replace(plan.snapshot, files=FileTable()))  # a part is told its files
    nothing = replace(plan, left=(), arrived=(), certain=(), recorded=())
    for reading in plan.certain:
        yield from (replace(nothing, certain=(r,)) for r in _split(reading))
    for reading in plan.recorded:
        yield from (replace(nothing, recorded=(r,)) for r in _split(reading))
    if plan.left or plan.arrived:
        yield replace(plan, certain=(), recorded=())


def _split(reading: Reading) -> Iterator[Reading]:
    sizes = np.array([size or 0 for size in reading.files.column("size").to_pylist()], np.int64)
    places = np.arange(len(sizes))
    groups = np.maximum.accumulate(np.maximum((np.cumsum(sizes) - sizes) // PART_BYTES, places // PART_FILES))
    keys = reading.files.column("key").to_pylist()
    for group in np.unique(groups):
        chosen = np.flatnonzero(groups == group)
        mine = {keys[n] for n in chosen}
        yield replace(
            reading,
            files=reading.files.filter(pa.array(groups == group, pa.bool_())),
            hidden=HiddenRows({key: rows for key, rows in reading.hidden.positions.items() if key in mine}),
            labels=tuple(reading.labels[n] for n in chosen),
            slices={key: slices for key, slices in reading.slices.items() if key in mine},
        )
