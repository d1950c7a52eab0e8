"""Chooses the columns that a scan outputs and reads, and converts stored columns to the table's."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column
from pyspark.sql import functions as F

from holdfast.engines.spark.scan.footers import Spelling
from holdfast.engines.spark.types import named, solid, spark_type, with_voids
from holdfast.plan.scan.request import ScanPlan, metadata_field
from holdfast.predicate.records import columns_of, has_opaque
from holdfast.schema.literal_text import literal_text
from holdfast.schema.types import Field


def logical(f: Field, spelling: Spelling) -> Column:
    """A stored column under its logical type: nested fields take their logical names."""
    held = solid(f)
    if held is None:
        return F.lit(None).cast(spark_type(f.type))
    if spelling.defaults(f):
        return F.expr(literal_text(f.initial_default, f.type)).cast(spark_type(f.type))
    stored = named(spelling.top(held))
    shown = spark_type(held.type)
    value = stored if spark_type(spelling.type(held)) == shown else stored.cast(shown)
    return value if held is f else with_voids(value, f.type)


def all_outputs(plan: ScanPlan) -> tuple[Field, ...]:
    """What a plan gives where every column of the table is asked for."""
    return outputs_of(replace(plan, columns=plan.snapshot.schema.fields))


def outputs_of(plan: ScanPlan) -> tuple[Field, ...]:
    """The columns a plan gives, then its metadata columns."""
    return (
        *plan.columns,
        *(metadata_field(plan.snapshot, name, output) for name, output in plan.metadata.outputs.items()),
    )


def needed(plan: ScanPlan) -> tuple[Field, ...]:
    """The asked columns and those the condition may use: all, where it is not fully understood."""
    if plan.where is None:
        return plan.columns
    used = {column[0] for column in columns_of(plan.where.predicate)}
    if has_opaque(plan.where.predicate):
        used |= set(plan.snapshot.schema.names)
    output = {f.name for f in plan.columns}
    return (*plan.columns, *(f for f in plan.snapshot.schema.fields if f.name in used - output))
