"""Chooses the engine that carries out a table's verbs: Spark where the user gave a session, else this process.

1. No other module of the verbs asks whether there is a session, or imports the Spark engine at module level: a table
   that is opened without a session is read and written without PySpark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from holdfast.engines.local.engine import LocalEngine
from holdfast.engines.local.incoming import LocalRows
from holdfast.env import Env
from holdfast.errors import Invalid
from holdfast.plan.engine import IncomingRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.engines.spark.engine import SparkEngine
    from holdfast.engines.spark.session.catalog import CatalogEntry

LOCAL = LocalEngine()  # for what this process reads even where there is a session

AnyEngine: TypeAlias = "SparkEngine | LocalEngine"
AnyRows: TypeAlias = "DataFrame | pa.Table"


def engine_of(spark: SparkSession | None, env: Env, zone: str) -> AnyEngine:
    """The engine for a session; this process without one. `zone` is that of times without one."""
    return LocalEngine(env, zone) if spark is None else spark_engine(spark)


def zone_of(spark: SparkSession | None) -> str:
    """The time zone of a session; UTC without one."""
    return "UTC" if spark is None else spark.conf.get("spark.sql.session.timeZone") or "UTC"


def spark_engine(spark: SparkSession) -> SparkEngine:
    """The engine that runs on a session."""
    from holdfast.engines.spark.engine import SparkEngine

    return SparkEngine(spark)


def on_spark(
    engine: AnyEngine, refusal: str = "this table was opened without a Spark session: use toArrow, or open it with one"
) -> SparkEngine:
    """The engine, for what only Spark does; refused where the table was opened without a session."""
    if isinstance(engine, LocalEngine):
        raise Invalid(refusal)
    return engine


def catalog_entry(spark: SparkSession | None, name: str) -> CatalogEntry | None:
    """The entry of a table in the session's catalog; refused without a session."""
    if spark is None:
        raise Invalid(f"{name} is a name in Spark's catalog: open it with a session, or by path, as in delta.`/path`")
    from holdfast.engines.spark.session.catalog import find, split

    return find(spark, split(name))


def rows_of(data: AnyRows, env: Env, zone: str) -> IncomingRows:
    """The rows that a user hands over to be written; this process stores an Arrow table, Spark a DataFrame."""
    if isinstance(data, pa.Table):
        return LocalRows(data, env, zone)
    from holdfast.engines.spark.dml.incoming import SparkRows
    from holdfast.engines.spark.values import is_frame

    if not is_frame(data):
        raise Invalid(f"the rows to write are a DataFrame or an Arrow table, not {type(data).__name__}")
    return SparkRows(data)
