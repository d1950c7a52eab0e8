"""What `spark.catalog` tells of our tables: what they are now, where Spark only knows what they were when entered.

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
from holdfast.table.delta import DeltaTable


def found(spark: SparkSession, known: TableResolver, name: str, database: str | None = None) -> ResolvedTable | None:
    """The table of ours that a name means."""
    with as_delta_spark(missing=TABLE_NOT_FOUND):
        try:
            parts = split(name)
        except Invalid:
            return None  # Spark says what is wrong with it
        return known.table(spark, parts if database is None else (database, *parts))


def columns_of(table: ResolvedTable) -> list[Column]:
    """The columns of a table."""
    snapshot = table.table.handle.newest().snapshot
    clustering: set[str] = set()
    if isinstance(table.table, DeltaTable):
        clustering = set(table.table.detailArrow().column("clusteringColumns")[0].as_py() or ())
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


def described(told: Table, table: ResolvedTable) -> Table:
    """What a catalog tells of a table, with the description that the table itself has."""
    if not isinstance(table.table, DeltaTable):
        return told
    own = table.table.detailArrow().column("description")[0].as_py()
    return told._replace(description=own or told.description)
