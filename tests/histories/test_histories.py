"""Random histories of tables of both formats, judged by a model and a reader that are none of Holdfast's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.histories.history import DeltaHistory, History, IcebergHistory
from tests.support.depth import DEPTH, SEED

HISTORIES = 3  # of each format, at ordinary depth
STEPS = 14


@pytest.mark.parametrize("kind", [DeltaHistory, IcebergHistory])
def test_histories(kind: type[History], tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    record_property("examples", HISTORIES * DEPTH)
    for number in range(HISTORIES * DEPTH):
        _lived(kind, tmp_path / str(number), f"{kind.__name__} {SEED} {number}", STEPS)


@pytest.mark.parametrize("kind", [DeltaHistory, IcebergHistory])
def test_histories_on_spark(kind: type[History], tmp_path: Path, spark: SparkSession) -> None:
    if DEPTH == 1:
        pytest.skip("in make soak")
    for number in range(DEPTH // 20):
        _lived(kind, tmp_path / str(number), f"spark {kind.__name__} {SEED} {number}", STEPS, spark)


def _lived(kind: type[History], path: Path, seed: str, steps: int, spark: Any = None) -> None:
    history = kind(path, Random(seed), spark)
    try:
        for _ in range(steps):
            history.step()
    except BaseException as error:
        error.add_note(f"history {seed!r} (HOLDFAST_SEED={SEED}): {'; '.join(history.told)}")
        raise
