"""Look for rows in other files by id and version, with Arrow and numpy. In memory are four numbers per row looked for
and per row of one file looked into.
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
        found = np.minimum(np.searchsorted(ids, their_ids), len(ids) - 1)
        known = ids[found] == their_ids
        same = known & (versions[found] == their_versions)
        moved[found[same]] = True
        altered[found[known & ~same]] = True
        if same.any():
            to[key] = BitMap64(there[same].astype(np.uint64))
    return Followed(_positions(keys, of, at, moved), to, _positions(keys, of, at, altered))


def ids(place: LocatedRows, limit: int) -> Sequence[int]:
    """The smallest ids of rows."""
    found = [some for _, _, some, _ in _identities(place)]
    smallest: list[int] = np.sort(np.concatenate([np.empty(0, np.int64), *found]))[:limit].tolist()
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
    found = {key: BitMap64(at[chosen & (of == n)].astype(np.uint64)) for n, key in enumerate(keys)}
    return {key: rows for key, rows in found.items() if rows}
