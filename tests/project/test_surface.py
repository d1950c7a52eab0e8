"""The public surface: what the root lists is what there is, and asking for none of it costs nothing."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import holdfast

HEAVY = ("pyspark", "py4j", "pandas", "pyarrow", "grpc", "pyiceberg", "faiss")


def test_every_listed_name_is_there() -> None:
    assert len(holdfast.__all__) == len(set(holdfast.__all__))
    for name in holdfast.__all__:
        assert getattr(holdfast, name) is not None


def test_the_surface_is_what_we_list() -> None:
    assert {name for name in dir(holdfast) if not name.startswith("_")} == set(holdfast.__all__)


def test_the_version_is_the_installed_one() -> None:
    assert holdfast.__version__ == version("holdfast")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = holdfast.no_such_name


@pytest.mark.parametrize("module", ["holdfast", "holdfast.exceptions", "holdfast.cli", "holdfast.cli.doctor.command"])
def test_importing_starts_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == []
