"""`delta.pip_utils`, and what Delta's settings on a builder come to: nothing has to be downloaded or configured.

1. Only settings that would load Delta's JAR are taken off; others in the same lists stay.
2. It is told in the log, once for each builder that had some.
3. Tables are written by Python in Spark's tasks, which a JAR was not: where these run on this machine, they run the
   interpreter that has Holdfast, unless something else was said.
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
    """The builder, as delta-spark's function gives it; there is no Delta package to add, `extra_packages` are added."""
    if extra_packages:
        return spark_session_builder.config("spark.jars.packages", ",".join(extra_packages))
    return spark_session_builder


def take_off(options: dict[str, Any]) -> None:
    """Take Delta's settings off those of a builder."""
    gone = [
        *_without(options, "spark.sql.extensions", lambda part: part == EXTENSION),
        *_without(options, "spark.sql.catalog.spark_catalog", lambda part: part == CATALOG),
        *_without(options, "spark.jars.packages", lambda part: part.startswith("io.delta:delta-")),
    ]
    if gone:
        _log.info("Holdfast stands in for delta-spark in this process, so these settings are left out: %s", gone)


def run_this_python(options: Mapping[str, Any]) -> None:
    """Let tasks run the interpreter of the driver, if they run on its machine and nobody chose another."""
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit, which says where tasks run
    master = str(options.get("spark.master") or ("" if submitted else "local"))
    if master.startswith("local") and not options.keys() & {"spark.pyspark.python", "spark.remote"}:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def has_extension(extensions: str) -> bool:
    """Whether a list of extensions names Delta's."""
    return any(part.strip().startswith("io.delta.") for part in extensions.split(","))


def _without(options: dict[str, Any], name: str, is_deltas: Callable[[str], bool]) -> list[str]:
    parts = [part.strip() for part in str(options.get(name) or "").split(",") if part.strip()]
    gone, kept = [p for p in parts if is_deltas(p)], [p for p in parts if not is_deltas(p)]
    if gone and kept:
        options[name] = ",".join(kept)
    elif gone:
        del options[name]
    return gone
