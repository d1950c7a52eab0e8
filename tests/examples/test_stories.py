"""The stories of examples/ run, and end as they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from tests.examples.stories import EXAMPLES, story


def test_orders_become_sums_without_computing_any_anew(spark: SparkSession, tmp_path: Path) -> None:
    ended = story("change_data_capture").main(spark, tmp_path)
    assert ended.orders == {1: 1200, 2: 950, 4: 990, 6: 7300}
    assert ended.by_customer == {"Ada": (3, 9490), "Ben": (1, 950)}
    assert ended.by_day == {"Mon": (3, 3140), "Tue": (1, 7300)}
    assert ended.told_by_compaction == 0
    operations = DeltaTable.forPath(None, tmp_path / "gold").historyArrow()["operation"].to_pylist()
    assert operations == ["MERGE", "MERGE", "CREATE TABLE"]  # a run in which nothing changed commits nothing


def test_a_dimension_follows_rows_whose_key_changes(spark: SparkSession, tmp_path: Path) -> None:
    told = story("slowly_changing_dimension").main(spark, tmp_path)
    assert told.ben == [
        ("ben@x.org", "Lima", False),
        ("ben@x.org", "Quito", False),
        ("benjamin@y.net", "Quito", False),
        ("benjamin@y.net", "Rome", True),
    ]
    assert told.then == {"ada@x.org": "Oslo", "ben@x.org": "Lima", "cleo@x.org": "Pune"}
    assert told.now == {"benjamin@y.net": "Rome", "cleo@x.org": "Pune", "dov@x.org": "Lima"}
    assert told.commits == 2  # of three runs, the one that ran twice counts once


def test_an_erasure_ends_with_proof(tmp_path: Path) -> None:
    done = story("erasure_on_request").main(tmp_path)
    assert done.files_before > 4
    assert [step.split("(")[0] for step in done.steps] == ["unpin", "rebuildIndex", "vacuum", "erasureStatus"]
    assert {table: entry["clean"] for table, entry in done.certificate.items()} == {"customers": True, "orders": True}
    text = (tmp_path / "certificate.json").read_text()
    assert json.loads(text) == done.certificate
    assert "Mallory" not in text
    assert "3 rows" in str(done.certificate["orders"])  # the one that was cancelled long before among them


def test_embeddings_follow_their_documents(tmp_path: Path) -> None:
    kept = story("embeddings").main(tmp_path)
    assert kept.embedded == (500, 500, 500, 500, 14, 0)
    assert kept.nearest_before == kept.nearest_after
    assert len(set(kept.nearest_after)) == 5
    assert kept.index_before == kept.index_after
    assert kept.recall == 1.0
    assert DeltaTable.forPath(None, tmp_path / "embeddings").toArrow(columns=["document"]).num_rows == 2002


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_story_is_told_in_the_readme(path: Path) -> None:
    assert f"]({path.name})" in (EXAMPLES / "README.md").read_text()
    assert path.read_text().split('"""')[1].count(f"python examples/{path.name} [DIRECTORY]") == 1
