"""Reads the commits since a state, as the winners of conflict checks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain

import pyarrow as pa

from holdfast.errors import Conflict
from holdfast.formats.delta.log.actions import Line, commit_info, decode_lines, info_map
from holdfast.formats.delta.log.columns import file_keys, from_actions
from holdfast.formats.delta.log.file_names import LOG, commit_name
from holdfast.formats.delta.metadata import CLUSTERING_DOMAIN
from holdfast.formats.delta.state import DeltaState, advance
from holdfast.formats.delta.stats.reader import JsonStats
from holdfast.model.files import FileTable, Slab
from holdfast.model.mutation import ENABLES_ROW_TRACKING, HANDS_OUT_NUMBERS, KEEPS_ROW_IDS, Came, Winner
from holdfast.storage.arrays import strings
from holdfast.storage.base import NotFound
from holdfast.storage.location import Location


def since(old: DeltaState) -> tuple[DeltaState, Came]:
    """The newest state, and the commits after `old`, oldest first; each commit is read once."""
    new, commits = advance(old)
    location, first = new.snapshot.location, old.version + 1
    if commits is None:
        commits = [_lines(location, version) for version in range(first, new.version + 1)]
    return new, _came(location, first, commits)


def _came(location: Location, first: int, commits: Sequence[Sequence[Line]]) -> Came:
    """Commits from a version on; the columns of all their files are built at once and sliced."""
    adds = [[line.add for line in lines if line.add is not None] for lines in commits]
    removes = [[line.remove for line in lines if line.remove is not None] for lines in commits]
    all_adds = list(chain.from_iterable(adds))
    anywhere = location.anywhere  # paths of other writers are compared, not read
    files = from_actions(all_adds, anywhere)
    texts = strings([action.stats for action in all_adds])
    removed_keys = file_keys(list(chain.from_iterable(removes)), anywhere)
    add_starts, remove_starts = ([0, *accumulate(map(len, parts))] for parts in (adds, removes))
    winners = tuple(
        _winner(
            first + n,
            lines,
            _files(files.slice(add_starts[n], len(adds[n])), texts.slice(add_starts[n], len(adds[n]))),
            frozenset(removed_keys.slice(remove_starts[n], len(removes[n])).to_pylist()),
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
    tags = info_map(info, "tags")
    domains = frozenset(line.domain_metadata.domain for line in lines if line.domain_metadata is not None)
    return Winner(
        version=version,
        operation=str(info.get("operation", "an unnamed operation")),
        timestamp_ms=int(info.get("timestamp") or 0),
        added=added,
        removed_keys=removed,
        data_change=data_change,
        blind_append=not removed and info.get("isBlindAppend") is True,
        changes_shape=CLUSTERING_DOMAIN in domains or any(line.meta_data is not None for line in lines),
        changes_protocol=any(line.protocol is not None for line in lines),
        apps=frozenset(line.txn.app_id for line in lines if line.txn is not None),
        only_enables_row_tracking=tags.get(ENABLES_ROW_TRACKING) == "true",
        only_hands_out_numbers=tags.get(HANDS_OUT_NUMBERS) == "true",
        keeps_row_ids=tags.get(KEEPS_ROW_IDS) == "true",
        domains=domains,
    )
