"""Calls methods of Spark that the drop-in has replaced.

The drop-in puts functions in front of methods of a session, each of which names what it wraps. Code that talks to Spark
itself, such as to its catalog, goes round them here.

1. In a session where nothing is in front, this is the method itself.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import unwrap
from typing import Any

from pyspark.sql import DataFrame, SparkSession

IN_FRONT = "__holdfast__"  # what a function is marked by that stands in front of a method


def plain(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method without what stands in front of it."""
    original: Callable[..., Any] = unwrap(method, stop=lambda each: not hasattr(each, IN_FRONT))
    return original


def plain_sql(spark: SparkSession, text: str, args: Any = None, **more: Any) -> DataFrame:
    """Run a statement as Spark understands it."""
    run = plain(type(spark).sql)
    frame: DataFrame = run(spark, text, **more) if args is None else run(spark, text, args, **more)
    return frame
