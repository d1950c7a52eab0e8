"""Row ids as one more pass over the files of a scan: those that hold none of the rows asked for are left out.

What the log says of ids are ranges. Files that rows were moved into overlap in them, so of these the row maps decide,
which are in the log or in the file's footer.

1. A file with a live row that has one of the ids passes.
2. A file is opened for its footer at most, once in the life of a table object, and only where few are in question.
3. It is asked only where a condition lists ids and the ranges leave files that rows were moved into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import TableError
from holdfast.index.reader import PinnedReader
from holdfast.model.files import FileTable
from holdfast.plan.scan.locate import FRESH, spans_of
from holdfast.plan.scan.prune import Want
from holdfast.predicate.records import ALWAYS, Column, Compare, In, Op, Predicate, conjuncts
from holdfast.rows.columns import DELETED, ROW_ID

MOST_IDS = 10_000
MOST_FILES = 1000  # to be opened: beyond, a scan does it no slower


class ByRowId:
    """The pass; `also` is true of every wanted row, beyond what the condition says."""

    __name__ = "by_row_id"

    def __init__(self, opened: Callable[[], PinnedReader], also: Predicate = ALWAYS) -> None:
        self._opened = opened
        self._also = also
        self._told = ""

    def applies(self, want: Want) -> bool:
        """Whether the condition lists ids, and not too many, of live rows."""
        return self._ids(want) is not None and DELETED not in want.metadata.canonical.values()

    def __call__(self, files: FileTable, want: Want) -> pa.BooleanArray:
        everything = pa.repeat(pa.scalar(True), len(files))
        ids, identity = self._ids(want), want.snapshot.identity
        assert ids is not None, "asked only where it applies"
        assert identity is not None, "a condition names ids where rows have them"
        if len(files) < 2 or bool((spans_of(files, identity).kinds == FRESH).all()):
            self._told = "not asked: the log says enough"
            return everything
        try:
            reader = self._opened()
            found = reader.files_with(ids, MOST_FILES)
        except TableError as error:  # rows cannot be located
            self._told = f"not used: {error}"
            return everything
        if found is None:
            self._told = f"not used: more than {MOST_FILES} files would have to be opened"
            return everything
        count = f"{len(ids)} ids" if len(ids) != 1 else "1 id"
        self._told = f"{count} in {len(found)} {'file' if len(found) == 1 else 'files'}"
        keys = reader.snapshot.files.column("key").take(pa.array(found)).combine_chunks()
        return pc.is_in(files.column("key").combine_chunks(), value_set=keys)

    def detail(self, want: Want) -> str:
        """What the last pass went by."""
        return self._told

    def _ids(self, want: Want) -> NDArray[np.int64] | None:
        """The fewest ids that every wanted row has one of; None where none are listed, or too many."""
        lists = [ids for part in (want.where, self._also) for ids in _listed(part, want)]
        fewest = min(lists, key=len, default=None)
        if fewest is None or len(fewest) > MOST_IDS:
            return None
        return np.unique(np.array(fewest, np.int64))


def _listed(where: Predicate, want: Want) -> Iterator[tuple[int, ...]]:
    """The ids that conjuncts of a condition ask for, each by itself."""
    for part in conjuncts(where):
        match part:
            case Compare(Op.EQ | Op.SAME, column, int(value)) if _is_id(column, want):
                yield (value,)
            case In(column, values) if _is_id(column, want):
                yield tuple(value for value in values if isinstance(value, int))


def _is_id(column: Column, want: Want) -> bool:
    return want.metadata.canonical.get(column[0]) == ROW_ID
