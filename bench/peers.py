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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".venv-peers"
JARS = HOME / "jars"
PYSPARK = "4.2.0"
DELTA = ("4.4.1", "4.4.0")

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
    return made(HOME, wanted, f"PySpark {PYSPARK}, delta-spark and its JARs", _fill)


def made(home: Path, wanted: str, what: str, fill: Callable[[], str | None]) -> str | None:
    """Make an environment unless it is there as wanted; `fill` puts into it what belongs there.

    Gives what is wrong when it cannot be made, as `fill` does.
    """
    ready = home / ".ready"
    if ready.exists() and ready.read_text() == wanted:
        return None
    if shutil.which("mvn") is None:
        return "Maven is not installed"
    print(f"making {home.name}, once: {what}", file=sys.stderr)
    shutil.rmtree(home, ignore_errors=True)
    try:
        run([sys.executable, "-m", "venv", str(home)])
        trouble = fill()
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout or "no message").strip().splitlines()[-1]
        return f"`{' '.join(map(str, error.cmd[:6]))} ...` failed: {said}"
    if trouble is None:
        ready.write_text(wanted)
    return trouble


def fetch_jars(directory: Path, group: str, artifact: str, version: str, *goal: str) -> None:
    """Put the JARs of an artifact, and of what it depends on, into a directory."""
    project = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
      <modelVersion>4.0.0</modelVersion>
      <groupId>holdfast</groupId><artifactId>others</artifactId><version>1</version><packaging>pom</packaging>
      <dependencies><dependency>
        <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
      </dependency></dependencies>
    </project>"""
    with tempfile.TemporaryDirectory() as scratch:
        pom = Path(scratch) / "pom.xml"
        pom.write_text(project)
        command = ["mvn", "-B", "-q", "-f", str(pom), "dependency:copy-dependencies", *goal]
        run([*command, f"-DoutputDirectory={directory}"])


def run(command: list[str]) -> None:
    """Run a command, whose words are kept for who asks why it failed."""
    subprocess.run(command, check=True, capture_output=True, text=True)


def _fill() -> str | None:
    delta = next((version for version in DELTA if _has_jars(version)), None)
    if delta is None:
        return f"Maven found no JAR of delta-spark {' or '.join(DELTA)}"
    _install(delta)
    return None


def _has_jars(version: str) -> bool:
    """Whether there are JARs of a delta-spark; those that Spark itself brings are left out."""
    spark = PYSPARK.rpartition(".")[0]
    try:
        fetch_jars(JARS, "io.delta", f"delta-spark_{spark}_2.13", version, "-DincludeGroupIds=io.delta,io.unitycatalog")
    except subprocess.CalledProcessError:
        return False
    return JARS.is_dir()


def _install(delta: str) -> None:
    pins = re.findall(r"^([a-z0-9][\w.-]*)==([^\s\\]+)", (ROOT / "requirements.lock").read_text(), flags=re.MULTILINE)
    pip = [str(HOME / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory() as directory:
        constraints = Path(directory) / "constraints.txt"
        constraints.write_text("".join(f"{name}=={version}\n" for name, version in pins if name not in _OWN))
        named = ["hatchling", "editables", *_BESIDE, f"pyspark=={PYSPARK}", f"delta-spark=={delta}"]
        run([*pip, "-c", str(constraints), *named, *_dependencies()])
    run([*pip, "--no-deps", "--no-build-isolation", "-e", str(ROOT)])


def _dependencies() -> list[str]:
    """What Holdfast needs beside Spark."""
    text = (ROOT / "pyproject.toml").read_text()
    block = re.search(r"^dependencies = \[(.*?)^\]", text, flags=re.MULTILINE | re.DOTALL)
    assert block is not None, "pyproject.toml lists dependencies"
    return [need for need in re.findall(r'"([^"]+)"', block[1]) if not need.startswith("pyspark")]
