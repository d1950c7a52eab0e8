"""Chooses the files of a table to rewrite in the order of its clustering columns. Pure.

A cube is a set of files that were written together in one order by the same columns; its files hardly overlap. Cubes
overlap each other, so a query reads some files of each cube, and few large cubes are better than many small ones.

    files in no cube  ->  cube of level 1  ->  joined: level 2  ->  joined: full, and left alone

Sizes are in files: a file of the target bytes or target rows has size 1.

1. A row is written at most three times until it is in a full cube, however often and however little is appended: cubes
   are joined with others of their level, and there are three levels.
2. Level 2 is joined when that fills a cube; level 1 when it reaches the geometric mean of its average cube and a full
   cube. A cube larger than all others together is left out.
3. A file with more than the allowed share of hidden rows counts as being in no cube.
4. Files clustered by another provider stay as they are; so do cubes by other columns, unless `full` is set.
5. A group holds at most MOST_FILES files and `most_bytes` bytes; the rest waits for another call.
6. Each partition is ordered by itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.model.files import FileTable
from holdfast.plan.dml.change import Order
from holdfast.plan.maintain.compact import Bin, CompactionLimits, groups, purge_bins
from holdfast.plan.maintain.curve import Along
from holdfast.schema.constraints import quoted
from holdfast.schema.show import path_text

PROVIDER = "liquid"
CUBE, CUBE_COLUMNS, CUBE_CURVE = "ZCUBE_ID", "ZCUBE_ZORDER_BY", "ZCUBE_ZORDER_CURVE"  # tags, as delta-spark names them
LEVEL = "HOLDFAST_CUBE_LEVEL"
FULL_FILES = 128
MOST_FILES = 1024

Paths: TypeAlias = tuple[tuple[str, ...], ...]

_PLAIN = re.compile(r"[a-zA-Z0-9_]+")


@dataclass(frozen=True, eq=False)
class Cube:
    """Files that were written in one order, or in none."""

    at: NDArray[np.int64]  # in the table of files
    size: float  # in files of the target
    level: int = 0


def plan_clustering(
    files: FileTable, columns: Paths, limits: CompactionLimits, *, full: bool = False
) -> tuple[Bin, ...]:
    """The groups to write, each in the order of these columns (logical paths)."""
    if not len(files):
        return ()
    measured = _Measured.of(files, (), limits)
    cubes, loose = _cubes(files, measured, columns, limits, full=full)
    fresh = [measured.cube(loose)] if len(loose) else []
    chosen = fresh if full else joined(fresh, cubes)
    bins: list[Bin] = []
    bytes_left = limits.most_bytes
    for cube in chosen:
        for at in _cut(cube.at, measured, bytes_left):
            bin_ = _bin(files, at, measured, Order(columns, Along.HILBERT, 1), max(1, cube.level))
            bytes_left = None if bytes_left is None else bytes_left - bin_.bytes
            bins.append(bin_)
    return tuple(bins)


def joined(loose: Sequence[Cube], cubes: Sequence[Cube]) -> list[Cube]:
    """The cubes to write, each with its new level; `loose` are files in no cube."""
    first = _worth([*loose, *(c for c in cubes if c.level == 1 and c.size < FULL_FILES)])
    total = sum(c.size for c in first)
    halfway = len(first) > 1 and total >= sqrt(total / len(first) * FULL_FILES)
    planned = [Cube(_all(first), total, 2)] if halfway else [replace(c, level=1) for c in loose]
    # Loose files that level 1 leaves out because they are large are written by themselves.
    planned += [replace(c, level=1) for c in loose if halfway and c not in first]
    second = _worth(
        [*(m for m in planned if m.level == 2), *(c for c in cubes if c.level == 2 and c.size < FULL_FILES)]
    )
    total = sum(c.size for c in second)
    if len(second) > 1 and total >= FULL_FILES:
        return [*(m for m in planned if m not in second), Cube(_all(second), total, 3)]
    return planned


def plan_z_order(
    files: FileTable, partition_names: Sequence[str], columns: Paths, limits: CompactionLimits
) -> tuple[Bin, ...]:
    """The groups to write along the Z-order curve: every partition that is not yet wholly in this order."""
    if not len(files):
        return ()
    measured = _Measured.of(files, partition_names, limits)
    cubes, ordered_by = _tags(files, CUBE), _tags(files, CUBE_COLUMNS)
    in_order = pc.fill_null(pc.equal(ordered_by, column_text(columns)), False).to_numpy(zero_copy_only=False)
    whole = in_order & (measured.hidden <= limits.materialize_deletions_threshold)
    bins: list[Bin] = []
    for part in measured.partitions():
        cut = list(_cut(part, measured, None))
        if whole[part].all() and len(pc.unique(cubes.take(pa.array(part)))) <= len(cut):
            continue
        bins += [_bin(files, at, measured, Order(columns, Along.Z_ORDER, 1), 0) for at in cut]
    return _within(bins, limits.most_bytes)


def is_laid_out(files: FileTable) -> bool:
    """Whether some of these files were clustered or Z-ordered."""
    return bool(_tags(files, CUBE).null_count < len(files))


def plan_purge(
    files: FileTable, partition_names: Sequence[str], columns: Paths, limits: CompactionLimits
) -> tuple[Bin, ...]:
    """Groups that rewrite every file with hidden rows, in clustering order if the table is clustered."""
    if not columns or not len(files):
        return purge_bins(files, partition_names, limits)
    hiding = files.filter(pc.is_valid(files.column("dv")).combine_chunks())
    ordered = plan_clustering(hiding, columns, limits, full=True)
    ordered_keys = [key for one in ordered for key in one.keys]  # as many as files with hidden rows
    rest = hiding.outside(ordered_keys)
    return (*ordered, *purge_bins(rest, partition_names, limits))


def column_text(columns: Paths) -> str:
    """Clustering columns as the text of a tag, quoted like Spark does: other engines compare the text."""
    return json.dumps([".".join(map(_quoted, path)) for path in columns], separators=(",", ":"))


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) and not name.isdigit() else quoted(name)


@dataclass(frozen=True)
class _Measured:
    """Sizes of files, aligned with the table of files."""

    rows: NDArray[np.int64]  # live; files without a count in the log are not in `order`
    bytes: NDArray[np.int64]  # of these rows
    size: NDArray[np.float64]  # in files of the target
    hidden: NDArray[np.float64]  # share of the rows
    order: NDArray[np.int64]  # partition by partition, neighbours in row ids next to each other
    starts: NDArray[np.int64]  # of partitions, in that order

    @classmethod
    def of(cls, files: FileTable, partition_names: Sequence[str], limits: CompactionLimits) -> _Measured:
        rows, size = np.zeros(len(files), np.int64), np.zeros(len(files), np.int64)
        hidden = np.zeros(len(files))
        order: list[NDArray[np.int64]] = []
        for group in groups(files, partition_names):
            order.append(group.at)
            rows[group.at], size[group.at], hidden[group.at] = group.rows, group.size, group.hidden
        starts = np.cumsum([0, *map(len, order)])[:-1]
        weight = np.maximum(rows / limits.target_rows, size / limits.target_bytes)
        return cls(rows, size, weight, hidden, np.concatenate([np.empty(0, np.int64), *order]), starts)

    def cube(self, at: NDArray[np.int64], level: int = 0) -> Cube:
        # Rounded, so that the same rows in other files are as large.
        return Cube(at, round(float(self.size[at].sum()), 6), level)

    def partitions(self) -> Iterator[NDArray[np.int64]]:
        yield from np.split(self.order, self.starts[1:])


def _cubes(
    files: FileTable, measured: _Measured, columns: Paths, limits: CompactionLimits, *, full: bool
) -> tuple[list[Cube], NDArray[np.int64]]:
    """The cubes by these columns, and the files that are in none."""
    provider = files.column("clustering_provider").combine_chunks()
    ours = pc.fill_null(pc.equal(provider, PROVIDER), False).to_numpy(zero_copy_only=False)
    free = pc.is_null(provider).to_numpy(zero_copy_only=False)
    if full:
        return [], measured.order[(ours | free)[measured.order]]
    ordered_by = _tags(files, CUBE_COLUMNS)
    ids = _tags(files, CUBE)
    cubed = ours & pc.is_valid(ids).to_numpy(zero_copy_only=False)
    same = pc.fill_null(pc.equal(ordered_by, column_text(columns)), False).to_numpy(zero_copy_only=False)
    many_hidden = measured.hidden > limits.materialize_deletions_threshold
    loose = free | (ours & ~cubed) | (cubed & same & many_hidden)
    members = measured.order[(cubed & same & ~many_hidden)[measured.order]]
    levels = _tags(files, LEVEL)
    codes = ids.dictionary_encode(null_encoding="encode").indices.to_numpy()
    members = members[np.argsort(codes[members], kind="stable")]
    parts = np.split(members, np.flatnonzero(np.diff(codes[members])) + 1) if len(members) else []
    cubes = [measured.cube(at, _level(levels[int(at[0])].as_py())) for at in parts]
    return cubes, measured.order[loose[measured.order]]


def _level(text: str | None) -> int:
    """The level in a tag; cubes of other engines and invalid tags are of level 1."""
    return int(text) if text in ("1", "2", "3") else 1


def _tags(files: FileTable, name: str) -> pa.Array:
    tags = files.column("tags").combine_chunks()
    return pc.map_lookup(tags, name, "first")


def _worth(cubes: Sequence[Cube]) -> list[Cube]:
    """The cubes except those that are larger than all others together."""
    worthwhile = sorted(cubes, key=lambda c: c.size)
    while len(worthwhile) > 1 and worthwhile[-1].size > sum(c.size for c in worthwhile[:-1]):
        worthwhile.pop()
    return worthwhile


def _all(cubes: Sequence[Cube]) -> NDArray[np.int64]:
    return np.concatenate([c.at for c in cubes])


def _cut(at: NDArray[np.int64], measured: _Measured, most_bytes: int | None) -> Iterator[NDArray[np.int64]]:
    """Files in groups of at most MOST_FILES; only the first files up to `most_bytes`."""
    if most_bytes is not None:
        at = at[np.cumsum(measured.bytes[at]) <= most_bytes]
    numbers = (np.cumsum(measured.size[at]) / MOST_FILES).astype(np.int64)
    yield from (part for part in np.split(at, np.flatnonzero(np.diff(numbers)) + 1) if len(part))


def _bin(files: FileTable, at: NDArray[np.int64], measured: _Measured, order: Order, level: int) -> Bin:
    mask = np.zeros(len(files), bool)
    mask[at] = True
    rows, size = int(measured.rows[at].sum()), int(measured.bytes[at].sum())
    parts = max(1, round(measured.cube(at).size))
    names = ", ".join(map(path_text, order.columns))
    why = f"{len(at)} files are put in order by {names}"
    return Bin(files.filter(pa.array(mask)), rows, size, why, replace(order, parts=parts), level)


def _within(bins: Sequence[Bin], most_bytes: int | None) -> tuple[Bin, ...]:
    chosen, written = [], 0
    for one in bins:
        if most_bytes is None or written + one.bytes <= most_bytes:
            chosen.append(one)
            written += one.bytes
    return tuple(chosen)
