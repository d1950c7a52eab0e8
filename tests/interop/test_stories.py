"""Other engines read every state that random stories of a table go through."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, run_state_machine_as_test

from tests.interop.engines import DELTA_RS, DUCKDB
from tests.support.depth import examples
from tests.support.sayings import shown
from tests.support.story import COLUMNS, Kind, Story
from tests.verbs.dml.test_dml_property import Stories, rows


class WitnessedStories(Stories):
    """Steps on one table, each seen by readers that share no code with us."""

    @initialize(
        kind=st.builds(Kind, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([2, 100])),
        first=st.lists(rows, min_size=1, max_size=8),
    )
    def begin(self, kind: Kind, first: list[dict[str, Any]]) -> None:
        self.directory = TemporaryDirectory()
        self.story = Story(f"{self.directory.name}/table", self.open, kind)
        self.story.append(first)

    @invariant()
    def others_read_the_same(self) -> None:
        if not hasattr(self, "story"):
            return
        kind = self.story.kind
        # DuckDB reads partition columns of mapped tables as null, whoever wrote them: docs/compatibility.md.
        readers = (DELTA_RS,) if kind.partitioned and kind.mapped else (DELTA_RS, DUCKDB)
        wanted = sorted(shown([row]) for _, row in self.story.rows.values())
        for reader in readers:
            found = reader.read(Path(self.story.path), "true").select(COLUMNS.names).cast(COLUMNS)
            assert sorted(shown([row]) for row in found.to_pylist()) == wanted, reader.name

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.directory.cleanup()


def test_others_read_every_state_of_a_story() -> None:
    run_state_machine_as_test(WitnessedStories, settings=settings(examples(3), stateful_step_count=6))
