"""An engine in a process of its own: `python -m tests.dropin.differential.engine delta-spark|holdfast`.

It answers requests until its input ends (`bench/engine.py`). One session runs all programs; what a program sets is set
back after it.
"""

from __future__ import annotations

import ast
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions, types

from bench import peers
from bench.engine import serve
from tests.dropin.differential.answer import Answer, answer_of, error_of

_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Holdfast's tables have ids and vectors unless something else is said.
    "spark.databricks.delta.properties.defaults.enableRowTracking": "false",
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
}
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


class Engine:
    """A session, and the programs run in it."""

    def __init__(self, name: str, scratch: str) -> None:
        self._scratch = Path(scratch)
        self._count = 0
        jars = ",".join(sorted(map(str, peers.JARS.glob("*.jar"))))
        extra = _DELTA | {"spark.jars": jars} if name == "delta-spark" else {}
        builder: Any = SparkSession.builder.master("local[2]")
        for key, value in {**_SETTINGS, **extra, "spark.sql.warehouse.dir": f"{scratch}/warehouse"}.items():
            builder = builder.config(key, value)
        self._spark: SparkSession = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("OFF")
        if name == "holdfast":
            import holdfast

            holdfast.enable(self._spark)

    def run(self, steps: list[str]) -> dict[str, Answer]:
        """The answer to each step, and then the state of every table."""
        from delta.tables import DeltaTable

        self._count += 1
        spark, database = self._spark, f"d{self._count}"
        at = self._scratch / database
        at.mkdir()
        before = dict(_settings(spark))
        spark.sql(f"CREATE DATABASE {database} LOCATION '{at}/db'")
        spark.sql(f"USE {database}")
        space = {"spark": spark, "at": str(at), "DeltaTable": DeltaTable, "F": functions, "T": types}
        places = {str(at): "<at>", f"{database}.": "<db>.", f"`{database}`": "<db>"}
        told = {str(i): self._step(step, space, places) for i, step in enumerate(steps)}
        told |= self._state(database, at, space, places)
        spark.catalog.clearCache()
        for view in spark.catalog.listTables(database):
            if view.isTemporary:
                spark.catalog.dropTempView(view.name)
        spark.sql("USE default")
        spark.sql(f"DROP DATABASE {database} CASCADE")
        _set_back(spark, before)
        shutil.rmtree(at, ignore_errors=True)
        return told

    def _step(self, step: str, space: dict[str, Any], places: dict[str, str]) -> Answer:
        try:
            if step.startswith(">>> "):
                return answer_of(_evaluated("\n".join(line[4:] for line in step.splitlines()), space), places)
            return answer_of(self._spark.sql(step.replace("{at}", space["at"])), places)
        except Exception as error:  # what a step raises is its answer
            return error_of(error, places)

    def _state(self, database: str, at: Path, space: dict[str, Any], places: dict[str, str]) -> dict[str, Answer]:
        """Rows, history, details and properties of every table that is there now."""
        named = [each.name for each in self._spark.catalog.listTables(database) if each.tableType != "TEMPORARY"]
        paths = [log.parent for log in sorted(at.rglob("_delta_log")) if at / "db" not in log.parents]
        told = {}
        for name, table in [(n, f"`{database}`.`{n}`") for n in named] + [(p.name, f"delta.`{p}`") for p in paths]:
            for what, statement in (
                ("rows", f"SELECT * FROM {table}"),
                ("history", f"DESCRIBE HISTORY {table}"),
                ("detail", f"DESCRIBE DETAIL {table}"),
                ("properties", f"SHOW TBLPROPERTIES {table}"),
                ("describe", f"DESCRIBE {table}"),
            ):
                told[f"@{what} {name}"] = self._step(statement, space, places)
        return told


def _evaluated(code: str, space: dict[str, Any]) -> object:
    """What the last line of a piece of Python is; None where that is no expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<step>", "exec"), space)
    if last is None:
        return None
    assert isinstance(last, ast.Expr), "it was taken off because it is one"
    result = eval(compile(ast.Expression(last.value), "<step>", "eval"), space)
    return result if isinstance(result, DataFrame) or not callable(result) else type(result).__name__


def _settings(spark: SparkSession) -> list[tuple[str, str]]:
    return [(row.key, row.value) for row in spark.sql("SET").collect()]


def _set_back(spark: SparkSession, before: dict[str, str]) -> None:
    for key, value in _settings(spark):
        if key not in before and key.startswith("spark."):
            spark.conf.unset(key)
        elif key in before and value != before[key]:
            spark.conf.set(key, before[key])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="differential-") as scratch:
        # Made for the first program: what Spark prints must not be taken for an answer.
        engine = cache(lambda: Engine(sys.argv[1], scratch))
        serve({"run": lambda steps: engine().run(steps)})
