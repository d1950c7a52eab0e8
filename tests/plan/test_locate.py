"""What the log says of which file may hold a row id."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from holdfast import DeltaTable
from holdfast.errors import NoRowIdentity
from holdfast.formats.delta.state import load
from holdfast.model.files import FileTable, Slab
from holdfast.model.snapshot import Snapshot
from holdfast.plan.scan.locate import CARRIES, FRESH, UNKNOWN, spans
from holdfast.rows.rowmap import ROW_IDS
from holdfast.storage.open import open_location
from tests.support.tablesmith import Tablesmith

TRACKED = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}


def table(path: str) -> DeltaTable:
    builder = DeltaTable.create(None).location(path).addColumns(pa.schema([("k", pa.int64())]))
    for name, value in TRACKED.items():
        builder = builder.property(name, value)
    return builder.execute()


def tagged(snapshot: Snapshot, texts: list[str | None]) -> Snapshot:
    """The snapshot with other notes."""
    slabs = []
    for slab in snapshot.files.slabs:
        here, texts = texts[: slab.files.num_rows], texts[slab.files.num_rows :]
        tags = pa.array([None if t is None else [(ROW_IDS, t)] for t in here], slab.files.schema.field("tags").type)
        slabs.append(Slab(slab.files.set_column(slab.files.column_names.index("tags"), "tags", tags), slab.stats))
    return replace(snapshot, files=FileTable(tuple(slabs)))


def test_our_own_files_say_what_they_carry() -> None:
    t = table("memory://locate/own")
    t.append(pa.table({"k": range(10)}))
    t.append(pa.table({"k": range(10, 15)}))
    t.update("k in (2, 4, 12)", {"k": "k + 100"})
    snapshot = load(open_location("memory://locate/own")).snapshot
    held = spans(snapshot)
    order = np.argsort(held.bases)
    assert held.kinds[order].tolist() == [FRESH, FRESH, CARRIES]
    assert held.lows[order].tolist() == [0, 10, 2]
    assert held.highs[order].tolist() == [9, 14, 12]
    assert held.maps.is_valid().to_numpy(False)[order].tolist() == [False, False, True]


def test_files_of_others_may_hold_any_id_up_to_their_own(tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path / "t", schema=[("id", "long")])
    smith.append([{"id": i} for i in range(10)], files=2)
    smith.rewrite(0)
    held = spans(load(open_location(smith.url)).snapshot)
    assert held.kinds.tolist() == [UNKNOWN, UNKNOWN]
    assert held.lows.tolist() == [0, 0]
    assert held.highs.tolist() == (held.bases + held.counts - 1).tolist()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("{size}", FRESH),
        ("{size},{column},3,4,0", CARRIES),
        ("{size},00000000,3,4,0", FRESH),  # of a table this one was cloned from
        ("{size},{column},3,4,10", FRESH),  # every row is as it was first written
        ("1{size}", UNKNOWN),  # of another file
        ("{size},{column},3", UNKNOWN),
        ("{size},{column},99999999999999999999,4,0", UNKNOWN),
        ("", UNKNOWN),
        ("no note of ours", UNKNOWN),
        (None, UNKNOWN),
    ],
)
def test_only_a_note_of_this_file_and_this_table_is_believed(text: str | None, kind: int) -> None:
    path = f"memory://locate/notes-{abs(hash(text))}"
    t = table(path)
    t.append(pa.table({"k": range(10)}))
    t.update("k = 3", {"k": "30"}, mode="copy-on-write")
    snapshot = load(open_location(path)).snapshot
    size = snapshot.files.column("size")[0].as_py()
    own = dict(snapshot.files.column("tags")[0].as_py())[ROW_IDS]
    note = None if text is None else text.format(size=size, column=own.split(",")[1])
    assert spans(tagged(snapshot, [note])).kinds.tolist() == [kind]


def test_a_table_that_does_not_track_rows_has_none(tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path / "t", schema=[("id", "long")], row_tracking=False)
    with pytest.raises(NoRowIdentity, match=r"does not track rows.*enableRowTracking"):
        spans(load(open_location(smith.url)).snapshot)
