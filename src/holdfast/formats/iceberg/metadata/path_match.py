"""Paths that name the same file, though writers spell it differently.

1. Two paths match when what follows scheme and authority is equal, and the stores are equal or one path names none.
2. The cost is that of one look-up over all paths.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.formats.iceberg.metadata.paths import parts


def same_files(files: pa.Array, named: pa.Array) -> list[tuple[int, int]]:
    """Which files are named: pairs of a place in `files` and one in `named`; each of `named` at most once."""
    places = places_of(files, named)
    return [(int(f), int(n)) for n, f in enumerate(places.tolist()) if f >= 0]


def places_of(files: pa.Array, named: pa.Array) -> NDArray[np.int64]:
    """The place in `files` of each of the named, -1 where it is not among them; names repeat often."""
    encoded = named.dictionary_encode()
    found = _distinct(files, encoded.dictionary)
    indices = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    if not len(found):
        return np.full(len(named), -1, np.int64)
    places: NDArray[np.int64] = np.where(indices >= 0, found[indices], -1)
    return places


def _distinct(files: pa.Array, named: pa.Array) -> NDArray[np.int64]:
    exact = _index(named, files)
    if (exact >= 0).all() or not len(files):
        return exact
    own_stores, own_paths = parts(files)
    stores, paths = parts(named)
    by_path = _index(paths, own_paths)
    theirs = own_stores.take(pa.array(np.maximum(by_path, 0)))
    nameless = pc.or_(pc.equal(stores, ""), pc.equal(theirs, ""))
    alike = pc.or_(nameless, pc.equal(stores, theirs)).to_numpy(zero_copy_only=False)
    return np.where(exact >= 0, exact, np.where(alike, by_path, -1))


def _index(values: pa.Array, among: pa.Array) -> NDArray[np.int64]:
    found: NDArray[np.int64] = pc.fill_null(pc.index_in(values, value_set=among), -1).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)
