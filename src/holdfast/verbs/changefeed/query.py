"""Plans a change query: loads what the plan of a commit range needs, such as deletion vectors and footers.

1. A query without an exact answer is refused before any row is read; the error names the version that prevents it.
2. Files of old versions may have been vacuumed. Planning looks for them, so that the error names the vacuum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import MissingFile
from holdfast.model.commits import CommitRange
from holdfast.model.snapshot import LoadHidden
from holdfast.parquet.pages.footer import read_footer, value_count
from holdfast.plan.changefeed.moves import Moves
from holdfast.plan.changefeed.query import ChangeQuery, ChangesPlan, Origins, change_scope
from holdfast.storage.open import missing, place
from holdfast.verbs.define.backfill import row_counts

_FOOTER_READERS = 16


def planned(commit_range: CommitRange, query: ChangeQuery | None, load_hidden: LoadHidden) -> ChangesPlan:
    """Plan a change query, or without a query a read of the change data feed."""
    scope, location = change_scope(commit_range, query), commit_range.after.location
    with _explaining_missing_files(commit_range):
        scope = scope.counted(row_counts(location, scope.files.uncounted(), {}))
        moves = scope.moves(load_hidden(location, scope.files.hiding()))
        _refuse_missing(commit_range, moves)
        origins = _origins(commit_range, scope.footers_needed(moves))
    return scope.plan(moves, origins)


def _origins(commit_range: CommitRange, files: pa.Table) -> Mapping[str, Origins]:
    """The origins of the rows of new files, from their footers; files whose footers do not state them are absent."""
    identity = commit_range.after.identity
    if identity is None or not files.num_rows:
        return {}
    id_column, version_column = identity.id_column, identity.version_column

    def origins(file: tuple[str, int]) -> tuple[str, Origins | None]:
        key, size = file
        store, name = place(commit_range.after.location, key)
        footer = read_footer(store, name, size)
        with_id, with_version = value_count(footer, id_column), value_count(footer, version_column)
        if with_id is None or with_version is None:
            return key, None
        return key, Origins(footer.num_rows, with_id, with_version)

    with ThreadPoolExecutor(_FOOTER_READERS) as pool:  # one footer per new file of commits that also took rows out
        pairs = pool.map(origins, zip(files.column("key").to_pylist(), files.column("size").to_pylist(), strict=True))
        return {key: origin for key, origin in pairs if origin is not None}


def _refuse_missing(commit_range: CommitRange, moves: Moves) -> None:
    location = commit_range.after.location
    moved = pa.array(sorted({m.key for m in (*moves.left, *moves.arrived)}), pa.string())
    live = commit_range.after.files.column("key").combine_chunks()
    past = moved.filter(pc.invert(pc.is_in(moved, value_set=live))).to_pylist()
    for key in missing(location, past):  # one look per file that is no longer part of the table
        raise MissingFile(f"{key} is not there", path=key)


@contextmanager
def _explaining_missing_files(commit_range: CommitRange) -> Iterator[None]:
    """Turn the error about a missing file of an old version into one that explains what it means for the changes."""
    try:
        yield
    except MissingFile as error:
        raise MissingFile(
            f"the changes from version {commit_range.start} to {commit_range.end} of "
            f"{commit_range.after.location.url} cannot be read: files that were part of the table then are gone, such "
            f"as {error.path}; a vacuum removes files of old versions. Ask for later changes, or for a net change "
            "(min-delta), which reads only the files of the two ends; readableVersions() lists the versions that can "
            "be read",
            path=error.path,
        ) from error
