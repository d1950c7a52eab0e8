"""Names of log files, and the segments of a version."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Damaged, UnknownVersion
from holdfast.formats.delta.log.file_names import (
    Checksum,
    ClassicCheckpoint,
    Commit,
    CompactedLog,
    LastCheckpoint,
    LogName,
    PartCheckpoint,
    UniqueCheckpoint,
    checksum_name,
    commit_name,
    parse_log_name,
)
from holdfast.formats.delta.log.segment import (
    LogListing,
    LogSegment,
    missing_commit,
    read_listing,
    readable_versions,
    segments_from,
    without,
)
from holdfast.storage.base import ObjectMeta
from tests.support.depth import examples

V7 = f"{7:020d}"


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        (f"{V7}.json", Commit(7)),
        (f"{V7}.crc", Checksum(7)),
        (f"{V7}.checkpoint.parquet", ClassicCheckpoint(7)),
        (f"{V7}.checkpoint.{2:010d}.{3:010d}.parquet", PartCheckpoint(7, 2, 3)),
        (f"{V7}.checkpoint.80a083e8-7026.json", UniqueCheckpoint(7, "80a083e8-7026", "json")),
        (f"{V7}.checkpoint.80a083e8-7026.parquet", UniqueCheckpoint(7, "80a083e8-7026", "parquet")),
        (f"{V7}.{9:020d}.compacted.json", CompactedLog(7, 9)),
        ("_last_checkpoint", LastCheckpoint()),
        (f"{V7}.{7:020d}.compacted.json", None),
        (f"{V7}.checkpoint.{4:010d}.{3:010d}.parquet", None),
        (f"{V7}.checkpoint.{0:010d}.{3:010d}.parquet", None),
        (f"{V7}.80a083e8-7026.json", None),
        (f"{V7}.json.tmp", None),
        (f".{V7}.json.crc", None),
        ("7.json", None),
        (f"{V7}.checkpoint", None),
        ("_last_vacuum_info", None),
        ("", None),
    ],
)
def test_every_name_has_one_meaning(name: str, meaning: LogName | None) -> None:
    assert parse_log_name(name) == meaning


@given(st.integers(0, 10**20 - 1))
def test_names_we_make_are_names_we_know(version: int) -> None:
    assert parse_log_name(commit_name(version)) == Commit(version)
    assert parse_log_name(checksum_name(version)) == Checksum(version)


def listing(*names: str) -> LogListing:
    files = [ObjectMeta(f"t/_delta_log/{name}", 1, n) for n, name in enumerate(sorted(names))]
    return read_listing(files, directory="memory:///t/_delta_log")


def commits(*versions: int) -> list[str]:
    return [commit_name(v) for v in versions]


def covered(segment: LogSegment) -> list[int]:
    """The versions a segment's files speak of, oldest first."""
    versions: list[int] = []
    if segment.checkpoint is not None:
        versions += range(segment.checkpoint.version + 1)
    for meta in segment.deltas:
        match parse_log_name(meta.name):
            case Commit(version):
                versions.append(version)
            case CompactedLog(start, end):
                versions += range(start, end + 1)
            case other:
                raise AssertionError(f"{other} is no delta")
    return versions


@st.composite
def logs(draw: st.DrawFn) -> list[str]:
    version = st.integers(0, 8)
    names = {commit_name(v) for v in draw(st.sets(version, max_size=9))}
    names |= {f"{v:020d}.checkpoint.parquet" for v in draw(st.sets(version, max_size=2))}
    names |= {f"{v:020d}.checkpoint.abc.json" for v in draw(st.sets(version, max_size=1))}
    parts = draw(st.sets(st.tuples(version, st.integers(1, 2)), max_size=3))
    names |= {f"{v:020d}.checkpoint.{p:010d}.{2:010d}.parquet" for v, p in parts}
    spans = draw(st.sets(st.tuples(version, version), max_size=3))
    names |= {f"{a:020d}.{b:020d}.compacted.json" for a, b in spans if a < b}
    return sorted(names)


@examples(150)
@given(logs(), st.integers(0, 9))
def test_every_way_covers_every_version_once(names: list[str], at: int) -> None:
    log_listing = listing(*names)
    ways = list(segments_from(log_listing, at=at))
    for way in ways:
        assert covered(way) == list(range(at + 1))
        assert way.checkpoint is None or way.checkpoint.version <= at
    checkpoints = [w.checkpoint.version if w.checkpoint else -1 for w in ways]
    assert checkpoints == sorted(checkpoints, reverse=True)
    if at in readable_versions(log_listing):
        assert ways
    if not ways and log_listing.latest is not None:
        assert isinstance(missing_commit(log_listing, at=at), Damaged | UnknownVersion)


@examples(50)
@given(logs(), st.integers(0, 8), st.data())
def test_dropping_a_file_leaves_the_ways_that_never_needed_it(names: list[str], at: int, data: st.DataObject) -> None:
    log_listing = listing(*names)
    ways = list(segments_from(log_listing, at=at))
    if not ways:
        return
    first = [*(ways[0].checkpoint.files if ways[0].checkpoint else ()), *ways[0].deltas]
    bad = data.draw(st.sampled_from([meta.name for meta in first]))
    for way in segments_from(without(log_listing, {bad}), at=at):
        used = [*(way.checkpoint.files if way.checkpoint else ()), *way.deltas]
        assert bad not in [meta.name for meta in used]
        assert covered(way) == list(range(at + 1))


def test_a_compaction_is_used_where_it_fits() -> None:
    names = [*commits(*range(6)), f"{1:020d}.{3:020d}.compacted.json", f"{1:020d}.{5:020d}.compacted.json"]
    used = [meta.name for meta in next(segments_from(listing(*names), at=4)).deltas]
    assert used == [commit_name(0), f"{1:020d}.{3:020d}.compacted.json", commit_name(4)]
    used = [meta.name for meta in next(segments_from(listing(*names))).deltas]
    assert used == [commit_name(0), f"{1:020d}.{5:020d}.compacted.json"]


def test_a_compaction_that_reaches_into_a_hole_gives_way_to_commits() -> None:
    names = [*commits(0, 1, 2, 3, 4), f"{0:020d}.{2:020d}.compacted.json", f"{1:020d}.{3:020d}.compacted.json"]
    assert covered(next(segments_from(listing(*names)))) == [0, 1, 2, 3, 4]


def test_what_is_readable_is_said_in_ranges() -> None:
    log_listing = listing(*commits(0, 1, 3, 4, 6), f"{3:020d}.checkpoint.parquet")
    assert readable_versions(log_listing) == [0, 1, 3, 4]
    assert not [*segments_from(log_listing), *segments_from(log_listing, at=7)]
    with pytest.raises(Damaged, match=r"version 5 is missing .* versions 0 to 1, 3 to 4 can still be read"):
        raise missing_commit(log_listing)
    with pytest.raises(UnknownVersion, match="readable are versions 0 to 1, 3 to 4"):
        raise missing_commit(log_listing, at=7)


def test_cleaned_up_versions_are_unknown_not_damaged() -> None:
    log_listing = listing(*commits(5, 6, 7), f"{5:020d}.checkpoint.parquet")
    assert next(segments_from(log_listing)).version == 7
    assert not list(segments_from(log_listing, at=4))
    with pytest.raises(UnknownVersion, match="readable are versions 5 to 7"):
        raise missing_commit(log_listing, at=4)
