"""The tools that count modules on a path and figures of the tree: they run, and count what is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from scripts import measures, paths


def test_the_modules_of_a_scan(spark: SparkSession, tmp_path: Path) -> None:
    trace = paths.traced(spark, "scan", tmp_path)
    assert trace.counted[0] == DeltaTable.__module__, "where a user begins"
    assert len({paths.layer_of(module) for module in trace.counted}) > 3
    assert "holdfast.storage.local" in trace.modules.keys() - set(trace.counted)
    line, *rest = paths.shown("scan", trace, listed=True)
    assert line.split()[:2] == ["scan", str(len(trace.counted))]
    assert len(rest) == len(trace.counted) + len(trace.upward)


def test_a_call_upwards_is_told(tmp_path: Path) -> None:
    trace = paths.Trace()
    down = paths.Call("holdfast.verbs.read.verbs", "holdfast.plan.scan.request", "planned")
    up = paths.Call("holdfast.plan.scan.request", "holdfast.verbs.read.verbs", "told")
    beside = paths.Call("holdfast.engines.spark.scan.native", "holdfast.engines.local.scan", "scan_table")
    trace.calls.update([down, up, up, beside])
    assert trace.upward == {up: 2}


SOURCE = """
from typing import Any
from holdfast.table.delta import DeltaTable
class Kind: ...
def one(table: Any) -> None:
    found = table._state
    if isinstance(table, DeltaTable):
        import_module("holdfast.table.delta")
"""
OTHER = """
class Kind:
    _state: int = 0
"""


def test_figures_of_a_tree(tmp_path: Path) -> None:
    for name, text in (("sql/some.py", SOURCE), ("table/delta.py", "class DeltaTable: ...\n"), ("plan/kind.py", OTHER)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    tree = measures.modules(tmp_path)
    assert list(measures.bare_anys(tree)) == ["sql.some:5"]
    assert list(measures.asks_for_format(tree, measures.Classes(tree), ("table.delta.DeltaTable",))) == [
        "sql.some:7 DeltaTable"
    ]
    assert list(measures.private_accesses(tree)) == ["sql.some:6 _state"]
    assert list(measures.import_strings(tree)) == ["sql.some:8 holdfast.table.delta"]
    assert measures.defined_twice(tree) == {"Kind": ["plan.kind", "sql.some"]}
    assert list(measures.vague_names(tree)) == [("found", "sql.some:6")]


@pytest.mark.slow
def test_figures_of_this_tree() -> None:
    figures = {measure.name: measure.value for measure in measures.measures(measures.modules())}
    assert figures["files"] > 100
    assert figures["public methods of the largest class"] > 40


# What mirrors delta-spark's API keeps the names that it has there.
MIRRORS = {"DeltaTable", "DeltaTableBuilder", "DeltaMergeBuilder", "DeltaOptimizeBuilder"}


def test_a_class_has_a_name_of_its_own() -> None:
    assert measures.defined_twice(measures.modules()).keys() == MIRRORS
