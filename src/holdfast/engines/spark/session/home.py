"""Finds out which Spark PySpark would start: its own, or that of SPARK_HOME.

PySpark hands its Python half to whatever Spark SPARK_HOME names. Where that is of another release, the two fail on each
other somewhere inside, long after and without saying why.

1. Nothing is started or imported: the release is read from the names of files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

_CORE = re.compile(r"spark-core_[\d.]+-(\d+\.\d+\.\d+)[^/]*\.jar")


def two_sparks(ours: str, environ: Mapping[str, str] = os.environ) -> str:
    """What is wrong with SPARK_HOME for PySpark of a version, and what to do; empty where nothing is."""
    home = environ.get("SPARK_HOME")
    if not home:
        return ""
    release = _release(Path(home))
    if release is None:
        return f"SPARK_HOME is {home}, where no Spark is: unset it, and PySpark {ours} takes its own"
    if release.split(".")[:2] == ours.split(".")[:2]:
        return ""
    or_else = f", or pip install 'pyspark=={release}'" if release.startswith("4.") else ""
    return f"SPARK_HOME is {home}, a Spark {release}, and this Python has PySpark {ours}: unset SPARK_HOME{or_else}"


def _release(home: Path) -> str | None:
    named = (_CORE.fullmatch(jar.name) for jar in sorted((home / "jars").glob("spark-core_*.jar")))
    return next((match[1] for match in named if match is not None), None)
