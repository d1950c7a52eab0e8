"""A session with the drop-in on, left as it was found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import holdfast


@pytest.fixture
def enabled(spark: SparkSession) -> Iterator[SparkSession]:
    """The session of this process, with the drop-in on for one test."""
    with holdfast.enable(spark):
        yield spark
