"""Statistics and deletion vectors of golden tables: every live row lies within its bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from holdfast.formats.delta import state
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.model.files import Bounds, LeafPath
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import DataType, Decimal, Primitive, leaves
from holdfast.storage.local import LocalStore
from holdfast.storage.location import Location
from tests.support.golden import require_golden

pytestmark = pytest.mark.golden


@cache
def readable() -> tuple[tuple[dict[str, Any], Snapshot], ...]:
    return tuple(_readable())


def _readable() -> Iterator[tuple[dict[str, Any], Snapshot]]:
    for case_file in sorted(require_golden().glob("delta/*/case.json")):
        case = json.loads(case_file.read_text())
        if case["status"] == "readable":
            root = case_file.parent / "table"
            yield case, state.load(Location(LocalStore(), str(root).lstrip("/"))).snapshot


def test_live_vectors_and_counts_are_what_the_cases_say() -> None:
    vectors = 0
    for case, snapshot in readable():
        hidden = load_hidden(snapshot.location, snapshot.files).positions
        assert len(hidden) == case["dv_files"], snapshot.location.url
        assert sum(map(len, hidden.values())) == case["dv_rows"], snapshot.location.url
        records = snapshot.files.num_records
        if records.null_count == 0:
            live = (pc.sum(records).as_py() or 0) - case["dv_rows"]
            assert live == case["expected_rows"], snapshot.location.url
        vectors += len(hidden)
    assert vectors > 10


def test_live_rows_lie_within_their_bounds() -> None:
    checked = 0
    for _, snapshot in readable():
        wanted = {tuple(f.physical_name for f in path): type_ for path, type_ in leaves(snapshot.schema)}
        hidden = load_hidden(snapshot.location, snapshot.files)
        stats = snapshot.files.stats(wanted)
        for at, key in enumerate(snapshot.files.column("key").to_pylist()[:20]):
            data = Path("/", snapshot.location.store_key(key))
            if any(b.low[at].is_valid or b.high[at].is_valid for b in stats.bounds.values()):
                checked += _check_file(data, at, key, wanted, stats.bounds, hidden)
    assert checked > 1000


def _check_file(
    data: Path,
    at: int,
    key: str,
    wanted: dict[LeafPath, DataType],
    bounds: Any,
    hidden: HiddenRows,
) -> int:
    table = pq.ParquetFile(data, coerce_int96_timestamp_unit="us").read()
    if key in hidden.positions:
        alive = np.ones(table.num_rows, bool)
        alive[np.array(hidden.positions[key])] = False
        table = table.filter(pa.array(alive))
    checked = 0
    for leaf, type_ in wanted.items():
        if leaf[0] in table.column_names and isinstance(type_, Primitive | Decimal):
            checked += _check_leaf(f"{data} {leaf}", _leaf(table, leaf), bounds[leaf], at, type_)
    return checked


def _leaf(table: pa.Table, leaf: LeafPath) -> pa.Array:
    values = table.column(leaf[0]).combine_chunks()
    for name in leaf[1:]:
        values = pc.struct_field(values, [values.type.get_field_index(name)])
    return values


def _check_leaf(what: str, values: pa.Array, bounds: Bounds, at: int, type_: DataType) -> int:
    low, high, nulls = bounds.low[at], bounds.high[at], bounds.null_count[at]
    if nulls.as_py() == 0:
        assert values.null_count == 0, what
    if not (low.is_valid or high.is_valid):
        return 0
    if pa.types.is_timestamp(values.type) and values.type.unit == "ns":
        values = values.cast(pa.timestamp("us"), safe=False)
    values = values.cast(arrow_type(type_))
    if pa.types.is_floating(values.type):
        values = values.filter(pc.invert(pc.is_nan(values)))
    if low.is_valid:
        assert pc.all(pc.greater_equal(values, low)).as_py() is not False, (what, low)
    if high.is_valid:
        assert pc.all(pc.less_equal(values, high)).as_py() is not False, (what, high)
    return 1
