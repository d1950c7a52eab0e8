"""Decides by table definition and by file whether a transaction conflicts with commits that won the race. Pure.

`verbs.commit.rebase` then decides by rows, where the transaction knows its rows. A transaction without a conflict is
attempted again unchanged, because whatever depends on the version is computed per attempt.

1. `None` means: the result equals running the transaction after the winners, in commit order. Below serializable it
   may also run before winners that appended blindly.
2. A clash names the winner, what it did, and why that conflicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from holdfast.model.files import FileTable
from holdfast.model.mutation import (
    DROPS_FEATURE,
    HANDS_OUT_NUMBERS,
    TAKES_FILES,
    AllRows,
    Mutation,
    NoRows,
    RowsWhere,
    Winner,
)
from holdfast.model.snapshot import Snapshot
from holdfast.plan.scan.prune import Want, by_partition


@dataclass(frozen=True, slots=True)
class Clash:
    """A conflict with a winner."""

    kind: str  # append, delete-read, delete-delete, metadata, numbers, protocol, transaction
    winner: Winner
    reason: str
    files: tuple[str, ...] = ()
    row_ids: tuple[int, ...] = ()  # some of the rows in conflict, if known
    repeats: bool = False  # no conflict: running the transaction again solves it

    @property
    def can_retry(self) -> bool:
        """Whether the same operation can succeed on the newest version."""
        return self.kind not in ("protocol", "transaction")


def judge_definition(mutation: Mutation, winners: Sequence[Winner]) -> Clash | None:
    """The first conflict with what winners did to the table, apart from its rows."""
    return next(filter(None, (_against_definition(mutation, winner) for winner in winners)), None)


def judge(
    mutation: Mutation, snapshot: Snapshot, winners: Sequence[Winner], *, serializable: bool = True
) -> Clash | None:
    """The first conflict with a winner; `snapshot` is the version that the transaction read.

    A clash that running again solves is returned only if there is no other.
    """
    clashes = [clash for winner in winners if (clash := _against(mutation, snapshot, winner, serializable))]
    return next((clash for clash in clashes if not clash.repeats), clashes[0] if clashes else None)


def _against(mutation: Mutation, snapshot: Snapshot, winner: Winner, serializable: bool) -> Clash | None:
    if clash := _against_definition(mutation, winner):
        return clash
    own = frozenset(mutation.removed.column("key").to_pylist()) | mutation.hidden.keys()
    if own and (both := own & winner.removed_keys):
        reason = "it removed files that this one removes too"
        return Clash("delete-delete", winner, reason, tuple(sorted(both)[:10]), repeats=not winner.data_change)
    return _against_reads(mutation, snapshot, winner, serializable)


def _against_definition(mutation: Mutation, winner: Winner) -> Clash | None:
    if winner.changes_protocol and mutation.shape is not None:
        return Clash("protocol", winner, "it changed the table's protocol, and so would this transaction")
    if winner.operation == DROPS_FEATURE and mutation.domains:
        return Clash("protocol", winner, "it dropped a feature, which may be the one that domains are kept by")
    if winner.only_hands_out_numbers and HANDS_OUT_NUMBERS in mutation.tags:
        return Clash("numbers", winner, "it handed out the numbers of identity columns that these rows have")
    if winner.changes_shape and not _adopts(mutation, winner):
        return Clash("metadata", winner, "it changed the table's schema or properties")
    if mutation.app is not None and mutation.app.app_id in winner.apps:
        return Clash("transaction", winner, f"it wrote for the same application, {mutation.app.app_id}")
    if not mutation.is_blind and winner.deletes_by_value:
        return Clash("delete-read", winner, "it deleted rows by value, which may be rows that this one read or moved")
    if mutation.readded.num_rows and winner.operation == TAKES_FILES:
        return Clash("delete-read", winner, "it deletes files of old versions, which this one brings back")
    if same := mutation.domains.keys() & winner.domains:
        return Clash("transaction", winner, f"it changed {', '.join(sorted(same))} too")
    return None


def _adopts(mutation: Mutation, winner: Winner) -> bool:
    """Whether the transaction is valid under the definition that a winner wrote as well."""
    return mutation.shape is None and (winner.only_enables_row_tracking or winner.only_hands_out_numbers)


def _against_reads(mutation: Mutation, snapshot: Snapshot, winner: Winner, serializable: bool) -> Clash | None:
    if isinstance(mutation.reads, NoRows) or not (winner.data_change and mutation.data_change):
        return None
    # A new definition also applies to rows appended meanwhile, so it never runs before an append.
    if len(winner.added) and (serializable or mutation.shape is not None or not winner.blind_append):
        added = _readable(mutation.reads, snapshot, winner.added)
        if added:
            return Clash("append", winner, "it added files that this transaction would have read", added)
    if winner.removed_keys:
        read = set(_readable(mutation.reads, snapshot, snapshot.files))
        if lost := read & winner.removed_keys:
            return Clash("delete-read", winner, "it removed files that this transaction read", tuple(sorted(lost)[:10]))
    return None


def _readable(reads: AllRows | RowsWhere, snapshot: Snapshot, files: FileTable) -> tuple[str, ...]:
    """The keys of files that the transaction read or would have read, by their partition values."""
    if isinstance(reads, RowsWhere):
        files = files.filter(by_partition(files, Want(snapshot, reads.predicate)))
    return tuple(pc.unique(files.column("key")).to_pylist())
