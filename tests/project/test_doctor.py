"""What `holdfast doctor` tells, and when it fails."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from holdfast.cli import COMMANDS, main
from holdfast.cli.doctor import checks
from holdfast.cli.doctor import command as doctor
from holdfast.cli.doctor.checks import CHECKS, Check


def test_the_json_is_one_object_with_every_check() -> None:
    ran = CliRunner().invoke(main, ["doctor", "--json"])
    told = json.loads(ran.output)
    assert [check["name"] for check in told["checks"]][:3] == ["Holdfast", "Python", "PySpark"]
    assert len(told["checks"]) == len(CHECKS)
    assert ran.exit_code == (0 if told["ok"] else 1)


@pytest.mark.parametrize(
    ("ok", "code", "verdict"),
    [(True, 0, "can run here"), (None, 0, "can run here"), (False, 1, "cannot run here yet")],
)
def test_only_something_essential_fails(
    ok: bool | None, code: int, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "CHECKS", (lambda: Check("thing", ok, "found it", "do this"),))
    ran = CliRunner().invoke(main, ["doctor"])
    assert ran.exit_code == code
    assert verdict in ran.output
    assert "thing: do this" in ran.output


def test_trouble_without_advice_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="thing"):
        Check("thing", None, "nothing")


def test_a_missing_java_is_essential_and_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "find_java", lambda: None)
    assert checks.java().ok is False
    assert "JAVA_HOME" in checks.java().advice
    assert checks.classic().ok is False


def test_pandas_three_is_advised_against(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_installed", lambda name: "3.0.0")
    assert checks.connect().ok is None
    assert "pandas 3" in checks.connect().advice


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_installed", lambda name: None)
    assert checks.package("msgspec", needed_for="the log").ok is False
    assert checks.pyspark().ok is False
    assert checks.connect().ok is None


def test_every_command_is_there() -> None:
    for name in COMMANDS:
        assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0
    assert CliRunner().invoke(main, ["no-such-command"]).exit_code == 2


def test_the_module_runs_as_a_program() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert told.stdout.startswith("holdfast, version ")
