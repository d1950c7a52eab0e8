"""Reads a range of snapshots for change queries: the files that each added and removed, and the table before and after.

1. Versions are sequence numbers, as in the rows' last updated sequence number.
2. A file whose deletes changed is removed with the old deletes and added with the new ones.
3. Rows are followed by their ids only where all of them have one: a range does not begin before version 3.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Invalid, NoRowIdentity, UnknownVersion, Unsupported
from holdfast.formats.iceberg.commit.summary import OPERATION
from holdfast.formats.iceberg.commit.winners import changed_files
from holdfast.formats.iceberg.metadata.table_metadata import SnapshotEntry
from holdfast.formats.iceberg.state import IcebergState, time_travel
from holdfast.model.commits import MOVED, CommitFacts, CommitRange, Described
from holdfast.model.files import FILES, FileTable, Slab
from holdfast.model.snapshot import Snapshot


def read_commit_range(newest: IcebergState, start: int, end: int | None) -> CommitRange:
    """The snapshots from `start` to `end`, both included; `end` must descend from `start`."""
    entries = _chain(newest, start, newest.version if end is None else end)
    parent = entries[0].parent_snapshot_id
    if parent is not None and newest.metadata.snapshot(parent) is None:
        raise UnknownVersion(f"snapshot {parent}, before {start}, is gone: begin with a later one", version=start)
    before = None if parent is None else time_travel(newest, version=parent)
    at, first, facts = before, None, list[CommitFacts]()
    added, removed = [MOVED.empty_table()], [MOVED.empty_table()]
    for entry in entries:
        state = time_travel(newest, version=entry.snapshot_id)
        _refuse(state)
        described = _described(state)
        changed = first is None or at is None or described != _described(at)
        first = first or described
        facts.append(_facts(entry, described if changed else None, state))
        files_added, files_removed = _moves(at, state, entry)
        added.append(files_added)
        removed.append(files_removed)
        at = state
    assert at is not None, "a range has a snapshot"
    assert first is not None, "a range has a snapshot"
    return CommitRange(
        None if before is None else at_sequence_number(before),
        at_sequence_number(at),
        tuple(facts),
        first,
        pa.concat_tables(added),
        pa.concat_tables(removed),
        MOVED.empty_table(),
    )


def _chain(newest: IcebergState, start: int, end: int) -> list[SnapshotEntry]:
    last = newest.metadata.snapshot(end)
    if last is None:
        raise UnknownVersion(f"{newest.metadata.location} has no snapshot {end}, or no longer has it", version=end)
    chain: list[SnapshotEntry] = []
    for entry in newest.metadata.ancestry(last):
        chain.append(entry)
        if entry.snapshot_id == start:
            return chain[::-1]
    raise Invalid(f"snapshot {end} of {newest.metadata.location} does not descend from snapshot {start}")


def _refuse(state: IcebergState) -> None:
    where = state.metadata.location
    if len(state.contents.deletes.equality):
        raise Unsupported(f"snapshot {state.version} of {where} deletes rows by value, so what it changed is not told")
    bases = state.snapshot.files.column("base_row_id")
    if state.snapshot.identity is not None and bases.null_count:
        raise NoRowIdentity(
            f"rows of snapshot {state.version} of {where} have no ids: it is older than the upgrade to version 3"
        )


def _moves(before: IcebergState | None, after: IcebergState, entry: SnapshotEntry) -> tuple[pa.Table, pa.Table]:
    """The files that a snapshot added and those that it removed, with the columns of MOVED."""
    if before is None:
        every = np.ones(len(after.snapshot.files), np.bool_)
        return _moved(after, every, entry), MOVED.empty_table()
    removed, added = changed_files(before, after)
    return _moved(after, added, entry), _moved(before, removed, entry)


def _moved(state: IcebergState, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]], entry: SnapshotEntry) -> pa.Table:
    mask = pa.array(chosen)
    files = state.snapshot.files
    if not len(files) or not chosen.any():
        return MOVED.empty_table()
    count = int(chosen.sum())
    formats = files.table.select(["path", "format"]).filter(mask)
    if (other := pc.index(pc.equal(formats["format"], "parquet"), False).as_py()) >= 0:
        raise Unsupported(
            f"{formats['path'][other]} is an {formats['format'][other]} file, of which changes are not read: compact "
            "the table and begin with a later snapshot"
        )
    columns = [
        *files.table.select(FILES.names).filter(mask).columns,
        files.num_records.filter(mask),
        pa.array(np.full(count, entry.sequence_number)),
        pa.array(np.full(count, entry.operation != "replace")),
    ]
    return pa.Table.from_arrays(columns, schema=MOVED)


def _facts(entry: SnapshotEntry, described: Described | None, state: IcebergState) -> CommitFacts:
    return CommitFacts(
        entry.sequence_number,
        entry.timestamp_ms,
        entry.summary.get(OPERATION, entry.operation),
        keeps_ids=state.snapshot.identity is not None,  # version 3 asks it of every writer that moves rows
        copied_rows=None,
        touches_no_row=False,
        described=described,
    )


def _described(state: IcebergState) -> Described:
    return Described(state.snapshot.schema, (), state.snapshot.identity is not None, False)


def at_sequence_number(state: IcebergState) -> Snapshot:
    """The snapshot of a state, with its sequence number as version and without partition values."""
    sequence = 0 if state.entry is None else state.entry.sequence_number
    slabs = tuple(Slab(slab.files.select(FILES.names), slab.stats) for slab in state.snapshot.files.slabs)
    return replace(state.snapshot, version=sequence, placement=None, files=FileTable(slabs))
