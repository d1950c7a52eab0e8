"""Random stories of tables, every state of which delta-spark reads as the model has it, with row ids and versions."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, run_state_machine_as_test

from holdfast import DeltaTable
from tests.interop.peer import Peer
from tests.support.depth import examples
from tests.support.sayings import shown
from tests.support.story import COLUMNS, Kind, Story
from tests.verbs.dml.test_dml_property import Stories, rows

COUNT, STEPS = 8, 8


class ToldStories(Stories):
    """Steps on one table; when the story ends, delta-spark is asked about every version of it."""

    peer: ClassVar[Peer]
    states: ClassVar[int] = 0
    changes: ClassVar[int] = 0

    @initialize(
        kind=st.builds(Kind, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([2, 100])),
        first=st.lists(rows, min_size=1, max_size=8),
    )
    def begin(self, kind: Kind, first: list[dict[str, Any]]) -> None:
        self.directory = TemporaryDirectory()
        self.story = Story(f"{self.directory.name}/table", self.open, kind)
        self.story.append(first)

    def teardown(self) -> None:
        if not hasattr(self, "story"):
            return
        try:
            self._ask()
        finally:
            self.directory.cleanup()

    def _ask(self) -> None:
        versions = sorted(self.story.versions)
        found = self.peer.versions(Path(self.story.path), versions)
        for version in versions:
            wanted = [(row_id, at, shown([row])) for row_id, (at, row) in self.story.versions[version].items()]
            assert sorted(_identified(found[version])) == sorted(wanted), f"version {version} of {self.story.kind}"
        type(self).states += len(versions)
        if self.story.kind.feed:
            told = self.peer.feed(Path(self.story.path), 0, versions[-1])
            assert _told(DeltaTable.forPath(None, self.story.path).changeFeed(0).toArrow()) == _told(told)
            type(self).changes += told.num_rows


def _identified(table: pa.Table) -> list[tuple[int, int, str]]:
    plain = table.select(COLUMNS.names).cast(COLUMNS).to_pylist()
    ids = zip(table["_row_id"].to_pylist(), table["_row_version"].to_pylist(), strict=True)
    return [(row_id, at, shown([row])) for (row_id, at), row in zip(ids, plain, strict=True)]


def _told(feed: pa.Table) -> list[tuple[int, str, str]]:
    rows = feed.select(COLUMNS.names).cast(COLUMNS).to_pylist()
    facts = zip(feed["_commit_version"].to_pylist(), feed["_change_type"].to_pylist(), strict=True)
    return sorted((at, change, shown([row])) for (at, change), row in zip(facts, rows, strict=True))


def tell(peer: Peer) -> str:
    """Tell stories; gives what delta-spark read of them. Raises where it read something else."""
    told = type("Told", (ToldStories,), {"peer": peer, "states": 0, "changes": 0})
    run_state_machine_as_test(told, settings=settings(examples(COUNT), stateful_step_count=STEPS, database=None))
    return f"{told.states} states and {told.changes} changes"
