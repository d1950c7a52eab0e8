"""The plan of a publication: the rows that an engine hides and stores in another table, under the same row ids.

    the net change of a commit range  ->  ids of deleted and updated rows: located in the other table, and hidden
                                      ->  inserted and updated rows: stored there with their ids
    a whole table                     ->  every row, stored with its id

1. A row has the same id in both tables, so only ids are compared.
2. Of deleted rows only the ids are read; other columns are read only of rows that are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pyroaring import BitMap64

from holdfast.model.snapshot import HiddenRows
from holdfast.parquet.write import WriteSpec
from holdfast.plan.changefeed.moves import Reading
from holdfast.plan.changefeed.query import AFTER, BEFORE, DELETE, INSERT, ChangesPlan
from holdfast.plan.scan.request import ScanPlan
from holdfast.schema.constraints import Demand
from holdfast.schema.enforce import Fit
from holdfast.schema.types import Struct
from holdfast.storage.location import Location


@dataclass(frozen=True, slots=True)
class Whole:
    """Every live row of a table, with its id."""

    plan: ScanPlan
    hidden: HiddenRows


Arriving: TypeAlias = Whole | ChangesPlan


@dataclass(frozen=True, slots=True)
class ChangedIds:
    """The ids of updated and deleted rows."""

    updated: BitMap64 = field(default_factory=BitMap64)
    deleted: BitMap64 = field(default_factory=BitMap64)

    @property
    def all(self) -> BitMap64:
        return self.updated | self.deleted


@dataclass(frozen=True, slots=True)
class Storage:
    """How rows are converted to rows of the other table, and where they are stored."""

    fit: Fit
    demands: tuple[Demand, ...]
    spec: WriteSpec  # with a column of ids and none of versions: the commit gives rows their version
    location: Location


def removed_part(plan: ChangesPlan) -> ChangesPlan:
    """The part of a net change that gives the ids of deleted and updated rows."""
    bare = replace(plan.snapshot, schema=Struct(()), partition_columns=())
    shows = frozenset({DELETE, BEFORE})
    return replace(plan, snapshot=bare, shows=shows, certain=_showing(plan.certain, shows))


def stored_part(plan: ChangesPlan) -> ChangesPlan:
    """The part of a net change that gives inserted and updated rows as they are now."""
    shows = frozenset({INSERT, AFTER})
    return replace(plan, shows=shows, certain=_showing(plan.certain, shows))


def _showing(readings: Sequence[Reading], shows: frozenset[str]) -> tuple[Reading, ...]:
    """In a net change all moves are of one commit, so rows that need no pairing all arrived, or all left."""
    return tuple(r for r in readings if any(label.change in shows for several in r.labels for label in several))
