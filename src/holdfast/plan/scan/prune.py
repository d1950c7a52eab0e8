"""Drops the files in which no row can satisfy a condition.

Pruning is a list of passes over the table of files. Each pass looks at one kind of metadata and returns a mask.

1. A file with a live row that satisfies the condition passes every pruner.
2. Statistics are read only for columns that a parsed part of the condition tests, and only for files that earlier
   passes kept.
3. The steps add up: the files that a step keeps are the input of the next step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from holdfast.model.files import FileStats, FileTable, LeafPath
from holdfast.model.snapshot import Snapshot
from holdfast.plan.scan.buckets import buckets_tested, may_hold
from holdfast.plan.scan.metadata_bounds import metadata_bounds
from holdfast.plan.scan.metadata_columns import NO_METADATA, MetadataColumns
from holdfast.predicate.bounds import ColumnBounds, Range, Single, may_match
from holdfast.predicate.records import ALWAYS, Column, Predicate, conjunction, conjuncts, tested_columns
from holdfast.predicate.render import column_text
from holdfast.rows.columns import PARTITION
from holdfast.schema.partition import column as partition_texts
from holdfast.schema.partition import typed
from holdfast.schema.types import DataType, Field, Struct


@dataclass(frozen=True, slots=True)
class Want:
    """A snapshot and the condition on the rows to read, in logical column names."""

    snapshot: Snapshot
    where: Predicate = ALWAYS
    metadata: MetadataColumns = NO_METADATA  # those that the condition may test


@dataclass(frozen=True, slots=True)
class PruningStep:
    name: str
    kept: int
    dropped: int
    detail: str = ""


@dataclass(frozen=True)
class Pruned:
    """The files that were kept, and the result of each pass."""

    files: FileTable
    steps: tuple[PruningStep, ...]


Pruner: TypeAlias = Callable[[FileTable, Want], pa.BooleanArray]


def prune(files: FileTable, want: Want, more: Sequence[Pruner] = ()) -> Pruned:
    """The files that may hold a row to read; `more` are further passes, such as an index.

    A pass that does not apply is no step.
    """
    steps = []
    applicable = [pruner for pruner in more if getattr(pruner, "applies", _always)(want)]
    for pruner in (by_partition, *([by_metadata] if _on_metadata(want) else []), by_bounds, *applicable):
        kept = files.filter(pruner(files, want))
        describe = _DETAILS.get(pruner) or getattr(pruner, "detail", None)
        steps.append(PruningStep(_name(pruner), len(kept), len(files) - len(kept), describe(want) if describe else ""))
        files = kept
    return Pruned(files, tuple(steps))


def pass_detail(pruner: Pruner, want: Want) -> str:
    """A line about what a further pass used in its last run; empty if it did not run."""
    text = describe(want) if (describe := getattr(pruner, "detail", None)) else ""
    return f"{_name(pruner).replace('_', ' ')}: {text}" if text else ""


def by_partition(files: FileTable, want: Want) -> pa.BooleanArray:
    """Files whose partition values allow the condition; statistics are not read.

    For Iceberg tables this pass looks at buckets; partition values with an order are part of the statistics.
    """
    if want.snapshot.placement is not None:
        return pa.array(may_hold(files, want.snapshot, want.where))
    parts = _on_partitions(want)
    if not parts or not len(files):
        return _all(files)
    bounds = partition_values(files, want.snapshot, _columns(parts))
    return may_match(conjunction(parts), bounds, pa.nulls(len(files), pa.int64()))


def by_bounds(files: FileTable, want: Want) -> pa.BooleanArray:
    """Files whose statistics and partition values together allow the condition."""
    parts = _on_statistics(want)
    if not parts or not len(files):
        return _all(files)
    columns = _columns(parts)
    stats = files.stats(dict(statistics_leaves(want.snapshot, columns).values()))
    bounds = {
        **partition_values(files, want.snapshot, columns),
        **ranges(stats, want.snapshot, columns),
    }
    return may_match(conjunction(parts), bounds, stats.num_records)


def by_metadata(files: FileTable, want: Want) -> pa.BooleanArray:
    """Files whose rows may have the metadata columns that the condition asks for, according to the log."""
    parts = _on_metadata(want)
    if not parts or not len(files):
        return _all(files)
    bounds, num_records = column_bounds(files, want, _columns(parts))
    return may_match(conjunction(parts), bounds, num_records)


def column_bounds(
    files: FileTable, want: Want, columns: Iterable[Column]
) -> tuple[dict[Column, ColumnBounds], pa.Array]:
    """The bounds of columns of any kind, and the row count of each file."""
    columns, snapshot = list(columns), want.snapshot
    bounds = metadata_values(files, want, columns)
    stored = [column for column in columns if column[0] not in want.metadata.canonical]
    stats = files.stats(dict(statistics_leaves(snapshot, stored).values()))
    return {
        **bounds,
        **partition_values(files, snapshot, stored),
        **ranges(stats, snapshot, stored),
    }, stats.num_records


def metadata_values(files: FileTable, want: Want, columns: Iterable[Column]) -> dict[Column, ColumnBounds]:
    """The bounds of those columns that are metadata columns."""
    tested = {column: want.metadata.canonical[column[0]] for column in columns if column[0] in want.metadata.canonical}
    bounds = metadata_bounds(files, want.snapshot, tested)
    if want.snapshot.placement is None:
        # The fields of `_partition` have the values of the partition columns.
        inner = {column: column[1:] for column, name in tested.items() if name == PARTITION}
        values = partition_values(files, want.snapshot, inner.values())
        bounds |= {column: values[path] for column, path in inner.items() if path in values}
    return bounds


def partition_values(files: FileTable, snapshot: Snapshot, columns: Iterable[Column]) -> dict[Column, ColumnBounds]:
    """The typed values of those columns that are partition columns."""
    bounds: dict[Column, ColumnBounds] = {}
    for column in columns:
        if is_partition(snapshot, column):
            field = snapshot.schema.find(column[0])
            assert field is not None, "a partition column is in the schema"
            texts = partition_texts(files.column("partition_values"), field.physical_name)
            where = f"partition column {column_text(column)} of {snapshot.location.url}"
            bounds[column] = Single(typed(texts, field.type, where=where))
    return bounds


def ranges(stats: FileStats, snapshot: Snapshot, columns: Iterable[Column]) -> dict[Column, ColumnBounds]:
    """The statistics of those columns that can have statistics."""
    intervals: dict[Column, ColumnBounds] = {}
    for column, (leaf, _) in statistics_leaves(snapshot, columns).items():
        bounds = stats.bounds[leaf]
        intervals[column] = Range(bounds.low, bounds.high, bounds.null_count)
    return intervals


def statistics_leaves(snapshot: Snapshot, columns: Iterable[Column]) -> Mapping[Column, tuple[LeafPath, DataType]]:
    """The physical leaf and type of each column that can have statistics: no partition column, no whole struct."""
    leaves = {}
    for column in columns:
        fields = fields_of(snapshot.schema, column)
        if fields and not isinstance(fields[-1].type, Struct) and not is_partition(snapshot, column):
            leaves[column] = (tuple(f.physical_name for f in fields), fields[-1].type)
    return leaves


def fields_of(schema: Struct, column: Column) -> tuple[Field, ...]:
    """The fields along a column's path; none when the schema has no such column."""
    within: DataType = schema
    fields: list[Field] = []
    for name in column:
        field = within.find(name) if isinstance(within, Struct) else None
        if field is None:
            return ()
        fields.append(field)
        within = field.type
    return tuple(fields)


def is_partition(snapshot: Snapshot, column: Column) -> bool:
    return len(column) == 1 and column[0].lower() in {name.lower() for name in snapshot.partition_columns}


def _on_partitions(want: Want) -> tuple[Predicate, ...]:
    """The conjuncts that test a partition column or no column at all."""
    return tuple(
        part
        for part in conjuncts(want.where)
        if not (tested := tested_columns(part)) or any(is_partition(want.snapshot, c) for c in tested)
    )


def _on_statistics(want: Want) -> tuple[Predicate, ...]:
    return tuple(p for p in conjuncts(want.where) if statistics_leaves(want.snapshot, tested_columns(p)))


def _on_metadata(want: Want) -> tuple[Predicate, ...]:
    if not want.metadata:
        return ()
    return tuple(p for p in conjuncts(want.where) if any(c[0] in want.metadata.canonical for c in tested_columns(p)))


def _columns(parts: Iterable[Predicate]) -> frozenset[Column]:
    return frozenset[Column]().union(*map(tested_columns, parts))


def _partition_detail(want: Want) -> str:
    if want.snapshot.placement is not None:
        names = buckets_tested(want.snapshot, _columns(conjuncts(want.where)))
        return f"buckets of {', '.join(names)}" if names else "no condition on a bucketed column"
    columns = sorted(c for c in _columns(_on_partitions(want)) if is_partition(want.snapshot, c))
    return ", ".join(map(column_text, columns)) or "no condition on a partition column"


def _bounds_detail(want: Want) -> str:
    leaves = statistics_leaves(want.snapshot, sorted(_columns(_on_statistics(want))))
    if not leaves:
        return "no condition that statistics can decide"
    text = ", ".join(map(column_text, leaves))
    clustered = [column for column, (leaf, _) in leaves.items() if leaf in want.snapshot.clustering_columns]
    return f"{text}; clustered by {', '.join(map(column_text, clustered))}" if clustered else text


def _metadata_detail(want: Want) -> str:
    return ", ".join(column_text(c) for c in sorted(_columns(_on_metadata(want))) if c[0] in want.metadata.canonical)


_DETAILS: Mapping[Pruner, Callable[[Want], str]] = {
    by_partition: _partition_detail,
    by_metadata: _metadata_detail,
    by_bounds: _bounds_detail,
}


def _name(pruner: Pruner) -> str:
    return str(getattr(pruner, "__name__", type(pruner).__name__))


def _always(want: Want) -> bool:
    return True


def _all(files: FileTable) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(True), len(files))
