"""Chooses the columns that rows are put in order by: the clustering columns, or those that a call names."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import Invalid
from holdfast.plan.maintain.cluster import Paths
from holdfast.schema.mapping import fields_along, logical_path, physical_path
from holdfast.schema.show import path_text, type_text
from holdfast.schema.stats_leaves import stats_leaves
from holdfast.schema.storable import is_bounded
from holdfast.verbs.define.columns import path_of
from holdfast.verbs.open.open_table import OpenTable

MOST_COLUMNS = 9  # more would leave each of them a handful of ranges


def clustered_by(table: OpenTable) -> Paths:
    """The logical paths of the clustering columns; none where the table is not clustered, or not any more."""
    snapshot = table.snapshot
    paths = tuple(logical_path(snapshot.schema, path) for path in snapshot.clustering_columns)
    for path in paths:
        fields_along(snapshot.schema, path)  # raises where the table has lost the column
    return paths


def z_ordered_by(table: OpenTable, names: Sequence[str]) -> Paths:
    """The logical paths of columns to put rows in order by, as a user names them."""
    snapshot = table.snapshot
    if snapshot.clustering_columns:
        shown = ", ".join(path_text(path) for path in clustered_by(table))
        raise Invalid(
            f"the table is clustered by {shown}, and that is the order of its rows: use executeCompaction(), or "
            "cluster it by other columns with clusterBy"
        ).named("DELTA_CLUSTERING_WITH_ZORDER_BY")
    if not names:
        raise Invalid("name the columns to put rows in order by, as in executeZOrderBy('day', 'store')")
    paths = tuple(path_of(snapshot.schema, name) for name in names)
    if len(set(paths)) < len(paths):
        raise Invalid(f"a column is named twice: {', '.join(names)}")
    if len(paths) > MOST_COLUMNS:
        raise Invalid(f"rows are put in order by at most {MOST_COLUMNS} columns, not {len(paths)}")
    kept = stats_leaves(snapshot.schema, snapshot.partition_columns, snapshot.properties)
    for path in paths:
        type_ = fields_along(snapshot.schema, path)[-1].type
        if path[0] in snapshot.partition_columns:
            wrong = Invalid(f"the table is partitioned by {path_text(path)}: every file has one value of it already")
            raise wrong.named("DELTA_ZORDERING_ON_PARTITION_COLUMN")
        if not is_bounded(type_):
            raise Invalid(f"rows cannot be put in order by {path_text(path)}, because it is {type_text(type_)}")
        if physical_path(snapshot.schema, path) not in kept:
            raise Invalid(
                f"no statistics are kept of {path_text(path)}, so no query would profit from the order: name it in "
                "delta.dataSkippingStatsColumns, or raise delta.dataSkippingNumIndexedCols"
            )
    return paths
