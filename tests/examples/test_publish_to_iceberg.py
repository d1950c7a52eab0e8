"""The story of a table that is published ends with three tables that have the same rows under the same ids."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.examples.stories import story


def test_a_copy_follows_its_table(tmp_path: Path) -> None:
    ended = story("publish_to_iceberg").main(tmp_path)
    assert len(ended.orders) == 1008
    assert ended.orders == ended.copy == ended.archive
    assert ended.nights == ((1000, 0, 0), (10, 10, 1), (0, 0, 0), (0, 0, 0))
    assert Counter(ended.changes) == {"insert": 10, "update_preimage": 10, "update_postimage": 10, "delete": 1}
    assert "changed rows since version 5" in ended.refused
