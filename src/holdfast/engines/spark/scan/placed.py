"""Collects facts about files that only some tables have: partition values and fields of Iceberg's specs."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.engines.spark.scan import facts
from holdfast.errors import Damaged
from holdfast.model.files import PARTITION, FileTable
from holdfast.plan.scan.request import ScanPlan
from holdfast.rows import columns as names
from holdfast.schema.partition import column, typed
from holdfast.schema.types import LONG, STRING, DataType

Facts: TypeAlias = dict[str, tuple[pa.Array, DataType]]
_OF_FILES = {names.FILE_SIZE: (facts.SIZE, "size"), names.FILE_TIME: (facts.MODIFIED, "modified_ms")}
_MUST = ("base_row_id", "default_row_commit_version")


def more_facts(plan: ScanPlan, files: FileTable, *, hive: bool, loses: bool, looks_up: bool) -> Facts:
    """What must be joined to the rows of these files, beyond what every table has, with its types.

    `loses`: rows are gone by value, so sequences and groups are asked for; `looks_up`: whole numbers are not joined.
    """
    table, metadata, placement = files.table, plan.metadata.outputs.keys(), plan.snapshot.placement
    facts_by_name: Facts = (
        {} if looks_up else _joined(table, [each for name, each in _OF_FILES.items() if name in metadata])
    )
    if placement is None:
        texts, where = table.column("partition_values"), plan.snapshot.location.url
        for i, f in enumerate(() if hive else plan.partition_fields):
            facts_by_name[partition_name(i)] = (typed(column(texts, f.physical_name), f.type, where=where), f.type)
        return facts_by_name
    if names.FILE in metadata:
        facts_by_name[facts.SHOWN] = (table.column("path").combine_chunks(), STRING)
    if names.PARTITION in metadata:
        tuples = table.column(PARTITION).combine_chunks()
        facts_by_name |= {
            partition_name(i): (tuples.field(i), f.type) for i, f in enumerate(placement.tuple_type.fields)
        }
    if not looks_up:
        wanted = [(facts.SPEC, "spec_id")] if names.SPEC_ID in metadata else []
        wanted += [(facts.SEQUENCE, "sequence"), (facts.GROUP, "group")] if loses else []
        facts_by_name |= _joined(table, wanted)
    return facts_by_name


def _joined(files: pa.Table, wanted: list[tuple[str, str]]) -> Facts:
    """Whole numbers of files, by the names they are joined under."""
    return {name: (files.column(source).combine_chunks().cast("int64"), LONG) for name, source in wanted}


def known_of(plan: ScanPlan, files: pa.Table, name: str) -> pa.Array:
    """A fact that every file has; where ids have gaps, one that some have."""
    values = files.column(name).combine_chunks()
    identity = plan.snapshot.identity
    if values.null_count and name in _MUST and (identity is None or not identity.has_gaps):
        at = pc.index(pc.is_null(values), True).as_py()
        key = files.column("key")[at].as_py()
        raise Damaged(f"the table tracks rows, but its log gives no {name} for {key}", path=key)
    return values


def partition_name(position: int) -> str:
    """The name of a joined partition value."""
    return f"__hf_partition_{position}"


def not_parquet(plan: ScanPlan) -> int:
    """How many files of a plan are of another format."""
    if plan.snapshot.placement is None:
        return 0
    return int(pc.sum(pc.not_equal(plan.files.column("format"), "parquet")).as_py())
