"""Commits that write the next metadata file themselves and let an SQL catalog point to it: the file that pyiceberg
would write, in one step or not at all, and left to the catalog where it has a way of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy.exc import OperationalError

from holdfast import IcebergTable
from holdfast.errors import Damaged, NotATable, OutcomeUnknown, Unavailable
from holdfast.formats.iceberg.catalog.pointer import move_pointer
from holdfast.formats.iceberg.commit.next_metadata import metadata_after, name_after
from holdfast.formats.iceberg.metadata.table_metadata import parse_metadata
from tests.support.depth import examples

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": ["a"] * len(ids)}, SCHEMA)


def _metadata(table: IcebergTable) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(table.handle.newest().metadata_path.removeprefix("file://")).read_text())
    return found


def _by_pyiceberg(table: IcebergTable) -> None:
    """From now on the catalog commits in its own way."""
    source: Any = table.handle.source
    inner = source.catalog.commit_table
    source.catalog.commit_table = lambda *given: inner(*given)


@pytest.mark.parametrize("version", [2, 3])
def test_the_next_file_is_the_one_pyiceberg_writes(tmp_path: Path, version: int) -> None:
    kept = {"write.metadata.previous-versions-max": "2"}
    texts = []
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        table = IcebergTable.create(
            None, tmp_path / name / "c.db", "db.t", SCHEMA, formatVersion=version, properties=kept
        )
        if name == "theirs":
            _by_pyiceberg(table)
        for at in range(4):
            table.append(rows(at, at + 10))
        table.delete("id = 1", mode="merge-on-read")
        texts.append(_metadata(table))
    ours, theirs = texts
    assert ours.keys() == theirs.keys()
    for name in ("last-sequence-number", "next-row-id", "format-version", "schemas", "properties", "sort-orders"):
        assert ours.get(name) == theirs.get(name)
    for text in texts:
        newest = text["snapshots"][-1]
        assert text["refs"]["main"] == {"snapshot-id": newest["snapshot-id"], "type": "branch"}
        assert text["current-snapshot-id"] == newest["snapshot-id"]
        assert text["last-updated-ms"] == newest["timestamp-ms"]
        assert text["snapshot-log"][-1] == {key: newest[key] for key in ("snapshot-id", "timestamp-ms")}
        assert len(text["snapshot-log"]) == len(text["snapshots"]) == 5
        assert [Path(one["metadata-file"]).name[:5] for one in text["metadata-log"]] == ["00003", "00004"]
    for name in ("snapshots", "metadata-log"):
        assert [entry.keys() for entry in ours[name]] == [entry.keys() for entry in theirs[name]]
    assert [e["summary"].keys() for e in ours["snapshots"]] == [e["summary"].keys() for e in theirs["snapshots"]]


def test_what_nobody_knows_stays(tmp_path: Path) -> None:
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", SCHEMA)
    table.append(rows(0))
    path = Path(table.handle.newest().metadata_path.removeprefix("file://"))
    said = _metadata(table)
    said["refs"]["main"]["max-snapshot-age-ms"] = 7
    path.write_text(json.dumps({**said, "from-the-future": {"a": [1]}}, indent=1))
    again = IcebergTable.load(None, tmp_path / "c.db", "db.t")
    again.append(rows(1))
    after = _metadata(again)
    assert after["from-the-future"] == {"a": [1]}
    assert after["refs"]["main"]["max-snapshot-age-ms"] == 7
    assert after["snapshots"][:1] == said["snapshots"]
    assert again.toArrow().num_rows == 2


_words = st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)
_entries = st.lists(
    st.builds(
        lambda number, summary: {"snapshot-id": number, "timestamp-ms": number, "summary": summary},
        st.integers(0, 2**62),
        _words,
    ),
    max_size=4,
)


@examples(60)
@given(old=_entries, new=_entries, goes_on=st.booleans(), indent=st.sampled_from([None, 1]), same=st.booleans())
def test_a_file_read_after_another_reads_as_it_does_alone(
    old: list[Any], new: list[Any], goes_on: bool, indent: int | None, same: bool
) -> None:
    def text(entries: list[Any], *, indent: int | None = None) -> bytes:
        log = [{"snapshot-id": e["snapshot-id"], "timestamp-ms": e["timestamp-ms"]} for e in entries]
        schema = {"type": "struct", "fields": [], "schema-id": 0}
        said = {"format-version": 2, "location": "/t", "schemas": [schema], "snapshots": entries, "snapshot-log": log}
        return json.dumps(said, indent=indent).encode()

    known = parse_metadata(text(old, indent=None if same else indent), where="old")
    later = text([*old, *new] if goes_on else new, indent=indent)
    alone = parse_metadata(later, where="new")
    assert parse_metadata(later, where="new", previous=known) == alone
    snapshot = {"snapshot-id": 1, "sequence-number": 9, "timestamp-ms": 5, "added-rows": None, "summary": {"a": "b"}}
    after = parse_metadata(metadata_after(alone, "x/00007-a.metadata.json", snapshot), where="after", previous=alone)
    assert after.snapshots[:-1] == alone.snapshots
    assert after.snapshots[-1].summary == {"a": "b"}
    assert (after.last_sequence_number, after.current_snapshot_id, after.refs["main"].snapshot_id) == (9, 1, 1)


def test_a_file_that_is_cut_short_is_refused_however_it_begins(tmp_path: Path) -> None:
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", SCHEMA)
    table.append(rows(0))
    known = table.handle.newest().metadata
    whole = Path(table.handle.newest().metadata_path.removeprefix("file://")).read_bytes()
    parts = dict(msgspec.json.decode(whole, type=dict[str, msgspec.Raw]))
    parts["snapshots"] = msgspec.Raw(bytes(parts["snapshots"])[:-1] + b',{"timestamp-ms":1}]')
    for text in (whole[:-20], msgspec.json.encode(parts)):
        with pytest.raises(Damaged, match="no metadata"):
            parse_metadata(text, where="here", previous=known)


@pytest.mark.parametrize("part", ["snapshots", "refs", "snapshot-log"])
def test_metadata_that_is_damaged_is_refused_by_whoever_reads_it_first(tmp_path: Path, part: str) -> None:
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", SCHEMA)
    path = Path(table.handle.newest().metadata_path.removeprefix("file://"))
    path.write_text(json.dumps({**json.loads(path.read_text()), part: None}))
    with pytest.raises(Damaged, match="null"):
        IcebergTable.load(None, tmp_path / "c.db", "db.t")
    catalog: Any = SqlCatalog("holdfast", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.load_table = lambda name, load=catalog.load_table: load(name)
    with pytest.raises(Damaged, match=f"pyiceberg refuses(.|\n)*{part}"):
        IcebergTable.load(None, catalog, "db.t")


def test_names_go_on_counting() -> None:
    uuid = "6c97e413-d51b-4538-ac70-12fe2a85cb83"
    assert name_after(f"s3://b/t/metadata/00041-{uuid}.metadata.json", uuid) == f"00042-{uuid}.metadata.json"
    assert name_after(f"/t/metadata/00009-{uuid}.gz.metadata.json", uuid) == f"00010-{uuid}.metadata.json"
    assert name_after("/t/metadata/v7.metadata.json", uuid) == f"00000-{uuid}.metadata.json"


@pytest.mark.parametrize("lands", [True, False])
def test_a_lost_answer_of_the_database_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lands: bool
) -> None:
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", SCHEMA)
    table.append(rows(0))
    inner = move_pointer

    def lost(*given: Any) -> bool:
        if lands:
            assert inner(*given)
        raise OperationalError("UPDATE", {}, Exception("no answer"))

    monkeypatch.setattr("holdfast.formats.iceberg.catalog.commit.move_pointer", lost)
    if lands:
        assert table.append(rows(1)).version == table.version
    else:
        with pytest.raises(OutcomeUnknown, match="history"):
            table.append(rows(1))
    monkeypatch.undo()
    again = IcebergTable.load(None, tmp_path / "c.db", "db.t")
    assert sorted(again.toArrow()["id"].to_pylist()) == ([0, 1] if lands else [0])
    again.append(rows(2))
    assert again.check().clean


def test_a_change_of_properties_between_costs_an_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", SCHEMA)
    table.append(rows(0))
    other = IcebergTable.load(None, tmp_path / "c.db", "db.t")
    turns = [1]

    def late(*given: Any) -> bytes:
        if turns:
            turns.pop()
            other.setProperties({"a": "b"})
        return metadata_after(*given)

    monkeypatch.setattr("holdfast.formats.iceberg.catalog.commit.metadata_after", late)
    assert table.append(rows(1)).attempts == 2
    assert _metadata(table)["properties"]["a"] == "b"
    assert table.toArrow().num_rows == 2
    named = {Path(one["metadata-file"]).name for one in _metadata(table)["metadata-log"]}
    there = {path.name for path in tmp_path.rglob("*.metadata.json")}
    assert there == named | {Path(table.handle.newest().metadata_path).name}, "the file of the lost attempt is gone"


def test_a_catalog_with_a_way_of_its_own_is_asked(tmp_path: Path) -> None:
    asked: list[str] = []

    class Audited(SqlCatalog):
        def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
            asked.append("commit")
            return super().commit_table(table, requirements, updates)

    catalog = Audited("own", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    table = IcebergTable.create(None, catalog, "db.t", SCHEMA)
    asked.clear()
    table.append(rows(0))
    assert asked == ["commit"]


def test_a_table_that_is_dropped_meanwhile(tmp_path: Path) -> None:
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", SCHEMA)
    table.append(rows(0))
    source: Any = table.handle.source
    state = table.handle.newest()
    source.catalog.drop_table("db.t")
    with pytest.raises(NotATable, match=r"no table db\.t"):
        source.newest(state)
    with pytest.raises((NotATable, Unavailable)):
        table.append(rows(1))
