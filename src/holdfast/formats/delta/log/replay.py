"""Action reconciliation: which files are live after the actions of a checkpoint and of later commits.

Files come in layers, oldest first: the slabs of a checkpoint, then batches of commits. A new layer does not change the
older ones; removed files are filtered out when the live files are first read. So a refresh costs what the new commits
cost, however many files the table has.

1. A logical file is (file key, deletion vector id); the newest action that refers to it decides.
2. Layers never change. A new one is merged with the layers below that are no larger, so that there are few.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.formats.delta.log.actions import Line
from holdfast.formats.delta.log.columns import dv_ids_of, file_keys, from_actions, logical_ids, table_ids
from holdfast.formats.delta.stats.reader import JsonStats
from holdfast.model.files import FileTable, Slab
from holdfast.storage.arrays import mask, positions, strings, truths
from holdfast.storage.location import Location

Positions: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class ActionLayer:
    """The file actions of a batch of commits, the newest of each logical file."""

    files: pa.Table  # added, and not removed within the batch
    texts: pa.Array  # their statistics as JSON
    keys: pa.Array  # of every logical file that the batch adds or removes
    ids: pa.Array

    def __len__(self) -> int:
        return len(self.ids)


class LiveFiles(FileTable):
    """The live files of a base and layers above it, reconciled on first use."""

    def __init__(self, base: tuple[Slab, ...], layers: tuple[ActionLayer, ...]) -> None:
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "layers", layers)

    base: tuple[Slab, ...]
    layers: tuple[ActionLayer, ...]

    @cached_property
    def slabs(self) -> tuple[Slab, ...]:
        slabs = [_live(s, self.layers) for s in self.base]
        slabs += [
            _live(Slab(layer.files, JsonStats(layer.texts)), self.layers[n:])
            for n, layer in enumerate(self.layers, start=1)
        ]
        return tuple(s for s in slabs if s.files.num_rows)

    def among(self, keys: Collection[str] | pa.Array) -> FileTable:
        """The files with these keys; only these are reconciled where the live files were not read before."""
        if "slabs" in self.__dict__ or not len(keys):
            return super().among(keys)
        key_array = keys if isinstance(keys, pa.Array) else strings(list(keys))
        layers = tuple(Slab(layer.files, JsonStats(layer.texts)) for layer in self.layers)
        later = (*(self.layers for _ in self.base), *(self.layers[n:] for n in range(1, len(layers) + 1)))
        with_keys = (_with_keys(slab, key_array) for slab in (*self.base, *layers))
        live = (_live(slab, above) for slab, above in zip(with_keys, later, strict=True) if slab is not None)
        return FileTable(tuple(slab for slab in live if slab.files.num_rows))


def layer_from(lines: Sequence[Line], location: Location) -> ActionLayer:
    """The layer of these actions, oldest first."""
    file_actions = [(line.add or line.remove, line.add is not None) for line in lines if line.add or line.remove]
    actions = [action for action, _ in file_actions if action is not None]
    # The path of a removed file may lead outside the table, because nobody reads it; live files are checked below.
    keys = file_keys(actions, location.anywhere)
    ids = logical_ids(keys, dv_ids_of(actions))
    newest = last_of_each(ids)
    added = newest[np.fromiter((is_add for _, is_add in file_actions), bool, len(file_actions))[newest]]
    live = [actions[n] for n in added]
    return ActionLayer(
        from_actions(live, location),
        strings([a.stats for a in live]),
        keys.take(positions(newest)),
        ids.take(positions(newest)),
    )


def push_layer(layers: tuple[ActionLayer, ...], new: ActionLayer) -> tuple[ActionLayer, ...]:
    """The layers with a new one on top."""
    if len(new) == 0:
        return layers
    below = list(layers)
    while below and len(below[-1]) <= len(new):
        new = _merged(below.pop(), new)
    return (*below, new)


def _merged(older: ActionLayer, newer: ActionLayer) -> ActionLayer:
    alive = _alive(older.files, (newer,))
    files, texts = older.files, older.texts
    if alive is not None:
        files, texts = files.filter(alive), texts.filter(alive)
    not_replaced = pc.invert(pc.is_in(older.ids, value_set=newer.ids))
    return ActionLayer(
        pa.concat_tables([files, newer.files]).combine_chunks(),
        pa.concat_arrays([texts, newer.texts]),
        pa.concat_arrays([older.keys.filter(not_replaced), newer.keys]),
        pa.concat_arrays([older.ids.filter(not_replaced), newer.ids]),
    )


def _with_keys(slab: Slab, keys: pa.Array) -> Slab | None:
    has_key = pc.is_in(slab.files.column("key").combine_chunks(), value_set=keys)
    return slab.filter(has_key) if has_key.true_count else None


def _live(slab: Slab, later: tuple[ActionLayer, ...]) -> Slab:
    alive = _alive(slab.files, later)
    return slab if alive is None else slab.filter(alive)


def _alive(files: pa.Table, later: Sequence[ActionLayer]) -> pa.Array | None:
    """Mask of the files that no later layer adds or removes; None where that is all of them."""
    dead = [d for layer in later if len(d := _superseded(files, layer))]
    if not dead:
        return None
    alive = np.ones(files.num_rows, bool)
    alive[np.concatenate(dead)] = False
    return mask(alive)


def _superseded(files: pa.Table, layer: ActionLayer) -> Positions:
    """Positions of the files that a layer adds or removes; only files with the same key compare deletion vectors."""
    if files.num_rows == 0:
        return np.empty(0, np.int64)
    has_key = pc.is_in(files.column("key"), value_set=layer.keys)
    where = np.flatnonzero(truths(has_key))
    if len(where) == 0:
        return where
    ids = table_ids(files.select(["key", "dv"]).take(positions(where)))
    return where[truths(pc.is_in(ids, value_set=layer.ids))]


def last_of_each(ids: pa.Array) -> Positions:
    """Where each distinct id occurs last, ascending."""
    codes = ids.dictionary_encode()
    last = np.zeros(len(codes.dictionary), np.int64)
    indices = np.frombuffer(codes.indices.buffers()[1], np.int32)[: len(ids)]
    last[indices] = np.arange(len(ids))  # numpy keeps the last value of a repeated index
    return np.sort(last)
