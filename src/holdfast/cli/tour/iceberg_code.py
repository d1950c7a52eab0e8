"""The code of the tour that needs pyiceberg (see `tour.code`)."""

from __future__ import annotations

import pyarrow as pa

from holdfast.cli.tour.sample_rows import day
from holdfast.table.iceberg import IcebergTable
from holdfast.verbs.maintain.optimize import Compacted

IMPORTS = "from holdfast import IcebergTable"


def on_iceberg(rows: int) -> tuple[IcebergTable, pa.Table, Compacted, pa.Table]:
    ice = IcebergTable.create(
        None,
        "catalog.db",  # an sqlite file is catalog enough
        "shop.orders",
        day(0, 1).schema,
        properties={"write.update.mode": "merge-on-read", "write.delete.mode": "merge-on-read"},
    )
    for number in range(3):
        ice.append(day(number, rows))
    ice.update("order = 17", {"status": "'shipped'"})
    ice.delete("order BETWEEN 100 AND 199")
    ids = ["_row_id", "_last_updated_sequence_number"]
    then = ice.toArrow(metadata=ids).sort_by("_row_id")
    packed = ice.optimize().executeCompaction()
    now = ice.toArrow(metadata=ids).sort_by("_row_id")
    return ice, then, packed, now
