"""The one value that files have in a column, by their own footers, where manifests keep no bounds of it.

1. A footer says it if every row group has both ends, all of them the same number, and no nulls.
2. A file that cannot be read says nothing here: others look after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow.parquet as pq

from holdfast.errors import Damaged, Unsupported
from holdfast.formats.iceberg.metadata.paths import Paths
from holdfast.parquet.pages.footer import columns, read_footer
from holdfast.storage.error_mapping import parsing
from holdfast.storage.open import place


def only_value(paths: Paths, entry: Mapping[str, Any], field_id: int) -> float | None:
    """The only number in a column of a file, the column being one of the table's own; None: not known."""
    store, key = place(paths.location, paths.key(entry["file_path"]))
    try:
        with parsing(entry["file_path"], "cannot be read as Parquet"):
            footer = read_footer(store, key, entry["file_size_in_bytes"])
            nodes = columns(footer.schema.to_arrow_schema())
            leaf = next((node.leaf for node in nodes if node.field_id == field_id and not node.children), None)
            return None if leaf is None else _only(footer, leaf)
    except (Damaged, Unsupported):
        return None


def _only(footer: pq.FileMetaData, leaf: int) -> float | None:
    ends: set[float] = set()
    for group in range(footer.num_row_groups):
        told = footer.row_group(group).column(leaf).statistics
        if told is None or not told.has_min_max or not told.has_null_count or told.null_count:
            return None
        ends |= {told.min, told.max}
    only = ends.pop() if len(ends) == 1 else None
    return only if isinstance(only, float) else None
