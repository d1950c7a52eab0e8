"""A database of its own, and a way to run statements in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast.engines.spark.session.unpatched import plain_sql
from holdfast.sql.resolver import TableResolver
from holdfast.sql.run import run

DATABASE = "sqltests"


@pytest.fixture(scope="module")
def database(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database of this module, whose tables lie in a directory of this run."""
    plain_sql(spark, f"CREATE DATABASE {DATABASE} LOCATION '{tmp_path_factory.mktemp('warehouse').as_uri()}'")
    yield DATABASE
    plain_sql(spark, f"DROP DATABASE {DATABASE} CASCADE")


@pytest.fixture
def known() -> TableResolver:
    return TableResolver()


@pytest.fixture
def ask(spark: SparkSession, database: str, known: TableResolver) -> Iterator[Callable[..., DataFrame]]:
    """Run a statement that must be ours, in the database of these tests."""

    def asked(text: str, args: Any = None, **fields: Any) -> DataFrame:
        answer = run(spark, text, args, fields or None, resolver=known)
        assert answer is not None, f"nobody took {text}"
        return answer

    before = spark.catalog.currentDatabase()
    spark.catalog.setCurrentDatabase(database)
    yield asked
    spark.catalog.setCurrentDatabase(before)
