"""Finds rows in other files by row id and row commit version, with numpy.

1. Memory holds four numbers per row to find, and per row of the file that is searched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.engines.local.reading import ID, INDEX, VERSION, RowColumns, files_of
from holdfast.plan.dml.follow import Followed, LocatedRows

Numbers = NDArray[np.int64]


def follow(old: LocatedRows, new: LocatedRows) -> Followed:
    """Where the rows of one place are in another."""
    parts = list(_identities(old))
    keys = [key for key, *_ in parts]
    if not parts:
        return Followed()
    of = np.concatenate([np.full(len(at), n) for n, (_, at, _, _) in enumerate(parts)])
    at, ids, versions = (np.concatenate([part[i] for part in parts]) for i in (1, 2, 3))
    order = np.argsort(ids, kind="stable")
    of, at, ids, versions = of[order], at[order], ids[order], versions[order]
    moved, altered = np.zeros(len(ids), bool), np.zeros(len(ids), bool)
    to: dict[str, BitMap64] = {}
    for key, there, their_ids, their_versions in _identities(new):
        places = np.minimum(np.searchsorted(ids, their_ids), len(ids) - 1)
        known = ids[places] == their_ids
        same = known & (versions[places] == their_versions)
        moved[places[same]] = True
        altered[places[known & ~same]] = True
        if same.any():
            to[key] = BitMap64(there[same].astype(np.uint64))
    return Followed(_positions(keys, of, at, moved), to, _positions(keys, of, at, altered))


def ids(place: LocatedRows, limit: int) -> Sequence[int]:
    """The smallest ids of rows."""
    parts = [some for _, _, some, _ in _identities(place)]
    smallest: list[int] = np.sort(np.concatenate([np.empty(0, np.int64), *parts]))[:limit].tolist()
    return smallest


def _identities(place: LocatedRows) -> Iterator[tuple[str, Numbers, Numbers, Numbers]]:
    """Positions, ids and versions of each file's rows."""
    for key, batches in files_of(place.plan, place.hidden, RowColumns("", (), identity=True)):
        read = [
            [batch.column(name).to_numpy(zero_copy_only=False) for name in (INDEX, ID, VERSION)] for batch in batches
        ]
        index, id_, version = (
            np.concatenate([np.empty(0, np.int64), *(columns[i] for columns in read)]).astype(np.int64)
            for i in range(3)
        )
        yield key, index, id_, version


def _positions(keys: Sequence[str], of: Numbers, at: Numbers, chosen: NDArray[np.bool_]) -> dict[str, BitMap64]:
    positions = {key: BitMap64(at[chosen & (of == n)].astype(np.uint64)) for n, key in enumerate(keys)}
    return {key: rows for key, rows in positions.items() if rows}
