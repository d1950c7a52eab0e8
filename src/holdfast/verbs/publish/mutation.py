"""Computes what a publication brings into another table: the rows it lacks, and one mutation.

    version published last  ->  net change since then, or the whole table  ->  rows stored, ids of deleted rows
        ->  their positions in the target  ->  one mutation: files added, rows hidden, mark raised, range noted

1. A commit brings all of a commit range or nothing, and records the range: publishing it again does nothing.
2. Ids up to the source's high-water mark count as given out in the target, before its own writers or the added files
   get any: no row of one table can ever have the id of another's.
3. Every row that changed or was deleted is found in the target, or nothing is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from holdfast.errors import Damaged, Invalid, MissingFile, NoRowIdentity, Unsupported
from holdfast.model.commits import CommitRange
from holdfast.model.files import FileTable
from holdfast.model.mutation import KEEPS_ROW_IDS, AllRows, Mutation, TableDefinition
from holdfast.model.publication import PUBLISHES, Publication, Publishing
from holdfast.model.snapshot import LoadHidden, Snapshot
from holdfast.plan.changefeed.query import ChangeKind, ChangeQuery, ChangesPlan, check_query
from holdfast.plan.dml.change import Positions, count
from holdfast.plan.dml.follow import located_rows
from holdfast.plan.engine import Engine
from holdfast.plan.publish.rows import Arriving, ChangedIds, Storage, Whole
from holdfast.plan.scan.locate import spans
from holdfast.plan.scan.request import Request, plan_scan
from holdfast.rows.columns import ROW_ID
from holdfast.schema.types import Struct
from holdfast.verbs.changefeed.query import planned

_MANY = 10_000_000  # rows, which hardly leave a file out, and are too many to be in this process one by one


@dataclass(frozen=True)
class Origin:
    """A table whose rows are published, at the version they are published from."""

    table: str  # its id
    last: int  # the version, as its rows say versions
    snapshot: Snapshot
    load_hidden: LoadHidden
    since: Callable[[int], CommitRange]  # the commits after a version, up to the last

    @property
    def location(self) -> str:
        return self.snapshot.location.url


@dataclass(frozen=True)
class Difference:
    """What another table lacks of an origin."""

    rows: Arriving
    before: Struct | None  # the columns that were published so far; None: nothing was


@dataclass(frozen=True)
class Brought:
    """Rows that are stored in the other table and that nobody refers to yet."""

    staged: pa.Table
    gone: ChangedIds = field(default_factory=ChangedIds)

    @property
    def rows(self) -> int:
        return pc.sum(self.staged.column("num_records")).as_py() or 0


@dataclass(frozen=True, slots=True)
class Published:
    """What a publication did; `version` is None where there was nothing to publish."""

    versions: tuple[int, int] | None  # first and last, of the table the rows come from
    version: int | None  # of the table they went to
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    files: int = 0  # written


def difference(origin: Origin, since: Publication | None) -> Difference:
    """What there is to bring: a net change, or every row."""
    snapshot = origin.snapshot
    if snapshot.identity is None or snapshot.files.column("base_row_id").null_count:
        raise NoRowIdentity(
            f"rows of {origin.location} have no ids, under which they could be published: {snapshot.to_track}"
        )
    wanted = check_query(ChangeQuery(ChangeKind.MIN_DELTA), snapshot.schema)
    if since is None:
        plan = plan_scan(snapshot, Request(metadata=[ROW_ID]))
        return Difference(Whole(plan, origin.load_hidden(snapshot.location, plan.files)), None)
    with _naming_lost(origin, since):
        stretch = origin.since(since.version)
        assert stretch.before is not None, "what was published was a version"
        return Difference(planned(stretch, wanted, origin.load_hidden), stretch.before.schema)


def brought(lacking: Difference, storage: Storage, engine: Engine[object]) -> Brought:
    """Store what there is to bring."""
    gone = engine.changed_ids(lacking.rows) if isinstance(lacking.rows, ChangesPlan) else ChangedIds()
    return Brought(engine.publish(lacking.rows, storage), gone)


def located(snapshot: Snapshot, ids: BitMap64, engine: Engine[object], load_hidden: LoadHidden) -> Positions:
    """Where rows are in the table they were published to."""
    if not ids:
        return {}
    files = snapshot.files if len(ids) > _MANY else _may_hold(snapshot, np.array(ids.to_array(), np.int64))
    positions = engine.locate(located_rows(snapshot, files, load_hidden(snapshot.location, files)), ids)
    if count(positions) != len(ids):
        raise Damaged(
            f"{len(ids)} rows that were published to {snapshot.location.url} are to change, and {count(positions)} "
            "rows there have their ids: somebody wrote it without keeping them; publish with afresh=True",
            path=snapshot.location.url,
            expected=str(len(ids)),
            found=str(count(positions)),
        )
    return positions


def mutation_of(
    origin: Origin,
    since: Publication | None,
    into: Snapshot,
    what: Brought,
    hidden: Positions,
    shape: TableDefinition | None,
) -> Mutation:
    """The commit that brings rows; without `since` they take the place of all that are there."""
    identity = origin.snapshot.identity
    assert identity is not None, "rows without ids are refused"
    removed = into.files if since is None else FileTable()
    publishes = Publishing(origin.table, origin.location, origin.last, () if since is None else since.stretches)
    inserted = what.rows - len(what.gone.updated)
    return Mutation(
        PUBLISHES,
        {"source": origin.location, "versions": f"{publishes.first}-{publishes.last}"},
        {
            "numRowsInserted": inserted,
            "numRowsUpdated": len(what.gone.updated),
            "numRowsDeleted": len(what.gone.deleted),
            "numAddedFiles": what.staged.num_rows,
            "numRemovedFiles": len(removed),
        },
        added=what.staged,
        removed=removed.table,
        hidden=hidden,
        mark=identity.high_water,
        reads=AllRows(),
        shape=shape,
        tags={KEEPS_ROW_IDS: "true"},
        publishes=publishes,
    )


def told(mutation: Mutation, version: int) -> Published:
    """What a commit did that landed at a version."""
    publishes, counts = mutation.publishes, mutation.metrics
    assert publishes is not None, "the commit is of a publication"
    return Published(
        (publishes.first, publishes.last),
        version,
        counts["numRowsInserted"],
        counts["numRowsUpdated"],
        counts["numRowsDeleted"],
        counts["numAddedFiles"],
    )


def _may_hold(snapshot: Snapshot, ascending: np.ndarray[tuple[int], np.dtype[np.int64]]) -> FileTable:
    """The files that may hold one of these ids."""
    known = spans(snapshot)
    near = np.searchsorted(ascending, known.lows) < np.searchsorted(ascending, known.highs, side="right")
    return snapshot.files.filter(pa.array(near))


@contextmanager
def _naming_lost(origin: Origin, since: Publication) -> Iterator[None]:
    """Where the way from what was published to what is to be is lost, say what else can be done."""
    try:
        yield
    except (Invalid, Unsupported, MissingFile) as error:
        raise Invalid(
            f"what happened to rows of {origin.location} since version {since.version}, the last that was published, "
            f"cannot be told ({error}): publish with afresh=True, which puts all rows there anew"
        ) from error
