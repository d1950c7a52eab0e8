"""Keeps one row per key of an Arrow table: the first or the last by a column."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def one_per_key(rows: pa.Table, keys: Sequence[tuple[str, bool]], order_by: str, *, last: bool) -> pa.Table:
    """Rows with the same keys become one. A key is a column and whether null equals null: where it does not, a row
    with a null key equals no other and stays."""
    order = "descending" if last else "ascending"
    ordered = rows.take(pc.sort_indices(rows, sort_keys=[(order_by, order)], null_placement="at_end"))
    numbers = pa.array(range(rows.num_rows), pa.int64())
    names = [f"k{i}" for i, _ in enumerate(keys)]
    columns = [ordered.column(name) for name, _ in keys]
    grouped = pa.table([*columns, numbers], names=[*names, "row"]).group_by(names).aggregate([("row", "min")])
    stays = pc.is_in(numbers, value_set=grouped.column("row_min").combine_chunks())
    for column, (_, null_safe) in zip(columns, keys, strict=True):
        if not null_safe:
            stays = pc.or_(stays, pc.is_null(column).combine_chunks())
    return ordered.filter(stays)
