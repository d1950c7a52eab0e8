"""Time travel: the version at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Damaged, UnknownVersion
from holdfast.formats.delta.log.listing import list_all
from holdfast.formats.delta.log.segment import read_listing
from holdfast.formats.delta.log.times import file_times, version_at
from holdfast.formats.delta.state import load
from holdfast.storage.base import ObjectMeta
from tests.formats.delta.handlog import HandLog, add, metadata, protocol
from tests.support.depth import examples

ICT = protocol(1, 7, wf=["inCommitTimestamp"])


def info(moment: int | None = None) -> dict[str, object]:
    return {"commitInfo": {"operation": "WRITE"} | ({} if moment is None else {"inCommitTimestamp": moment})}


def written(log: HandLog, version: int) -> int:
    return list_all(log.location).listing.commits[version].modified_ms


def test_the_last_version_not_after_the_moment() -> None:
    log = HandLog()
    log.create()
    log.commit(1, add("a"))
    log.put("between", b"")
    log.commit(2, add("b"))
    times = [written(log, v) for v in range(3)]
    assert [version_at(log.location, t) for t in times] == [0, 1, 2]
    assert version_at(log.location, times[2] - 1) == 1
    assert load(log.location, timestamp_ms=times[1]).version == 1
    assert load(log.location).snapshot.timestamp_ms == times[2]


@pytest.mark.parametrize("shift", [-1, 1])
def test_outside_of_history_the_range_is_said(shift: int) -> None:
    log = HandLog()
    log.create()
    log.commit(1)
    moment = written(log, 0 if shift < 0 else 1) + shift
    with pytest.raises(UnknownVersion, match=r"versions 0 to 1 were made from 2023-11-14 .* to 2023-11-14"):
        version_at(log.location, moment)


def test_versions_cleaned_up_are_no_answer() -> None:
    log = HandLog()
    log.create()
    for version in (1, 2, 3):
        log.commit(version)
    log.checkpoint(2, protocol(), metadata())
    removed_time = written(log, 1)
    for version in (0, 1):
        log.delete(f"{version:020d}.json")
    with pytest.raises(UnknownVersion, match="versions 2 to 3"):
        version_at(log.location, removed_time)


def test_times_in_commits_count_from_when_they_were_enabled() -> None:
    log = HandLog()
    log.create()
    log.commit(1)
    since = 1_800_000_000_000
    enabled = metadata(
        delta__enableInCommitTimestamps="true",
        delta__inCommitTimestampEnablementVersion="2",
        delta__inCommitTimestampEnablementTimestamp=str(since),
    )
    log.commit(2, info(since), ICT, enabled)
    log.commit(3, info(since + 1000))
    assert [load(log.location, version=v).snapshot.timestamp_ms for v in range(4)] == [
        written(log, 0),
        written(log, 1),
        since,
        since + 1000,
    ]
    assert version_at(log.location, since + 999) == 2
    assert version_at(log.location, since + 1000) == 3
    assert version_at(log.location, since - 1) == 1
    assert version_at(log.location, written(log, 0)) == 0
    with pytest.raises(UnknownVersion):
        version_at(log.location, since + 1001)


def test_a_table_made_with_times_in_commits_uses_no_file_times() -> None:
    log = HandLog()
    log.commit(0, info(50), ICT, metadata(delta__enableInCommitTimestamps="true"))
    log.commit(1, info(70))
    assert version_at(log.location, 69) == 0
    with pytest.raises(UnknownVersion, match=r"1970-01-01 00:00:00\.050"):
        version_at(log.location, 49)
    log.commit(2, info())
    with pytest.raises(Damaged, match=r"00000000000000000002\.json lacks the in-commit timestamp"):
        version_at(log.location, 70)


def test_a_checkpoint_leaves_the_time_in_the_commit() -> None:
    log = HandLog()
    enabled = metadata(delta__enableInCommitTimestamps="true")
    log.commit(0, info(50), ICT, enabled)
    log.checkpoint(0, ICT, enabled)
    assert load(log.location).snapshot.timestamp_ms == 50
    log.put(f"{0:020d}.crc", b'{"inCommitTimestampOpt": 50, "numFiles": 0, "tableSizeBytes": 0}')
    log.delete(f"{0:020d}.json")
    assert load(log.location).snapshot.timestamp_ms == 50


@examples(100)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=20))
def test_file_times_rise_and_are_never_early(written_ms: list[int]) -> None:
    files = [ObjectMeta(f"{v:020d}.json", 1, t) for v, t in enumerate(written_ms)]
    times = file_times(read_listing(files, directory="d"))
    expected = []
    for t in written_ms:
        expected.append(max(t, expected[-1] + 1) if expected else t)
    assert list(times.values()) == expected
