"""Loading a version from a handwritten log."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from holdfast.errors import Damaged, Invalid, NotATable, UnknownVersion
from holdfast.formats.delta.state import DeltaState, is_table, load
from holdfast.model.snapshot import Resolve
from tests.formats.delta.handlog import HandLog, add, domain, metadata, protocol, remove, vector

TRACKED = protocol(1, 7, wf=["rowTracking", "domainMetadata"])


def live(state: DeltaState) -> list[str]:
    return sorted(state.snapshot.files.column("key").to_pylist())


def test_the_newest_word_on_a_file_counts() -> None:
    log = HandLog()
    log.create(add("a"), add("b"))
    log.commit(1, remove("a"), add("c"))
    log.commit(2, add("a"), remove("b"))
    state = load(log.location)
    assert state.version == 2
    assert live(state) == ["a", "c"]
    assert live(load(log.location, version=1)) == ["b", "c"]
    assert live(load(log.location, version=0)) == ["a", "b"]


def test_what_a_file_action_says_is_kept_as_it_was() -> None:
    log = HandLog()
    log.commit(
        0,
        protocol(),
        metadata(partitions=["day"]),
        add(
            "day=a%20b/x.parquet",
            partitionValues={"day": "a b", "other": None},
            tags={"k": "v"},
            baseRowId=7,
            defaultRowCommitVersion=2,
            clusteringProvider="liquid",
        ),
    )
    (row,) = load(log.location).snapshot.files.table.to_pylist()
    assert row == {
        "path": "day=a%20b/x.parquet",
        "key": "day=a b/x.parquet",
        "size": 10,
        "modified_ms": 5,
        "partition_values": [("day", "a b"), ("other", None)],
        "dv": None,
        "base_row_id": 7,
        "default_row_commit_version": 2,
        "clustering_provider": "liquid",
        "tags": [("k", "v")],
    }


def test_a_logical_file_is_its_path_and_its_vector() -> None:
    log = HandLog()
    first, second = vector("x", offset=1), vector("x", offset=42, cardinality=2)
    log.create(add("a"))
    log.commit(1, remove("a"), add("a", dv=first))
    log.commit(2, remove("a", dv=first), add("a", dv=second))
    (row,) = load(log.location).snapshot.files.table.to_pylist()
    assert row["dv"] == {"id": "ux@42", "storage": "u", "path": "x", "offset": 42, "size": 34, "cardinality": 2}


def test_a_removal_without_the_vector_leaves_the_file_with_it_alive() -> None:
    log = HandLog()
    log.create(add("a", dv=vector("x", offset=None)))
    log.commit(1, remove("a"))
    assert live(load(log.location)) == ["a"]
    log.commit(2, remove("a", dv=vector("x", offset=None)))
    assert live(load(log.location)) == []


@pytest.mark.parametrize(
    ("added", "removed"),
    [("a%20b", "a b"), ("x/y", "memory:///t/x/y"), ("/t/x", "x"), ("memory:/t/x", "/t/x"), ("/u/x", "memory:///u/x")],
)
def test_spellings_of_one_path_are_one_file(added: str, removed: str) -> None:
    log = HandLog()
    log.create(add(added))
    log.commit(1, remove(removed))
    anywhere = replace(log.location, allow_outside=True)
    assert live(load(anywhere, version=0)) != []
    assert live(load(anywhere)) == []


def test_unknown_actions_fields_and_files_are_ignored() -> None:
    log = HandLog()
    log.create(add("a", novelty={"deep": [1]}), {"novelty": {"path": "b"}}, {"cdc": {"path": "c", "size": 1}})
    log.put("00000000000000000000.novelty", b"?")
    log.put("novelty.json", b"?")
    log.put("00000000000000000001.00000000-staged.json", b"?")
    assert live(load(log.location)) == ["a"]


def test_blank_lines_are_no_damage() -> None:
    log = HandLog()
    log.create(add("a"))
    log.put(f"{1:020d}.json", b'\n{"add":{"path":"b"}}\n\n \r\n')
    assert live(load(log.location)) == ["a", "b"]


def test_transactions_and_domains_keep_the_newest() -> None:
    log = HandLog()
    log.create(
        {"txn": {"appId": "x", "version": 1}},
        {"txn": {"appId": "y", "version": 9, "lastUpdated": 4}},
        domain("d", {"n": 1}),
        domain("e", {"n": 1}),
    )
    log.commit(1, {"txn": {"appId": "x", "version": 2}}, domain("d", {"n": 2}), domain("e", {"n": 1}, removed=True))
    state = load(log.location)
    assert {name: txn.version for name, txn in state.txns.items()} == {"x": 2, "y": 9}
    assert list(state.domains) == ["d"]
    assert state.domains["d"].configuration == '{"n": 2}'
    log.commit(2, domain("e", {"n": 3}))
    assert set(load(log.location).domains) == {"d", "e"}


def test_a_torn_line_is_named() -> None:
    log = HandLog()
    log.create(add("a"))
    log.put(f"{1:020d}.json", b'{"add":{"path":"b"}}\n{"add":{"path":"c","siz')
    with pytest.raises(Damaged, match=r"line 2 of .*00000000000000000001\.json") as caught:
        load(log.location)
    assert caught.value.path.endswith("00000000000000000001.json")
    assert live(load(log.location, version=0)) == ["a"]


def test_a_field_of_the_wrong_type_is_damage() -> None:
    log = HandLog()
    log.create({"add": {"path": ["not", "text"]}})
    with pytest.raises(Damaged, match=r"line 3 .*path"):
        load(log.location)


def test_a_missing_commit_is_named_and_what_is_left_too() -> None:
    log = HandLog()
    log.create(add("a"))
    log.commit(1, add("b"))
    log.commit(3, add("d"))
    with pytest.raises(Damaged, match=r"version 2 is missing.*versions 0 to 1 can still be read") as caught:
        load(log.location)
    assert caught.value.path.endswith("00000000000000000002.json")
    assert live(load(log.location, version=1)) == ["a", "b"]


@pytest.mark.parametrize("version", [-1, 2, 10**12])
def test_a_version_that_never_was_is_unknown(version: int) -> None:
    log = HandLog()
    log.create()
    log.commit(1)
    with pytest.raises(UnknownVersion, match="readable are versions 0 to 1") as caught:
        load(log.location, version=version)
    assert caught.value.version == version


def test_no_log_is_no_table() -> None:
    log = HandLog()
    assert not is_table(log.location)
    with pytest.raises(NotATable):
        load(log.location)
    log.put("00000000000000000000.crc", b"malformed")
    assert not is_table(log.location)
    with pytest.raises(NotATable, match="no commit is in"):
        load(log.location)
    log.create()
    assert is_table(log.location)


@pytest.mark.parametrize(("actions", "lacking"), [([protocol()], "metaData"), ([metadata()], "protocol")])
def test_a_log_without_its_settings_is_damaged(actions: list[dict[str, object]], lacking: str) -> None:
    log = HandLog()
    log.commit(0, *actions)
    with pytest.raises(Damaged, match=f"no {lacking}"):
        load(log.location)


def test_no_schema_is_damage_only_once_there_are_files() -> None:
    log = HandLog()
    log.commit(0, protocol(), metadata(schema=None))
    assert load(log.location).snapshot.schema.names == ()
    log.commit(1, add("a"))
    with pytest.raises(Damaged, match="no schema"):
        load(log.location)


def test_a_partition_column_must_be_in_the_schema() -> None:
    log = HandLog()
    log.commit(0, protocol(), metadata(partitions=["nowhere"]))
    with pytest.raises(Damaged, match="'nowhere'"):
        load(log.location)


def test_a_version_and_a_timestamp_are_too_much() -> None:
    log = HandLog()
    log.create()
    with pytest.raises(Invalid, match="not for both"):
        load(log.location, version=0, timestamp_ms=1)


@pytest.mark.parametrize("path", ["../outside/x", "s3://elsewhere/x", "a/../../x"])
def test_a_path_that_leads_away_is_refused_while_it_is_live(path: str) -> None:
    log = HandLog()
    log.create(add(path))
    with pytest.raises(Invalid, match="allow_outside"):
        load(log.location)
    log.commit(1, remove(path))
    assert live(load(log.location)) == []


def test_mapped_columns_have_physical_names_and_unmapped_ones_have_none() -> None:
    column = {
        "name": "id",
        "type": "long",
        "nullable": True,
        "metadata": {"delta.columnMapping.id": 4, "delta.columnMapping.physicalName": "col-4"},
    }
    schema = json.dumps({"type": "struct", "fields": [column]})
    log = HandLog()
    log.commit(0, protocol(2, 5), metadata(schema, delta__columnMapping__mode="id"))
    log.commit(1, metadata(schema, delta__columnMapping__mode="name"))
    log.commit(2, metadata(schema, delta__columnMapping__mode="none"))
    by_id, by_name, plain = (load(log.location, version=v).snapshot for v in range(3))
    assert (by_id.resolve, by_id.schema.fields[0].physical_name, by_id.schema.fields[0].field_id) == (
        Resolve.BY_ID,
        "col-4",
        4,
    )
    assert (by_name.resolve, by_name.schema.fields[0].physical_name) == (Resolve.BY_NAME, "col-4")
    assert (plain.resolve, plain.schema.fields[0].physical_name) == (Resolve.BY_NAME, "id")
    assert plain.schema.fields[0].field_id is None


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("delta.clustering", [["a"], ["b", "c"]]),
        ("delta.clustering", ["a", ["b", "c"]]),
        ("delta.liquid", [{"physicalName": ["a"]}, {"physicalName": ["b", "c"]}]),
    ],
)
def test_clustering_columns_are_paths_in_every_spelling(name: str, columns: list[object]) -> None:
    log = HandLog()
    log.create(domain(name, {"clusteringColumns": columns, "domainName": name}))
    assert load(log.location).snapshot.clustering_columns == (("a",), ("b", "c"))


def test_rows_have_an_identity_while_tracking_is_enabled() -> None:
    log = HandLog()
    names = {
        "delta__rowTracking__materializedRowIdColumnName": "_row-id-col-1",
        "delta__rowTracking__materializedRowCommitVersionColumnName": "_row-commit-version-col-1",
    }
    log.commit(0, TRACKED, metadata(**names))
    log.commit(1, metadata(delta__enableRowTracking="true", **names))
    log.commit(2, domain("delta.rowTracking", {"rowIdHighWaterMark": 9, "domainName": "delta.rowTracking"}))
    log.commit(3, metadata(delta__enableRowTracking="true", delta__rowTrackingSuspended="true", **names))
    log.commit(4, protocol(1, 7), metadata(delta__enableRowTracking="true", **names))
    identities = [load(log.location, version=v).snapshot.identity for v in range(5)]
    assert identities[0] is None
    assert identities[1] is not None
    assert (identities[1].id_column, identities[1].version_column) == ("_row-id-col-1", "_row-commit-version-col-1")
    assert identities[1].high_water == -1
    assert identities[2] is not None
    assert identities[2].high_water == 9
    assert identities[3] is None
    assert identities[4] is None


def test_a_high_water_mark_that_is_no_number_is_damage() -> None:
    log = HandLog()
    bad = domain("delta.rowTracking", {"rowIdHighWaterMark": "many"})
    log.commit(0, TRACKED, metadata(delta__enableRowTracking="true"), bad)
    with pytest.raises(Damaged, match="high-water mark"):
        load(log.location)


def test_statistics_arrive_with_the_files() -> None:
    log = HandLog()
    log.create(add("a", rows=4), add("b", rows=None))
    log.commit(1, remove("a"), add("c", rows=6))
    files = load(log.location).snapshot.files
    assert dict(zip(files.column("key").to_pylist(), files.num_records.to_pylist(), strict=True)) == {"b": None, "c": 6}


def test_a_checksum_file_that_disagrees_is_noted_and_not_believed() -> None:
    log = HandLog()
    log.create(add("a"))
    log.put(f"{0:020d}.crc", json.dumps({"numFiles": 1, "tableSizeBytes": 10}).encode())
    assert load(log.location).snapshot.notes == ()
    log.put(f"{0:020d}.crc", json.dumps({"numFiles": 2, "tableSizeBytes": 99}).encode())
    state = load(log.location)
    assert live(state) == ["a"]
    assert "2 files where the log has 1 and 99 bytes where the log has 10" in state.snapshot.notes[0]
    log.put(f"{0:020d}.crc", b"malformed")
    assert load(log.location).snapshot.notes == ()


def test_a_number_no_column_can_hold_is_damage() -> None:
    log = HandLog()
    log.create(add("a", size=2**63))
    with pytest.raises(Damaged, match=r"line 3 .*size"):
        load(log.location)
