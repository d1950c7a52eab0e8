"""The newest state of an Iceberg table that was seen, shared by the objects of one table."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.iceberg.catalog import CatalogTable
from holdfast.iceberg.state import IcebergState
from holdfast.index.reader import PinnedReader
from holdfast.table.iceberg_dialect import IcebergDialect


@dataclass
class Latest:
    """The newest state seen, shared by a table and its aliases; and where to ask for a newer one."""

    state: IcebergState
    source: CatalogTable | None
    dialect: IcebergDialect = field(init=False)
    reader: PinnedReader | None = field(default=None, repr=False)  # of the snapshot that rows were last looked up in

    def __post_init__(self) -> None:
        self.dialect = IcebergDialect(self.source, lambda: self.state)
