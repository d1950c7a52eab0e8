"""How things look to people, and what is shown while they wait."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis.strategies import integers, lists, text
from rich.console import Console

from holdfast import DeltaTable, terminal
from holdfast.cli import main
from holdfast.cli.commands import tracking
from holdfast.cli.screen import Head, age_text, count_text, grid, size_text, time_text
from holdfast.cli.stderr import guarded
from holdfast.cli.write_result import size, summary_of
from tests.support.depth import examples
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_250_000, "1.2 MB"), (3 * 10**15, "3,000.0 TB"), (None, "?")],
)
def test_sizes(count: int | None, shown: str) -> None:
    assert size_text(count) == shown


@pytest.mark.parametrize(
    ("span_ms", "shown"),
    [
        (0, "now"),
        (-5, "now"),
        (1000, "1 second ago"),
        (90_000, "1 minute ago"),
        (7_200_000, "2 hours ago"),
        (10**9, "11 days ago"),
    ],
)
def test_ages(span_ms: int, shown: str) -> None:
    assert age_text(10**12, 10**12 + span_ms) == shown


def test_times_and_counts() -> None:
    assert time_text(1_714_564_800_123) == "2024-05-01 12:00:00"
    assert (count_text(1, "row"), count_text(1234, "row"), count_text(2, "entry", plural="entries")) == (
        "1 row",
        "1,234 rows",
        "2 entries",
    )


@pytest.mark.parametrize(("given_", "count"), [("12", 12), ("128MB", 128_000_000), ("2 gb", 2 * 10**9), ("5k", 5000)])
def test_sizes_as_people_write_them(given_: str, count: int) -> None:
    assert size(given_) == count


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ({"numDeletedRows": "2", "numRemovedFiles": "0"}, "2 rows deleted"),
        ({"numOutputRows": "5", "numFiles": "1"}, "5 rows written, +1 file"),
        (
            {"numTargetRowsUpdated": 1, "numTargetFilesAdded": 2, "numTargetFilesRemoved": 1},
            "1 row updated, +2 -1 files",
        ),
        ({"numOutputRows": "many"}, ""),
        ({}, ""),
    ],
)
def test_metrics_in_words(metrics: Mapping[str, object], words: str) -> None:
    assert summary_of(metrics) == words


@examples(40)
@given(lists(text("ab \n[]", max_size=60), min_size=1, max_size=12), integers(40, 120))
def test_no_line_is_wider_than_the_terminal(values: list[str], width: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        out = io.StringIO()
        patch.setattr("holdfast.cli.screen.screen", lambda: Console(file=out, width=width, markup=False))
        grid([Head(f"column {at}", right=at % 3 == 0, cut=at % 3 == 1) for at in range(len(values))], [values, values])
    assert all(len(line) <= width for line in out.getvalue().splitlines())


def test_signs_of_life_are_for_terminals(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def work(is_shown: Callable[[], bool]) -> None:
        with terminal.phase("thinking"), tracking.progress_bar("doing") as step:
            step(3, 7)
            until(is_shown, "a sign of life")

    monkeypatch.setattr(terminal, "PATIENCE_S", 0.01)
    work(lambda: time.sleep(0.05) is None)
    assert capsys.readouterr().err == ""
    out = io.StringIO()
    for module, name in ((tracking, "screen"), (terminal, "Console")):
        monkeypatch.setattr(module, "on_terminal", lambda: True)
        monkeypatch.setattr(module, name, lambda stderr: Console(file=out, force_terminal=True, width=80))
    work(lambda: "thinking" in out.getvalue())
    assert "thinking" in out.getvalue()
    assert "3/7" in out.getvalue()


def test_nothing_in_a_table_steers_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eback\rover\x7f"
    path = tmp_path / "t"
    builder = DeltaTable.create(None).location(path).addColumn("id", "bigint").addColumn(f"c{evil}", "string")
    table = builder.property("delta.columnMapping.mode", "name").comment(evil).property("user.note", evil).execute()
    table.append(pa.table({"id": pa.array([1], pa.int64()), f"c{evil}": [evil]}), userMetadata=evil)
    commands = (
        ["show", str(path)],
        ["changes", str(path)],
        ["detail", str(path)],
        ["history", str(path)],
        ["properties", str(path)],
        ["files", str(path)],
        ["show", str(path), "--where", f"`c{evil}` = 5 and"],
        ["show", str(tmp_path / evil)],
        ["show", str(path), "--columns", f"no{evil}"],
    )
    for command in commands:
        for more in ([], ["--json"]):
            done = CliRunner().invoke(main, [*command, *more])
            sent = done.stdout + done.stderr
            assert not set(sent) & set("\x1b\x07\x9b\u202e\r\x7f"), (command, more, sent)
    printed = CliRunner().invoke(main, ["show", str(path), "--json"]).stdout
    assert json.loads(printed) == {"id": 1, f"c{evil}": evil}
    assert "␛[2J" in CliRunner().invoke(main, ["show", str(path)]).stdout


def test_what_python_prints_beside_answers_steers_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = "\x1b]0;owned\x07\x9b31m\u202e[red]x[/red]"
    named = DeltaTable.create(None).location(tmp_path / "t").addColumn(f"c{evil}", "string")
    named.property("delta.columnMapping.mode", "name").execute()
    command = [sys.executable, "-m", "holdfast.cli", "--debug", "show", str(tmp_path / "t"), "--columns", "nope"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    printed = [done.stderr]
    assert (done.returncode, "Traceback" in done.stderr, "UnknownColumn" in done.stderr) == (1, True, True)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with guarded():
        sys.stderr.write(warnings.formatwarning(evil, UserWarning, "somewhere.py", 1))
        logging.getLogger("holdfast.screen").warning("%s", evil)
        sys.excepthook(ZeroDivisionError, ZeroDivisionError(evil), None)
        printed.append(capsys.readouterr().err)
    assert printed[1].count("␛]0;owned") == 3
    for text_ in printed:
        assert "␛]0;owned␇�31m�[red]x[/red]" in text_
        assert not set(text_) & set("\x1b\x07\x9b\u202e")
    assert sys.excepthook.__module__ != "holdfast.cli.stderr"
