"""The examples of the page on the command line, run from top to bottom, print what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from holdfast.cli import COMMANDS
from tests.cli.conftest import Run
from tests.docs.pages import ROOT, as_promised
from tests.docs.warehouse import make_warehouse

PAGE = (ROOT / "docs" / "command-line.md").read_text()
_EXAMPLE = re.compile(r"^```sh\nholdfast (.*?)\n```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_print_what_they_promise(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_warehouse(tmp_path)
    monkeypatch.chdir(tmp_path)
    examples = _EXAMPLE.findall(PAGE)
    assert len(examples) == PAGE.count("```sh")
    for command, promised in examples:
        printed = run(*shlex.split(command), width=200).stdout
        assert as_promised(promised, printed), f"{command} prints\n{printed}"


def test_the_page_names_every_command() -> None:
    assert [name for name in COMMANDS if f"`{name}" not in PAGE] == []
