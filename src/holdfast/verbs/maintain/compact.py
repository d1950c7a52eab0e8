"""Rewrites files together, row by row as they were, with their ids and versions.

1. No row changes: the commit states `data_change` false, so change queries do not show it.
2. Bins that are ready are committed together. One that loses to another writer loses only its own files: bins that
   cannot be committed together are committed one by one.
3. The count of live rows is the same before and after, checked before a bin is committed.
4. Where rows have been moved before and no order is asked for, they go back into the order of their ids, so that a file
   needs only a few ranges to state its ids.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.model.format import Storing
from holdfast.model.mutation import KEEPS_ROW_IDS, Mutation
from holdfast.model.snapshot import LoadHidden, Snapshot
from holdfast.parquet.write import WriteSpec
from holdfast.plan.dml.arithmetic import check_rows
from holdfast.plan.dml.change import Work
from holdfast.plan.engine import Engine
from holdfast.plan.maintain.cluster import is_laid_out
from holdfast.plan.maintain.compact import Bin
from holdfast.plan.scan.locate import has_moved_rows
from holdfast.plan.scan.request import Request, plan_scan
from holdfast.predicate.records import ALWAYS, Predicate
from holdfast.predicate.render import render
from holdfast.verbs.maintain.cluster_tags import laid_out, ordered_by

Rows = TypeVar("Rows")


def rewritten(
    snapshot: Snapshot,
    work: Bin,
    engine: Engine[object],
    load_hidden: LoadHidden,
    store: Storing,
    *,
    label: str = "writing files together",
) -> pa.Table:
    """Write the rows of a bin; gives the files."""
    plan = replace(plan_scan(snapshot, Request()), files=work.files)
    done = engine.change(
        Work(
            target=plan,
            hidden=load_hidden(snapshot.location, work.files),
            clauses=(),
            schema=snapshot.schema,
            keep=True,
            together=work.order is None,
            order=work.order,
            by_id=work.order is None and _is_scattered(snapshot, work),
            label=label,
            store=replace(store, feed=None, data=_rolled(store.data, work)),
        )
    )
    check_rows(snapshot, removed=work.files, hidden={}, staged=done.staged, deleted=0, inserted=0)
    return done.staged


def _is_scattered(snapshot: Snapshot, work: Bin) -> bool:
    """Whether rows are to be put back into the order of their ids: some were moved, and no order was asked for."""
    return (
        snapshot.identity is not None and has_moved_rows(work.files, snapshot.identity) and not is_laid_out(work.files)
    )


def _rolled(spec: WriteSpec, work: Bin) -> WriteSpec:
    """How files are stored; a part of an order is one, unless its rows take twice the room they should."""
    if work.order is None:
        return spec
    return replace(spec, target_bytes=2 * max(spec.target_bytes, work.bytes // work.order.parts))


def compacted(
    snapshot: Snapshot,
    bins: Sequence[Bin],
    staged: Sequence[pa.Table],
    where: Predicate,
    new_uuid: Callable[[], UUID],
    *,
    full: bool = False,
    purges: bool = False,
    auto: bool = False,
) -> Mutation:
    """Put what was written in the place of the files of bins."""
    counted = Counter[str]()
    for work, files in zip(bins, staged, strict=True):
        counted.update(_metrics(work, files))
    kind = {**ordered_by(bins, full=full), "auto": auto}
    predicate = json.dumps([] if where == ALWAYS else [render(where)])
    return Mutation(
        "REORG" if purges else "OPTIMIZE",
        {"predicate": predicate, **({"applyPurge": True} if purges else kind)},
        dict(counted),
        added=pa.concat_tables(staged),
        laid=laid_out(bins, staged, new_uuid),
        removed=pa.concat_tables([work.files.table for work in bins]),
        data_change=False,
        tags={KEEPS_ROW_IDS: "true"} if snapshot.identity is not None else {},
    )


def _metrics(work: Bin, staged: pa.Table) -> Mapping[str, int]:
    """What the commit of a bin does."""
    return {
        "numAddedFiles": staged.num_rows,
        "numRemovedFiles": len(work.files),
        "numAddedBytes": pc.sum(staged.column("size")).as_py() or 0,
        "numRemovedBytes": pc.sum(work.files.column("size")).as_py() or 0,
        "numDeletionVectorsRemoved": pc.sum(pc.is_valid(work.files.column("dv"))).as_py() or 0,
    }
