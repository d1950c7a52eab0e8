"""The commits that came since a state was read, as conflict checks see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

from holdfast.errors import Conflict
from holdfast.formats.delta.log.actions import FileAction, Line, commit_info, decode_lines
from holdfast.formats.delta.log.columns import from_actions
from holdfast.formats.delta.log.file_names import LOG, commit_name
from holdfast.formats.delta.shape import CLUSTERING_DOMAIN
from holdfast.formats.delta.state import DeltaState, advance
from holdfast.formats.delta.stats.reader import JsonStats
from holdfast.model.files import FileTable, Slab
from holdfast.model.mutation import ENABLES_ROW_TRACKING, HANDS_OUT_NUMBERS, KEEPS_ROW_IDS, Came, Winner
from holdfast.storage.arrays import strings
from holdfast.storage.base import NotFound
from holdfast.storage.location import Location


def since(old: DeltaState) -> tuple[DeltaState, Came]:
    """The table as it is now, and every commit after `old`, oldest first: each commit is read once."""
    new, commits = advance(old)
    location, first = new.snapshot.location, old.version + 1
    if commits is None:
        commits = [_lines(location, version) for version in range(first, new.version + 1)]
    return new, _came(location, first, commits)


def _came(location: Location, first: int, commits: Sequence[Sequence[Line]]) -> Came:
    """Commits from a version on. The columns of their files are made once for all of them, and cut up."""
    adds = [[line.add for line in lines if line.add is not None] for lines in commits]
    removes = [[line.remove for line in lines if line.remove is not None] for lines in commits]
    every = list(chain.from_iterable(adds))
    files = from_actions(every, _keys(location, every))
    texts = strings([action.stats for action in every])
    gone = _keys(location, list(chain.from_iterable(removes)))
    starts, went = ([0, *accumulate(map(len, parts))] for parts in (adds, removes))
    winners = tuple(
        _winner(
            first + n,
            lines,
            _files(files.slice(starts[n], len(adds[n])), texts.slice(starts[n], len(adds[n]))),
            frozenset(gone.slice(went[n], len(removes[n])).to_pylist()),
            any(action.data_change for action in (*adds[n], *removes[n])),
        )
        for n, lines in enumerate(commits)
    )
    return Came(winners, _files(files, texts))


def _files(files: pa.Table, texts: pa.Array) -> FileTable:
    return FileTable((Slab(files, JsonStats(texts)),)) if files.num_rows else FileTable()


def _lines(location: Location, version: int) -> Sequence[Line]:
    key = location.key(LOG, commit_name(version))
    try:
        data = location.store.get(key)
    except NotFound as error:
        raise Conflict(
            f"version {version} of {location.url} was committed and cleaned up while this transaction ran; run it again"
        ) from error
    return decode_lines(data, where=f"{location.store.url}/{key}")


def _winner(
    version: int, lines: Sequence[Line], added: FileTable, removed: frozenset[str], data_change: bool
) -> Winner:
    info = commit_info(lines)
    return Winner(
        version=version,
        operation=str(info.get("operation", "an unnamed operation")),
        timestamp_ms=int(info.get("timestamp") or 0),
        added=added,
        removed_keys=removed,
        data_change=data_change,
        blind_append=not removed and info.get("isBlindAppend") is True,
        changes_shape=any(line.meta_data is not None or _reclusters(line) for line in lines),
        changes_protocol=any(line.protocol is not None for line in lines),
        apps=frozenset(line.txn.app_id for line in lines if line.txn is not None),
        only_enables_row_tracking=_tags(info).get(ENABLES_ROW_TRACKING) == "true",
        only_hands_out_numbers=_tags(info).get(HANDS_OUT_NUMBERS) == "true",
        keeps_row_ids=_tags(info).get(KEEPS_ROW_IDS) == "true",
        domains=frozenset(line.domain_metadata.domain for line in lines if line.domain_metadata is not None),
    )


def _reclusters(line: Line) -> bool:
    """Whether an action sets the clustering columns, which a table that is clustered keeps outside of its metadata."""
    return line.domain_metadata is not None and line.domain_metadata.domain == CLUSTERING_DOMAIN


def _tags(info: Mapping[str, Any]) -> Mapping[str, Any]:
    tags = info.get("tags")
    return tags if isinstance(tags, dict) else {}


def _keys(location: Location, actions: Sequence[FileAction]) -> pa.Array:
    # What others did is compared by name and not followed.
    return location.anywhere.file_keys(strings([action.path for action in actions]))
