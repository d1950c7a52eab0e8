"""Clones, checks and biographies in a bucket."""

from __future__ import annotations

import pytest

from holdfast import DeltaTable
from holdfast.env import system
from holdfast.model.mutation import TableDefinition
from holdfast.plan.changefeed.biography import What
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.write import make
from holdfast.verbs.open.delta_handle import DeltaHandle
from tests.s3.conftest import Place
from tests.support.damage import COLUMNS, append

pytestmark = pytest.mark.s3


@pytest.mark.parametrize("shallow", [True, False])
def test_a_table_in_a_bucket_is_cloned_there(place: Place, shallow: bool) -> None:
    table = DeltaTable(
        DeltaHandle(None, make(place(), TableDefinition(COLUMNS), system(), mode=CreateMode.CREATE, plain=False))
    )
    append(table, range(5))
    table.delete("id = 1")
    table.update("id = 2", {"v": "'u'"})
    made = table.clone(place().url, isShallow=shallow)
    assert sorted(made.toArrow()["id"].to_pylist()) == [0, 2, 3, 4]
    assert made.check().findings == ()
    assert table.check().findings == ()
    assert [event.what for event in table.biography(2).events] == [What.BORN, What.CHANGED]
    assert [event.what for event in table.biography(1).events] == [What.BORN, What.DELETED]
    assert len(made.toArrow(metadata=["_row_id"])["_row_id"].unique()) == 4
