"""Which sessions the drop-in is on in, and what names mean there.

A session is known by a mark among its own settings. So every Python object for one session of Spark finds the mark
(there may be several), and a clone of a session has it too, such as the one that `foreachBatch` is called with; a new
session has not.

1. Asking costs nothing where no session was ever enabled, and one look at a setting otherwise.
2. With `everywhere`, a session that has no mark yet gets one when it is first asked for.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from holdfast.env import system
from holdfast.sql.resolver import TableResolver

MARK = "spark.holdfast.dropin"

_known: dict[str, TableResolver] = {}  # by mark
_marks: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()
_everywhere: list[bool] = []  # not empty: in every session


def known(spark: SparkSession) -> TableResolver | None:
    """What names mean in a session; None: the drop-in is off there."""
    if not _known and not _everywhere:
        return None
    found = _known.get(_marks.get(spark) or _mark(spark))
    if found is None and _everywhere:
        add(spark)
        found = _known[_marks[spark]]
    return found


def add(spark: SparkSession) -> str:
    """Mark a session, and give its mark; one that is marked keeps it."""
    mark = _mark(spark)
    if mark not in _known:
        mark = str(system().new_uuid())
        spark.conf.set(MARK, mark)
        _known[mark] = TableResolver()
    _marks[spark] = mark
    return mark


def remove(spark: SparkSession) -> None:
    """Take the mark off a session."""
    _known.pop(_mark(spark), None)
    _marks.pop(spark, None)
    spark.conf.unset(MARK)


def remove_all() -> None:
    """Take the drop-in off every session; what is left of marks means nothing."""
    _known.clear()
    _marks.clear()
    _everywhere.clear()


def everywhere() -> None:
    """Let every session of the process have the drop-in."""
    _everywhere[:] = [True]


def is_everywhere() -> bool:
    return bool(_everywhere)


def are_none() -> bool:
    """Whether no session has the drop-in, and none will."""
    return not _known and not _everywhere


def _mark(spark: SparkSession) -> str:
    return spark.conf.get(MARK, "") or ""
