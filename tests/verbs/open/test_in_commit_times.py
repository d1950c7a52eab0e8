"""In-commit timestamps turned on for tables that have a history, and what versions are dated by on either side."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast import DeltaTable, env
from holdfast.formats.delta.log.times import InCommitTimes, in_commit_times, version_at
from holdfast.formats.delta.state import DeltaState, is_table, load
from holdfast.model.mutation import TableDefinition
from holdfast.schema.types import LONG, Field, Struct
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.open import open_location
from holdfast.verbs.define.alter import DeltaAlteration
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.write import make
from tests.support.faulty import every_fault

ON = {"delta.enableInCommitTimestamps": "true"}
VERSION, TIME = "delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp"
ROW = pa.table({"id": pa.array([1], pa.int64())})
LONG_AGO = env.fixed(start_ms=1_000_000_000_000)  # a clock that goes wrong by decades


def table_at(path: Path) -> DeltaTable:
    table = DeltaTable.create().location(path).addColumn("id", "bigint").execute()
    table.append(ROW)
    return table


def state(path: Path, version: int | None = None) -> DeltaState:
    return load(open_location(str(path)), version=version)


def own_time(path: Path, version: int) -> int | None:
    info = json.loads((path / "_delta_log" / f"{version:020d}.json").read_text().split("\n")[0])["commitInfo"]
    return info.get("inCommitTimestamp")


def dates(location: Location, last: int) -> list[int]:
    return [load(location, version=v).snapshot.timestamp_ms for v in range(last + 1)]


@pytest.mark.on_disk
@pytest.mark.parametrize("clock", [env.system(), LONG_AGO], ids=["right", "wrong"])
def test_turned_on_later_versions_are_dated_by_file_before_and_by_commit_after(tmp_path: Path, clock: env.Env) -> None:
    table = table_at(tmp_path)
    written = DeltaAlteration(state(tmp_path), clock).set_properties(ON)
    assert written.version == 2
    table.append(ROW)
    table.append(ROW)
    newest = state(tmp_path)
    properties = newest.metadata.properties
    assert properties[VERSION] == "2"
    assert properties[TIME] == str(own_time(tmp_path, 2))
    assert [own_time(tmp_path, v) is None for v in range(5)] == [True, True, False, False, False]
    location = newest.snapshot.location
    times = dates(location, 4)
    assert times[2:] == sorted(set(times[2:]))
    assert times[2] > times[1]
    for version in range(1, 5):
        assert version_at(location, times[version]) == version
        assert version_at(location, times[version] - 1) == version - 1
    assert [row["version"] for row in table.historyArrow().to_pylist()] == [4, 3, 2, 1, 0]
    assert table.historyArrow()["timestamp"].cast(pa.int64()).to_pylist() == [1000 * t for t in reversed(times)]


def test_after_a_lost_race_it_is_the_attempt_that_landed_that_counts(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    stale = state(tmp_path)
    table.append(ROW)
    table.append(ROW)
    assert DeltaAlteration(stale, env.system()).set_properties(ON).version == 4
    properties = state(tmp_path).metadata.properties
    assert (properties[VERSION], properties[TIME]) == ("4", str(own_time(tmp_path, 4)))


def test_a_fault_anywhere_leaves_times_on_or_off_and_never_wrong() -> None:
    clock = env.system()

    def run(store: ObjectStore) -> None:
        location = Location(store, "t")
        made = make(
            location,
            TableDefinition(Struct((Field("id", LONG),))),
            clock,
            mode=CreateMode.CREATE_IF_NOT_EXISTS,
            plain=True,
        )
        DeltaAlteration(made, clock).set_properties(ON)
        DeltaAlteration(load(location), clock).default_column("id", "7")

    def check(store: ObjectStore) -> None:
        location = Location(store, "t")
        if not is_table(location):
            return
        newest = load(location)
        own = in_commit_times(newest.protocol, newest.metadata)
        if own is not None:
            assert own == InCommitTimes(1, load(location, version=1).snapshot.timestamp_ms)
        assert dates(location, newest.version) == sorted(dates(location, newest.version))

    assert every_fault(run, check) > 10


def test_other_changes_keep_when_it_began_and_turning_it_off_forgets(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    table.setProperties(ON)
    began = state(tmp_path).metadata.properties[TIME]
    table.setProperties({"owner": "me"})
    assert state(tmp_path).metadata.properties[TIME] == began
    table.setProperties({"delta.enableInCommitTimestamps": "false"})
    off = state(tmp_path)
    assert not {VERSION, TIME} & off.metadata.properties.keys()
    assert in_commit_times(off.protocol, off.metadata) is None
    table.setProperties(ON)
    assert state(tmp_path).metadata.properties[VERSION] == "5"


def test_a_table_made_anew_in_the_place_of_another(tmp_path: Path) -> None:
    table_at(tmp_path)

    def replaced(**properties: str) -> dict[str, str]:
        builder = DeltaTable.createOrReplace().location(tmp_path).addColumn("id", "bigint")
        for name, value in properties.items():
            builder = builder.property(f"delta.{name}", value)
        return dict(builder.execute().handle.newest().metadata.properties)

    assert replaced(enableInCommitTimestamps="true")[VERSION] == "2"
    assert replaced(enableInCommitTimestamps="true")[VERSION] == "2"
    assert VERSION not in replaced()
    assert replaced(enableInCommitTimestamps="true")[VERSION] == "5"
    location = state(tmp_path).snapshot.location
    for version, moment in enumerate(dates(location, 5)[5:], 5):
        assert version_at(location, moment) == version


def test_a_table_made_with_it_needs_no_beginning(tmp_path: Path) -> None:
    builder = DeltaTable.create().location(tmp_path).addColumn("id", "bigint")
    table = builder.property("delta.enableInCommitTimestamps", "true").execute()
    table.append(ROW)
    assert not {VERSION, TIME} & state(tmp_path).metadata.properties.keys()
    assert [own_time(tmp_path, v) for v in range(2)] == dates(state(tmp_path).snapshot.location, 1)
