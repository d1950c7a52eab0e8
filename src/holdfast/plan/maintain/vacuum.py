"""Plans a vacuum: which files of the table's directory to delete. Pure.

1. A file is deleted only if no retained version needs it and it was last modified before the horizon.
2. Files below names that begin with `_` or `.` are left alone, except change data files, leftovers of Holdfast (pinned
   sources, lists for Spark, leases, indexes, unfinished writes), and partition directories of columns named so.
3. Files in a directory with a log of its own belong to another table.
4. Files that only a pin keeps are counted under the pin's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.schema.partition_text import escape
from holdfast.storage.arrays import mask, truths
from holdfast.storage.local import TEMPORARY

LISTED = pa.schema([("key", pa.string()), ("size", pa.int64()), ("modified_ms", pa.int64())])
# Everything else below _holdfast is kept.
LEFTOVERS = ("_holdfast/stage/", "_holdfast/scan/", "_holdfast/lease/", "_holdfast/index/")

_HIDDEN = r"(?:^|/)[_.]"


@dataclass(frozen=True, slots=True)
class DirectoryLayout:
    """The layout of a table's directory in a format."""

    log: str  # the name of the log directory
    shown: tuple[str, ...] = ()  # hidden directories that a vacuum looks into
    partition_names: tuple[str, ...] = ()  # columns that directories may be named after


@dataclass(frozen=True, slots=True)
class Kept:
    """The files that only a pin keeps."""

    pin: str
    version: int
    files: int
    bytes: int


@dataclass(frozen=True)
class VacuumPlan:
    """Files to delete, with the columns of LISTED, and files that pins keep."""

    files: pa.Table
    kept: tuple[Kept, ...]

    @property
    def keys(self) -> pa.Array:
        return self.files.column("key").combine_chunks()

    @property
    def bytes(self) -> int:
        return pc.sum(self.files.column("size")).as_py() or 0


def plan_vacuum(
    listed: pa.Table,
    needed: pa.Array,
    pinned: Mapping[str, pa.Array],
    pins: Mapping[str, int],
    *,
    horizon_ms: int,
    layout: DirectoryLayout,
) -> VacuumPlan:
    """Choose what to delete of `listed`; `needed` are keys to keep, `pinned` keys to keep by the name of a pin."""
    old = truths(pc.less(listed.column("modified_ms"), pa.scalar(horizon_ms)))
    idle = old & ~_among(listed, needed) & _ours(listed.column("key"), layout)
    going = idle.copy()
    kept = []
    for name, keys in pinned.items():
        held = idle & _among(listed, keys)
        going &= ~held
        size = pc.sum(listed.column("size").filter(mask(held))).as_py() or 0
        kept.append(Kept(name, pins[name], int(held.sum()), size))
    return VacuumPlan(listed.filter(mask(going)), tuple(kept))


def _among(listed: pa.Table, keys: pa.Array) -> NDArray[np.bool_]:
    return truths(pc.is_in(listed.column("key"), value_set=keys))


def _ours(keys: pa.ChunkedArray, layout: DirectoryLayout) -> NDArray[np.bool_]:
    """The files that a vacuum of this table may delete."""
    plain = keys
    for name in layout.partition_names:
        # A partition's directory may be called `_day=1`, which is not hidden.
        plain = pc.replace_substring_regex(plain, rf"(^|/){re.escape(escape(name))}=[^/]*/", r"\1p/")
    for name in layout.shown:
        plain = pc.replace_substring_regex(plain, f"^{re.escape(name)}/", "c/")
    ours = ~truths(pc.match_substring_regex(plain, _HIDDEN)) & ~truths(pc.ends_with(keys, "/"))
    for prefix in LEFTOVERS:
        ours |= truths(pc.starts_with(keys, prefix))
    ours |= truths(pc.match_substring_regex(keys, rf"(?:^|/)\.[^/]*{re.escape(TEMPORARY)}$"))
    for inner in _inner_tables(keys, layout.log):
        ours &= ~truths(pc.starts_with(keys, inner))
    return ours


def _inner_tables(keys: pa.ChunkedArray, log: str) -> list[str]:
    """Directories, with their slash, that have a log of their own."""
    inside = keys.filter(pc.match_substring(keys, f"/{log}/"))
    return sorted(set(pc.replace_substring_regex(inside, f"(.*?/){re.escape(log)}/.*", r"\1").to_pylist()))
