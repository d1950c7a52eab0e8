"""What long work shows, to whom, and what it leaves behind."""

from __future__ import annotations

import io
import sys
import time
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame

from holdfast import terminal
from holdfast.engines.local.engine import LocalEngine
from holdfast.engines.spark.engine import SparkEngine
from holdfast.engines.spark.session import progress
from holdfast.engines.spark.session.local_session import _defaults
from tests.support.waiting import until

LONG = 0.15


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@dataclass(frozen=True)
class Stage:
    num_tasks: int
    num_completed_tasks: int


class Client:
    """As much of a Connect session as is asked for."""

    __module__ = "pyspark.sql.connect.session"

    def __init__(self) -> None:
        self.handlers: list[object] = []

    def registerProgressHandler(self, handler: object) -> None:
        self.handlers.append(handler)

    def removeProgressHandler(self, handler: object) -> None:
        self.handlers.remove(handler)


def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """From here on somebody looks; not a fixture, because pytest puts its own stderr back before the test."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(terminal, "PATIENCE_S", 0.02)
    monkeypatch.setenv("TERM", "xterm")
    return shown


def test_a_step_is_shown_unless_its_tasks_are(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = a_terminal(monkeypatch)
    with LocalEngine().progress("writing bin 1 of 2"):
        until(lambda: "writing bin 1 of 2" in screen.getvalue(), "a step on the screen")
    with SparkEngine(Client()).progress("hidden"):  # type: ignore[arg-type]
        time.sleep(LONG)
    assert "writing bin 1 of 2" in screen.getvalue()
    assert "hidden" not in screen.getvalue()


def test_a_phase_that_lasts_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = a_terminal(monkeypatch)
    with terminal.phase("writing a checkpoint"):
        until(lambda: "writing a checkpoint" in screen.getvalue(), "a phase on the screen")
    assert "writing a checkpoint" in screen.getvalue()


def test_a_phase_that_is_soon_over_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = a_terminal(monkeypatch)
    monkeypatch.setattr(terminal, "PATIENCE_S", 60)
    with terminal.phase("committing"):
        pass
    assert "committing" not in screen.getvalue()


def test_tasks_of_a_client_are_a_bar_and_the_handler_goes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = a_terminal(monkeypatch)
    client = Client()
    client.handlers = ["of the user's own"]

    def job() -> None:
        with progress.tasks(client, "writing"):  # type: ignore[arg-type]
            _, told = client.handlers
            told(stages=None, inflight_tasks=0, operation_id=None, done=False)  # type: ignore[operator]
            told(stages=[Stage(8, 3), Stage(2, 2)], inflight_tasks=1, operation_id="x", done=False)  # type: ignore[operator]
            until(lambda: "5/10" in screen.getvalue(), "a bar on the screen")
            raise ValueError("of the job's own")

    with pytest.raises(ValueError, match="own"):
        job()
    assert "writing" in screen.getvalue()
    assert "5/10" in screen.getvalue()
    assert client.handlers == ["of the user's own"]


def test_nobody_looks_so_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = io.StringIO()
    monkeypatch.setattr(sys, "stderr", silent)
    monkeypatch.setattr(terminal, "PATIENCE_S", 0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    client = Client()
    with terminal.phase("committing"), progress.tasks(client, "writing"):  # type: ignore[arg-type]
        assert client.handlers == []
        time.sleep(0.05)
    assert silent.getvalue() == ""


@pytest.mark.parametrize("looking", [True, False])
def test_a_session_of_ours_shows_its_bar_to_who_looks(monkeypatch: pytest.MonkeyPatch, looking: bool) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal() if looking else io.StringIO())
    assert _defaults("local[1]")["spark.ui.showConsoleProgress"] == str(looking).lower()


@pytest.mark.everywhere
def test_both_kinds_of_session_run_their_jobs_under_it(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    a_terminal(monkeypatch)
    with progress.tasks(spark, "counting"):
        assert spark.range(100).repartition(4).count() == 100
    assert progress.is_remote(spark) == isinstance(spark.range(1), ConnectFrame)
