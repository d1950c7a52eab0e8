"""Reads ORC data files of Iceberg tables.

1. Rows come in stored order, stripe by stripe, with the requested columns only.
2. Columns are identified by the ids that Iceberg's writers attach to them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
from pyarrow.orc import ORCFile

from holdfast.parquet.pages.footer import Node, Source, columns


class OrcFile:
    def __init__(self, source: Source) -> None:
        self._file = ORCFile(source)
        self.nodes: tuple[Node, ...] = columns(self._file.schema)
        self.rows = int(self._file.nrows)

    @property
    def columns_with_id(self) -> frozenset[str]:
        """The columns that have a field id, as those of row ids and versions must."""
        return frozenset(node.name for node in self.nodes if node.field_id is not None)

    def batches(self, names: Collection[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows, with the named columns."""
        for stripe in range(self._file.nstripes):
            batch = self._file.read_stripe(stripe, columns=list(names))
            batch.validate(full=True)  # Arrow does not check while it reads that texts are UTF-8
            for start in range(0, batch.num_rows, batch_rows):
                yield batch.slice(start, batch_rows)
