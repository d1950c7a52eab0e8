"""Reads the columns of one side of a change, with the file and position of each row.

1. A column has its side's prefix before its name, so that two sides fit into one batch, and so does a metadata column
   that clauses name; INDEX, ID and VERSION have none.
2. Files of a store that is a round trip away are read side by side, and come in their order all the same.
3. A row's address is the key of its file and its physical position there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.engines.local.equality_deletes import gone_rows
from holdfast.engines.local.side_by_side import side_by_side
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.parquet.read import read_batches
from holdfast.parquet.source import open_source
from holdfast.plan.dml.change import Positions
from holdfast.plan.scan.metadata_columns import NO_METADATA, MetadataColumns
from holdfast.plan.scan.request import Request, ScanPlan, plan_scan
from holdfast.plan.scan.tasks import planned_files, read_spec
from holdfast.rows.columns import ROW_COMMIT_VERSION, ROW_ID, ROW_INDEX
from holdfast.rows.words import mask
from holdfast.schema.arrow import arrow_type
from holdfast.storage.base import is_on_this_machine
from holdfast.storage.open import place

TARGET_PREFIX, SOURCE_PREFIX = "target.", "source."
INDEX, ID, VERSION = "index", "id", "version"
_AT_ONCE = 8  # files that are read at the same time


@dataclass(frozen=True, slots=True)
class RowColumns:
    """What to read of every row: columns by their prefixed names, its position, and its identity where asked for."""

    prefix: str
    columns: Collection[str]
    identity: bool = False
    metadata: MetadataColumns = NO_METADATA  # metadata columns that may be among them

    @property
    def beside(self) -> dict[str, str]:
        """Columns that files do not store as such: what they are called, and their canonical names."""
        named = {self.prefix + name: canonical for name, canonical in self.metadata.canonical.items()}
        return {
            INDEX: ROW_INDEX,
            **({ID: ROW_ID, VERSION: ROW_COMMIT_VERSION} if self.identity else {}),
            **{name: canonical for name, canonical in named.items() if name in self.columns},
        }


def files_of(plan: ScanPlan, hidden: HiddenRows, wanted: RowColumns) -> Iterator[tuple[str, Iterator[pa.RecordBatch]]]:
    """The key of each planned file, and its live rows; the plan's own columns and condition have no say."""
    fields = tuple(f for f in plan.snapshot.schema.fields if wanted.prefix + f.name in wanted.columns)
    beside = wanted.beside
    once = list(dict.fromkeys(beside.values()))  # a column that goes by several names is read once
    scan = replace(plan, columns=fields, metadata=MetadataColumns({name: name for name in once}), where=None)
    spec = read_spec(scan, gone=gone_rows(hidden))
    labels = [*(wanted.prefix + f.name for f in fields), *beside]
    places = [*range(len(fields)), *(len(fields) + once.index(name) for name in beside.values())]

    def labelled(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([batch.column(at) for at in places], labels)

    location = plan.snapshot.location
    if not is_on_this_machine(location.store):
        with closing(side_by_side(location, spec, planned_files(plan, hidden), _AT_ONCE)) as files:
            for planned, batches in files:
                yield planned.key, map(labelled, batches)
        return
    for planned in planned_files(plan, hidden):
        store, key = place(location, planned.key)
        source = open_source(store, key, planned.task.size)
        yield planned.key, map(labelled, read_batches(source, spec, planned.task))


@dataclass(frozen=True)
class Pool:
    """The rows of a pinned source, all of them in memory, in the order of its files."""

    rows: pa.Table
    keys: tuple[str, ...]
    starts: NDArray[np.int64]  # of each file's rows, and the end

    def __len__(self) -> int:
        return int(self.starts[-1])

    def addresses(self, chosen: NDArray[np.bool_]) -> Positions:
        """The positions of some rows, by file."""
        by_file = {
            key: BitMap64(np.flatnonzero(chosen[start:end]).astype(np.uint64))
            for key, start, end in zip(self.keys, self.starts[:-1], self.starts[1:], strict=True)
        }
        return {key: positions for key, positions in by_file.items() if positions}

    def unmet(self, met: Mapping[str, BitMap64]) -> NDArray[np.int64]:
        """The rows that are not among these."""
        left = np.ones(len(self), bool)
        for key, start, end in zip(self.keys, self.starts[:-1], self.starts[1:], strict=True):
            if key in met:  # nothing of a pinned file is hidden, so a row's position is its place among the file's rows
                left[start:end] = ~mask(met[key], 0, int(end - start))
        return np.flatnonzero(left)


def pool_of(snapshot: Snapshot, columns: Collection[str]) -> Pool:
    """Read a pinned source."""
    wanted = RowColumns(SOURCE_PREFIX, columns)
    fields = [f for f in snapshot.schema.fields if SOURCE_PREFIX + f.name in columns]
    schema = pa.schema([*((SOURCE_PREFIX + f.name, arrow_type(f.type)) for f in fields), (INDEX, pa.int64())])
    keys, tables = [], [schema.empty_table()]
    for key, batches in files_of(plan_scan(snapshot, Request()), HiddenRows(), wanted):
        keys.append(key)
        tables.append(pa.Table.from_batches([batch.cast(schema) for batch in batches], schema))
    starts = np.cumsum([0, *(table.num_rows for table in tables[1:])])
    return Pool(pa.concat_tables(tables).combine_chunks(), tuple(keys), starts)
