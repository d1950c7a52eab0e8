"""A table followed batch by batch without Spark: every row once, whatever the limits and wherever it is taken up."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import DeltaTable
from holdfast.engines.local.changefeed import changes as local_changes_of
from holdfast.errors import Invalid, UnknownVersion
from holdfast.plan.changefeed.stream import Offset, parse_options
from holdfast.verbs.stream.batch_plan import parts
from holdfast.verbs.stream.follow import StreamFollower
from tests.support.depth import examples
from tests.support.diff import events, full, net, states
from tests.support.story import Kind, Story
from tests.verbs.dml.test_dml_property import SETS, WHERE, drawn

fresh = itertools.count()
KINDS = ("append-only", "upsert", "min-delta", "full-delta")


def follow(path: str, **options: str) -> StreamFollower:
    return StreamFollower(parse_options({"path": path, **options}))


def read(follower: StreamFollower, start: Offset, end: Offset) -> pa.Table:
    """What tasks read of a batch, part by part."""
    plan = follower.plan(start, end)
    names = [f.name for f in follower.fields()]
    nothing = local_changes_of(plan).slice(0, 0)
    rows = [local_changes_of(part) for part in parts(plan)]
    return pa.concat_tables([nothing, *rows]).select(names)


def batches(path: str, **options: str) -> Iterator[tuple[Offset, Offset, pa.Table]]:
    """Batches up to the end of the table, each by a follower that was started anew from a stored offset."""
    asked = parse_options({"path": path, **options})
    at = follow(path, **options).initial()
    while True:
        follower = follow(path, **options)
        start = follower.offset(json.loads(json.dumps(msgspec.to_builtins(at))))
        end = follower.latest(start, asked.limits)
        if end == start:
            return
        yield start, end, read(follower, start, end)
        at = end


def rows(path: str, **options: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for _, _, table in batches(path, **options) for row in table.to_pylist())


def told(seed: int, kind: Kind) -> str:
    """A story with changes of all sorts."""
    rng = random.Random(seed)
    path = f"memory://following/{next(fresh)}"
    story = Story(path, lambda where: DeltaTable.forPath(None, where), kind)
    for _ in range(3):
        story.append(drawn(rng, 4))
        story.append(drawn(rng, 2))
        story.update(rng.choice(WHERE[:4]), (rng.choice(SETS),), rng.choice(story.modes))
        story.delete(rng.choice(WHERE), rng.choice(story.modes))
    story.restore(rng.randrange(2, 6))
    story.compact(1000)
    story.append(drawn(rng, 3))
    return path


@examples(3)
@given(st.integers(0, 10**6), st.builds(Kind, st.booleans(), st.booleans(), st.booleans()), st.integers(1, 5))
def test_batches_hold_every_change_once(seed: int, kind: Kind, most: int) -> None:
    path = told(seed, kind)
    known = states(path)
    last = len(known) - 1
    begin = seed % 4
    options = {"startingVersion": str(begin), "maxFilesPerTrigger": str(most)}
    found = [event for _, _, rows in batches(path, kind="full-delta", **options) for event in events(rows)]
    assert sorted(found, key=repr) == full(known, begin, last)
    for start, end, rows in batches(path, kind="min-delta", **options):
        before = known[start.version - 1] if start.version else {}
        assert events(rows) == net(before, known[end.version - 1], end.version - 1)
    for kind_name in KINDS[:2]:
        for start, end, rows in batches(path, kind=kind_name, **options):
            batch = DeltaTable.forPath(None, path).changes(start.version, end.version - 1, kind=kind_name)
            assert events(rows) == events(batch.toArrow())


@examples(3)
@given(st.integers(0, 10**6), st.booleans(), st.integers(1, 5))
def test_the_rows_that_are_there_come_first(seed: int, vectors: bool, most: int) -> None:
    path = told(seed, Kind(vectors=vectors))
    known = states(path)
    last = len(known) - 1
    made = list(batches(path, kind="full-delta", maxFilesPerTrigger=str(most)))
    found = sorted((event for _, _, rows in made for event in events(rows)), key=repr)
    assert found == net({}, known[last], last)
    assert [start.index for start, _, _ in made] == [n * most for n in range(len(made))]
    plain = Counter(str(row) for _, _, rows in batches(path, maxBytesPerTrigger="1") for row in rows.to_pylist())
    assert plain == Counter(str(row) for row in DeltaTable.forPath(None, path).toArrow().to_pylist())


def table(*names: str, **properties: str) -> DeltaTable:
    path = f"memory://following/{next(fresh)}"
    builder = DeltaTable.create(None).location(path).addColumn("n", "long").addColumn("s", "string")
    for name, value in properties.items():
        builder = builder.property(f"delta.{name}", value)
    made = builder.execute()
    for name in names:
        made.append(pa.table({"n": [len(name)], "s": [name]}))
    return made


def path_of(table: DeltaTable) -> str:
    return table.handle.newest().snapshot.location.url


def test_a_commit_of_many_files_is_taken_in_parts() -> None:
    made = DeltaTable.create(None).location(f"memory://following/{next(fresh)}")
    split = made.addColumn("n", "long").addColumn("s", "string").partitionedBy("n").execute()
    split.append(pa.table({"n": list(range(5)), "s": ["x"] * 5}))
    split.append(pa.table({"n": [5, 6], "s": ["x"] * 2}))
    path = path_of(split)
    found = [
        (start.version, start.index, rows.num_rows)
        for start, _, rows in batches(path, startingVersion="0", maxFilesPerTrigger="2")
    ]
    assert found == [(0, 0, 2), (1, 2, 2), (1, 4, 2), (2, 1, 1)]
    assert rows(path, startingVersion="1", maxFilesPerTrigger="3") == [(n, "x") for n in range(7)]


def test_appends_put_up_with_what_they_are_told_to() -> None:
    made = table("a", "bb", enableDeletionVectors="false")
    made.delete("s = 'a'")
    made.append(pa.table({"n": [3], "s": ["ccc"]}))
    path = path_of(made)
    with pytest.raises(Invalid, match=r"version 3 \(DELETE\).*ignoreDeletes=true"):
        rows(path, startingVersion="0")
    every = [(1, "a"), (2, "bb"), (3, "ccc")]
    for flag in ("ignoreDeletes", "ignoreChanges", "skipChangeCommits"):
        assert rows(path, startingVersion="0", **{flag: "true"}) == every
    made.append(pa.table({"n": [4, 5], "s": ["dddd", "e"]}))
    made.update("n = 5", {"n": "6"}, mode="copy-on-write")
    with pytest.raises(Invalid, match=r"version 6 \(UPDATE\).*skipChangeCommits=true.*kind="):
        rows(path, startingVersion="0", ignoreDeletes="true")
    assert rows(path, startingVersion="6", ignoreChanges="true") == [(4, "dddd"), (6, "e")]
    assert rows(path, startingVersion="5", skipChangeCommits="true") == [(4, "dddd"), (5, "e")]
    made.optimize().executeCompaction()
    assert rows(path, startingVersion="7") == []


def test_where_a_stream_begins() -> None:
    made = table("a", "bb")
    path = path_of(made)
    assert rows(path, startingVersion="latest") == []
    assert rows(path, startingVersion="2") == [(2, "bb")]
    when = made.historyArrow().filter(pa.array([False, True, False])).column("timestamp")[0].as_py()
    assert rows(path, startingTimestamp=when.isoformat())[-1] == (2, "bb")
    with pytest.raises(UnknownVersion, match="newest version"):
        rows(path, startingVersion="9")
    with pytest.raises(UnknownVersion, match="nothing was committed"):
        rows(path, startingTimestamp="2200-01-01")
    follower = follow(path, startingVersion="latest")
    start = follower.initial()
    assert follower.latest(start, None) == start
    made.append(pa.table({"n": [3], "s": ["ccc"]}))
    end = follower.latest(start, None)
    assert read(follower, start, end).to_pylist() == [{"n": 3, "s": "ccc"}]


def test_other_columns_stop_a_stream_once_all_before_is_read() -> None:
    made = table("a")
    path = path_of(made)
    follower = follow(path, startingVersion="0", kind="full-delta")
    start = follower.initial()
    made.append(pa.table({"n": [2], "s": ["bb"]}))
    made.setProperties({"delta.logRetentionDuration": "interval 60 days"})
    made.addColumns({"more": "long"})
    made.append(pa.table({"n": [3], "s": ["ccc"], "more": [1]}))
    end = follower.latest(start, None)
    assert end.version == 4
    assert read(follower, start, end).column("s").to_pylist() == ["a", "bb"]
    with pytest.raises(Invalid, match=r"version 4 \(ADD COLUMNS\).*Start the query again"):
        follower.latest(end, None)
    again = follow(path, startingVersion="0", kind="full-delta")
    assert read(again, end, again.latest(end, None)).column("more").to_pylist() == [1]
    assert read(again, start, end).column("more").to_pylist() == [None, None]


def test_a_table_in_the_place_of_another_is_refused() -> None:
    start, other = (follow(path_of(table("a"))) for _ in range(2))
    with pytest.raises(Invalid, match="another table"):
        other.offset(msgspec.to_builtins(start.initial()))
    with pytest.raises(Invalid, match="another table"):
        other.latest(start.initial(), None)


def test_a_target_is_not_passed() -> None:
    made = table("a", "bb")
    follower = follow(path_of(made), startingVersion="0")
    start = follower.initial()
    assert follower.latest(start, None, up_to=1) == Offset(start.table, 2)
    assert follower.latest(Offset(start.table, 2), None, up_to=1) == Offset(start.table, 2)


def test_the_feed_is_that_of_batch() -> None:
    made = table("a", "bb", enableChangeDataFeed="true")
    made.update("n = 1", {"s": "'z'"})
    made.delete("n = 2")
    path = path_of(made)
    wanted = made.changeFeed(0).toArrow().to_pylist()
    found = [
        row
        for _, _, rows in batches(path, readChangeFeed="true", startingVersion="0", maxFilesPerTrigger="1")
        for row in rows.to_pylist()
    ]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    first = rows(path, readChangeFeed="true")
    assert [row[:4] for row in first] == [(1, "z", "insert", 4)]
    with pytest.raises(Invalid, match="has no change data feed"):
        follow(path_of(table("a")), readChangeFeed="true")
