"""The environment of Iceberg's other engines: `.venv-verify`, made on first use.

They need an older PySpark than ours, and DataFusion in the version that iceberg-rust was built for, so they live apart.
Packages come through pip and the JAR through Maven, each as the machine has them set up; afterwards no network is
needed.

1. Nothing of Holdfast is installed there: what runs inside sees only the files that a table consists of.
2. What cannot be had is named, and then there is no environment.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

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
_READY = HOME / ".ready"


def make() -> str | None:
    """Make the environment unless it is there; gives what is wrong when it cannot be."""
    wanted = f"{_RUNTIME} {JAVA_ICEBERG} {PACKAGES}"
    if _READY.exists() and _READY.read_text() == wanted:
        return None
    if shutil.which("mvn") is None:
        return "Maven is not installed"
    print(f"making {HOME.name}, once: Iceberg's Java runtime, iceberg-rust, DuckDB and Sail", file=sys.stderr)
    shutil.rmtree(HOME, ignore_errors=True)
    try:
        _run([sys.executable, "-m", "venv", str(HOME)])
        _run([str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES])
        _fetch_jar()
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout or "no message").strip().splitlines()[-1]
        return f"`{' '.join(map(str, error.cmd[:6]))} ...` failed: {said}"
    _READY.write_text(wanted)
    return None


def _fetch_jar() -> None:
    project = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
      <modelVersion>4.0.0</modelVersion>
      <groupId>interop</groupId><artifactId>iceberg</artifactId><version>1</version><packaging>pom</packaging>
      <dependencies><dependency>
        <groupId>org.apache.iceberg</groupId><artifactId>{_RUNTIME}</artifactId><version>{JAVA_ICEBERG}</version>
      </dependency></dependencies>
    </project>"""
    with tempfile.TemporaryDirectory() as directory:
        pom = Path(directory) / "pom.xml"
        pom.write_text(project)
        _run(["mvn", "-B", "-q", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={JARS}"])


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
