"""Which files are live: what later actions say of a file stands against what earlier ones said.

Files come in layers, oldest first: the slabs of a checkpoint, then stretches of commits. Nothing is taken out of a
layer when a newer one arrives; what died is left out when somebody looks at the files. So a refresh costs what the
new commits cost, however many files there are.

1. A logical file is (file key, vector id); the newest action that refers to it decides.
2. Layers never change; a new one is put on top, and merged with layers no larger than itself, so that there are few.
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
from holdfast.formats.delta.log.columns import from_actions, logical_ids
from holdfast.formats.delta.stats.reader import JsonStats
from holdfast.model.files import FileTable, Slab
from holdfast.storage.arrays import mask, positions, strings, truths
from holdfast.storage.location import Location

Positions: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class ActionLayer:
    """The file actions of a stretch of commits, the newest of each logical file."""

    files: pa.Table  # added, and not taken back within the stretch
    texts: pa.Array  # their statistics
    keys: pa.Array  # of every logical file the stretch refers to, added or removed
    ids: pa.Array

    def __len__(self) -> int:
        return len(self.ids)


class LiveFiles(FileTable):
    """The files that no later layer speaks of, worked out when first looked at."""

    def __init__(self, base: tuple[Slab, ...], layers: tuple[ActionLayer, ...]) -> None:
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "layers", layers)

    base: tuple[Slab, ...]
    layers: tuple[ActionLayer, ...]

    @cached_property
    def slabs(self) -> tuple[Slab, ...]:
        slabs = [_left(s, self.layers) for s in self.base]
        slabs += [
            _left(Slab(layer.files, JsonStats(layer.texts)), self.layers[n:])
            for n, layer in enumerate(self.layers, start=1)
        ]
        return tuple(s for s in slabs if s.files.num_rows)

    def among(self, keys: Collection[str] | pa.Array) -> FileTable:
        """The files with these keys; where nobody has looked at all files so far, only these are worked out."""
        if "slabs" in self.__dict__ or not len(keys):
            return super().among(keys)
        wanted = keys if isinstance(keys, pa.Array) else strings(list(keys))
        layers = tuple(Slab(layer.files, JsonStats(layer.texts)) for layer in self.layers)
        later = (*(self.layers for _ in self.base), *(self.layers[n:] for n in range(1, len(layers) + 1)))
        some = (_with_keys(slab, wanted) for slab in (*self.base, *layers))
        left = (_left(slab, above) for slab, above in zip(some, later, strict=True) if slab is not None)
        return FileTable(tuple(slab for slab in left if slab.files.num_rows))


def layer_from(lines: Sequence[Line], location: Location) -> ActionLayer:
    """The layer of these actions, oldest first."""
    found = [(line.add or line.remove, line.add is not None) for line in lines if line.add or line.remove]
    actions = [action for action, _ in found if action is not None]
    # A removed file is only a name, so its spelling may lead anywhere; a live one is checked below.
    keys = location.anywhere.file_keys(strings([a.path for a in actions]))
    vectors = strings([None if (dv := a.deletion_vector) is None else dv.unique_id for a in actions])
    ids = logical_ids(keys, vectors)
    newest = last_of_each(ids)
    added = newest[np.fromiter((is_add for _, is_add in found), bool, len(found))[newest]]
    live = [actions[n] for n in added]
    live_keys = location.file_keys(strings([a.path for a in live]))
    return ActionLayer(
        from_actions(live, live_keys),
        strings([a.stats for a in live]),
        keys.take(positions(newest)),
        ids.take(positions(newest)),
    )


def put(layers: tuple[ActionLayer, ...], new: ActionLayer) -> tuple[ActionLayer, ...]:
    """The layers with one more on top."""
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
    unspoken = pc.invert(pc.is_in(older.ids, value_set=newer.ids))
    return ActionLayer(
        pa.concat_tables([files, newer.files]).combine_chunks(),
        pa.concat_arrays([texts, newer.texts]),
        pa.concat_arrays([older.keys.filter(unspoken), newer.keys]),
        pa.concat_arrays([older.ids.filter(unspoken), newer.ids]),
    )


def _with_keys(slab: Slab, keys: pa.Array) -> Slab | None:
    has_key = pc.is_in(slab.files.column("key").combine_chunks(), value_set=keys)
    return slab.filter(has_key) if has_key.true_count else None


def _left(slab: Slab, later: tuple[ActionLayer, ...]) -> Slab:
    alive = _alive(slab.files, later)
    return slab if alive is None else slab.filter(alive)


def _alive(files: pa.Table, later: Sequence[ActionLayer]) -> pa.Array | None:
    """Which files no later layer speaks of; None when that is all of them."""
    dead = [d for layer in later if len(d := _spoken_of(files, layer))]
    if not dead:
        return None
    alive = np.ones(files.num_rows, bool)
    alive[np.concatenate(dead)] = False
    return mask(alive)


def _spoken_of(files: pa.Table, layer: ActionLayer) -> Positions:
    """Positions of the files a layer refers to. Paths are compared first; vectors only where a path is the same."""
    if files.num_rows == 0:
        return np.empty(0, np.int64)
    same_path = pc.is_in(files.column("key"), value_set=layer.keys)
    where = np.flatnonzero(truths(same_path))
    if len(where) == 0:
        return where
    few = files.select(["key", "dv"]).take(positions(where))
    keys = few.column("key").combine_chunks()
    ids = logical_ids(keys, pc.struct_field(few.column("dv").combine_chunks(), "id"))
    return where[truths(pc.is_in(ids, value_set=layer.ids))]


def last_of_each(ids: pa.Array) -> Positions:
    """Where each distinct id occurs last, ascending."""
    codes = ids.dictionary_encode()
    last = np.zeros(len(codes.dictionary), np.int64)
    last[np.frombuffer(codes.indices.buffers()[1], np.int32)[: len(ids)]] = np.arange(
        len(ids)
    )  # a repeated index keeps what was assigned last
    return np.sort(last)
