"""The qualifier of a frame's columns: the table's name, or a unique name where another frame uses that one.

Users name a table's columns in texts (`crew.id`), so the table's name is the qualifier. Columns of a frame (`df.id`)
are such names too, and two frames of one table would both give `crew.id`. So one of the two gets a unique qualifier
when its first column is taken.

1. A qualifier does not change after a column was taken under it.
2. A frame gets a unique qualifier only where a column is taken from it while another live frame of the session has the
   same qualifier, and that one had a column taken or was planned.
3. This module keeps no frame alive.
"""

from __future__ import annotations

import itertools
import re
from threading import Lock
from weakref import WeakKeyDictionary, WeakSet

from pyspark.sql import SparkSession

_numbers = itertools.count(1)
_qualifiers: WeakKeyDictionary[SparkSession, WeakSet[Qualifier]] = WeakKeyDictionary()
_lock = Lock()


class Qualifier:
    """The qualifier of one frame, and of the frames that were derived from it by recorded steps."""

    def __init__(self, name: str | None = None, session: SparkSession | None = None) -> None:
        """`session` is where it must differ from other frames' qualifiers; without one, it keeps the name."""
        self._name = name or _unique()
        self._current = self._name
        self._others: WeakSet[Qualifier] = WeakSet()
        self._is_fixed = name is None or session is None  # a column was taken under it, or it is unique
        self._is_planned = False
        if name is not None and session is not None:
            with _lock:
                self._others = _qualifiers.setdefault(session, self._others)
                self._others.add(self)

    @property
    def current(self) -> str:
        """The qualifier now."""
        return self._current

    @property
    def names(self) -> frozenset[str]:
        """The qualifiers that texts may use, in lower case."""
        return frozenset((self._name.lower(), self._current.lower()))

    def mark_planned(self) -> None:
        """Note that a plan uses the qualifier, from which other frames may be derived."""
        self._is_planned = True

    def take(self) -> str:
        """The qualifier for a column of the frame; it does not change any more."""
        with _lock:
            if not self._is_fixed and any(map(self._clashes, self._others)):
                self._current = _unique()
            self._is_fixed = True
        return self._current

    def within(self, text: str) -> str | None:
        """The qualifier that an expression uses for it; None for none."""
        return next((name for name in (self._current, self._name) if _is_qualified(text, name)), None)

    def _clashes(self, other: Qualifier) -> bool:
        same = other is not self and other._current.lower() == self._current.lower()
        return same and (other._is_fixed or other._is_planned)


def _is_qualified(text: str, name: str) -> bool:
    """Whether an expression uses a qualifier."""
    return re.search(rf"(?<![\w.`])`?{re.escape(name)}`?\s*\.", text, re.IGNORECASE) is not None


def _unique() -> str:
    return f"delta_{next(_numbers)}"
