"""Run the recipes on delta-spark itself: `python -m tests.dropin.recipes [PREFIX...]`, as `make interop` does.

They pass there or their assertions are wrong; the environment of the peers is made on first use.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

from pyspark.sql import SparkSession

from bench import peers
from tests.dropin.recipes import recipes


def main(asked: list[str]) -> int:
    """How many of the recipes failed, here or in the environment that has delta-spark."""
    if Path(sys.prefix) == peers.HOME:
        return _run(sorted(map(str, peers.JARS.glob("*.jar"))), tuple(asked))
    if trouble := peers.make():
        raise SystemExit(f"delta-spark is missing: {trouble}")
    python = str(peers.HOME / "bin/python")
    command = [python, "-m", __spec__.parent, *asked]
    return subprocess.run(command, cwd=peers.ROOT, env=os.environ | {"PYSPARK_PYTHON": python}).returncode


def _run(jars: list[str], only: tuple[str, ...]) -> int:
    failed = 0
    with tempfile.TemporaryDirectory(prefix="recipes-") as scratch:
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.jars", ",".join(jars))
            .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
            .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
            .config("spark.sql.warehouse.dir", f"{scratch}/warehouse")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.databricks.delta.snapshotPartitions", "2")
            .config("spark.ui.enabled", "false")
            .getOrCreate()
        )
        for number, (name, recipe) in enumerate(recipes()):
            if only and not name.startswith(only):
                continue
            where = Path(scratch, str(number))
            where.mkdir()
            try:
                recipe(spark, str(where))
            except Exception:  # whatever it is, the others are tried too
                failed += 1
                print(f"FAILED {name}", flush=True)
                traceback.print_exc(limit=-3, file=sys.stdout)
            else:
                print(f"passed {name}", flush=True)
        spark.stop()
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
