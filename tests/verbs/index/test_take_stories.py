"""Random stories of a table: at every version each live row is found by its id, and no other is."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.state import load
from holdfast.index import rowmaps
from holdfast.index.reader import PinnedReader
from holdfast.model.files import FileTable, Slab
from holdfast.model.snapshot import Snapshot
from holdfast.parquet import rowmap
from holdfast.rows.rowmap import ROW_IDS
from holdfast.storage.open import open_location
from holdfast.verbs.read.take import Missing, take
from tests.support.depth import DEPTH, examples
from tests.support.sayings import shown
from tests.support.story import Kind, Known, Story
from tests.support.tablesmith import Tablesmith
from tests.verbs.dml.test_dml_property import SETS, WHERE, Stories, drawn, fresh, rows

IDENTITY = ["_row_id", "_row_commit_version"]


class TakeStories(Stories):
    """Steps on a table that one object looks rows up in all the time; in the end every version is looked at."""

    pinned: DeltaTable

    @initialize(
        kind=st.builds(Kind, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([2, 100])),
        first=st.lists(rows, min_size=1, max_size=8),
    )
    def begin(self, kind: Kind, first: list[dict[str, Any]]) -> None:
        self.story = Story(f"memory://take/{next(fresh)}", self.open, kind)
        self.story.append(first)
        self.pinned = self.open(self.story.path)

    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        """Some ids, living and dead, in any order and more than once."""
        self.pinned.refresh()
        ids = data.draw(st.lists(st.integers(0, self.story.high_water + 1), max_size=8))
        found = self.pinned.take(ids, metadata=IDENTITY, missing="null").to_pylist()
        assert told(found) == [expected(self.story.rows, row_id) for row_id in ids]

    @rule()
    def change_own_rows(self) -> None:
        """Rows of a transaction's own, changed before they are committed, carry no id."""
        with self.story.table.transaction() as t:
            t.append(pa.table({"k": pa.array([1, 2], pa.int64())}))
            t.update("k = 1", {"v": "7"})
        new = [{"k": 1, "v": 7, "d": None, "p": None}, {"k": 2, "v": None, "d": None, "p": None}]
        changed = [row_id for row_id, (_, row) in self.story.rows.items() if row["k"] == 1]
        self.story.rows |= {i: (0, {**self.story.rows[i][1], "v": 7}) for i in changed}
        self.story.check(new, changed)

    def teardown(self) -> None:
        if hasattr(self, "story"):
            check_every_version(self.story)


def check_every_version(story: Story) -> None:
    table = DeltaTable.forPath(None, story.path)
    ids = range(story.high_water + 2)
    for version, known in story.versions.items():
        found = table.take(ids, version=version, metadata=IDENTITY, missing="null").to_pylist()
        assert told(found) == [expected(known, row_id) for row_id in ids]
        for reader in readers(load(open_location(story.path), version=version).snapshot):
            check_reader(reader, known, list(ids))


def check_reader(reader: PinnedReader, known: Known, ids: list[int]) -> None:
    order = random.Random(len(ids)).sample(ids, len(ids))
    found = reader.locate(np.array(order, np.int64))
    assert [i for i, live in zip(order, found.live, strict=True) if live] == [i for i in order if i in known]
    assert found.versions[found.live].tolist() == [known[i][0] for i in order if i in known]
    some = slice(None, None, -3)  # of what was just asked for
    again = reader.locate(np.array(order, np.int64)[some])
    assert again.positions.tolist() == found.positions[some].tolist()
    assert again.versions.tolist() == found.versions[some].tolist()
    living = take(reader, order, metadata=["_row_id"], missing=Missing.SKIP).column("_row_id").to_pylist()
    assert living == [i for i in order if i in known]


def readers(snapshot: Snapshot) -> list[PinnedReader]:
    """Readers that have only footers to go by, and such as have notes that are damaged."""
    damaged = [
        tagged(snapshot, lambda text: None),
        tagged(snapshot, lambda text: text if text.count(",") < 5 else text[:-8] + "AAAAAAAA"),
        tagged(snapshot, lambda text: "1" + text),
    ]
    return [PinnedReader(each, load_hidden) for each in damaged]


def tagged(snapshot: Snapshot, said: Any) -> Snapshot:
    """The snapshot with other notes on its files."""
    slabs = []
    for slab in snapshot.files.slabs:
        tags = [dict(tags or ()) for tags in slab.files.column("tags").to_pylist()]
        notes = [said(known[ROW_IDS]) if ROW_IDS in known else None for known in tags]
        column = pa.array(
            [[] if note is None else [(ROW_IDS, note)] for note in notes], slab.files.schema.field("tags").type
        )
        slabs.append(Slab(slab.files.set_column(slab.files.column_names.index("tags"), "tags", column), slab.stats))
    return replace(snapshot, files=FileTable(tuple(slabs)))


def told(found: list[dict[str, Any]]) -> list[tuple[int | None, int | None, str]]:
    return [(row.pop("_row_id"), row.pop("_row_commit_version"), shown([row])) for row in found]


def expected(known: Known, row_id: int) -> tuple[int | None, int | None, str]:
    if row_id not in known:
        return None, None, shown([dict.fromkeys(("k", "v", "d", "p"))])
    version, row = known[row_id]
    return row_id, version, shown([row])


def test_every_row_is_found_in_every_version() -> None:
    run_state_machine_as_test(TakeStories, settings=settings(examples(6), stateful_step_count=8))


@pytest.mark.parametrize("most_bytes", [1 << 20, 0])
def test_columns_tell_what_maps_do_not(most_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same when no file has a map in its footer, and when there is no room to keep any."""
    monkeypatch.setattr(rowmap, "ROW_MAP", "nobody.wrote.this")
    monkeypatch.setattr(rowmaps, "_MOST_BYTES", most_bytes)
    run_state_machine_as_test(TakeStories, settings=settings(examples(2), stateful_step_count=7))


@pytest.mark.parametrize("vectors", [True, False])
def test_rows_that_spark_moved(spark: SparkSession, tmp_path: Path, vectors: bool) -> None:
    rng = random.Random(DEPTH)
    kind = Kind(partitioned=vectors, mapped=not vectors, vectors=vectors)
    story = Story(str(tmp_path / "table"), lambda path: DeltaTable.forPath(spark, path), kind)
    for _ in range(DEPTH):
        story.append(drawn(rng, 15))
        story.update(rng.choice(WHERE), (rng.choice(SETS),), rng.choice(story.modes))
        story.compact(100)
        story.update(rng.choice(WHERE), (rng.choice(SETS),), rng.choice(story.modes))
    check_every_version(story)


@given(data=st.data(), mapping=st.sampled_from([None, "name", "id"]))
@examples(8)
def test_tables_that_others_write(
    data: st.DataObject, mapping: str | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No note anywhere: rows that were hidden, moved one by one or file by file, and removed."""
    path = tmp_path_factory.mktemp("smith") / "t"
    smith = Tablesmith(path, schema=[("id", "long")], column_mapping=mapping)
    pinned = DeltaTable.forPath(None, smith.url)
    for step in data.draw(st.lists(st.sampled_from(["append", "hide", "update", "rewrite", "remove"]), max_size=8)):
        told_by_smith(smith, step, data)
        pinned.refresh()
        version = data.draw(st.integers(0, smith.version))
        for table, at in ((pinned, None), (DeltaTable.forPath(None, smith.url), version)):
            ids = range(smith.high_water() + 2)
            found = table.take(ids, version=at, metadata=IDENTITY, missing="null").to_pylist()
            known = {row["_row_id"]: (row["_row_commit_version"], {"id": row["id"]}) for row in smith.rows(at)}
            assert {row["_row_id"] for row in found} - {None} == known.keys()
            assert told(found) == [
                (i, known[i][0], shown([known[i][1]])) if i in known else (None, None, shown([{"id": None}]))
                for i in ids
            ]


def told_by_smith(smith: Tablesmith, step: str, data: st.DataObject) -> None:
    """A commit of another engine."""
    files = smith.live()
    if step == "append" or not files:
        smith.append([{"id": i} for i in range(data.draw(st.integers(1, 9)))], files=data.draw(st.integers(1, 2)))
        return
    file = data.draw(st.integers(0, len(files) - 1))
    here = [row["_row_index"] for row in smith.rows() if row["_file"] == unquote(files[file]["path"])]
    some = data.draw(st.sets(st.sampled_from(here), min_size=1)) if here else set[int]()
    if step == "rewrite":
        smith.rewrite(*data.draw(st.sets(st.integers(0, len(files) - 1), min_size=1, max_size=2)))
    elif step == "remove":
        smith.remove(file)
    elif step == "hide" and some:
        smith.hide(file, some)
    elif some:
        smith.update(file, {position: {"id": 1000 + position} for position in some})
