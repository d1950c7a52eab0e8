"""What the columns of a frame are qualified by: the table's name, or a name of its own where that would not tell it
from another frame.

Texts name a table as its user does (`crew.id`), so that is what a frame's columns are qualified by. Columns that are
taken from it (`df.id`) are names too, and two frames of one table would both give `crew.id`. So one of them takes a
name of its own when its columns are first asked for.

1. A qualifier under which columns were given out stays.
2. A frame takes a name of its own only when columns are taken from it while another one that is alive, in the same
   session, goes by the same name: because columns were taken from it, or because something was made of it.
3. Nothing here keeps a frame alive.
"""

from __future__ import annotations

import itertools
import re
from threading import Lock
from weakref import WeakKeyDictionary, WeakSet

from pyspark.sql import SparkSession

_numbers = itertools.count(1)
_callings: WeakKeyDictionary[SparkSession, WeakSet[Calling]] = WeakKeyDictionary()
_lock = Lock()


class Calling:
    """How one frame, and those that came of it by steps it remembers, is called."""

    def __init__(self, name: str | None = None, among: SparkSession | None = None) -> None:
        """`among`: the session whose other frames of that name it must be told from; None: it keeps the name."""
        self._name = name or _own()
        self._qualifier = self._name
        self._others: WeakSet[Calling] = WeakSet()
        self._stays = name is None or among is None  # columns were given out under it, or it is its own anyway
        self._is_used = False
        if name is not None and among is not None:
            with _lock:
                self._others = _callings.setdefault(among, self._others)
                self._others.add(self)

    @property
    def qualifier(self) -> str:
        """What it is called by now."""
        return self._qualifier

    @property
    def names(self) -> frozenset[str]:
        """All that its columns may be qualified by in texts, in lower case."""
        return frozenset((self._name.lower(), self._qualifier.lower()))

    def used(self) -> None:
        """Note that there is a plan under the qualifier, of which other frames may be made."""
        self._is_used = True

    def taken(self) -> str:
        """The qualifier, for a column that is given out."""
        with _lock:
            if not self._stays and any(map(self._clashes, self._others)):
                self._qualifier = _own()
            self._stays = True
        return self._qualifier

    def within(self, text: str) -> str | None:
        """What an expression calls it; None: nothing."""
        return next((name for name in (self._qualifier, self._name) if _is_qualified(text, name)), None)

    def _clashes(self, other: Calling) -> bool:
        same = other is not self and other._qualifier.lower() == self._qualifier.lower()
        return same and (other._stays or other._is_used)


def _is_qualified(text: str, name: str) -> bool:
    """Whether an expression qualifies something by a name."""
    return re.search(rf"(?<![\w.`])`?{re.escape(name)}`?\s*\.", text, re.IGNORECASE) is not None


def _own() -> str:
    return f"delta_{next(_numbers)}"
