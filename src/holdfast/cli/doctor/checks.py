"""The checks of `holdfast doctor`, each with advice if something is missing.

1. A check changes nothing and does not import what it checks; only STARTS run Spark, each in a process of its own.
2. `ok` is False if Holdfast cannot work, None if something optional is missing, True if all is well.
3. A check that is not True has advice.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from holdfast.engines.spark.session.home import two_sparks
from holdfast.engines.spark.session.java import ADVICE, OLDEST, every_java, find_java

START_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    ok: bool | None
    found: str
    advice: str = ""

    def __post_init__(self) -> None:
        assert self.ok or self.advice, f"{self.name} is not well and says nothing about what to do"


def holdfast() -> Check:
    installed = _installed("holdfast")
    if installed is None:
        return Check("Holdfast", None, "running from source", "pip install . in the checkout, to have it everywhere")
    return Check("Holdfast", True, installed)


def python() -> Check:
    return Check("Python", True, platform.python_version())


def package(name: str, *, needed_for: str) -> Check:
    installed = _installed(name)
    if installed is None:
        return Check(name, False, "not installed", f"pip install {name}: {needed_for} needs it")
    return Check(name, True, installed)


def pyspark() -> Check:
    installed = _installed("pyspark")
    if installed is None:
        return Check("PySpark", False, "not installed", "pip install 'pyspark>=4.0,<5'")
    if _major(installed) != 4:
        return Check("PySpark", False, installed, "Holdfast runs on PySpark 4: pip install 'pyspark>=4.0,<5'")
    if trouble := two_sparks(installed):
        return Check("PySpark", False, installed, trouble)
    return Check("PySpark", True, installed)


def java() -> Check:
    fit = find_java()
    if fit is not None:
        return Check("Java", True, f"{fit.version} in {fit.home}")
    old = ", ".join(f"{other.version} in {other.home}" for other in every_java())
    return Check("Java", False, f"only {old}" if old else "not found", f"Spark needs Java {OLDEST} or newer: {ADVICE}")


def workers() -> Check:
    """Workers run PYSPARK_PYTHON, or whatever python3 is on the PATH of their machine."""
    chosen = os.environ.get("PYSPARK_PYTHON")
    name = chosen or "python3"
    ask = "import sys, pyarrow; print('%d.%d' % sys.version_info[:2])"
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    advice = f"set PYSPARK_PYTHON to a Python {ours} with pyarrow (this one is {sys.executable})"
    try:
        worker_version = subprocess.run(
            [name, "-c", ask], capture_output=True, text=True, timeout=60, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        worker_version = ""
    finding = (
        f"{name} is Python {worker_version} with pyarrow"
        if worker_version
        else f"{name} does not run, or has no pyarrow"
    )
    if worker_version == ours:
        return Check("Python of workers", True, finding)
    if chosen is None:
        return Check(
            "Python of workers", None, finding, f"holdfast.session() takes its own Python; elsewhere, {advice}"
        )
    return Check("Python of workers", False, finding, advice)


def classic() -> Check:
    if find_java() is None or _installed("pyspark") is None:
        return Check("Spark classic", False, "cannot start", "it needs Java and PySpark, see above")
    return Check("Spark classic", True, "can start; try it with --start")


def local_cluster() -> Check:
    home = _spark_home()
    if home is None or find_java() is None or not (home / "bin" / "spark-class").exists():
        return Check("Spark local-cluster", None, "cannot start", "it needs Java and PySpark's own bin directory")
    return Check("Spark local-cluster", True, "can start; try it with --start")


def connect() -> Check:
    name = "Spark Connect client"
    advice = "pip install 'holdfast[connect]'"
    missing = [p for p in ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard") if _installed(p) is None]
    pandas = _installed("pandas")
    if pandas is None:
        missing.append("pandas")
    if missing:
        return Check(name, None, f"without {', '.join(missing)}", f"to use Spark Connect: {advice}")
    if pandas is not None and _major(pandas) >= 3:
        return Check(name, None, f"pandas {pandas}", f"PySpark does not fully support pandas 3: {advice}")
    return Check(name, True, f"grpcio {_installed('grpcio')}, pandas {pandas}")


def connector(name: str, *, pattern: str, schemes: str) -> Check:
    home = _spark_home()
    jars = sorted(jar.name for jar in (home / "jars").glob(pattern)) if home is not None else []
    if jars:
        return Check(name, True, ", ".join(jars))
    return Check(
        name,
        None,
        "no JAR",
        f"tables under {schemes} are read by the Arrow path instead, which is slower; "
        f"put {pattern} among Spark's jars, or name it in spark.jars.packages, to let Spark read them",
    )


def start(way: str) -> Check:
    """Start Spark for real, in a child process."""
    name = f"Start {way}"
    fit = find_java()
    environ = {**os.environ, "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    if fit is not None:
        environ["JAVA_HOME"] = str(fit.home)
    command = [sys.executable, "-m", f"{__package__}.probe", way]
    began = time.monotonic()
    try:
        ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=START_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return Check(name, _lacking(way), f"no answer in {START_TIMEOUT_S} s", f"run: {' '.join(command)}")
    if ended.returncode == 0:
        return Check(name, True, f"started, ran a Python task and stopped in {time.monotonic() - began:.0f} s")
    lines = ended.stderr.strip().splitlines()
    return Check(name, _lacking(way), lines[-1] if lines else "failed", f"see all it says: {' '.join(command)}")


def _lacking(way: str) -> bool | None:
    return False if way == "classic" else None


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _major(version_text: str) -> int:
    return int(version_text.split(".", maxsplit=1)[0])


def _spark_home() -> Path | None:
    if os.environ.get("SPARK_HOME"):
        return Path(os.environ["SPARK_HOME"])
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


CHECKS: tuple[Callable[[], Check], ...] = (
    holdfast,
    python,
    pyspark,
    partial(package, "pyarrow", needed_for="all data"),
    partial(package, "numpy", needed_for="row positions"),
    partial(package, "msgspec", needed_for="the log"),
    partial(package, "pyroaring", needed_for="deletion vectors"),
    partial(package, "obstore", needed_for="object storage"),
    partial(package, "sqlglot", needed_for="pruning by SQL conditions"),
    partial(package, "xxhash", needed_for="file keys"),
    java,
    workers,
    classic,
    local_cluster,
    connect,
    partial(connector, "Spark connector for S3", pattern="hadoop-aws-*.jar", schemes="s3://, s3a://"),
    partial(connector, "Spark connector for GCS", pattern="gcs-connector-*.jar", schemes="gs://"),
    partial(connector, "Spark connector for Azure", pattern="hadoop-azure-*.jar", schemes="abfss://"),
)

STARTS: tuple[Callable[[], Check], ...] = tuple(partial(start, way) for way in ("classic", "local-cluster", "connect"))
