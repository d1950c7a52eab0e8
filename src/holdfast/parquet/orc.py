"""ORC data files, for the formats that have them: read by Arrow, with positions counted as they come.

1. Rows come in stored order, stripe by stripe, with the columns that are asked for and no others.
2. Columns are known by the ids that Iceberg's writers attach to them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa
from pyarrow.orc import ORCFile

from holdfast.parquet.pages.footer import Node, columns


class OrcFile:
    """An open file."""

    def __init__(self, source: Any) -> None:
        self._file = ORCFile(source)
        self.nodes: tuple[Node, ...] = columns(self._file.schema)
        self.rows = int(self._file.nrows)

    @property
    def marked(self) -> frozenset[str]:
        """The columns that have an id, as those of row identity must."""
        return frozenset(node.name for node in self.nodes if node.field_id is not None)

    def batches(self, names: Collection[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows with some of the columns."""
        for stripe in range(self._file.nstripes):
            batch = self._file.read_stripe(stripe, columns=list(names))
            for start in range(0, batch.num_rows, batch_rows):
                yield batch.slice(start, batch_rows)
