"""The files that a vacuum keeps, from a few files of the log, equal those from all commits."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast.env import fixed
from holdfast.formats.delta.checkpoint.writer import write_checkpoint
from holdfast.formats.delta.history.reachable import all_keys, read_lifetimes, with_dv_keys
from holdfast.formats.delta.history.retained import file_keys, horizon_of, reach
from holdfast.formats.delta.log.file_names import commit_name
from holdfast.formats.delta.log.listing import list_all
from holdfast.formats.delta.log.times import file_times
from holdfast.formats.delta.log.tombstones import tombstones
from holdfast.formats.delta.state import DeltaState, load
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from tests.formats.delta.histories import NOW_MS, STEPS, TABLES, Step, at, smith_of, take
from tests.support.depth import examples
from tests.support.tablesmith import Tablesmith

FORGETS = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}  # so that a checkpoint forgets all removals
HISTORIES = st.lists(
    st.one_of(
        STEPS.map(lambda steps: steps[0]), st.builds(Step, st.sampled_from(["stage", "restore"]), st.integers(0, 30))
    ),
    min_size=1,
    max_size=8,
)


def _carry_out(smith: Tablesmith, steps: list[Step]) -> None:
    """Steps, and two more: a change file that a later commit names, and files of an earlier version that come back."""
    staged: list[str] = []
    for step in steps:
        live_paths = {add["path"] for add in smith.live()}
        removed = [add for add in smith.live(step.number % (smith.version + 1)) if add["path"] not in live_paths]
        if step.verb == "stage":
            staged.append(f"_change_data/{len(staged)}-{step.number}.parquet")
            smith.put(staged[-1], b"x")
        elif step.verb == "restore" and removed:
            smith.commit([{"add": add} for add in removed])
        else:
            take(smith, step)
        if staged and step.number % 3 == 0:
            smith.commit([{"cdc": {"path": staged.pop(0), "partitionValues": {}, "size": 1, "dataChange": False}}])


def _clocked(skew_ms: int) -> MemoryStore:
    """A store whose clock ticks beside that of the writers, whose times are in the log."""
    return MemoryStore(env=fixed(start_ms=1_700_000_000_000 + skew_ms))


def _needed_by_commits(state: DeltaState, horizon_ms: int) -> set[str]:
    """Files of removals within the retention, by the time the log gives or that of the commit, and change files of
    commits within it, from every commit."""
    location = state.snapshot.location
    past, times = read_lifetimes(location), file_times(list_all(location).listing)
    removed = past.removed()
    late = [
        max(row["deleted_ms"] or 0, times[row["version"]]) >= horizon_ms
        for row in removed.select(["deleted_ms", "version"]).to_pylist()
    ]
    removed_files = with_dv_keys(location, tombstones(state))
    dated = [(moment or 0) >= horizon_ms for moment in removed_files.column("deleted_ms").to_pylist()]
    files = [removed.filter(pa.array(late, pa.bool_())), removed_files.filter(pa.array(dated, pa.bool_()))]
    changes = zip(*(past.changes.column(name).to_pylist() for name in ("key", "version")), strict=True)
    fed = {key for key, version in changes if times[version] >= horizon_ms}
    return fed | {key for some in files for key in all_keys(some).to_pylist()}


def _idle(location: Location, state: DeltaState, horizon_ms: int) -> pa.Table:
    live = set(file_keys(state).to_pylist())
    modified = {meta.key.removeprefix("t/"): meta.modified_ms for meta in location.store.list_all("t")}
    idle = {
        key: ms
        for key, ms in modified.items()
        if key not in live and ms < horizon_ms and not key.startswith("_delta_log/")
    }
    return pa.table({"key": pa.array(idle, pa.string()), "modified_ms": pa.array(idle.values(), pa.int64())})


@examples(40)
@given(
    steps=HISTORIES,
    table=TABLES,
    checkpoints=st.dictionaries(st.integers(0, 8), st.booleans(), max_size=4),
    forgotten=st.integers(0, 4),
    skew_ms=st.sampled_from([0, -40, 40, -3_600_000, 3_600_000]),
    moment=st.integers(0, 1000),
    pin=st.integers(0, 8),
)
def test_a_few_files_of_a_log_tell_what_all_commits_tell(
    steps: list[Step],
    table: dict[str, Any],
    checkpoints: dict[int, bool],
    forgotten: int,
    skew_ms: int,
    moment: int,
    pin: int,
) -> None:
    location = at(_clocked(skew_ms))
    smith = smith_of(location, [], properties=FORGETS if any(checkpoints.values()) else None, **table)
    _carry_out(smith, steps)
    location.store.put("t/orphan.parquet", b"x")
    times = file_times(list_all(location).listing)
    first = max((v for v in checkpoints if v <= min(forgotten, smith.version)), default=0)
    moments = sorted({ms + more for v, ms in times.items() if v >= first for more in (0, 1)})
    horizon_ms = moments[moment % len(moments)]
    for version, forgets in sorted(checkpoints.items()):
        if version <= smith.version:
            late = forgets and times[version] >= horizon_ms
            write_checkpoint(load(location, version=version), fixed(start_ms=NOW_MS if late else 0))
    for version in range(first):
        location.store.delete(location.key("_delta_log", commit_name(version)))
    state, listing = load(location), list_all(location).listing
    horizon = horizon_of(location, listing, newest=state.version, moment_ms=horizon_ms)
    idle = _idle(location, state, horizon_ms)
    kept = reach(state, horizon, idle, {"p": pin}, of_domains=lambda keys, _: keys.slice(0, 0))
    expected = _needed_by_commits(state, horizon_ms) & set(idle.column("key").to_pylist())
    assert set(kept.needed.to_pylist()) & set(idle.column("key").to_pylist()) == expected
    if pin not in horizon.described:
        assert (kept.unpinnable, kept.pinned) == (("p",), {})
    elif set(idle.column("key").to_pylist()) - expected:
        assert set(kept.pinned["p"].to_pylist()) == set(file_keys(load(location, version=pin)).to_pylist())
