"""The environment of Iceberg's other engines: `.venv-verify`, made on first use.

They need an older PySpark than ours, and DataFusion in the version that iceberg-rust was built for, so they live apart.
Packages come through pip and the JAR through Maven, each as the machine has them set up; afterwards no network is
needed.

1. Nothing of Holdfast is installed there: what runs inside sees only the files that a table consists of.
2. What cannot be had is named, and then there is no environment.
"""

from __future__ import annotations

from pathlib import Path

from bench import peers

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".venv-verify"
JARS = HOME / "jars"
PYTHON = HOME / "bin/python"
JAVA_ICEBERG = "1.11.0"
PACKAGES = (
    "pyspark[connect]==4.1.1",  # the newest that iceberg-spark-runtime has a JAR for
    "pysail==0.7.2",
    "duckdb==1.5.5",  # the newest that its extensions have wheels for
    "duckdb-extension-avro==1.5.5",
    "duckdb-extension-httpfs==1.5.5",
    "duckdb-extension-iceberg==1.5.5",
    "pyiceberg-core==0.11.0",
    "datafusion==54.1.0",  # the version whose interface pyiceberg-core speaks
    "pyarrow>=18",
    "pandas>=2.2,<3",
    "setuptools<81",  # PySpark's Connect client looks for distutils
)
_RUNTIME = "iceberg-spark-runtime-4.1_2.13"


def make() -> str | None:
    """Make the environment unless it is there; gives what is wrong when it cannot be."""
    what = "Iceberg's Java runtime, iceberg-rust, DuckDB and Sail"
    return peers.made(HOME, f"{_RUNTIME} {JAVA_ICEBERG} {PACKAGES}", what, _fill)


def _fill() -> None:
    peers.run([str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES])
    peers.fetch_jars(JARS, "org.apache.iceberg", _RUNTIME, JAVA_ICEBERG)
