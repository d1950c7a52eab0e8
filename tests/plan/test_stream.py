"""Options of a stream, how much a batch takes, and offsets as a checkpoint keeps them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Invalid
from holdfast.plan.changefeed.query import ChangeKind, ChangeQuery
from holdfast.plan.changefeed.stream import (
    Appends,
    BatchLimits,
    Feed,
    FromLatest,
    FromMoment,
    FromNow,
    FromVersion,
    Offset,
    offset_of,
    parse_options,
)
from tests.support.depth import examples


def asked(**options: str) -> Any:
    return parse_options({"path": "memory://x/t", **options})


def test_what_is_asked_for() -> None:
    assert asked().content == Appends()
    assert asked().start == FromNow()
    assert asked().limits == BatchLimits(1000, None)
    assert asked(IGNORECHANGES="true", skipchangecommits="True").content == Appends(changes=True, skips=True)
    assert asked(ignoreDeletes="true").content == Appends(deletes=True)
    assert asked(readChangeFeed="true").content == Feed()
    assert asked(kind="min-delta", dropUnchanged="true").content == ChangeQuery(ChangeKind.MIN_DELTA, (), False, True)
    assert asked(kind="upsert", keys="a, b", includeDeleted="true").content == ChangeQuery(
        ChangeKind.UPSERT, ("a", "b"), True
    )
    assert asked(startingVersion="latest").start == FromLatest()
    assert asked(startingVersion="7").start == FromVersion(7)
    assert asked(startingTimestamp="2024-05-01", timeZone="Europe/Vienna").start == FromMoment(
        "2024-05-01", "Europe/Vienna"
    )
    assert asked(maxBytesPerTrigger="5").limits == BatchLimits(None, 5)
    assert asked(maxBytesPerTrigger="5", maxFilesPerTrigger="3").limits == BatchLimits(3, 5)
    assert asked(**{"storage.region": "x"}).storage == (("region", "x"),)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mergeSchema": "true"}, "no option 'mergeschema'"),
        ({"schemaTrackingLocation": "x"}, "schematrackinglocation"),
        ({"kind": "all"}, "no kind of changes 'all'"),
        ({"kind": "upsert", "readChangeFeed": "true"}, "kind is for changes by row id"),
        ({"kind": "upsert", "ignoreDeletes": "true"}, "ignoreDeletes is for a stream of appends"),
        ({"readChangeFeed": "true", "skipChangeCommits": "true"}, "skipChangeCommits is for a stream of appends"),
        ({"includeDeleted": "true"}, "includeDeleted is for changes"),
        ({"ignoreChanges": "yes"}, "ignoreChanges is true or false"),
        ({"startingVersion": "1", "startingTimestamp": "2024-05-01"}, "exclude each other"),
        ({"startingVersion": "-1"}, "startingVersion is a version or latest"),
        ({"timeZone": "UTC"}, "timeZone is for startingTimestamp"),
        ({"maxFilesPerTrigger": "0"}, "maxFilesPerTrigger is a whole number from 1 on"),
        ({"maxBytesPerTrigger": "1g"}, "maxBytesPerTrigger is a whole number"),
        ({"ranges": "true"}, "ranges are of changes"),
        ({"path": ""}, "needs the path"),
    ],
)
def test_what_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        asked(**options)


@examples(200)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100)), max_size=12),
    st.none() | st.integers(1, 10),
    st.none() | st.integers(1, 200),
)
def test_a_batch_takes_what_it_has_room_for(
    portions: list[tuple[int, int]], most_files: int | None, most_bytes: int | None
) -> None:
    files, sizes = (np.array([p[n] for p in portions], np.int64) for n in (0, 1))
    taken = BatchLimits(most_files, most_bytes).admits(files, sizes)
    assert taken == len(portions) or taken >= 1
    for end in range(1, taken):  # another was begun only while there was room
        assert most_files is None or files[:end].sum() < most_files
        assert most_bytes is None or sizes[:end].sum() < most_bytes
    if taken < len(portions):
        full = [most_files is not None and files[:taken].sum() >= most_files]
        full.append(most_bytes is not None and sizes[:taken].sum() >= most_bytes)
        assert any(full)


def test_an_offset_is_the_same_json_for_ever() -> None:
    offset = Offset("8d", 7, 2, snapshot=True)
    text = '{"table": "8d", "version": 7, "index": 2, "snapshot": true, "format": 1}'
    assert json.dumps(msgspec.to_builtins(offset)) == text
    assert offset_of(json.loads(text), "8d", "the table") == offset


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"table": "other", "version": 1}, "another table"),
        ({"table": "8d", "version": 1, "format": 2}, "newer Holdfast"),
        ({"version": 1}, "no offset of a Holdfast stream"),
        ({"reservoirVersion": 1, "index": -1}, "no offset of a Holdfast stream"),
    ],
)
def test_an_offset_of_something_else_is_refused(stored: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        offset_of(stored, "8d", "the table")
