"""Change queries: from a stretch of commits to a plan that can be run.

1. What cannot be told exactly is refused before a row is read, with the version in the way.
2. A file that only the past refers to may be gone; it is looked for first, so that the error names the vacuum and not
   whatever reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import MissingFile, NoChangeFeed
from holdfast.model.commits import CommitRange
from holdfast.model.snapshot import LoadHidden
from holdfast.parquet.origin import carried
from holdfast.parquet.pages.footer import read_footer
from holdfast.plan.changefeed.moves import LogicalFiles, Moves, entries_between, entries_within, moves_within
from holdfast.plan.changefeed.query import (
    ChangeQuery,
    ChangesPlan,
    Origins,
    asking,
    check_wanted,
    moves_of,
    plan_changes,
    plan_feed,
    refuse_taken,
    told_by_files,
)
from holdfast.plan.changefeed.range import blurred, refuse_blurred, refuse_unreadable
from holdfast.storage.open import missing, place
from holdfast.verbs.define.backfill import row_counts

_LOOKERS = 16


def planned(stretch: CommitRange, wanted: ChangeQuery, load_hidden: LoadHidden) -> ChangesPlan:
    """Plan a change query."""
    wanted = check_wanted(wanted, stretch.after.schema)
    refuse_unreadable(stretch)
    told: set[int] = set()
    if not wanted.keys:
        dark = list(blurred(stretch))
        if wanted.by_commit:
            told = {c.version for c in dark} & told_by_files(stretch)
        refuse_blurred(stretch, (c for c in dark if c.version not in told))
    entries = entries_within(stretch) if wanted.by_commit else entries_between(stretch)
    with _naming_gone(stretch):
        entries = _counted(stretch, entries)
        hidden = load_hidden(stretch.after.location, entries.hiding())
        moves = moves_of(stretch, entries, hidden, wanted, told)
        _refuse_missing(stretch, moves)
        origins = _origins(stretch, asking(stretch, moves, entries, wanted))
    return plan_changes(stretch, entries, moves, wanted, origins=origins, told=told)


def planned_feed(stretch: CommitRange, load_hidden: LoadHidden) -> ChangesPlan:
    """Plan a read of the change data feed."""
    _refuse_unrecorded(stretch)
    refuse_taken(stretch.after.schema, ("_change_type", "_commit_version", "_commit_timestamp"))
    refuse_unreadable(stretch)
    told = told_by_files(stretch)
    with _naming_gone(stretch):
        entries = _counted(stretch, entries_within(stretch))
        hidden = load_hidden(stretch.after.location, entries.hiding())
        moves = moves_within(stretch, entries, hidden, without=told)
        _refuse_missing(stretch, moves)
    return plan_feed(stretch, entries, moves, told=told)


def _refuse_unrecorded(stretch: CommitRange) -> None:
    off = [] if stretch.first.has_feed else [stretch.start]
    off += [c.version for c in stretch.commits if c.described is not None and not c.described.has_feed]
    if off:
        raise NoChangeFeed(
            f"the change data feed of {stretch.after.location.url} from version {stretch.start} to {stretch.end} "
            f"cannot be read: it was not enabled at version {off[0]}. delta.enableChangeDataFeed=true records what "
            "comes after it; changes() needs no feed where the table tracks rows"
        )


def _counted(stretch: CommitRange, entries: LogicalFiles) -> LogicalFiles:
    """The entries with row counts wherever some rows of a file must be told from others."""
    return entries.counted(row_counts(stretch.after.location, entries.uncounted(), {}))


def _origins(stretch: CommitRange, files: pa.Table) -> Mapping[str, Origins]:
    """What the footers of new files say of where their rows come from; nothing of those that do not say it."""
    identity = stretch.after.identity
    if identity is None or not files.num_rows:
        return {}
    id_column, version_column = identity.id_column, identity.version_column

    def origins(file: tuple[str, int]) -> tuple[str, Origins | None]:
        key, size = file
        store, name = place(stretch.after.location, key)
        footer = read_footer(store, name, size)
        with_id, with_version = carried(footer, id_column), carried(footer, version_column)
        if with_id is None or with_version is None:
            return key, None
        return key, Origins(footer.num_rows, with_id, with_version)

    with ThreadPoolExecutor(_LOOKERS) as pool:  # one footer per new file of commits that also took rows out
        found = pool.map(origins, zip(files.column("key").to_pylist(), files.column("size").to_pylist(), strict=True))
        return {key: origin for key, origin in found if origin is not None}


def _refuse_missing(stretch: CommitRange, moves: Moves) -> None:
    location = stretch.after.location
    moved = pa.array(sorted({m.key for m in (*moves.left, *moves.arrived)}), pa.string())
    live = stretch.after.files.column("key").combine_chunks()
    past = moved.filter(pc.invert(pc.is_in(moved, value_set=live))).to_pylist()
    for key in missing(location, past):  # one look per file that is no longer part of the table
        raise MissingFile(f"{key} is not there", path=key)


@contextmanager
def _naming_gone(stretch: CommitRange) -> Iterator[None]:
    """Where a file of an old version is missing, say what that means for the changes that were asked for."""
    try:
        yield
    except MissingFile as error:
        raise _gone(stretch, error.path) from error


def _gone(stretch: CommitRange, path: str) -> MissingFile:
    return MissingFile(
        f"the changes from version {stretch.start} to {stretch.end} of {stretch.after.location.url} cannot be read: "
        f"files that were part of the table then are gone, such as {path}; a vacuum removes files of old versions. Ask "
        "for later changes, or for a net change (min-delta), which reads only the files of the two ends; "
        "readableVersions() lists the versions that can be read",
        path=path,
    )
