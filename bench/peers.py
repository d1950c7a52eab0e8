"""The environment in which both engines run on the same Spark: `.venv-peers`, made on first use.

It holds the newest PySpark that delta-spark has a JAR for, Holdfast from this checkout, and the peers. Packages come
through pip and JARs through Maven, each as the machine has them set up; afterwards no network is needed.

1. A script that needs it calls `enter` first, and is restarted inside.
2. What cannot be had is named, and the script goes on without that peer in the environment it was started in.
3. The JAR asked for is DELTA[0]; where Maven has it not, the next one is taken, and the report says so.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".venv-peers"
JARS = HOME / "jars"
PYSPARK = "4.2.0"
DELTA = ("4.4.1", "4.4.0")

_READY = HOME / ".ready"
_MISSING = "HOLDFAST_BENCH_MISSING"  # tells the restarted script, or the same one, what could not be had
_OWN = {"pyspark", "py4j"}  # pinned here: what requirements.lock says of them does not count
_BESIDE = ("deltalake", "pandas")  # PySpark asks for pandas before it runs Python in its tasks


@dataclass(frozen=True, slots=True)
class Peers:
    """What the environment has."""

    delta: str | None  # version of delta-spark
    jars: tuple[Path, ...]
    notes: tuple[str, ...]


def enter() -> Peers:
    """Restart the running script in the environment of the peers, or say why it stays where it is."""
    if Path(sys.prefix) != HOME and _MISSING not in os.environ:
        trouble = make()
        if trouble is None:
            os.execv(HOME / "bin/python", [str(HOME / "bin/python"), *sys.argv])
        os.environ[_MISSING] = trouble
    if trouble := os.environ.get(_MISSING):
        return Peers(None, (), (f"delta-spark is missing: {trouble}",))
    jars = tuple(sorted(JARS.glob("*.jar")))
    delta = next(m[1] for jar in jars if (m := re.fullmatch(r"delta-spark_.*-([\d.]+)\.jar", jar.name)))
    fell_back = f"delta-spark {delta} is measured: Maven has no JAR of {DELTA[0]} for Spark {PYSPARK}"
    return Peers(delta, jars, () if delta == DELTA[0] else (fell_back,))


def make() -> str | None:
    """Make the environment unless it is there; gives what is wrong when it cannot be."""
    wanted = f"pyspark {PYSPARK}, delta {DELTA}, {[*_BESIDE, *_dependencies()]}"
    if _READY.exists() and _READY.read_text() == wanted:
        return None
    if shutil.which("mvn") is None:
        return "Maven is not installed"
    print(f"making {HOME.name}, once: PySpark {PYSPARK}, delta-spark and its JARs", file=sys.stderr)
    shutil.rmtree(HOME, ignore_errors=True)
    try:
        _run([sys.executable, "-m", "venv", str(HOME)])
        delta = next((version for version in DELTA if _fetch_jars(version)), None)
        if delta is None:
            return f"Maven found no JAR of delta-spark {' or '.join(DELTA)}"
        _install(delta)
    except subprocess.CalledProcessError as error:
        return f"`{' '.join(map(str, error.cmd[:6]))} ...` failed: {_last_line(error.stderr)}"
    _READY.write_text(wanted)
    return None


def _fetch_jars(version: str) -> bool:
    """The JARs of delta-spark that Spark itself does not bring."""
    spark = PYSPARK.rpartition(".")[0]
    project = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
      <modelVersion>4.0.0</modelVersion>
      <groupId>bench</groupId><artifactId>peers</artifactId><version>1</version><packaging>pom</packaging>
      <dependencies><dependency>
        <groupId>io.delta</groupId><artifactId>delta-spark_{spark}_2.13</artifactId><version>{version}</version>
      </dependency></dependencies>
    </project>"""
    with tempfile.TemporaryDirectory() as directory:
        pom = Path(directory) / "pom.xml"
        pom.write_text(project)
        goal = ["dependency:copy-dependencies", "-DincludeGroupIds=io.delta,io.unitycatalog"]
        command = ["mvn", "-B", "-q", "-f", str(pom), *goal, f"-DoutputDirectory={JARS}"]
        return subprocess.run(command, capture_output=True, text=True).returncode == 0 and JARS.is_dir()


def _install(delta: str) -> None:
    pins = re.findall(r"^([a-z0-9][\w.-]*)==([^\s\\]+)", (ROOT / "requirements.lock").read_text(), flags=re.MULTILINE)
    pip = [str(HOME / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory() as directory:
        constraints = Path(directory) / "constraints.txt"
        constraints.write_text("".join(f"{name}=={version}\n" for name, version in pins if name not in _OWN))
        named = ["hatchling", "editables", *_BESIDE, f"pyspark=={PYSPARK}", f"delta-spark=={delta}"]
        _run([*pip, "-c", str(constraints), *named, *_dependencies()])
    _run([*pip, "--no-deps", "--no-build-isolation", "-e", str(ROOT)])


def _dependencies() -> list[str]:
    """What Holdfast needs beside Spark."""
    text = (ROOT / "pyproject.toml").read_text()
    block = re.search(r"^dependencies = \[(.*?)^\]", text, flags=re.MULTILINE | re.DOTALL)
    assert block is not None, "pyproject.toml lists dependencies"
    return [need for need in re.findall(r'"([^"]+)"', block[1]) if not need.startswith("pyspark")]


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1] if text.strip() else "no message"
