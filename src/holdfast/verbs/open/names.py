"""Resolves what users call a table: a path, or a name in Spark's catalog.

1. ``delta.`path` `` and a bare path in backquotes are paths; everything else is a name, looked up where Spark would.
2. A name that the catalog gives to another provider is told apart from one that nobody has.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdfast.errors import NotATable
from holdfast.verbs.open.engine import catalog_entry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.engines.spark.session.catalog import CatalogEntry

BY_PATH = re.compile(r"\s*(?:delta\s*\.\s*)?`((?:[^`]|``)+)`\s*", re.IGNORECASE | re.DOTALL)


def path_in(identifier: str) -> str | None:
    """The path that an identifier spells out; None where it is a name."""
    match = BY_PATH.fullmatch(identifier)
    if match is None or ("/" not in match[1] and "." not in identifier.split("`")[0]):
        return None
    return match[1].replace("``", "`")


def place_of(spark: SparkSession | None, identifier: str) -> str:
    """Where the table is that an identifier means."""
    path = path_in(identifier)
    return entry_of(spark, identifier).location if path is None else path


def entry_of(spark: SparkSession | None, name: str) -> CatalogEntry:
    """The entry of a Delta table in the catalog."""
    entry = catalog_entry(spark, name)
    if entry is None:
        raise NotATable(
            f"there is no table {name} in Spark's catalog: create it, or open it by its path, as in delta.`/path`",
            location=name,
        )
    if not entry.is_delta:
        raise NotATable(f"{name} is a table of {entry.provider or 'another provider'}, not of delta", location=name)
    return entry
