"""The random histories of DML on Iceberg tables, with the steps and the model of the Delta tests."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test
from pyspark.sql import Row, SparkSession

from holdfast.plan.dml.change import Side
from tests.formats.iceberg.iceberg_story import IceKind, IceStory
from tests.support.depth import DEPTH, examples
from tests.support.sayings import When
from tests.verbs.define.test_metadata_stories import MetadataSteps
from tests.verbs.dml.test_dml_property import (
    IF_MATCHED,
    IF_NEW,
    MATCHED_SETS,
    NEW_SETS,
    ON,
    SETS,
    WHERE,
    Stories,
    drawn,
    rows,
)

SPECS = [(), ("p",), ("bucket(3, k)",), ("truncate(1, p)", "k")]


class IceStories(Stories):
    """Steps on an Iceberg table, without Spark."""

    version = 3

    @initialize(
        by=st.sampled_from(SPECS),
        mode=st.sampled_from(["merge-on-read", "copy-on-write"]),
        first=st.lists(rows, min_size=1, max_size=8),
    )
    def begin(self, by: tuple[str, ...], mode: str, first: list[dict[str, Any]]) -> None:
        self.directory = TemporaryDirectory()
        kind = IceKind(tracked=self.version == 3, format_version=self.version, partitioned_by=by, mode=mode)
        self.story = IceStory(self.directory.name, self.open, kind)
        self.story.append(first)

    def teardown(self) -> None:
        self.directory.cleanup()

    @precondition(lambda self: not self.story.kind.partitioned_by)
    @rule(keys=st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True))
    def commit_equality_delete(self, keys: list[int]) -> None:
        assert isinstance(self.story, IceStory)
        self.story.commit_equality_delete(keys)

    def checkpoint(self) -> None:
        """Not a step of these."""

    def compact_log(self) -> None:
        """Not a step of these."""

    def recluster(self) -> None:
        """Not a step of these."""


class OlderStories(IceStories):
    """Steps on a table of version 2, which may become one of version 3."""

    version = 2

    @precondition(lambda self: not self.story.kind.tracked)
    @rule()
    def upgrade(self) -> None:
        assert isinstance(self.story, IceStory)
        self.story.upgrade()


class IceMetadataStories(IceStories, MetadataSteps):
    """Steps on a table of version 3 that is asked for rows by what they are."""

    @property
    def pinned(self) -> Any:
        return self.story.table


def test_stories_of_metadata() -> None:
    run_state_machine_as_test(IceMetadataStories, settings=settings(examples(2), stateful_step_count=8))


@pytest.mark.parametrize("machine", [IceStories, OlderStories])
def test_stories_of_iceberg_tables(machine: type[IceStories]) -> None:
    run_state_machine_as_test(machine, settings=settings(examples(5), stateful_step_count=8))


def test_a_story_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """The same steps and the same model, on the other engine."""
    rng = random.Random(DEPTH)
    kind = IceKind(partitioned_by=("bucket(3, k)",))
    story = IceStory(str(tmp_path), Stories.open, kind, spark=spark)
    for _ in range(DEPTH):
        story.append(drawn(rng, 12))
        story.update(rng.choice(WHERE), (rng.choice(SETS),), rng.choice(story.modes))
        matched = When(Side.MATCHED, rng.choice(IF_MATCHED), tuple(MATCHED_SETS[:2]))
        alone = When(Side.ALONE, rng.choice(WHERE), rng.choice([None, (rng.choice(SETS),)]))
        new = When(Side.NEW, rng.choice([None, *IF_NEW]), tuple(NEW_SETS))
        story.merge(drawn(rng, 4), rng.choice(ON[:-1]), [matched, alone, new], rng.choice(story.modes))
        story.delete(rng.choice(WHERE), rng.choice(story.modes))
        story.compact(20)
        story.restore(rng.choice(sorted(story.versions)))
    first = story.table.historyArrow()["version"][-1].as_py()
    changes = story.table.changes(first, kind="min-delta")
    on_spark = changes.toDF().drop("_commit_timestamp").collect()
    here = changes.toArrow().drop_columns(["_commit_timestamp"]).to_pylist()
    assert sorted(map(str, on_spark)) == sorted(str(Row(**row)) for row in here)
