"""Answers of `spark.catalog` about our tables from the tables themselves; Spark's entries may be out of date.

1. A name that means none of our tables is left to Spark.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.catalog import Column, Table

from holdfast._dropin.errors import TABLE_NOT_FOUND, as_delta_spark
from holdfast.engines.spark.session.catalog import split
from holdfast.engines.spark.types import spark_struct
from holdfast.errors import Invalid
from holdfast.sql.resolver import ResolvedTable, TableResolver


def table_of(
    spark: SparkSession, resolver: TableResolver, name: str, database: str | None = None
) -> ResolvedTable | None:
    """The table of ours that a name means."""
    with as_delta_spark(missing=TABLE_NOT_FOUND):
        try:
            parts = split(name)
        except Invalid:
            return None  # Spark reports the error
        return resolver.table(spark, parts if database is None else (database, *parts))


def columns_of(resolved: ResolvedTable) -> list[Column]:
    """The columns of a table."""
    snapshot = resolved.table.handle.newest().snapshot
    clustering = resolved.table.handle.details().clustering_columns
    return [
        Column(
            name=f.name,
            description=f.metadata.get("comment"),
            dataType=spark_struct([f]).fields[0].dataType.simpleString(),
            nullable=f.nullable,
            isPartition=f.name in snapshot.partition_columns,
            isBucket=False,
            isCluster=f.name in clustering,
        )
        for f in snapshot.schema.fields
    ]


def described(entry: Table, resolved: ResolvedTable) -> Table:
    """Spark's entry of a table, with the description that the table itself has."""
    return entry._replace(description=resolved.table.handle.details().description or entry.description)
