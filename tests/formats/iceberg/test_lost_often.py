"""A transaction on an Iceberg table that loses attempt after attempt: a loss costs a list of manifests and what came
since the one before, what is left behind is nothing, and what lands in the end is right whatever came in between."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StaticTable
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, RemoveSnapshotsUpdate, SetSnapshotRefUpdate

from holdfast import IcebergTable
from holdfast.errors import ConcurrentDeleteRead, ConcurrentWrite
from holdfast.formats.iceberg.format import IcebergFormat
from holdfast.formats.iceberg.metadata.manifests import manifest_files, read_manifest_list
from holdfast.formats.iceberg.state import time_travel
from holdfast.storage import open as opening
from holdfast.storage.memory import MemoryStore
from holdfast.verbs.commit import loop
from tests.support.depth import examples
from tests.support.faulty import CountingStore
from tests.support.iceberg_peers import duckdb_connection

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.int64())])
Rows = dict[int, int]
MODES = ("merge-on-read", "copy-on-write")
_fresh = count()


def _rows(keys: Any, v: int = 0) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "v": v} for k in keys], COLUMNS)


def _lose_to(patch: pytest.MonkeyPatch, *others: Callable[[], Any]) -> list[int]:
    """Arrange that others commit before one attempt after another of the next transaction; how many of them did.

    It gets no turn, however often it loses.
    """
    patch.setattr(loop, "LOSSES_BEFORE_TURN", 10**6)
    attempt, waiting, ran, is_inner = IcebergFormat.attempt, list(others), [0], [False]

    def late(*given: Any) -> Any:
        if waiting and not is_inner[0]:
            is_inner[0] = True
            waiting.pop(0)()
            is_inner[0] = False
            ran[0] += 1
        return attempt(*given)

    patch.setattr(IcebergFormat, "attempt", late)
    return ran


def _state(table: IcebergTable, *, ids: bool = True) -> dict[int, tuple[int, int | None]]:
    """By key: the value and the row id; every key once."""
    read = table.toArrow(columns=["k", "v"], metadata=["_row_id"] if ids else []).to_pylist()
    made = {row["k"]: (row["v"], row.get("_row_id")) for row in read}
    assert len(made) == len(read)
    assert not ids or len({row["_row_id"] for row in read}) == len(read)
    return made


def _referred(table: IcebergTable) -> set[str]:
    """Names of all files beside data files that some snapshot of a table, or its log, refers to."""
    state = table.handle.newest()
    paths = [state.metadata_path, *(entry["metadata-file"] for entry in state.metadata.metadata_log)]
    for entry in state.metadata.snapshots:
        assert entry.manifest_list is not None
        then = time_travel(state, version=entry.snapshot_id)
        paths += [
            entry.manifest_list,
            *(one.path for one in manifest_files(entry, read_manifest_list(state.paths, entry))),
        ]
        paths += then.contents.deletes.table["file_path"].to_pylist()
    return {path.rpartition("/")[2] for path in paths}


def _written(names: Any) -> set[str]:
    """Those of some names that are no data files."""
    short = {str(name).rpartition("/")[2] for name in names}
    return {name for name in short if "-deletes." in name or name.endswith((".avro", ".json"))}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> tuple[CountingStore, Callable[[], IcebergTable], IcebergTable]:
    store = CountingStore(MemoryStore("ice"))
    monkeypatch.setattr(opening, "_memory_store", lambda name: store)
    catalog = load_catalog(f"often{next(_fresh)}", type="in-memory", warehouse="memory://ice")
    table = IcebergTable.create(None, catalog, "db.t", COLUMNS, formatVersion=3)
    for n in range(3):
        table.append(_rows(range(n * 10, n * 10 + 10)))
    return store, lambda: IcebergTable.load(None, catalog, "db.t"), table


@pytest.mark.parametrize("mode", MODES)
def test_a_loss_costs_a_list_and_what_came(mode: str, counted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = 30
    store, opened, table = counted
    table.update("k = 29", {"v": "1"}, mode="copy-on-write")  # leaves a manifest without a live file, which goes next
    other = opened()
    told: list[tuple[int, int]] = []  # calls and bytes written at the end of each turn of the other

    def append(n: int) -> None:
        calls, written = len(store.keys), store.bytes_written
        other.append(_rows([100 + n]))
        del store.keys[calls:]
        store.bytes_written = written
        told.append((calls, written))

    _lose_to(monkeypatch, *(lambda n=n: append(n) for n in range(losses)))
    store.keys.clear()
    store.bytes_written = 0

    assert table.update("k = 2", {"v": "20"}, mode=mode).attempts == losses + 1

    read = Counter(key for verb, key in store.keys if verb == "get")
    assert max(n for key, n in read.items() if "/metadata/" in key) == 1
    put = [key for verb, key in store.keys if verb == "put"]
    lists = [key for key in put if "/snap-" in key]
    others = sorted(key.rpartition(".")[2] for key in put if "/snap-" not in key)
    # The manifest of the new file, and the one that lost a file, or the vector and its manifest; one metadata file.
    assert others == ["avro", "avro", "json", *(["puffin"] if mode == "merge-on-read" else [])]
    assert len(lists) == losses + 1
    for (calls, written), (later, after) in pairwise(told[1:]):
        assert later - calls <= 4, store.keys[calls:later]  # the metadata, the list, the manifest that came; a list
        assert after - written < 4_000
    assert _state(other)[2] == (20, 2)
    assert _written(one.key for one in store.inner.list_all("")) == _referred(opened())


def test_who_conflicts_leaves_no_manifest_behind(counted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store, opened, table = counted
    other = opened()
    _lose_to(
        monkeypatch,
        lambda: other.append(_rows([100])),
        lambda: other.delete("k = 7", mode="merge-on-read"),
        lambda: other.update("k = 2", {"v": "5"}),
    )
    with pytest.raises(ConcurrentDeleteRead):
        table.update("k = 2", {"v": "20"}, mode="merge-on-read")
    assert _written(one.key for one in store.inner.list_all("")) == _referred(opened())
    assert _state(opened())[2][0] == 5


def test_manifests_are_merged_once_and_not_by_who_lost(counted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store, opened, table = counted
    other = opened()
    table.setProperties({"commit.manifest.min-count-to-merge": "3"})
    before = _state(table)
    patch = pytest.MonkeyPatch()
    _lose_to(patch, *(lambda n=n: other.setProperties({"a": str(n)}) for n in range(3)))
    store.keys.clear()
    assert table.append(_rows([100])).attempts == 4
    patch.undo()
    written = [key for verb, key in store.keys if verb == "put" and key.endswith(".avro") and "/snap-" not in key]
    assert len(written) == 2  # that of the new file, and the one of three
    assert len(table.handle.newest().contents.manifests) == 2

    def grow() -> None:
        for n in range(2):
            with pytest.MonkeyPatch.context() as inner:
                inner.setattr("holdfast.formats.iceberg.commit.attempt._small", lambda *given: iter(()))
                other.append(_rows([200 + n]))

    _lose_to(monkeypatch, grow)
    assert table.append(_rows([101])).attempts == 2
    assert len(table.handle.newest().contents.manifests) == 5
    after = _state(opened())
    assert after.keys() == before.keys() | {100, 101, 200, 201}
    assert {k: after[k] for k in before} == before
    assert _written(one.key for one in store.inner.list_all("")) == _referred(opened())


class Winners:
    """What others do between two attempts, and what a table with some rows has afterwards."""

    def __init__(self, table: IcebergTable) -> None:
        self.table = table
        self.before = len(table.handle.newest().metadata.snapshots)
        self.keys = count(100)
        self.left = [*range(13, 20), *range(3, 10)]  # rows that nobody else takes, of both files
        self.elsewhere = count(1)

    def run(self, name: str, rows: Rows) -> Rows:
        mode = MODES[len(self.left) % 2]
        match name:
            case "append":
                key = next(self.keys)
                self.table.append(_rows([key], 8))
                return {**rows, key: 8}
            case "delete":
                key = self.left.pop()
                self.table.delete(f"k = {key}", mode=mode, retry=3)
                return {k: v for k, v in rows.items() if k != key}
            case "update":
                key = self.left.pop()
                self.table.update(f"k = {key}", {"v": "9"}, mode=mode)
                return {**rows, key: 9}
            case "compact":
                self.table.optimize().executeCompaction()
            case "schema":
                self.table.addColumns([(f"x{next(self.keys)}", "long")])
            case "property":
                self.table.setProperties({"a": str(next(self.keys))})
            case "expire":
                self._tell(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": self._old()}))
            case "branch":
                self._branch()
        return rows

    def _old(self) -> list[int]:
        kept = self.table.handle.newest().metadata.snapshots
        return [entry.snapshot_id for entry in kept[: max(0, self.before - 2)]][:1]

    def _tell(self, *updates: Any) -> None:
        source: Any = self.table.handle.source
        source.catalog.commit_table(source.catalog.load_table("db.t"), (), updates)

    def _branch(self) -> None:
        source: Any = self.table.handle.source
        metadata = source.catalog.load_table("db.t").metadata
        head = metadata.current_snapshot()
        number = next(self.elsewhere)
        said = {
            "snapshot-id": number,
            "parent-snapshot-id": head.snapshot_id,
            "sequence-number": metadata.last_sequence_number + 1,
            "timestamp-ms": int(time.time() * 1000) + 1,
            "manifest-list": head.manifest_list,
            "summary": Summary(Operation.APPEND),
            "schema-id": head.schema_id,
            **({} if metadata.format_version < 3 else {"first-row-id": metadata.next_row_id, "added-rows": 5}),
        }
        there = {"ref-name": f"side{number}", "type": "branch", "snapshot-id": number}
        self._tell(
            AddSnapshotUpdate(snapshot=Snapshot.model_validate(said)), SetSnapshotRefUpdate.model_validate(there)
        )


MINE: dict[str, tuple[Callable[[Any, str], Any], Callable[[Rows], Rows]]] = {
    "append": (lambda t, mode: t.append(_rows([50], 5)), lambda s: {**s, 50: 5}),
    "delete": (
        lambda t, mode: t.delete("k IN (1, 11)", mode=mode),
        lambda s: {k: v for k, v in s.items() if k not in (1, 11)},
    ),
    "update": (lambda t, mode: t.update("k IN (2, 12)", {"v": "20"}, mode=mode), lambda s: {**s, 2: 20, 12: 20}),
}
NAMES = ("append", "delete", "update", "compact", "schema", "property", "expire", "branch")


@examples(8)
@given(
    mine=st.sampled_from([*MINE]),
    mode=st.sampled_from(MODES),
    version=st.sampled_from([2, 3, 3]),
    names=st.lists(st.sampled_from(["append", "append", "delete", "update", *NAMES]), min_size=1, max_size=5),
)
def test_whatever_comes_between_attempts_the_outcome_is_that_of_one_after_another(
    mine: str, mode: str, version: int, names: list[str]
) -> None:
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        few = {"commit.manifest.min-count-to-merge": "4"}
        catalog = Path(place) / "catalog.db"
        table = IcebergTable.create(None, catalog, "db.t", COLUMNS, formatVersion=version, properties=few)
        for start in (30, 40, 0, 10):
            table.append(_rows(range(start, start + 10)))
        other = IcebergTable.load(None, catalog, "db.t")
        before = _state(table, ids=version == 3)
        model: list[Rows] = [{k: v for k, (v, _) in before.items()}]
        winners = Winners(other)

        def turn(name: str) -> None:
            model.append(winners.run(name, model[-1]))

        ran = _lose_to(patch, *(lambda name=name: turn(name) for name in names))
        landed = True
        try:
            MINE[mine][0](table, mode)
        except ConcurrentWrite:
            landed = False
        patch.undo()

        newest = IcebergTable.load(None, catalog, "db.t")
        after = _state(newest, ids=version == 3)
        expected = MINE[mine][1](model[-1]) if landed else model[-1]
        assert {k: v for k, (v, _) in after.items()} == expected
        kept = before.keys() & after.keys()
        assert {k: after[k][1] for k in kept} == {k: before[k][1] for k in kept}
        # With ids, rows are followed wherever they went, so that only a new schema is in the way.
        assert landed or version == 2 or "schema" in names[: ran[0]]
        assert ran[0]
        _read_by_others(newest, after)
        assert newest.check().clean
        if "expire" not in names:
            assert _written(Path(place).rglob("*")) == _referred(newest)


def _read_by_others(table: IcebergTable, rows: dict[int, tuple[int, int | None]]) -> None:
    path = table.handle.newest().metadata_path.removeprefix("file://")
    ids = ", _row_id" if table.handle.newest().metadata.format_version == 3 else ""
    read = duckdb_connection().execute(f"select k, v{ids} from iceberg_scan('{path}')").fetchall()
    assert sorted(read) == sorted((k, v, *([i] if ids else [])) for k, (v, i) in rows.items())
    io = PyArrowFileIO()
    metadata = FromInputFile.table_metadata(io.new_input(path))
    peer = StaticTable(("db", "t"), metadata, path, io, None)  # type: ignore[arg-type]
    theirs = peer.scan(selected_fields=("k", "v")).to_arrow().to_pylist()
    assert sorted((row["k"], row["v"]) for row in theirs) == sorted((k, v) for k, (v, _) in rows.items())
