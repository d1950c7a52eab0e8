"""Rows put in order: what a group that was written along a curve becomes in the table.

1. As in compaction no row changes, and each group is a commit of its own.
2. The files say by which columns they were put in order, with which others, and how often that was done to their rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from uuid import UUID

import pyarrow as pa

from holdfast.model.mutation import KEEPS_ROW_IDS, Laid, Mutation
from holdfast.model.snapshot import Snapshot
from holdfast.ops.compact import metrics
from holdfast.plan.change import Order
from holdfast.plan.cluster import CUBE, CUBE_COLUMNS, CUBE_CURVE, LEVEL, PROVIDER, column_text
from holdfast.plan.compact import Bin
from holdfast.plan.curve import Along
from holdfast.predicate.records import ALWAYS, Predicate
from holdfast.predicate.render import render


def ordered(
    snapshot: Snapshot,
    work: Bin,
    staged: pa.Table,
    where: Predicate,
    cube: UUID,
    *,
    full: bool = False,
    auto: bool = False,
    purges: bool = False,
) -> Mutation:
    """Put what was written in the place of a group's files."""
    assert work.order is not None, "a group is put in order by something"
    told = json.dumps([] if where == ALWAYS else [render(where)])
    kind = {**_ordered_by(work.order, full=full), "auto": auto}
    return Mutation(
        "REORG" if purges else "OPTIMIZE",
        {"predicate": told, **({"applyPurge": True} if purges else kind)},
        metrics(work, staged),
        added=staged,
        laid=_laid(work.order, work.level, cube),
        removed=work.files.table,
        data_change=False,
        tags={KEEPS_ROW_IDS: "true"} if snapshot.identity is not None else {},
    )


def _ordered_by(order: Order, *, full: bool) -> Mapping[str, object]:
    names = column_text(order.columns)
    if order.along is Along.Z_ORDER:
        return {"zOrderBy": names, "clusterBy": "[]"}
    return {"zOrderBy": "[]", "clusterBy": names, "isFull": full}


def _laid(order: Order, level: int, cube: UUID) -> Laid:
    tags = {CUBE: str(cube), CUBE_COLUMNS: column_text(order.columns), CUBE_CURVE: order.along.value}
    if order.along is Along.Z_ORDER:
        return Laid(None, tags)
    return Laid(PROVIDER, {**tags, LEVEL: str(level)})
