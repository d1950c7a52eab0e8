"""Random histories of a Delta table, published to an Iceberg table and from there back to Delta."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test
from pyiceberg.catalog import load_catalog

from holdfast import DeltaTable, IcebergTable
from holdfast.model.publication import Publication
from tests.support.depth import examples
from tests.support.sayings import Row, shown
from tests.support.story import Kind, Story
from tests.verbs.dml.test_dml_property import Stories, rows

fresh = count()
SPECS = [(), ("p",), ("bucket(3, k)",), ("truncate(1, p)", "k")]


def by_id(table: DeltaTable | IcebergTable, **at: Any) -> dict[int, tuple[int, str]]:
    """The version and the values of each row."""
    found: list[Row] = table.toArrow(metadata=["_row_id", "_row_commit_version"], **at).to_pylist()
    told = {row.pop("_row_id"): (row.pop("_row_commit_version"), shown([row])) for row in found}
    assert len(told) == len(found), "row ids are unique"
    return told


def values(rows: dict[int, tuple[int, str]]) -> dict[int, str]:
    return {row_id: text for row_id, (_, text) in rows.items()}


class PublishedStories(Stories):
    """Steps on a Delta table whose rows are published whenever it pleases."""

    @initialize(
        kind=st.builds(Kind, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([2, 100])),
        first=st.lists(rows, min_size=1, max_size=8),
        by=st.sampled_from(SPECS),
    )
    def begin(self, kind: Kind, first: list[dict[str, Any]], by: tuple[str, ...]) -> None:
        place = f"memory://published/{next(fresh)}"
        self.story = Story(f"{place}/source", self.open, kind)
        self.story.append(first)
        catalog = load_catalog(f"published{next(fresh)}", type="in-memory", warehouse=f"{place}/warehouse")
        self.ice: IcebergTable = IcebergTable.createLike(None, catalog, "db.t", self.story.table, partitionedBy=by)
        self.back: DeltaTable = DeltaTable.createLike(None, f"{place}/back", self.ice)
        self.versions: dict[int, tuple[int, int]] = {}  # by id: the row's version, and the one that brought it
        self.upto = -1

    @rule(lag=st.integers(0, 2))
    def publish(self, lag: int) -> None:
        version = max(self.story.version() - lag, 0)
        before = self.ice.version
        done = self.story.table.publish(self.ice, upto=version)
        if version <= self.upto:
            assert done.version is None
            assert self.ice.version == before
            return
        assert done.versions == (self.upto + 1, version)
        told = by_id(self.story.table, version=version)
        found = by_id(self.ice)
        assert values(found) == values(told)
        were = self.versions
        assert (done.inserted, done.deleted) == (len(told.keys() - were.keys()), len(were.keys() - told.keys()))
        assert done.updated == sum(row_id in were and were[row_id][0] != told[row_id][0] for row_id in told)
        self._check_versions(told, found, done.versions)
        identity = self.story.table.handle.at(version, None).snapshot.identity
        assert identity is not None
        assert (self.ice.handle.newest().metadata.next_row_id or 0) > identity.high_water
        self.upto = version

    @rule(rows=st.integers(1, 20))
    def compact_there(self, rows: int) -> None:
        before = by_id(self.ice)
        self.ice.optimize(targetRows=rows).executeCompaction()
        assert by_id(self.ice) == before

    @rule()
    def publish_back(self) -> None:
        if self.ice.version < 0:
            return
        self.ice.publish(self.back)
        assert values(by_id(self.back)) == values(by_id(self.ice))
        identity = self.back.handle.newest().snapshot.identity
        assert identity is not None
        assert identity.high_water >= (self.ice.handle.newest().metadata.next_row_id or 0) - 1
        assert self.ice.publish(self.back).version is None

    def _check_versions(
        self, told: dict[int, tuple[int, str]], found: dict[int, tuple[int, str]], brought: tuple[int, int]
    ) -> None:
        """A row was last changed there by the commit that brought its version."""
        publication = self.ice.published()
        assert isinstance(publication, Publication)
        newest = publication.at(brought[1])
        assert newest is not None
        assert publication.at(brought[0]) == newest
        assert publication.versions(newest) == brought
        for row_id, (version, _) in told.items():
            known = self.versions.get(row_id)
            if known is None or known[0] != version:
                self.versions[row_id] = version, newest
            assert found[row_id][0] == self.versions[row_id][1]
        self.versions = {row_id: self.versions[row_id] for row_id in told}


def test_stories_of_published_tables() -> None:
    run_state_machine_as_test(PublishedStories, settings=settings(examples(8), stateful_step_count=10))
