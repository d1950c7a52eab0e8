"""Runs all steps of the tour in order, and collects the facts for its report.

1. All steps are about one table, `orders`, except the step on Iceberg; they follow order 17.
2. Facts are collected when they are available: times during a step, the biography before the vacuum deletes the files
   it is read from.
"""

from __future__ import annotations

import platform
import time
from contextlib import chdir
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console

from holdfast.cli.tour import steps
from holdfast.cli.tour.guide import Guide
from holdfast.env import Env
from holdfast.report.facts import Facts
from holdfast.report.life import life_of
from holdfast.storage.open import open_location

DAYS = 6


@dataclass(frozen=True, slots=True)
class Scene:
    home: Path
    rows: int  # a day
    no_spark: str = ""  # why Spark is left out; there is an active session if it is not
    pause: bool = False


def take(scene: Scene, console: Console, env: Env) -> Facts:
    """Run all steps; returns the facts for the report."""
    began = time.perf_counter()
    guide = Guide(console, scene.home, {"days": DAYS, "rows": scene.rows}, pause=scene.pause)
    with chdir(scene.home):  # so that the code on the screen can say "orders"
        steps.create(guide)
        steps.append(guide)
        lookups = [steps.look_up_without_index(guide), steps.look_up_with_index(guide)]
        steps.upsert(guide)
        steps.delete(guide)
        writers = steps.race(guide)
        conflict = steps.clash(guide)
        index = steps.compact(guide)
        lookups.append(steps.look_up_again(guide, lookups, index))
        answers = steps.changes(guide)
        steps.on_spark(guide, scene.no_spark)
        steps.on_iceberg(guide)
        steps.erase(guide)
        row = steps.biography(guide)
        proof = steps.prove(guide)
        guide.end()
        life = life_of(open_location("orders"))
    return Facts(
        made_ms=env.now_ms(),
        seconds=time.perf_counter() - began,
        software=_software(),
        table="orders",
        rows=life.versions[-1].rows,
        compared=guide.names["before"].num_rows,
        steps=guide.steps,
        life=life,
        row=row,
        row_name=f"order {steps.FOLLOWED}",
        writers=writers,
        conflict=conflict,
        answers=answers,
        lookups=tuple(lookups),
        proof=proof,
    )


def _software() -> dict[str, str]:
    versions = {"Python": platform.python_version()}
    for name in ("holdfast", "pyspark", "pyarrow", "pyiceberg"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
