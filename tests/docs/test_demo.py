"""The demo holds what it says, and ends with an error where it does not."""

from __future__ import annotations

import importlib
import io
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

import holdfast
from tests.docs.pages import ROOT


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("demo")


def _tour(demo: ModuleType, spark: SparkSession | None) -> tuple[Any, io.StringIO]:
    screen = io.StringIO()
    names = {"spark": spark, "holdfast": holdfast, "DeltaTable": holdfast.DeltaTable}
    return demo.Tour(Console(file=screen, width=demo.WIDEST, highlight=False), names), screen


def test_the_tour_goes_through(
    demo: ModuleType, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tour, screen = _tour(demo, spark)
    demo._orders(tour, tmp_path / "orders")
    demo._boats(tour, tmp_path / "boats")
    shown = screen.getvalue()
    assert shown.rstrip().endswith("✓ the error says what to do")
    assert "files      1 of 6 are read" in shown
    assert max(map(len, shown.splitlines())) <= demo.WIDEST


def test_a_claim_that_does_not_hold_ends_the_tour(demo: ModuleType) -> None:
    tour, screen = _tour(demo, None)
    with pytest.raises(SystemExit, match="does not hold: two and two are five"):
        tour.check(("one is one", True), ("two and two are five", False))
    assert "✓" not in screen.getvalue()


def test_what_is_shown_is_what_runs(demo: ModuleType) -> None:
    tour, screen = _tour(demo, None)
    assert tour.run("x = 20\nx + 1") == 21
    assert "x = 20" in screen.getvalue()
