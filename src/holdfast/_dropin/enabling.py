"""Turns the drop-in on and off.

    holdfast.enable(spark)    # this session
    holdfast.enable()         # every session of the process, those to come too
    import holdfast.dropin    # the same, as the first line of a program

1. Enabling twice has no further effect; disabling restores PySpark and the import system.
2. Enabling is refused where delta-spark is loaded, or a session loads Delta's JAR.
3. A clone of an enabled session is enabled; a new session is not, unless all sessions are.
"""

from __future__ import annotations

from types import TracebackType

from pyspark.sql import SparkSession

from holdfast._dropin import errors, modules, patches, sessions, tables
from holdfast._dropin.pip_utils import configure_spark_with_delta_pip, has_extension
from holdfast.errors import Invalid, Unsupported
from holdfast.sql.resolver import TableResolver
from holdfast.table.table import Table

_EXCEPTIONS = {
    name: getattr(errors, name)
    for name in (
        *("DeltaConcurrentModificationException", "ConcurrentWriteException", "MetadataChangedException"),
        *("ProtocolChangedException", "ConcurrentAppendException", "ConcurrentDeleteReadException"),
        *("ConcurrentDeleteDeleteException", "ConcurrentTransactionException"),
    )
}
_TABLES = {
    name: getattr(tables, name)
    for name in ("DeltaTable", "DeltaTableBuilder", "DeltaMergeBuilder", "DeltaOptimizeBuilder", "IdentityGenerator")
}
_PIP = {"configure_spark_with_delta_pip": configure_spark_with_delta_pip}
MODULES = {
    "delta": {"DeltaTable": tables.DeltaTable, **_PIP},
    "delta.tables": _TABLES,
    "delta.exceptions": _EXCEPTIONS,
    "delta.pip_utils": _PIP,
}


class Dropin:
    """The drop-in of a session, or of all; as a context manager it turns off what `enable` turned on."""

    def __init__(self, spark: SparkSession | None, was_on: bool) -> None:
        self._spark = spark
        self._was_on = was_on

    def __repr__(self) -> str:
        where = "every session" if self._spark is None else f"the session {self._spark.conf.get(sessions.MARK, 'off')}"
        return f"Holdfast in the place of delta-spark in {where}"

    def __enter__(self) -> Dropin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._was_on:
            self.disable()

    def register(self, name: str, table: Table) -> None:
        """Give a table a name for statements and readers, such as an Iceberg table."""
        self._resolver().register(name, table)

    def disable(self) -> None:
        """Turn it off."""
        disable(self._spark)

    def _resolver(self) -> TableResolver:
        spark = self._spark or SparkSession.getActiveSession()
        resolver = None if spark is None else sessions.resolver_of(spark)
        if resolver is None:
            raise Invalid("there is no session with the drop-in yet: make one, or call holdfast.enable(spark)")
        return resolver


def enable(spark: SparkSession | None = None) -> Dropin:
    """Let pipelines written for delta-spark run on Holdfast in a session, or in every session of this process."""
    modules.refuse_loaded()
    if spark is not None:
        if has_extension(spark.conf.get("spark.sql.extensions", "") or ""):
            raise Unsupported(
                "the session has Delta's own extension among spark.sql.extensions: start one without it, or call "
                "holdfast.enable() before the session is made, which leaves Delta's settings out"
            )
        was_on = sessions.resolver_of(spark) is not None
        sessions.add(spark)
        patches.install(patches.family_of(spark))
    else:
        was_on = sessions.is_everywhere()
        sessions.everywhere()
        patches.install(patches.CLASSIC)
        active = SparkSession.getActiveSession()
        if active is not None:
            patches.install(patches.family_of(active))
    modules.install(MODULES)
    return Dropin(spark, was_on)


def disable(spark: SparkSession | None = None) -> None:
    """Turn the drop-in off in a session, or everywhere."""
    if spark is None:
        sessions.remove_all()
    else:
        sessions.remove(spark)
    if sessions.are_none():
        patches.remove()
        modules.remove()
