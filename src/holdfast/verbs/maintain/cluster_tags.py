"""Tags files that were written along a space-filling curve.

1. The files of a group state the columns of their order, the other files of the group, and how often their rows were
   put in order. Tags belong to a file, so groups of one commit stay apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

import pyarrow as pa

from holdfast.model.mutation import Laid
from holdfast.plan.dml.change import Order
from holdfast.plan.maintain.cluster import CUBE, CUBE_COLUMNS, CUBE_CURVE, LEVEL, PROVIDER, column_text
from holdfast.plan.maintain.compact import Bin
from holdfast.plan.maintain.curve import Along


def ordered_by(bins: Sequence[Bin], *, full: bool) -> Mapping[str, object]:
    """What a commit says of the order in which groups were written: all of one call are in the same."""
    order = next((each.order for each in bins if each.order is not None), None)
    if order is None:
        return {"zOrderBy": "[]", "clusterBy": "[]"}
    names = column_text(order.columns)
    if order.along is Along.Z_ORDER:
        return {"zOrderBy": names, "clusterBy": "[]"}
    return {"zOrderBy": "[]", "clusterBy": names, "isFull": full}


def laid_out(bins: Sequence[Bin], staged: Sequence[pa.Table], new_uuid: Callable[[], UUID]) -> dict[str, Laid]:
    """How files were laid out, by their keys; every group in an order is a cube of its own."""
    laid: dict[str, Laid] = {}
    for work, files in zip(bins, staged, strict=True):
        if work.order is not None:
            laid |= dict.fromkeys(files.column("key").to_pylist(), _cube(work.order, work.level, new_uuid()))
    return laid


def _cube(order: Order, level: int, cube: UUID) -> Laid:
    tags = {CUBE: str(cube), CUBE_COLUMNS: column_text(order.columns), CUBE_CURVE: order.along.value}
    if order.along is Along.Z_ORDER:
        return Laid(None, tags)
    return Laid(PROVIDER, {**tags, LEVEL: str(level)})
