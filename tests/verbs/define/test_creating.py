from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from holdfast import DeltaTable
from holdfast.engines.local.incoming import LocalRows
from holdfast.env import system
from holdfast.errors import AppendOnly, Invalid, NotATable
from holdfast.model.mutation import TableDefinition
from holdfast.schema.types import LONG, Field, Struct
from holdfast.storage.open import open_location
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.define.create import create_with
from holdfast.verbs.dml.write import Written
from holdfast.verbs.dml.write_mutation import CommitOptions


def made(name: str, values: Sequence[int], mode: CreateMode, column: str = "n", **properties: str) -> Written:
    shape = TableDefinition(Struct((Field(column, LONG),)), (), {k.replace("_", "."): v for k, v in properties.items()})
    rows = LocalRows(pa.table({column: pa.array(values, pa.int64())}), system())
    return create_with(
        open_location(f"memory://creating/{name}"), shape, rows, system(), mode=mode, options=CommitOptions(None, "w")
    )


def read(name: str) -> DeltaTable:
    return DeltaTable.forPath(None, f"memory://creating/{name}")


def test_the_first_version_has_the_rows_and_their_ids() -> None:
    done = made("first", [7, 8], CreateMode.CREATE)
    assert done.version == 0
    assert done.metrics["numOutputRows"] == 2
    found = read("first").toArrow(metadata=["_row_id", "_row_commit_version"]).to_pylist()
    assert found == [{"n": n, "_row_id": i, "_row_commit_version": 0} for i, n in enumerate([7, 8])]
    history = read("first").historyArrow().to_pylist()
    assert [(h["version"], h["operation"], h["userMetadata"]) for h in history] == [(0, "CREATE TABLE AS SELECT", "w")]
    assert not read("first").check().findings


def test_made_anew_it_keeps_its_history_and_gives_no_id_twice() -> None:
    made("again", [1, 2], CreateMode.CREATE_OR_REPLACE)
    assert made("again", [3], CreateMode.REPLACE, column="m").version == 1
    table = read("again")
    assert table.toArrow(metadata=["_row_id"]).to_pylist() == [{"m": 3, "_row_id": 2}]
    assert table.toArrow(version=0).to_pylist() == [{"n": 1}, {"n": 2}]
    assert table.historyArrow(1).to_pylist()[0]["operation"] == "REPLACE TABLE AS SELECT"
    assert not table.check().findings


def test_modes_mind_what_is_there() -> None:
    with pytest.raises(NotATable):
        made("modes", [1], CreateMode.REPLACE)
    made("modes", [1], CreateMode.CREATE_IF_NOT_EXISTS, delta_appendOnly="true")
    assert made("modes", [2], CreateMode.CREATE_IF_NOT_EXISTS).version is None
    with pytest.raises(Invalid, match="already"):
        made("modes", [2], CreateMode.CREATE)
    with pytest.raises(AppendOnly):
        made("modes", [2], CreateMode.REPLACE)
    assert read("modes").toArrow().to_pylist() == [{"n": 1}]
