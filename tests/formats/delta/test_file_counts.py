"""Counts of live files: they do not depend on how a version was read, and an append counts only its own files."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.formats.delta.checkpoint import file_counts
from holdfast.formats.delta.checkpoint.crc_write import crc_body
from holdfast.formats.delta.state import DeltaState, load, refresh
from tests.formats.delta.handlog import HandLog, add, remove, vector
from tests.support.depth import examples

BLIND = {"commitInfo": {"operation": "WRITE", "isBlindAppend": True}}
SIZES = st.sampled_from([0, 1, 8191, 8192, 1 << 20, (1 << 38) + 1])
FILES = st.tuples(st.sampled_from("abcdef"), SIZES, st.sampled_from([None, 1, 12, 2**31]))


def action(name: str, size: int, hidden: int | None, **more: Any) -> dict[str, Any]:
    dv = None if hidden is None else vector(f"v{hidden}", cardinality=hidden)
    return add(name, size=size, dv=dv, **more)


@st.composite
def commits(draw: st.DrawFn) -> list[list[dict[str, Any]]]:
    """Appends of new files, rewrites, and additions of files that are there already."""
    commits: list[list[dict[str, Any]]] = []
    kinds = st.lists(st.sampled_from(["append", "append", "again", "remove"]), min_size=1, max_size=8)
    for number, kind in enumerate(draw(kinds)):
        files = draw(st.lists(FILES, min_size=1, max_size=3, unique_by=lambda f: f[0]))
        if kind == "append":
            commits.append([BLIND, *(action(f"{name}-{number}", size, hidden) for name, size, hidden in files)])
        elif kind == "again":
            commits.append([BLIND, *(action(*file, dataChange=False) for file in files)])
        else:
            commits.append([remove(name) for name, *_ in files])
    return commits


@examples(25)
@given(commits(), st.data())
def test_counts_follow_the_commits(history: list[list[dict[str, Any]]], data: st.DataObject) -> None:
    log = HandLog()
    log.create(action("a", 5, None), action("b", 7, 3))
    walked = load(log.location)
    for version, actions in enumerate(history, start=1):
        log.commit(version, *actions)
        if data.draw(st.booleans()):
            walked = refresh(walked)
            if data.draw(st.booleans()):
                assert counted(walked) == counted(load(log.location))
    assert counted(refresh(walked)) == counted(load(log.location))


def counted(state: DeltaState) -> file_counts.FileCounts:
    return state.file_counts.value


def test_after_a_blind_append_only_its_files_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    log = HandLog()
    log.create(add("a"))
    state = load(log.location)
    rows: list[int] = []
    original = file_counts.count_files
    monkeypatch.setattr(file_counts, "count_files", lambda files: rows.append(files.num_rows) or original(files))
    for version in range(1, 6):
        log.commit(version, BLIND, add(f"new-{version}", size=version))
        # As a writer does it: what a commit led to is looked at and dropped, and found again by the next write.
        assert crc_body(refresh(state))["tableSizeBytes"] == 10 + version * (version + 1) // 2
        state = refresh(state)
    assert rows == [1], "the files that were there at first"


@pytest.mark.parametrize(
    "commit",
    [[add("b")], [BLIND, add("a", dataChange=False)], [BLIND, add("b"), remove("a")]],
    ids=["it does not say that it is blind", "a file may be there already", "files are removed"],
)
def test_after_any_other_commit_all_files_are_counted(
    commit: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = HandLog()
    log.create(add("a"))
    state = load(log.location)
    assert counted(state).files == 1
    log.commit(1, *commit)
    new = refresh(state)
    rows: list[int] = []
    original = file_counts.count_files
    monkeypatch.setattr(file_counts, "count_files", lambda files: rows.append(files.num_rows) or original(files))
    assert counted(new).files == len(new.snapshot.files)
    assert rows == [len(new.snapshot.files)]
