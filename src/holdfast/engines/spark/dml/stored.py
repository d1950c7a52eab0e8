"""Checks that expressions in a table's metadata call Spark's own functions.

1. A function that the session put in the place of a built-in one is never called for a table.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from holdfast.errors import Unsupported
from holdfast.schema.expressions import StoredExpression

_BUILT_IN = "org.apache.spark.sql.catalyst.expressions."


def refuse_shadowed(session: SparkSession, expressions: Iterable[StoredExpression]) -> None:
    """Refuse expressions that call what is, in this session, no function of Spark's."""
    for name, text in sorted({name: e.text for e in expressions for name in e.functions}.items()):
        try:
            class_name = session.catalog.getFunction(name).className
        except AnalysisException as error:
            raise Unsupported(
                f"this version of Spark has no function {name}, which the table needs ({text})"
            ) from error
        if not (class_name or "").startswith(_BUILT_IN):
            raise Unsupported(
                f"the session has a function {name} of its own in place of Spark's, which the table needs ({text}): "
                f"drop it (DROP TEMPORARY FUNCTION {name}) or register it under another name"
            )
