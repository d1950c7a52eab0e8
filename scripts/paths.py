"""Which modules a row passes: runs four paths with a profiler and lists the modules of Holdfast that were called.

    .venv/bin/python scripts/paths.py            a line per path
    .venv/bin/python scripts/paths.py --list     and its modules in the order of their first call, and calls upwards

A module is on a path if a function of it was called in this process while the path ran; an import is no call, and what
Spark's own Python processes do is not seen. LEFT_OUT is on every path and is not counted. A call goes upwards if it
leads to a layer that stands above the caller's in the contract of import-linter: a callback, or a method of an object
that was handed down. The caller is the nearest frame of Holdfast, whatever other libraries lie between.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

import holdfast
from holdfast import DeltaTable

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
PACKAGE = "holdfast"
LEFT_OUT = ("storage", "rows", "schema", "errors")
MOST_MODULES = 40


class Call(NamedTuple):
    """A call from one module of the package into another."""

    caller: str
    callee: str
    function: str


@dataclass
class Trace:
    """What was called while a path ran."""

    modules: dict[str, str] = field(default_factory=dict)  # in the order of their first call, by the function called
    calls: Counter[Call] = field(default_factory=Counter)

    @property
    def counted(self) -> list[str]:
        """The modules of the path."""
        return [name for name in self.modules if name.split(".")[1:2] not in [[each] for each in LEFT_OUT]]

    @property
    def upward(self) -> dict[Call, int]:
        """Calls that lead to a higher layer, and how often each was made."""
        known = {call: (layer_of(call.caller), layer_of(call.callee)) for call in self.calls}
        return {
            call: self.calls[call]
            for call, (caller, callee) in known.items()
            if caller is not None and callee is not None and callee < caller
        }


@cache
def layers() -> dict[str, int]:
    """The packages and modules of the layers contract by the number of their layer; the topmost is 0."""
    contracts = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [each for each in contracts if each["type"] == "layers"]
    return {
        f"{container}.{name.strip(' ()')}": number
        for container in contract["containers"]
        for number, layer in enumerate(contract["layers"])
        for name in layer.replace(":", "|").split("|")
    }


@cache
def layer_of(module: str) -> int | None:
    """The layer of a module; None for the package's root."""
    parts = module.split(".")
    names = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
    return next((layers()[name] for name in names if name in layers()), None)


@contextmanager
def tracing() -> Iterator[Trace]:
    """Note every call into the package, in this thread and in those that begin meanwhile."""
    trace = Trace()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        module = frame.f_globals.get("__name__", "")
        if not _is_ours(module) or frame.f_code.co_name == "<module>" or _is_import(frame.f_back):
            return
        function = frame.f_code.co_qualname
        trace.modules.setdefault(module, function)
        caller = _caller(frame)
        if caller is not None and caller != module:
            trace.calls[Call(caller, module, function)] += 1

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield trace
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _caller(frame: FrameType) -> str | None:
    """The module of the nearest frame of the package below one."""
    at = frame.f_back
    while at is not None:
        module: str = at.f_globals.get("__name__", "")
        if _is_ours(module):
            return module
        at = at.f_back
    return None


def _is_ours(module: str) -> bool:
    return module == PACKAGE or module.startswith(f"{PACKAGE}.")


def _is_import(frame: FrameType | None) -> bool:
    """Whether Python is looking for a module, and asks the finders that are registered."""
    return frame is not None and frame.f_globals.get("__name__") == "importlib._bootstrap"


def table_at(path: str) -> None:
    """A table with files, hidden rows and a history."""
    columns = pa.schema([("k", pa.int64()), ("v", pa.string())])
    table = DeltaTable.create(None).location(path).addColumns(columns).execute()
    for start in (0, 10, 20):
        table.append(pa.table({"k": range(start, start + 10), "v": ["a"] * 10}, columns))
    table.delete("k % 10 = 3")
    table.update("k = 5", {"v": "'b'"})


def scan(spark: SparkSession, path: str) -> None:
    """A scan with row ids."""
    rows = DeltaTable.forPath(spark, path).scan(where="k > 4", metadata=["_row_id"]).collect()
    assert len(rows) == 23, rows


def merge(spark: SparkSession, path: str) -> None:
    """MERGE on Spark, merge-on-read."""
    source = spark.createDataFrame([(5, "m"), (6, "m"), (99, "m")], "k long, v string")
    builder = DeltaTable.forPath(spark, path).alias("t").merge(source.alias("s"), "t.k = s.k", mode="merge-on-read")
    done = builder.whenMatchedUpdate(set={"v": "s.v"}).whenNotMatchedInsertAll().execute()
    assert done.version is not None


def min_delta(spark: SparkSession, path: str) -> None:
    """A change query, min-delta."""
    rows = DeltaTable.forPath(spark, path).changes(2, kind="min-delta").toDF().collect()
    assert rows


def sql_merge(spark: SparkSession, path: str) -> None:
    """SQL MERGE through the drop-in."""
    holdfast.enable(spark)
    try:
        spark.sql(
            f"MERGE INTO delta.`{path}` t USING (SELECT 5L AS k, 'm' AS v UNION ALL SELECT 99L, 'm') s ON t.k = s.k "
            "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
        ).collect()
    finally:
        holdfast.disable(spark)


PATHS: dict[str, Callable[[SparkSession, str], None]] = {
    "scan": scan,
    "merge": merge,
    "min-delta": min_delta,
    "sql-merge": sql_merge,
}


def traced(spark: SparkSession, name: str, directory: Path) -> Trace:
    """Run a path on a table that nobody has opened, once its modules are loaded."""
    for place in ("first", "second"):
        table_at(str(directory / name / place))
    PATHS[name](spark, str(directory / name / "first"))
    with tracing() as trace:
        PATHS[name](spark, str(directory / name / "second"))
    return trace


def shown(name: str, trace: Trace, *, listed: bool) -> Iterator[str]:
    """The lines that say what a path is."""
    pairs = {(call.caller, call.callee) for call in trace.upward}
    yield f"{name:<12}{len(trace.counted):>8}{len(pairs):>14}{sum(trace.upward.values()):>14}"
    if listed:
        for module in trace.counted:
            yield f"    {layer_of(module) if layer_of(module) is not None else '-':>3}  {module}"
        for call, count in sorted(trace.upward.items()):
            yield f"    up   {call.caller} -> {call.callee}.{call.function}  x{count}"


def main(arguments: list[str] | None = None) -> None:
    """Trace the paths that are named, or all of them."""
    parser = argparse.ArgumentParser(description="Modules of Holdfast on the path of a row.")
    parser.add_argument("paths", nargs="*", choices=[*PATHS, []], help="which paths; without one, all")
    parser.add_argument("--list", action="store_true", help="also the modules in order, and the calls upwards")
    asked = parser.parse_args(arguments)
    spark = holdfast.session("paths", **{"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"})
    print(f"{'path':<12}{'modules':>8}{'pairs upwards':>14}{'calls upwards':>14}")
    with tempfile.TemporaryDirectory() as directory:
        for name in asked.paths or PATHS:
            for line in shown(name, traced(spark, name, Path(directory)), listed=asked.list):
                print(line, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
