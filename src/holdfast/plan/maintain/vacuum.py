"""What a vacuum deletes: files that nothing needs and that are old. Pure.

1. A file goes only if no reason to keep it is known and it was last changed before the horizon: both, never age alone.
2. Files under names that begin with `_` or `.` are none of ours, except what the format keeps so (change data), what
   Holdfast itself left behind (pinned sources, lists for Spark, leases, indexes, unfinished writes) and directories
   of partitions whose column is named so.
3. What lies in a directory with a log of its own belongs to another table.
4. A file that only a pin keeps is told by the pin's name.
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
# What else is under _holdfast is kept until it is asked to go.
LEFTOVERS = ("_holdfast/stage/", "_holdfast/scan/", "_holdfast/lease/", "_holdfast/index/")

_HIDDEN = r"(?:^|/)[_.]"


@dataclass(frozen=True, slots=True)
class DirectoryLayout:
    """How a format lays out a table's directory."""

    log: str  # the directory that makes another one a table
    shown: tuple[str, ...] = ()  # directories that are looked into although they are hidden
    partition_names: tuple[str, ...] = ()  # of columns that directories may be named after


@dataclass(frozen=True, slots=True)
class Kept:
    """What stays for a pin and for nothing else."""

    pin: str
    version: int
    files: int
    bytes: int


@dataclass(frozen=True)
class VacuumPlan:
    """Files to delete, with the columns of LISTED, and what pins keep from it."""

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
    """What may go of `listed`: `needed` are keys that must stay, `pinned` those that must by the name of a pin."""
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
    """Which files a vacuum of this table may look at."""
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
