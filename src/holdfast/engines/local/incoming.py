"""Rows that a user hands over as an Arrow table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from holdfast.engines.local.constraints import prepare
from holdfast.engines.local.dedupe import one_per_key
from holdfast.engines.local.write import write_table
from holdfast.env import Env
from holdfast.errors import Unsupported
from holdfast.model.snapshot import Snapshot
from holdfast.parquet.write import WriteSpec
from holdfast.plan.dml.change import PinnedSource
from holdfast.schema.constraints import Demand
from holdfast.schema.enforce import Fit, fit, refuse_doubles
from holdfast.schema.from_arrow import struct_of
from holdfast.schema.types import Struct
from holdfast.storage.location import Location


@dataclass(frozen=True, slots=True)
class LocalRows:
    """An Arrow table, stored by this process; `zone` is that of times without one."""

    repeatable: ClassVar[bool] = True

    table: pa.Table
    env: Env
    zone: str = "UTC"

    @property
    def names(self) -> Sequence[str]:
        names: list[str] = self.table.column_names
        return names

    def schema(self) -> Struct:
        return struct_of(self.table.schema)

    def is_called(self, name: str) -> bool:
        return False

    def input_files(self) -> Sequence[str]:
        return ()

    def one_per_key(self, keys: Sequence[tuple[str, bool]], order_by: str, *, last: bool) -> LocalRows:
        return replace(self, table=one_per_key(self.table, keys, order_by, last=last))

    def pin(self, prefix: str, target: Snapshot) -> PinnedSource:
        schema = self.schema()
        refuse_doubles(schema)
        if not schema.fields:
            raise Unsupported("a source without columns cannot be merged")
        plain = prepare(self.table, fit(schema, schema)).table
        spec = WriteSpec(fields=schema.fields, prefix=prefix, codec="snappy")
        return PinnedSource(schema, write_table(target.location, plain, spec, self.env))

    def store(
        self, fitted: Fit, wanted: tuple[Demand, ...], spec: WriteSpec, location: Location
    ) -> tuple[pa.Table, Mapping[str, int]]:
        prepared = prepare(self.table, fitted, wanted, zone=self.zone)
        return write_table(location, prepared.table, spec, self.env), prepared.marks
