"""Whether the rows of a file carry what they were before: how many values a column has, as the footer tells."""

from __future__ import annotations

import pyarrow.parquet as pq


def carried(footer: pq.FileMetaData, column: str | None) -> int | None:
    """The rows that have a value in a top column of whole numbers; 0 where there is no such column, None where the
    footer does not say."""
    names = [footer.schema.column(i).path for i in range(footer.num_columns)]
    if column is None or column not in names:
        return 0
    at, valued = names.index(column), 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        found = group.column(at).statistics
        if found is None or not found.has_null_count:
            return None
        valued += group.num_rows - found.null_count
    return valued
