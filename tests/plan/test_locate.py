"""Rows of a snapshot found by their ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from holdfast.delta.state import load
from holdfast.delta.vectors import load_hidden
from holdfast.errors import NoRowIdentity
from holdfast.plan.locate import locator
from holdfast.rows.sequence import RowIdSequence
from holdfast.storage.open import open_location
from tests.support.tablesmith import Tablesmith


def test_every_live_row_is_found_where_it_is_and_no_other(tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path / "t", schema=[("id", "long")])
    smith.append([{"id": i} for i in range(10)], files=3)
    smith.hide(1, [0, 2])
    smith.update(0, {1: {"id": 100}, 2: {"id": 200}})
    smith.rewrite(2)
    snapshot = load(open_location(smith.url)).snapshot
    rows = smith.rows()
    keys = snapshot.files.column("key").to_pylist()
    contents = {key: smith._contents[key] for key in keys}
    carried = {
        key: RowIdSequence.from_ids(np.array(content.ids, np.int64))
        for key, content in contents.items()
        if None not in content.ids
    }
    assert 0 < len(carried) < len(keys)
    index = locator(snapshot, load_hidden(snapshot.location, snapshot.files), carried)
    files, positions = index.locate(np.arange(smith.high_water() + 2))
    found = {
        int(id_): (keys[file], int(position))
        for id_, file, position in zip(range(len(files)), files, positions, strict=True)
        if file >= 0
    }
    assert found == {row["_row_id"]: (row["_file"], row["_row_index"]) for row in rows}


def test_a_table_that_does_not_track_rows_has_none(tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path / "t", schema=[("id", "long")], row_tracking=False)
    snapshot = load(open_location(smith.url)).snapshot
    with pytest.raises(NoRowIdentity, match="does not track rows"):
        locator(snapshot, load_hidden(snapshot.location, snapshot.files))
