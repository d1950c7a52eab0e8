"""`delta.pip_utils`, and the removal of Delta's settings from session builders.

1. Only settings that would load Delta's JAR are removed; other values in the same lists stay.
2. The log names the removed settings, once per builder.
3. Spark's tasks need a Python that has Holdfast. Tasks on this machine run the driver's interpreter, unless another one
   was chosen.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_log = logging.getLogger(__name__)


def configure_spark_with_delta_pip(spark_session_builder: Any, extra_packages: list[str] | None = None) -> Any:
    """The builder with `extra_packages`; there is no Delta package to add."""
    if extra_packages:
        return spark_session_builder.config("spark.jars.packages", ",".join(extra_packages))
    return spark_session_builder


def take_off(options: dict[str, Any]) -> None:
    """Remove Delta's settings from those of a builder."""
    removed = [
        *_without(options, "spark.sql.extensions", lambda part: part == EXTENSION),
        *_without(options, "spark.sql.catalog.spark_catalog", lambda part: part == CATALOG),
        *_without(options, "spark.jars.packages", lambda part: part.startswith("io.delta:delta-")),
    ]
    if removed:
        _log.info("Holdfast stands in for delta-spark in this process, so these settings are left out: %s", removed)


def run_this_python(options: Mapping[str, Any]) -> None:
    """Let tasks on the driver's machine run the driver's interpreter, unless another one was chosen."""
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit, which chooses where tasks run
    master = str(options.get("spark.master") or ("" if submitted else "local"))
    if master.startswith("local") and not options.keys() & {"spark.pyspark.python", "spark.remote"}:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def has_extension(extensions: str) -> bool:
    """Whether a list of extensions names Delta's."""
    return any(part.strip().startswith("io.delta.") for part in extensions.split(","))


def _without(options: dict[str, Any], name: str, is_deltas: Callable[[str], bool]) -> list[str]:
    parts = [part.strip() for part in str(options.get(name) or "").split(",") if part.strip()]
    removed, kept = [p for p in parts if is_deltas(p)], [p for p in parts if not is_deltas(p)]
    if removed and kept:
        options[name] = ",".join(kept)
    elif removed:
        del options[name]
    return removed
