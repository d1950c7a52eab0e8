"""Reading checkpoints of every kind, and other segments where one is broken."""

from __future__ import annotations

import io
import logging

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.errors import Damaged, MissingFile
from holdfast.formats.delta.checkpoint import reader as checkpoints
from holdfast.formats.delta.log.tombstones import tombstones
from holdfast.formats.delta.state import DeltaState, load
from tests.formats.delta.handlog import (
    CHECKPOINT,
    Action,
    HandLog,
    add,
    domain,
    lines,
    metadata,
    parquet,
    protocol,
    remove,
    vector,
)

V2 = {"checkpointMetadata": {"version": 3}}
UNIQUE = ".80a083e8-7026-4e79-81be-64bd76c43a11"


def live(state: DeltaState) -> list[str]:
    return sorted(state.snapshot.files.column("key").to_pylist())


def state_at_3() -> list[Action]:
    """What a checkpoint of version 3 of `log()` holds."""
    return [
        protocol(),
        metadata(),
        {"txn": {"appId": "x", "version": 8}},
        domain("d", {"n": 1}),
        add("b", dv=vector("v", cardinality=2), baseRowId=3, defaultRowCommitVersion=1, tags={"k": "v"}),
        add("c", partitionValues={"day": "x"}),
        add("d", rows=None),
        remove("a"),
    ]


@pytest.fixture
def log() -> HandLog:
    log = HandLog()
    log.create({"txn": {"appId": "x", "version": 8}}, add("a"))
    log.commit(1, domain("d", {"n": 1}), remove("a"), add("b", dv=vector("v", cardinality=2), baseRowId=3))
    log.commit(2, add("c", partitionValues={"day": "x"}))
    log.commit(3, add("d", rows=None))
    log.commit(4, add("e"), remove("c"))
    return log


def forget_commits(log: HandLog, versions: range = range(4)) -> None:
    for version in versions:
        log.delete(f"{version:020d}.json")


def as_v2(actions: list[Action]) -> list[Action]:
    return [V2, *actions]


def put_v2(log: HandLog, form: str, *, sidecars: bool) -> None:
    actions = as_v2(state_at_3())
    if sidecars:
        files = [a for a in actions if "add" in a or "remove" in a]
        actions = [a for a in actions if a not in files]
        for n, half in enumerate((files[:2], files[2:])):
            data = parquet(half, pa.schema([CHECKPOINT.field("add"), CHECKPOINT.field("remove")]))
            log.put(f"_sidecars/{n}.parquet", data)
            actions.append({"sidecar": {"path": f"{n}.parquet", "sizeInBytes": len(data), "modificationTime": 1}})
    data = lines(actions) if form == "json" else parquet(actions)
    log.put(f"{3:020d}.checkpoint{UNIQUE}.{form}", data)


def put_shape(log: HandLog, shape: str) -> None:
    actions = state_at_3()
    match shape:
        case "classic":
            log.checkpoint(3, *actions)
        case "parts":
            for part in (1, 2, 3):
                log.checkpoint(3, *actions[part - 1 :: 3], infix=f".{part:010d}.{3:010d}")
        case "classic-v2":
            log.checkpoint(3, *as_v2(actions))
        case _:
            _, form, where = shape.split("-")
            put_v2(log, form, sidecars=where == "sidecars")


SHAPES = [
    "classic",
    "parts",
    "classic-v2",
    "v2-json-inline",
    "v2-json-sidecars",
    "v2-parquet-inline",
    "v2-parquet-sidecars",
]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_says_the_same_as_the_commits(log: HandLog, shape: str) -> None:
    expected = load(log.location)
    put_shape(log, shape)
    forget_commits(log)
    state = load(log.location)
    assert state.segment.checkpoint is not None
    assert state.snapshot.notes == ()
    assert (state.version, live(state)) == (4, ["b", "d", "e"])
    assert state.txns == expected.txns
    assert state.domains == expected.domains
    assert state.snapshot.schema == expected.snapshot.schema
    rows = {row["key"]: row for row in state.snapshot.files.table.to_pylist()}
    assert rows["b"]["dv"]["id"] == "uv@1"
    assert rows["b"]["dv"]["cardinality"] == 2
    assert (rows["b"]["base_row_id"], rows["b"]["default_row_commit_version"]) == (3, 1)
    assert rows["b"]["tags"] == [("k", "v")]
    counts = dict(zip(rows, state.snapshot.files.num_records.to_pylist(), strict=True))
    assert counts == {"b": 3, "d": None, "e": 3}
    assert sorted(tombstones(state).column("key").to_pylist()) == ["a", "c"]


@pytest.mark.parametrize("shape", SHAPES)
def test_large_checkpoints_are_read_by_ranges_and_their_statistics_later(
    log: HandLog, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "WHOLE_BYTES", 16)
    put_shape(log, shape)
    forget_commits(log)
    state = load(log.location)
    counts = zip(
        state.snapshot.files.column("key").to_pylist(), state.snapshot.files.num_records.to_pylist(), strict=True
    )
    assert sorted(counts) == [("b", 3), ("d", None), ("e", 3)]


def test_an_older_version_never_uses_a_newer_checkpoint(log: HandLog) -> None:
    log.checkpoint(3, *state_at_3())
    log.hint(version=3)
    state = load(log.location, version=2)
    assert state.segment.checkpoint is None
    assert live(state) == ["b", "c"]


def test_parts_count_only_together(log: HandLog) -> None:
    log.checkpoint(3, *state_at_3()[:4], infix=f".{1:010d}.{2:010d}")
    state = load(log.location)
    assert state.segment.checkpoint is None
    assert live(state) == ["b", "d", "e"]


def test_one_file_and_parts_side_by_side(log: HandLog) -> None:
    put_shape(log, "parts")
    log.checkpoint(3, *state_at_3())
    state = load(log.location)
    assert state.segment.checkpoint is not None
    assert len(state.segment.checkpoint.files) == 1
    assert live(state) == ["b", "d", "e"]
    whole = f"{3:020d}.checkpoint.parquet"
    log.put(whole, b"PAR1 cut short")
    forget_commits(log)
    around = load(log.location)
    assert around.segment.checkpoint is not None
    assert len(around.segment.checkpoint.files) == 3
    assert live(around) == ["b", "d", "e"]
    assert whole in around.snapshot.notes[0]


@pytest.mark.parametrize("keep", [0, 4, 200, -9])
@pytest.mark.parametrize("hinted", [True, False])
def test_a_truncated_checkpoint_is_read_around(
    log: HandLog, keep: int, hinted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log.put(f"{3:020d}.checkpoint.parquet", parquet(state_at_3())[:keep])
    if hinted:
        log.hint(version=3)
    with caplog.at_level(logging.WARNING):
        state = load(log.location)
    assert live(state) == ["b", "d", "e"]
    assert state.segment.checkpoint is None
    assert len(state.snapshot.notes) == 1
    assert "00000000000000000003.checkpoint.parquet" in state.snapshot.notes[0]
    assert state.snapshot.notes[0] in caplog.messages


def test_the_next_older_checkpoint_is_taken_before_the_commits(log: HandLog) -> None:
    log.checkpoint(1, protocol(), metadata(), add("b", dv=vector("v")))
    log.checkpoint(3, *state_at_3())
    log.put(f"{3:020d}.checkpoint.parquet", b"")
    forget_commits(log, range(2))
    state = load(log.location)
    assert state.segment.checkpoint is not None
    assert state.segment.checkpoint.version == 1
    assert live(state) == ["b", "d", "e"]


def test_with_no_way_left_the_first_damage_is_the_error(log: HandLog) -> None:
    log.put(f"{3:020d}.checkpoint.parquet", b"not parquet")
    log.hint(version=3)
    forget_commits(log)
    with pytest.raises(Damaged, match=r"00000000000000000003\.checkpoint\.parquet .* cannot be read") as caught:
        load(log.location)
    assert caught.value.path.endswith(".checkpoint.parquet")


def test_a_missing_sidecar_is_read_around_or_named(log: HandLog) -> None:
    put_shape(log, "v2-json-sidecars")
    log.delete("_sidecars/1.parquet")
    state = load(log.location)
    assert live(state) == ["b", "d", "e"]
    assert "1.parquet" in state.snapshot.notes[0]
    forget_commits(log)
    with pytest.raises(MissingFile, match=r"1\.parquet"):
        load(log.location)


def test_a_v2_checkpoint_must_say_that_it_is_one(log: HandLog) -> None:
    log.put(f"{3:020d}.checkpoint{UNIQUE}.json", lines(state_at_3()))
    state = load(log.location)
    assert state.segment.checkpoint is None
    assert "checkpointMetadata" in state.snapshot.notes[0]


def test_a_checkpoint_without_a_protocol_is_read_around(log: HandLog) -> None:
    log.checkpoint(3, *state_at_3()[1:])
    state = load(log.location)
    assert live(state) == ["b", "d", "e"]
    assert "no protocol" in state.snapshot.notes[0]


def test_columns_a_writer_left_out_are_null(log: HandLog) -> None:
    narrow = pa.schema(
        [
            pa.field("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])),
            CHECKPOINT.field("metaData"),
            pa.field("add", pa.struct([("path", pa.large_string()), ("size", pa.int32())])),
        ]
    )
    actions = [a for a in state_at_3() if set(a) & set(narrow.names)]
    log.put(f"{3:020d}.checkpoint.parquet", parquet(actions, narrow))
    forget_commits(log)
    state = load(log.location, version=3)
    assert [(r["key"], r["size"], r["dv"], r["partition_values"]) for r in state.snapshot.files.table.to_pylist()] == [
        ("b", 10, None, None),
        ("c", 10, None, None),
        ("d", 10, None, None),
    ]
    assert state.snapshot.files.num_records.null_count == 3


def test_maps_may_call_their_parts_as_they_like(log: HandLog) -> None:
    odd = pa.map_(pa.field("clef", pa.string(), nullable=False), pa.field("valeur", pa.large_string()))
    schema = pa.schema(
        [
            CHECKPOINT.field("protocol"),
            CHECKPOINT.field("metaData"),
            pa.field("add", pa.struct([("path", pa.string()), ("partitionValues", odd)])),
        ]
    )
    log.put(
        f"{3:020d}.checkpoint.parquet",
        parquet([protocol(), metadata(), add("c", partitionValues={"day": "x"})], schema),
    )
    forget_commits(log)
    (row,) = load(log.location, version=3).snapshot.files.table.to_pylist()
    assert row["partition_values"] == [("day", "x")]


def test_an_absent_vector_may_be_a_struct_of_nulls(log: HandLog) -> None:
    nothing = {"storageType": None, "pathOrInlineDv": None, "offset": None, "sizeInBytes": None, "cardinality": None}
    log.checkpoint(3, protocol(), metadata(), add("c", deletionVector=nothing))
    forget_commits(log)
    state = load(log.location)
    assert state.snapshot.files.column("dv").null_count == len(state.snapshot.files)
    assert live(state) == ["e"], "a removal without a vector is about a file without one"


def test_statistics_as_structs_stand_in_for_absent_texts(log: HandLog) -> None:
    parsed = pa.struct(
        [
            ("numRecords", pa.int64()),
            ("minValues", pa.struct([("id", pa.int64()), ("path.stats", pa.int64())])),
        ]
    )
    adds = pa.array(
        [
            None,
            None,
            {"path": "x", "stats_parsed": {"numRecords": 5, "minValues": {"id": 1, "path.stats": 2}}},
            {"path": "y", "stats_parsed": None},
        ],
        pa.struct([("path", pa.string()), ("stats_parsed", parsed)]),
    )
    settings = pq.read_table(io.BytesIO(parquet([protocol(), metadata()]))).select(["protocol", "metaData"])
    empty = pa.Table.from_pylist([{}, {}], schema=settings.schema)
    table = pa.concat_tables([settings, empty]).append_column("add", pa.chunked_array([adds]))
    sink = io.BytesIO()
    pq.write_table(table, sink)
    log.put(f"{3:020d}.checkpoint.parquet", sink.getvalue())
    forget_commits(log)
    files = load(log.location, version=3).snapshot.files
    assert files.column("key").to_pylist() == ["x", "y"]
    assert files.num_records.to_pylist() == [5, None]


@pytest.mark.parametrize(
    ("hint", "trouble"),
    [
        (b"", "is empty"),
        (b'{"version":3,"si', "is torn"),
        (b'{"size":3}', "is torn"),
        (b'{"version":-1}', "names version -1"),
        (b'{"version":2}', "no complete checkpoint"),
        (b'{"version":99}', "no complete checkpoint"),
        (b'{"version":3,"checksum":"00000000000000000000000000000000"}', "checksum"),
        (b"\xff\xfe", "is torn"),
    ],
)
def test_a_bad_hint_is_left_aside(log: HandLog, hint: bytes, trouble: str) -> None:
    log.checkpoint(3, *state_at_3())
    log.put("_last_checkpoint", hint)
    state = load(log.location)
    assert live(state) == ["b", "d", "e"]
    assert state.segment.checkpoint is not None
    assert len(state.snapshot.notes) == 1
    assert trouble in state.snapshot.notes[0]


def test_a_good_hint_makes_the_listing_short(log: HandLog, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[str] = []
    listed = log.store.list_from

    def spy(directory: str, start: str = "") -> object:
        starts.append(start)
        return listed(directory, start)

    monkeypatch.setattr(log.store, "list_from", spy)
    log.checkpoint(3, *state_at_3())
    log.hint(version=3, size=8)
    assert load(log.location).snapshot.notes == ()
    assert starts == [f"{3:020d}"]


def test_an_old_hint_still_leads_to_the_newest_checkpoint(log: HandLog) -> None:
    log.checkpoint(1, protocol(), metadata(), add("b", dv=vector("v")))
    log.checkpoint(3, *state_at_3())
    log.hint(version=1)
    state = load(log.location)
    assert state.segment.checkpoint is not None
    assert state.segment.checkpoint.version == 3


def test_a_compaction_carries_row_tracking_and_removals_across_its_window() -> None:
    log = HandLog()
    tracked = protocol(1, 7, wf=["rowTracking", "domainMetadata"])
    enabled = metadata(delta__enableRowTracking="true")
    mark = domain("delta.rowTracking", {"rowIdHighWaterMark": 8})
    log.commit(0, tracked, enabled, add("a", baseRowId=0, defaultRowCommitVersion=0), domain("d", {}))
    log.commit(1, add("b", baseRowId=3, defaultRowCommitVersion=1))
    log.commit(2, remove("a"), add("c", baseRowId=6, defaultRowCommitVersion=2), mark, domain("d", {}, removed=True))
    log.commit(3, add("d", baseRowId=9, defaultRowCommitVersion=3))
    plain = load(log.location)
    log.put(
        f"{1:020d}.{2:020d}.compacted.json",
        lines(
            [
                remove("a"),
                add("b", baseRowId=3, defaultRowCommitVersion=1),
                add("c", baseRowId=6, defaultRowCommitVersion=2),
                mark,
                domain("d", {}, removed=True),
            ]
        ),
    )
    compacted = load(log.location)
    assert [meta.name.count("compacted") for meta in compacted.segment.deltas] == [0, 1, 0]
    assert compacted.snapshot.files.table.sort_by("key") == plain.snapshot.files.table.sort_by("key")
    assert compacted.snapshot.identity == plain.snapshot.identity
    assert compacted.domains == plain.domains
    log.delete(f"{1:020d}.json")
    assert live(load(log.location)) == ["b", "c", "d"]


def test_a_compaction_that_says_two_things_of_one_file_is_read_around() -> None:
    log = HandLog()
    log.create(add("a"))
    log.commit(1, remove("a"))
    log.put(f"{0:020d}.{1:020d}.compacted.json", lines([remove("a"), protocol(), metadata(), add("a")]))
    state = load(log.location)
    assert live(state) == []
    assert "not a compaction" in state.snapshot.notes[0]
