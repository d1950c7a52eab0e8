"""Pruning passes of a scan that use an index, or the row maps for a condition on row ids.

1. A file with a live row that satisfies the condition passes.
2. An index is used if its hits are few enough to look up, else `detail` says why not. Files of its tail pass.
3. Row ids: the log gives a range of ids per file. The ranges of files that rows were moved into overlap, so their row
   maps decide, from the log or the file's footer. A footer is read once per table object, and only for few files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import TableError
from holdfast.index.reader import PinnedReader
from holdfast.index.search import Indexes, pays, too_many
from holdfast.model.files import FileTable
from holdfast.plan.scan.locate import FRESH, spans_of
from holdfast.plan.scan.prune import Want
from holdfast.predicate.records import (
    ALWAYS,
    Column,
    Compare,
    In,
    Op,
    Predicate,
    conjunction,
    conjuncts,
    tested_columns,
)
from holdfast.rows.columns import DELETED, ROW_ID
from holdfast.storage.arrays import strings

MOST_IDS = 10_000
MOST_FILES = 1000  # whose footers are read for a list of ids: beyond, a scan is no slower


class ByIndex:
    """The pass by index; `also` holds for every row of the result, in addition to the condition."""

    __name__ = "by_index"

    def __init__(self, opened: Callable[[], Indexes], also: Predicate = ALWAYS) -> None:
        self._opened = opened
        self._also = also
        self._detail = ""

    def __call__(self, files: FileTable, want: Want) -> pa.BooleanArray:
        everything = pa.repeat(pa.scalar(True), len(files))
        where = conjunction(tuple(p for p in (want.where, self._also) if p != ALWAYS))
        if len(files) < 2 or not tested_columns(where):
            few = len(files) < 2
            self._detail = "not asked: there is nothing to leave out" if few else "no condition that is understood"
            return everything
        try:
            keys = self._kept(where)
        except TableError as error:  # rows cannot be located
            self._detail = f"not used: {error}"
            return everything
        if keys is None:
            return everything
        return pc.is_in(files.column("key").combine_chunks(), value_set=keys)

    def detail(self, want: Want) -> str:
        """What the last run used, in words."""
        return self._detail

    def _kept(self, where: Predicate) -> pa.Array | None:
        """The keys of files that may hold a row of the result; None: all files."""
        indexes = self._opened()
        choice, why = indexes.choose(where)
        rows = indexes.rows()
        if choice is None:
            self._detail = "; ".join(f"{name} not used: {text}" for name, text in why.items())
            return None
        name = choice.index.name
        if not pays(choice.hits, rows):
            self._detail = f"{name} not used: {too_many(choice, rows)}"
            return None
        numbers = indexes.files_with(choice)
        all_keys = indexes.reader.snapshot.files.column("key")
        keys = pa.concat_arrays([all_keys.take(pa.array(numbers)).combine_chunks(), strings(choice.tail.keys)])
        tail = f", and {len(choice.tail)} files it does not answer for" if len(choice.tail) else ""
        because = f" ({choice.tail.why})" if choice.tail.why else ""
        self._detail = f"{name}: {choice.hits} entries in {len(np.unique(numbers))} files{tail}{because}"
        return keys


class ByRowId:
    """The pass by row ids; `also` holds for every row of the result, in addition to the condition."""

    __name__ = "by_row_id"

    def __init__(self, opened: Callable[[], PinnedReader], also: Predicate = ALWAYS) -> None:
        self._opened = opened
        self._also = also
        self._detail = ""

    def applies(self, want: Want) -> bool:
        """Whether the condition lists ids of live rows, and not too many."""
        return self._ids(want) is not None and DELETED not in want.metadata.canonical.values()

    def __call__(self, files: FileTable, want: Want) -> pa.BooleanArray:
        everything = pa.repeat(pa.scalar(True), len(files))
        ids, identity = self._ids(want), want.snapshot.identity
        assert ids is not None, "asked only where it applies"
        assert identity is not None, "a condition names ids where rows have them"
        if len(files) < 2 or bool((spans_of(files, identity).kinds == FRESH).all()):
            self._detail = "not asked: the log says enough"
            return everything
        try:
            reader = self._opened()
            numbers = reader.files_with(ids, MOST_FILES)
        except TableError as error:  # rows cannot be located
            self._detail = f"not used: {error}"
            return everything
        if numbers is None:
            self._detail = f"not used: more than {MOST_FILES} files would have to be opened"
            return everything
        count = f"{len(ids)} ids" if len(ids) != 1 else "1 id"
        self._detail = f"{count} in {len(numbers)} {'file' if len(numbers) == 1 else 'files'}"
        keys = reader.snapshot.files.column("key").take(pa.array(numbers)).combine_chunks()
        return pc.is_in(files.column("key").combine_chunks(), value_set=keys)

    def detail(self, want: Want) -> str:
        """What the last run used, in words."""
        return self._detail

    def _ids(self, want: Want) -> NDArray[np.int64] | None:
        """The shortest list of ids that the condition allows; None if there is none, or it is too long."""
        lists = [ids for part in (want.where, self._also) for ids in _listed(part, want)]
        fewest = min(lists, key=len, default=None)
        if fewest is None or len(fewest) > MOST_IDS:
            return None
        return np.unique(np.array(fewest, np.int64))


def _listed(where: Predicate, want: Want) -> Iterator[tuple[int, ...]]:
    """The list of ids in each conjunct that has one."""
    for part in conjuncts(where):
        match part:
            case Compare(Op.EQ | Op.SAME, column, int(value)) if _is_id(column, want):
                yield (value,)
            case In(column, values) if _is_id(column, want):
                yield tuple(value for value in values if isinstance(value, int))


def _is_id(column: Column, want: Want) -> bool:
    return want.metadata.canonical.get(column[0]) == ROW_ID
