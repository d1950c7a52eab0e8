"""Vacuums in random stories: a version that is said to be readable has the rows, ids and versions it always had."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from holdfast import DeltaTable
from holdfast.env import Env, system
from holdfast.errors import MissingFile, UnknownVersion
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.log.listing import list_all
from holdfast.formats.delta.log.times import file_times
from holdfast.formats.delta.state import load
from holdfast.model.versions import Versions
from holdfast.storage.base import NotFound
from holdfast.storage.location import Location
from holdfast.storage.open import open_location
from holdfast.verbs.maintain.vacuum import vacuum
from tests.support.depth import examples
from tests.verbs.dml.test_dml_property import Stories


class VacuumedStories(Stories):
    """Steps on a table whose old files go now and then."""

    @rule(data=st.data(), lite=st.booleans())
    def vacuum(self, data: st.DataObject, lite: bool) -> None:
        location = open_location(self.story.path)
        times = file_times(list_all(location).listing)
        known = [v for v in sorted(times) if v in self.story.versions]
        oldest = data.draw(st.sampled_from(known))  # what was current at its time or later is kept
        env = Env(now_ms=lambda: times[oldest], new_uuid=system().new_uuid)
        before, pins = self.table.readableVersions(), self.table.pins()
        asked: dict[str, Any] = {"retention_hours": 0, "enforced": False, "lite": lite}
        told = vacuum(load(location), env, dry_run=True, **asked)
        done = vacuum(load(location), env, **asked)
        assert sorted(told.paths) == sorted(done.paths)
        readable = self.table.readableVersions()
        assert set(done.lost) == set(before) - set(readable)
        assert set(pins.values()) <= set(readable)
        assert {v for v in before if v >= oldest - 1} <= set(readable)
        self._compare(location, readable)
        self.story.check([])

    @rule(data=st.data())
    def pin(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.story.versions)))
        self.table.pin(version, f"pin {self.table.version}")
        self.story.check([])

    @precondition(lambda self: bool(self.table.pins()))
    @rule()
    def unpin(self) -> None:
        self.table.unpin(next(iter(self.table.pins())))
        self.story.check([])

    @property
    def table(self) -> DeltaTable:
        return DeltaTable.forPath(None, self.story.path)

    def _compare(self, location: Location, readable: Versions) -> None:
        for version, rows in list(self.story.versions.items()):
            assert _is_readable(location, version) == (version in readable)
            if version in readable:
                found = self.table.toArrow(version=version, metadata=["_row_id", "_row_commit_version"]).to_pylist()
                got = {row.pop("_row_id"): (row.pop("_row_commit_version"), row) for row in found}
                assert repr(sorted(got.items())) == repr(sorted(rows.items()))
            else:
                with pytest.raises(UnknownVersion, match="vacuum of version"):
                    self.table.toArrow(version=version)
                del self.story.versions[version]


def _is_readable(location: Location, version: int) -> bool:
    """By looking at every file of the version, and at every vector."""
    snapshot = load(location, version=version).snapshot
    try:
        load_hidden(location, snapshot.files)
        for key in snapshot.files.column("key").to_pylist():
            location.store.head(location.store_key(key))
    except (NotFound, MissingFile):
        return False
    return True


def test_stories_with_vacuums() -> None:
    run_state_machine_as_test(VacuumedStories, settings=settings(examples(10), stateful_step_count=10))
