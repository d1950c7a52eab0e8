"""The tour goes through, what it claims is so, and the code on its screen is the code that runs."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from holdfast.cli.tour import code as tour_code
from holdfast.cli.tour import command as tour
from holdfast.cli.tour import iceberg_code as tour_iceberg
from holdfast.cli.tour import session as tour_session
from holdfast.cli.tour.guide import WIDEST, DoesNotHold, Guide, shown
from holdfast.cli.tour.sample_rows import corrections, day, ref_of
from holdfast.cli.tour.steps import FOLLOWED
from holdfast.cli.tour.story import DAYS
from holdfast.errors import Unsupported
from holdfast.plan.changefeed.biography import What
from holdfast.table.delta import DeltaTable
from tests.cli.conftest import Run
from tests.support.tour import NO_SPARK, ROWS, toured

CODE = [
    *(f for f in vars(tour_code).values() if getattr(f, "__module__", "") == tour_code.__name__),
    tour_iceberg.on_iceberg,
]


def _console() -> Console:
    return Console(file=io.StringIO(), width=WIDEST, highlight=False)


def _screen(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_row_that_is_followed_keeps_its_id() -> None:
    facts, home = toured().facts, toured().home
    assert facts.row.row_id == FOLLOWED
    assert facts.row.alive
    whats = [event.what for event in facts.row.events]
    assert whats == [What.BORN, *[What.CHANGED] * 3, *[What.MOVED] * 2]
    assert len({event.file for event in facts.row.events}) == len(whats)
    [row] = DeltaTable.forPath(None, home / "orders").toArrow(where="order = 17", metadata=["_row_id"]).to_pylist()
    assert (row["_row_id"], row["status"], row["cents"]) == (FOLLOWED, "shipped", 4200)


def test_nobody_lost_the_race() -> None:
    facts, home = toured().facts, toured().home
    assert len({writer.version for writer in facts.writers}) == 3
    assert max(writer.tries for writer in facts.writers) > 1
    rows = DeltaTable.forPath(None, home / "orders").toArrow(["order", "cents"], where="order BETWEEN 18 AND 19")
    assert rows.to_pylist() == [{"order": 18, "cents": day(0, ROWS)["cents"][18].as_py() - 100}]
    assert "row ids 17" in facts.conflict


def test_every_row_is_compared_and_files_are_fewer() -> None:
    facts = toured().facts
    late = corrections(DAYS, ROWS).num_rows // 2
    assert facts.compared == DAYS * ROWS + late - 101
    files = {version.operation: version.files for version in facts.life.versions}
    assert files["UPDATE"] > files["OPTIMIZE"] == 1
    [compaction] = [step for step in facts.steps if step.title.startswith("Compaction")]
    assert compaction.written.data > 0 == compaction.written.index


def test_the_four_answers() -> None:
    facts = toured().facts
    late = corrections(DAYS, ROWS).num_rows // 2
    net, full = facts.answers[2].rows, facts.answers[3].rows
    assert [answer.kind for answer in facts.answers] == ["append-only", "upsert", "min-delta", "full-delta"]
    assert dict(facts.answers[0].rows) == {"insert": late}
    assert dict(facts.answers[1].rows) == {"insert": late, "update_postimage": late + 1}
    assert (net["insert"], net["update_postimage"], net["delete"]) == (late, late + 1, 101)
    assert (full["insert"], full["update_postimage"], full["delete"]) == (late, late + 3, 101)


def test_a_customer_is_erased() -> None:
    facts, home = toured().facts, toured().home
    assert "no such row is in any of the" in facts.proof
    orders = DeltaTable.forPath(None, home / "orders").toArrow()
    names = pa.compute.equal(orders["customer"], "customer 5")
    assert pa.compute.sum(names).as_py() == 0


def test_what_is_left_out_says_why() -> None:
    facts, screen = toured().facts, toured().screen
    assert [(step.title, step.skipped) for step in facts.steps if step.skipped] == [("The same on Spark", NO_SPARK)]
    assert f"left out: {NO_SPARK}" in screen


def test_the_screen_is_plain_and_can_be_copied() -> None:
    facts, screen, home = toured().facts, toured().screen, toured().home
    lines = screen.splitlines()
    assert max(map(len, lines)) <= WIDEST
    assert [line for line in lines if line != line.rstrip()] == []
    assert "\x1b" not in screen
    assert str(home) not in screen
    assert screen.count("✓") == sum(len(step.checks) for step in facts.steps) > 20
    for step in facts.steps:
        assert step.says.split()[0] in screen
        for line in step.code.splitlines():
            assert f"    {line}".rstrip() in lines


def test_the_tour_takes_a_session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = DeltaTable.create().location("orders").addColumns(day(0, 1).schema).execute()
    table.append(day(0, 50))
    rows = {row["order"]: row for row in tour_code.on_spark().toArrow().to_pylist()}
    assert all(row["_row_id"] == order for order, row in rows.items())
    assert {order for order, row in rows.items() if row["status"] == "paid"} == {20, 21}


def test_code_is_not_broken_on_a_narrow_screen(tmp_path: Path) -> None:
    def long() -> Any:
        name = "a line of code that is longer than the screen is wide"
        return name

    console = Console(file=io.StringIO(), width=40, highlight=False)
    guide = Guide(console, tmp_path, {})
    guide.step("A step", "A sentence is folded where the screen ends, and not before.")
    guide.run(long)
    assert f"    {shown(long).text}" in _screen(console).splitlines()
    assert "    A sentence is folded where the\n    screen ends, and not before.\n" in _screen(console)


def test_a_claim_that_does_not_hold_ends_the_tour(tmp_path: Path) -> None:
    guide = Guide(console := _console(), tmp_path, {})
    guide.step("A step", "It claims things.")
    with pytest.raises(DoesNotHold, match="does not hold: two and two are five"):
        guide.check(("one is one", True), ("two and two are five", False))
    assert "✓" not in _screen(console)
    assert guide.steps[0].checks == ()


def test_names_go_from_one_step_to_the_next(tmp_path: Path) -> None:
    def first() -> Any:
        one, two = 20, 1
        return one, two

    def second(two: int, one: int) -> int:
        return one + two  # this

    guide = Guide(console := _console(), tmp_path, {})
    guide.step("A step", "It adds.")
    guide.run(first)
    assert guide.run(second) == 21
    assert "    one, two = 20, 1\n\n    one + two  # this\n" in _screen(console)
    assert guide.steps[0].code == "one, two = 20, 1\n\none + two  # this"


@pytest.mark.parametrize("function", CODE, ids=lambda f: f.__name__)
def test_shown_code_is_python_without_its_frame(function: Callable[..., Any]) -> None:
    code = shown(function).text
    compile(code, function.__name__, "exec")
    assert max(map(len, code.splitlines())) <= WIDEST - 4
    assert "return " not in code
    assert not re.search(r": (?:Any|int|str|pa\.Table|DeltaTable)\b", code)


def test_the_code_runs_when_it_is_typed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"days": 2, "rows": 300}
    exec(f"{tour_code.IMPORTS}\n{tour_iceberg.IMPORTS}", names)
    for function in CODE:
        if function is not tour_code.on_spark:
            exec(shown(function).text, names)
    assert names["same"] is True
    assert names["told"]["min-delta"]["delete"] == 101


def test_days_follow_each_other_and_references_are_unique() -> None:
    both = pa.concat_tables([day(0, 500), day(1, 500)])
    assert both["order"].to_pylist() == list(range(1000))
    assert len(both["ref"].unique()) == 1000
    assert both["ref"][17].as_py() == ref_of(17)


def test_the_command_writes_a_report_and_keeps_tables(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tour_session, "find_java", lambda: None)
    monkeypatch.setattr(tour, "QUICK_ROWS", ROWS)
    monkeypatch.setattr(tour_session.SparkSession, "getActiveSession", lambda: None)

    class Missing(MetaPathFinder):
        def find_spec(self, name: str, *_: Any) -> None:
            if name == iceberg_code:
                raise Unsupported("Iceberg needs pyiceberg")

    iceberg_code = "holdfast.cli.tour.iceberg_code"
    monkeypatch.delitem(sys.modules, iceberg_code, raising=False)
    monkeypatch.delattr(sys.modules["holdfast.cli.tour"], "iceberg_code", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    facts = json.loads(run("tour", "--quick", "--out", "out", "--keep", "--json").stdout)
    left_out = [step["skipped"] for step in facts["steps"] if step["skipped"]]
    assert left_out[0].startswith("Spark needs Java: install")
    assert left_out[1:] == ["Iceberg needs pyiceberg"]
    assert facts["steps"][1]["written"]["data"] > 0
    page = (tmp_path / "out" / "holdfast-tour.html").read_text()
    assert f"{facts['compared']:,}" in page
    assert "Iceberg needs pyiceberg" in page
    history = run("history", tmp_path / "out" / "holdfast-tour" / "orders", "--all").stdout
    assert history.count("TRANSACTION") == 3
    refused = run("tour", "--quick", "--out", "out", "--keep", code=1)
    assert "is there already: remove it, or choose another place with --out" in refused.stderr
