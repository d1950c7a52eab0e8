"""Streams of an earlier version go on from their checkpoints: every change once, and no batch twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from holdfast.engines.local.changefeed import changes as local_changes_of
from holdfast.plan.changefeed.stream import parse_options
from holdfast.verbs.stream.follow import StreamFollower
from tests.disk.delta_tables import plain
from tests.disk.stream_tables import KINDS, run_all, some
from tests.disk.unpacked import expected, on_disk


@pytest.mark.on_disk
def test_queries_go_on(spark: SparkSession, tmp_path: Path) -> None:
    root, known = on_disk("streams", tmp_path), expected("streams")
    followed, merged = (DeltaTable.forPath(None, root / name) for name in ("followed", "merged"))
    sunk = DeltaTable.forPath(None, root / "sunk")
    assert plain(sunk.toArrow()) == known["sunk"]
    assert plain(merged.toArrow()) == known["merged"]
    for name in ("sunk", "merged"):  # died after the table's commit and before Spark's own
        last = max((root / "checkpoints" / name / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    versions = sunk.version, merged.version
    followed.append(some(4, 5))
    given = run_all(spark, root, kinds=())
    assert sunk.refresh() == versions[0] + 1, "the batch that was there is not written again"
    assert merged.refresh() == versions[1] + 1
    assert plain(sunk.toArrow()) == plain(followed.toArrow())
    assert plain(merged.toArrow()) == plain(followed.toArrow())
    assert [row["n"] for _, row in known["batches"]["stream-changes"]] == [1, 2, 3]
    last = max(batch for batch, _ in known["batches"]["stream-changes"])
    rows = [(batch, row["n"], row["s"]) for batch, row in given["stream-changes"]]
    assert rows == [(last + 1, 4, "row 4"), (last + 1, 5, "row 5")]


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_mean_what_they_meant(tmp_path: Path, kind: str) -> None:
    """Without Spark: from every offset of a checkpoint on, what came after it, and what comes now."""
    root, batches = on_disk("streams", tmp_path), expected("streams", "batches")[kind]
    path = root / "followed"
    DeltaTable.forPath(None, path).append(some(4, 5))
    offsets = sorted((root / "checkpoints" / kind / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    assert len(offsets) == 1 + max(batch for batch, _ in batches)
    for file in offsets:
        follower = StreamFollower(parse_options({"path": str(path), **KINDS[kind]}))
        at = follower.offset(json.loads(file.read_text().splitlines()[-1]))
        later = [row["n"] for batch, row in batches if batch > int(file.name)]
        while (end := follower.latest(at, None)) != at:
            rows = local_changes_of(follower.plan(at, end)).to_pylist()
            assert [row["n"] for row in rows] == later + ([] if end.version == 3 else [4, 5])
            at, later = end, []
        assert at.version == 4


def test_columns_that_spark_computes(spark: SparkSession, tmp_path: Path) -> None:
    path, known = on_disk("delta", tmp_path) / "generated", expected("delta", "generated")
    table = DeltaTable.forPath(spark, path)
    assert plain(table.toArrow(metadata=["_row_id"])) == known["rows"]
    table.append(spark.createDataFrame([(21,)], "n long"))
    (new,) = table.toArrow(where="n = 21").to_pylist()
    assert new["doubled"] == 42
    assert new["at"] is not None
