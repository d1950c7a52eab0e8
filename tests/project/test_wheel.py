"""What the wheel holds: every module and data file of the package, what it must say of itself, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "holdfast"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    there = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(there)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = there.glob("holdfast-*-py3-none-any.whl")
    return zipfile.ZipFile(built)


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    sources = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == sources
    assert {"holdfast/py.typed", "holdfast/engines/spark/session/log4j2.properties", "holdfast/cli/__main__.py"} <= held


def test_the_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    told = {name.split("/")[1]: wheel.read(name).decode() for name in wheel.namelist() if ".dist-info/" in name}
    assert {"METADATA", "WHEEL", "RECORD", "entry_points.txt"} <= set(told)
    assert "holdfast = holdfast.cli:main" in told["entry_points.txt"]
    assert "Requires-Python: >=3.11" in told["METADATA"]
    assert "Provides-Extra: iceberg" in told["METADATA"]
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())
