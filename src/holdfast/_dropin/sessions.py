"""The sessions that have the drop-in, and the table resolver of each.

A mark among a session's settings identifies it. So all Python objects of one Spark session have the same mark, and so
has a clone of the session, such as the one that Spark gives to `foreachBatch`; a new session has none.

1. The lookup costs nothing where no session was ever enabled, and one read of a setting otherwise.
2. With `everywhere`, a session without a mark gets one at its first lookup.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from holdfast.env import system
from holdfast.sql.resolver import TableResolver

MARK = "spark.holdfast.dropin"

_resolvers: dict[str, TableResolver] = {}  # by mark
_marks: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()
_everywhere: list[bool] = []  # not empty: in every session


def resolver_of(spark: SparkSession) -> TableResolver | None:
    """The table resolver of a session; None where the drop-in is off."""
    if not _resolvers and not _everywhere:
        return None
    resolver = _resolvers.get(_marks.get(spark) or _mark(spark))
    if resolver is None and _everywhere:
        add(spark)
        resolver = _resolvers[_marks[spark]]
    return resolver


def add(spark: SparkSession) -> str:
    """Turn the drop-in on in a session, and return the session's mark."""
    mark = _mark(spark)
    if mark not in _resolvers:
        mark = str(system().new_uuid())
        spark.conf.set(MARK, mark)
        _resolvers[mark] = TableResolver()
    _marks[spark] = mark
    return mark


def remove(spark: SparkSession) -> None:
    """Turn the drop-in off in a session."""
    _resolvers.pop(_mark(spark), None)
    _marks.pop(spark, None)
    spark.conf.unset(MARK)


def remove_all() -> None:
    """Turn the drop-in off in every session; remaining marks have no effect."""
    _resolvers.clear()
    _marks.clear()
    _everywhere.clear()


def everywhere() -> None:
    """Turn the drop-in on in every session of the process."""
    _everywhere[:] = [True]


def is_everywhere() -> bool:
    return bool(_everywhere)


def are_none() -> bool:
    """Whether the drop-in is off in every session."""
    return not _resolvers and not _everywhere


def _mark(spark: SparkSession) -> str:
    return spark.conf.get(MARK, "") or ""
