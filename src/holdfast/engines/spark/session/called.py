"""Tests whether a DataFrame has a certain alias.

A DataFrame does not show its alias, on Connect least of all. Spark does: a star behind a name stands for the columns
that the name qualifies, and only where it qualifies none for the fields of a struct of that name.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from holdfast.schema.constraints import quoted


def is_called(rows: DataFrame, name: str) -> bool:
    """Whether a name qualifies the columns of a DataFrame; rows are not read."""
    try:
        return rows.select(f"{quoted(name)}.*").columns == rows.columns
    except AnalysisException:
        return False
