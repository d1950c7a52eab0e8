"""Checks before a commit that the data files of a transaction still exist.

A vacuum takes files that nobody refers to once they are old, and it cannot know of a transaction that is still at work.

1. Files are looked at before an attempt that comes late, longer after the first of them was written than the table
   keeps what nobody refers to; and before every attempt once a vacuum has come between.
2. A transaction of which a file is gone is never committed: it is StagedFilesGone, and running it again writes them.
3. An attempt that is neither late nor after a vacuum costs no look.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.env import Env
from holdfast.errors import StagedFilesGone
from holdfast.model.mutation import TAKES_FILES, Mutation, Winner
from holdfast.model.snapshot import Snapshot
from holdfast.storage.open import missing


def takes_files(winners: Iterable[Winner]) -> bool:
    """Whether a vacuum is among commits."""
    return any(winner.operation == TAKES_FILES for winner in winners)


def refuse_lost(snapshot: Snapshot, mutation: Mutation, env: Env, *, keeps_ms: int, vacuumed: bool) -> None:
    """Refuse to put files on a version that are gone.

    `keeps_ms`: how long files that nobody refers to stay at least; `vacuumed`: a vacuum may have come between.
    """
    staged = pa.concat_tables([mutation.added, mutation.feed])
    written_ms = pc.min(staged.column("modified_ms")).as_py()
    if written_ms is None or not (vacuumed or env.now_ms() - written_ms >= keeps_ms):
        return
    gone = next(missing(snapshot.location, staged.column("key").to_pylist()), None)  # one look per file
    if gone is not None:
        raise StagedFilesGone(
            f"this {mutation.operation} of {snapshot.location.url} wrote {gone}, which is not there any more: a vacuum "
            "came before its commit, or whoever takes files nobody refers to; nothing was committed, run it again",
            version=snapshot.version,
            files=(gone,),
            operation=TAKES_FILES,
        )
