"""Pipelines as delta-spark's documentation teaches them run unchanged; `make interop` runs the same on delta-spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import holdfast
from tests.dropin.recipes import Recipe, recipes

RECIPES = dict(recipes())


@pytest.fixture(scope="module")
def enabled(spark: SparkSession) -> Iterator[SparkSession]:
    with holdfast.enable(spark):
        yield spark


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_runs_unchanged(enabled: SparkSession, tmp_path: Path, name: str) -> None:
    recipe: Recipe = RECIPES[name]
    recipe(enabled, str(tmp_path))
