"""Plans a compaction: which files to write together, and which to rewrite alone. Pure.

1. A bin has files of one partition, and a file is in one bin at most.
2. A file with more than the allowed share of hidden rows is rewritten, alone if it is large enough.
3. A bin that does not fill a file has no file larger than the rest of the bin together. So a row is written again only
   when its file at least doubles, and compacting a growing table costs the rows added, times a logarithm.
4. Bins with the most benefit per byte come first; `most_bytes` leaves out the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.model.files import PARTITION, FileTable, may_lose
from holdfast.plan.dml.change import Order
from holdfast.schema.partition import column

TARGET_ROWS = 1 << 20
TARGET_BYTES = 128 << 20
HIDDEN_SHARE = 0.1  # of a file's rows: above it a rewrite pays


@dataclass(frozen=True, slots=True)
class CompactionLimits:
    """The target file size of a compaction, and what it may cost."""

    target_rows: int = TARGET_ROWS
    target_bytes: int = TARGET_BYTES
    materialize_deletions_threshold: float = HIDDEN_SHARE
    most_bytes: int | None = None  # to be written in all


@dataclass(frozen=True, slots=True)
class _CompactedFile:
    at: int  # in the table of files
    rows: int  # live
    size: int  # of these rows
    hidden: float  # share of its rows


@dataclass(frozen=True)
class Group:
    at: NDArray[np.int64]  # in the table of files
    rows: NDArray[np.int64]  # live
    size: NDArray[np.int64]  # of these rows
    hidden: NDArray[np.float64]  # share of the rows


@dataclass(frozen=True)
class Bin:
    """Files to write together: as one file, or as many as their order has parts."""

    files: FileTable
    rows: int
    bytes: int
    why: str
    order: Order | None = None  # of the rows; None: any
    level: int = 0  # of the cube they become

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.files.column("key").to_pylist())


def plan_compaction(files: FileTable, partition_names: Sequence[str], limits: CompactionLimits) -> tuple[Bin, ...]:
    """The bins worth writing, best first; `partition_names` are physical."""
    if not len(files):
        return ()
    bins = []
    for group in groups(files, partition_names):
        columns = (group.at, group.rows, group.size, group.hidden)
        bins += list(_bins([_CompactedFile(*f) for f in zip(*(c.tolist() for c in columns), strict=True)], limits))
    bins.sort(key=_benefit, reverse=True)
    chosen, written = [], 0
    for members in bins:
        size = sum(f.size for f in members)
        if limits.most_bytes is not None and written + size > limits.most_bytes:
            continue
        written += size
        chosen.append(members)
    return tuple(_bin(files, members, limits) for members in chosen)


def purge_bins(files: FileTable, partition_names: Sequence[str], limits: CompactionLimits) -> tuple[Bin, ...]:
    """Bins with every file that has hidden rows, or rows that equality deletes may hide."""
    hides = pc.or_(pc.is_valid(files.column("dv")).combine_chunks(), may_lose(files)) if len(files) else None
    return whole_bins(files if hides is None else files.filter(hides), partition_names, limits)


def whole_bins(files: FileTable, partition_names: Sequence[str], limits: CompactionLimits) -> tuple[Bin, ...]:
    """Bins with every file that has a row count in the log."""
    every = CompactionLimits(limits.target_rows, limits.target_bytes, -1.0)
    return plan_compaction(files, partition_names, every)


def groups(files: FileTable, partition_names: Sequence[str]) -> Iterator[Group]:
    """The files of each partition, neighbours in row ids next to each other."""
    rows = files.num_records
    sizes = files.column("size").to_numpy()
    hidden = pc.fill_null(pc.struct_field(files.column("dv").combine_chunks(), "cardinality"), 0).to_numpy()
    counts = pc.fill_null(rows, -1).to_numpy()
    bases = pc.fill_null(files.column("base_row_id"), -1).to_numpy()
    codes = np.zeros(len(files), np.int64)
    for name in partition_names:
        texts = column(files.column("partition_values"), name)
        values = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        code = values.dictionary_encode(null_encoding="encode").indices.to_numpy()
        codes = np.unique(codes * (int(code.max(initial=0)) + 1) + code, return_inverse=True)[1]
    for code in _spec_codes(files):
        codes = np.unique(codes * (int(code.max(initial=0)) + 1) + code, return_inverse=True)[1]
    counted = np.flatnonzero(counts >= 0)  # a file without a count in the log stays as it is
    order = counted[np.lexsort((counted, bases[counted], codes[counted]))]
    for part in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        share = np.divide(hidden[part], counts[part], out=np.ones(len(part)), where=counts[part] > 0)
        yield Group(part, counts[part] - hidden[part], (sizes[part] * (1 - share)).astype(np.int64), share)


def _spec_codes(files: FileTable) -> Iterator[NDArray[np.int64]]:
    """Codes of the partition spec and of each partition field, for files of Iceberg tables."""
    table = files.table
    if PARTITION not in table.column_names:
        return
    tuples = table.column(PARTITION).combine_chunks()
    for values in (table.column("spec_id").combine_chunks(), *tuples.flatten()):
        code: NDArray[np.int64] = values.dictionary_encode(null_encoding="encode").indices.to_numpy()
        yield code


def _bins(group: list[_CompactedFile], limits: CompactionLimits) -> Iterator[list[_CompactedFile]]:
    """Runs of small neighbours, each up to the target; a large file only if it hides too many rows."""
    run: list[_CompactedFile] = []
    for f in group:
        worth = f.hidden > limits.materialize_deletions_threshold
        if f.rows >= limits.target_rows or f.size >= limits.target_bytes:
            if worth:
                yield [f]
            continue
        if run and not _fits([*run, f], limits):
            yield from _worth(run, limits)
            run = []
        run.append(f)
    yield from _worth(run, limits)


def _fits(run: list[_CompactedFile], limits: CompactionLimits) -> bool:
    rows, size = sum(f.rows for f in run), sum(f.size for f in run)
    return rows <= limits.target_rows and size <= limits.target_bytes


def _worth(run: list[_CompactedFile], limits: CompactionLimits) -> Iterator[list[_CompactedFile]]:
    """The run without files whose rewrite does not pay."""
    full = [f for f in run if f.hidden > limits.materialize_deletions_threshold]
    members = list(run)
    while len(members) > 1:
        largest = max(members, key=lambda f: f.rows)
        others = sum(f.rows for f in members) - largest.rows
        if largest.rows <= others or largest in full or _is_full(members, limits):
            break
        members.remove(largest)
    if len(members) > 1:
        yield members
    alone = full if len(members) < 2 else [f for f in full if f not in members]
    yield from ([f] for f in alone)


def _is_full(run: list[_CompactedFile], limits: CompactionLimits) -> bool:
    return sum(f.rows for f in run) >= 0.8 * limits.target_rows or sum(f.size for f in run) >= 0.8 * limits.target_bytes


def _benefit(members: list[_CompactedFile]) -> float:
    """Files saved and hidden bytes dropped, per byte written."""
    hidden_bytes = sum(f.hidden * f.size for f in members)
    return ((len(members) - 1) * (1 << 20) + hidden_bytes) / (sum(f.size for f in members) + 1)


def _bin(files: FileTable, members: list[_CompactedFile], limits: CompactionLimits) -> Bin:
    mask = np.zeros(len(files), bool)
    mask[[f.at for f in members]] = True
    rows, size = sum(f.rows for f in members), sum(f.size for f in members)
    hiding = sum(f.hidden > limits.materialize_deletions_threshold for f in members)
    if len(members) == 1:
        why = f"{members[0].hidden:.0%} of its rows are hidden"
    else:
        why = f"{len(members)} files make one" + (f", {hiding} of them with many hidden rows" if hiding else "")
    return Bin(files.filter(pa.array(mask)), rows, size, why)
