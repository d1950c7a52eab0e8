"""Which files hold rows that may be gone by their values."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.model.files import FileTable
from holdfast.model.snapshot import GoneByValue


def may_lose(files: FileTable, gone: GoneByValue) -> NDArray[np.bool_]:
    """The files for which some of the deletes count."""
    sequences = files.column("sequence").to_numpy()
    deletes = gone.deletes.files
    newest = pc.max(deletes.column("sequence")).as_py()
    if gone.everywhere or newest is None:
        found: NDArray[np.bool_] = sequences < (-1 if newest is None else newest)
        return found
    groups, own = files.column("group").to_numpy(), deletes.column("group").to_numpy()
    by_group = np.full(int(max(groups.max(initial=-1), own.max(initial=-1))) + 1, -1, np.int64)
    np.maximum.at(by_group, own, deletes.column("sequence").to_numpy())
    lost: NDArray[np.bool_] = sequences < by_group[groups]
    return lost
