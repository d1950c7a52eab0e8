"""An index as one more pass over the files of a scan: those without a hit and without a row of the tail are left out.

1. A file with a live row that satisfies the condition passes: by its entry, or as part of the tail.
2. It is used where the hits are so few that looking them up costs less than what is saved; else it says why not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import TableError
from holdfast.index.search import Indexes, pays, too_many
from holdfast.model.files import FileTable
from holdfast.plan.scan.prune import Want
from holdfast.predicate.records import ALWAYS, Predicate, conjunction, tested_columns
from holdfast.storage.arrays import strings


class ByIndex:
    """The pass; `also` is true of every wanted row, beyond what the condition says."""

    __name__ = "by_index"

    def __init__(self, opened: Callable[[], Indexes], also: Predicate = ALWAYS) -> None:
        self._opened = opened
        self._also = also
        self._told = ""

    def __call__(self, files: FileTable, want: Want) -> pa.BooleanArray:
        everything = pa.repeat(pa.scalar(True), len(files))
        where = conjunction(tuple(p for p in (want.where, self._also) if p != ALWAYS))
        if len(files) < 2 or not tested_columns(where):
            few = len(files) < 2
            self._told = "not asked: there is nothing to leave out" if few else "no condition that is understood"
            return everything
        try:
            keys = self._kept(where)
        except TableError as error:  # rows cannot be located
            self._told = f"not used: {error}"
            return everything
        if keys is None:
            return everything
        return pc.is_in(files.column("key").combine_chunks(), value_set=keys)

    def detail(self, want: Want) -> str:
        """What the last pass went by."""
        return self._told

    def _kept(self, where: Predicate) -> pa.Array | None:
        """The keys of files that may hold a row; None: all of them."""
        indexes = self._opened()
        choice, why = indexes.choose(where)
        rows = indexes.rows()
        if choice is None:
            self._told = "; ".join(f"{name} not used: {text}" for name, text in why.items())
            return None
        name = choice.index.name
        if not pays(choice.hits, rows):
            self._told = f"{name} not used: {too_many(choice, rows)}"
            return None
        found = indexes.files_with(choice)
        all_keys = indexes.reader.snapshot.files.column("key")
        keys = pa.concat_arrays([all_keys.take(pa.array(found)).combine_chunks(), strings(choice.tail.keys)])
        tail = f", and {len(choice.tail)} files it does not answer for" if len(choice.tail) else ""
        because = f" ({choice.tail.why})" if choice.tail.why else ""
        self._told = f"{name}: {choice.hits} entries in {len(np.unique(found))} files{tail}{because}"
        return keys
