"""One pass over a log finds the files of every version, as reading each version by itself does."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Damaged, NotATable, TableError, UnknownVersion
from holdfast.formats.delta.checkpoint.writer import write_checkpoint
from holdfast.formats.delta.history.reachable import FileLifetimes, all_keys, read_lifetimes, removed_between
from holdfast.formats.delta.log.file_names import commit_name
from holdfast.formats.delta.log.tombstones import tombstones
from holdfast.formats.delta.state import load
from holdfast.storage.arrays import mask
from holdfast.storage.location import Location
from tests.formats.delta.histories import STEPS, TABLES, Step, at, env, smith_of, store
from tests.support.depth import examples
from tests.support.faulty import CountingStore


def _logical(files: pa.Table) -> list[tuple[str, str | None]]:
    return sorted((row["key"], row["dv"] and row["dv"]["id"]) for row in files.select(["key", "dv"]).to_pylist())


def _loadable(location: Location, last: int) -> list[int]:
    versions = []
    for version in range(last + 1):
        try:
            load(location, version=version)
        except TableError:
            continue
        versions.append(version)
    return versions


@examples(25)
@given(
    steps=STEPS,
    table=TABLES,
    checkpoints=st.sets(st.integers(0, 8), max_size=3),
    missing=st.sets(st.integers(0, 7), max_size=2),
    key=st.integers(0, 1000),
)
def test_lifetimes_cover_every_version(
    steps: list[Step], table: dict[str, object], checkpoints: set[int], missing: set[int], key: int
) -> None:
    location = at(store())
    smith = smith_of(location, steps, **table)
    for version in sorted(v for v in checkpoints if v <= smith.version):
        write_checkpoint(load(location, version=version), env())
    for version in missing:
        location.store.delete(location.key("_delta_log", commit_name(version)))
    described = _loadable(location, smith.version)
    if not described:
        with pytest.raises((UnknownVersion, Damaged, NotATable)):  # the last where no commit is left at all
            read_lifetimes(location)
        return
    lifetimes = read_lifetimes(location)
    assert list(lifetimes.described) == described
    states = {version: load(location, version=version) for version in described}
    for version, state in states.items():
        assert _logical(_files_at(lifetimes, version)) == _logical(state.snapshot.files.table)
    if len(lifetimes.keys()):
        one = lifetimes.keys()[key % len(lifetimes.keys())].as_py()
        needing = [v for v in described if one in all_keys(_files_at(lifetimes, v)).to_pylist()]
        assert list(lifetimes.needing(pa.array([one]))) == needing
    for version in set(range(smith.version + 1)) - set(described):
        with pytest.raises(UnknownVersion):
            _files_at(lifetimes, version)
    if len(described) == smith.version + 1 and not missing and not checkpoints:
        gone = set(removed_between(lifetimes, -1, smith.version).to_pylist())
        assert gone >= set(tombstones(states[smith.version]).column("key").to_pylist())


def _files_at(lifetimes: FileLifetimes, version: int) -> pa.Table:
    if version not in lifetimes.described:
        raise UnknownVersion(f"the log does not describe version {version}", version=version)
    return lifetimes.events.filter(mask((lifetimes._since <= version) & (version < lifetimes._until)))


def test_lifetimes_read_each_commit_once() -> None:
    location = at(store())
    smith_of(location, [Step("append", n) for n in range(6)])
    counting = CountingStore(location.store)
    read_lifetimes(at(counting))
    commits = [key for verb, key in counting.keys if verb == "get" and key.endswith(".json")]
    assert sorted(set(commits)) == sorted(location.key("_delta_log", commit_name(v)) for v in range(7))
    assert len(commits) == 8  # the oldest twice: as a version, and for what it removed
