"""The ids of the rows that a change touched, read when the user asks for them.

Rows that were updated or deleted are read at their old addresses, in the version before; inserted ones in the files
the change added. Only those rows are read, and of them only what gives their ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pyroaring import BitMap64

from holdfast.errors import NoRowIdentity, Unsupported
from holdfast.model.files import FileTable, hiding
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.plan.dml.change import Positions, TouchedRows
from holdfast.plan.scan.request import Request, ScanPlan, plan_scan
from holdfast.rows.columns import ROW_ID
from holdfast.verbs.dml.strategy import Effect
from holdfast.verbs.open.engine import AnyEngine, AnyRows
from holdfast.verbs.open.open_table import OpenTable


def row_ids(before: OpenTable, effect: Effect, version: int | None, engine: AnyEngine) -> AnyRows:
    """One row per touched row: `_row_id`, and whether it was an update, a delete or an insert."""
    return engine.touched_ids(touched_rows(before, effect, version))


def touched_rows(before: OpenTable, effect: Effect, version: int | None) -> Sequence[TouchedRows]:
    """The rows that a change touched, as scans of their ids."""
    if before.snapshot.identity is None:
        raise NoRowIdentity(f"the table at {before.snapshot.location.url} does not track rows, so they have no ids")
    return list(_parts(before, effect, version))


def _parts(before: OpenTable, effect: Effect, version: int | None) -> Iterator[TouchedRows]:
    old = before.snapshot
    updated, deleted = effect.taken
    for change, positions in (("update", updated), ("delete", deleted)):
        if positions:
            files = old.files.among(positions)
            yield TouchedRows(change, _plan(old, hiding(files)), HiddenRows(_others(files, positions)))
    unread = [s.key for s in effect.strategies if s.key not in updated and s.key not in deleted]
    if unread:
        files = old.files.among(unread)
        yield TouchedRows("delete", _plan(old, files), before.load_hidden(old.location, files))
    if effect.new_keys and version is not None:
        new = before.at(version).snapshot
        yield TouchedRows("insert", _plan(new, new.files.among(effect.new_keys)), HiddenRows())


def _plan(snapshot: Snapshot, files: FileTable) -> ScanPlan:
    return replace(plan_scan(snapshot, Request(columns=(), metadata=[ROW_ID])), files=files)


def _others(files: FileTable, positions: Positions) -> dict[str, BitMap64]:
    """Every position of a file but these."""
    hidden = {}
    for key, rows in zip(files.column("key").to_pylist(), files.num_records.to_pylist(), strict=True):
        if rows is None:
            raise Unsupported(f"the log does not say how many rows {key} has, so the ids of some cannot be listed")
        hidden[key] = positions[key].flip(0, rows)
    return hidden
