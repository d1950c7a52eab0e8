"""Identity columns that go on beyond the numbers rows have brought."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import DeltaTable, Invalid
from holdfast.engines.local.engine import LocalEngine
from holdfast.env import system
from holdfast.schema.identity import IdentityColumn
from holdfast.verbs.define.builder import IdentityGenerator
from holdfast.verbs.dml.delete_update import ExecutionContext
from holdfast.verbs.dml.identity_columns import sync_identity
from tests.support.depth import examples


def made(path: Path, start: int, step: int, *values: int) -> DeltaTable:
    builder = DeltaTable.create().location(str(path)).addColumn("v", "string")
    builder = builder.addColumn("id", "bigint", generatedByDefaultAs=IdentityGenerator(start, step))
    table = builder.execute()
    for value in values:
        table.append(pa.table({"id": [value], "v": ["own"]}))
    return table


def synced(table: DeltaTable, name: str = "id") -> int | None:
    sync_identity(table.handle.newest(), name, ExecutionContext(LocalEngine(), system(), "UTC"))
    column = table.handle.newest().snapshot.schema.find("id")
    assert column is not None
    mark = column.metadata.get("delta.identity.highWaterMark")
    return None if mark is None else int(mark)


@pytest.mark.parametrize(
    ("start", "step", "values", "mark"),
    [
        (1, 1, (), None),
        (1, 1, (50, 7), 50),
        (1, 10, (15,), 21),
        (10, -3, (100,), None),
        (10, -3, (100, -21), -23),
        (10, -3, (-23, 5), -23),
        (5, 2, (5,), 5),
    ],
)
def test_the_mark_goes_to_the_furthest_value(
    tmp_path: Path, start: int, step: int, values: tuple[int, ...], mark: int | None
) -> None:
    table = made(tmp_path / "t", start, step, *values)
    assert synced(table) == mark
    version = table.version
    assert synced(table) == mark
    assert table.version == version
    table.append(pa.table({"v": ["made"]}))
    made_now = table.toArrow(where="v = 'made'").column("id").to_pylist()
    assert made_now == [start if mark is None else mark + step]


def test_rows_that_are_gone_do_not_count(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 1, 1)
    table.append(pa.table({"id": [3, 900], "v": ["a", "b"]}))
    table.delete("id = 900")
    assert synced(table) == 3
    table.append(pa.table({"id": [2], "v": ["c"]}))
    assert synced(table) == 3


def test_only_identity_columns_are_synced(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 1, 1, 4)
    with pytest.raises(Invalid, match="v is no identity column"):
        synced(table, "v")


@examples(200)
@given(st.integers(-1000, 1000), st.integers(-9, 9).filter(bool), st.integers(-2000, 2000))
def test_no_number_after_the_mark_is_the_value_or_before_it(start: int, step: int, value: int) -> None:
    mark = IdentityColumn("id", start, step, None, True).mark_for(value)
    following = IdentityColumn("id", start, step, mark, True).next_value
    assert (following - value) * step > 0
    assert mark is None or (mark - value) * step >= 0
    assert (following - start) % step == 0
