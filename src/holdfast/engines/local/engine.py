"""The engine that reads and writes rows with Arrow in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa
from pyroaring import BitMap64

from holdfast.engines.local import changefeed, dml, file_inspection, publish, scan, search
from holdfast.engines.local.follow import follow, ids
from holdfast.engines.local.incoming import LocalRows
from holdfast.engines.local.write import write_table
from holdfast.env import Env, system
from holdfast.errors import Invalid, Unsupported
from holdfast.model.snapshot import HiddenRows
from holdfast.parquet.write import WriteSpec
from holdfast.plan.changefeed.query import ChangesPlan
from holdfast.plan.dml.change import Done, Expression, Inserted, Insertion, Positions, TouchedRows, Work
from holdfast.plan.dml.follow import Followed, LocatedRows
from holdfast.plan.maintain.check import Asks
from holdfast.plan.publish.rows import Arriving, ChangedIds, Storage
from holdfast.plan.scan.request import Condition, ScanPlan, refuse_unknown
from holdfast.plan.scan.search import RowSearch
from holdfast.predicate.parse import parse, unknown_names
from holdfast.predicate.records import Predicate, has_opaque
from holdfast.rows.columns import ROW_ID
from holdfast.schema.types import Struct
from holdfast.storage.location import Location
from holdfast.terminal import phase


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Arrow and a few threads of this process; `zone` is that of times without one."""

    parallel_bins: ClassVar[int] = 1
    workers: ClassVar[None] = None
    failures: ClassVar[tuple[type[Exception], ...]] = ()

    env: Env = field(default_factory=system)
    zone: str = "UTC"

    def scan(self, plan: ScanPlan, hidden: HiddenRows) -> pa.Table:
        return scan.scan_table(plan, hidden)

    def describe(self, plan: ScanPlan) -> tuple[str, ...]:
        return scan.describe(plan)

    def condition(self, where: Expression, columns: Struct) -> Condition:
        if not isinstance(where, str):
            raise Unsupported(f"without Spark nobody can look for rows with the Column {where}: write it as SQL text")
        refuse_unknown(unknown_names(where, columns), columns)
        return Condition(where, where, parse(where, columns, zone=self.zone))

    def understands(self, predicate: Predicate) -> bool:
        return not has_opaque(predicate)

    def changes(self, plan: ChangesPlan) -> pa.Table:
        return changefeed.changes(plan)

    def touched_ids(self, parts: Sequence[TouchedRows]) -> pa.Table:
        return search.touched_ids(parts)

    def touched_bitmap(self, parts: Sequence[TouchedRows]) -> BitMap64:
        return BitMap64(search.touched_ids(parts).column(ROW_ID).to_numpy())

    def first_row(self, plan: ScanPlan, hidden: HiddenRows) -> pa.Table:
        return scan.scan_table(plan, hidden, limit=1)

    def furthest(self, plan: ScanPlan, hidden: HiddenRows, *, upward: bool) -> int | None:
        return search.furthest(plan, hidden, upward=upward)

    def id_bitmap(self, plan: ScanPlan, hidden: HiddenRows, column: str) -> BitMap64:
        return search.id_bitmap(plan, hidden, column)

    def rows_by_file(self, searches: Sequence[RowSearch], hidden: HiddenRows) -> Mapping[str, int]:
        return search.rows_by_file(searches, hidden)

    def inspect_files(self, asks: Asks) -> pa.Table:
        return file_inspection.inspect_files(asks)

    def source(self, rows: object) -> LocalRows:
        if not isinstance(rows, pa.Table):
            raise Invalid("without a Spark session a source is an Arrow table: open the table with a session")
        return LocalRows(rows, self.env, self.zone)

    def change(self, work: Work) -> Done:
        return dml.change(work, self.env, self.zone)

    def insert(self, work: Insertion) -> Inserted:
        return dml.insert(work, self.env, self.zone)

    def colliding(self, work: Work, limit: int) -> Sequence[str]:
        return dml.colliding(work, limit, self.zone)

    def follow(self, old: LocatedRows, new: LocatedRows) -> Followed:
        return follow(old, new)

    def some_ids(self, place: LocatedRows, limit: int) -> Sequence[int]:
        return ids(place, limit)

    def write_changes(self, plan: ChangesPlan, spec: WriteSpec, location: Location) -> pa.Table:
        rows = changefeed.changes(plan).select([f.name for f in spec.fields])
        return write_table(location, rows, spec, self.env)

    def changed_ids(self, plan: ChangesPlan) -> ChangedIds:
        return publish.changed_ids(plan)

    def locate(self, place: LocatedRows, ids: BitMap64) -> Positions:
        return publish.locate(place, ids)

    def publish(self, rows: Arriving, storage: Storage) -> pa.Table:
        return publish.publish(rows, storage, self.env, self.zone)

    def progress(self, what: str) -> AbstractContextManager[None]:
        return phase(what)
