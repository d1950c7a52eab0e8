"""What a newcomer gets wrong in the first hour: one sentence that says what to do, and no traceback."""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdfast
from holdfast.cli import COMMANDS
from holdfast.cli.failure import SPELLINGS, sentence
from holdfast.errors import Invalid, Unavailable
from tests.cli.conftest import Run

SOURCES = Path(holdfast.__file__).parent


@pytest.fixture(scope="module")
def home(story: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a table and with much that is none; mistakes change nothing in it."""
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(story, home / "orders")
    for directory in ("plain", "empty", "ice/metadata"):
        (home / directory).mkdir(parents=True)
    for name in ("file.txt", "ice/metadata/00009-a.metadata.json", "ice/metadata/00010-b.metadata.json"):
        (home / name).write_text("{}")
    pq.write_table(pa.table({"x": [1]}), home / "plain" / "a.parquet")
    return home


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["show", "ordres"], "there is nothing at {home}/ordres: did you mean {home}/orders?"),
        (["history", "elsewhere/t"], "there is nothing at {home}/elsewhere/t: check the path"),
        (
            ["show", "orders/_delta_log"],
            "{home}/orders/_delta_log is inside a table: name its directory, {home}/orders",
        ),
        (["show", "orders/day=2024-05-01"], "is inside a table: name its directory, {home}/orders"),
        (["show", "."], "there are some below it: name one of orders"),
        (["show", "plain"], "{home}/plain holds Parquet files and is no table: make one of them with `holdfast append"),
        (["show", "empty"], "{home}/empty is an empty directory: make a table in it with `holdfast append --create"),
        (["show", "file.txt"], "{home}/file.txt is a file: name the directory of a table"),
        (["detail", "ice"], "is an Iceberg table: name its metadata file, {home}/ice/metadata/00010-b.metadata.json"),
        (
            ["append", "nowhere", "plain/a.parquet"],
            "there is nothing at {home}/nowhere: check the path; --create makes",
        ),
        (["show", "s4://bucket/t"], "s4: is not a scheme Holdfast knows; it can open a local path"),
        (["append", "orders", "plain/a.parquet"], "the rows do not fit the table, because of x:"),
        (
            ["properties", "orders", "delta.appendOnli=true"],
            "there is no property delta.appendOnli: did you mean delta.app",
        ),
        (["properties", "orders", "delta.constraints.x=id > 0", "-n"], "is a constraint"),
        (["properties", "orders", "appendOnly=true"], "did you mean delta.appendOnly?"),
        (["show", "orders", "-c", "idd"], "the table has no column 'idd'; did you mean id?"),
        (["show", "orders", "-w", "cent > 3"], "the table has no column 'cent'; did you mean cents?"),
        (["delete", "orders", "-w", "idd = 3"], "there is no column 'idd', in `idd = 3`; did you mean id?"),
        (["update", "orders", "-s", "cent=3", "--all"], "the table has no column cent: it has id, name, cents"),
        (["lookup", "orders", "idd=3"], "the table has no column 'idd'; did you mean id?"),
        (["lookup", "orders", "id=three"], "id is int64, and 'three' is none: write a value of that type"),
        (["merge", "orders", "plain/a.parquet", "--on", "id"], "the file has no column 'id'; it has x"),
        (
            ["show", "orders", "-v", "99"],
            "version 99 is not in the log at file://{home}/orders/_delta_log: readable are",
        ),
        (["show", "orders", "-v", "may"], "no version is called 'may': give a number or the name of a pin"),
        (["show", "orders", "--at", "yesterday"], "'yesterday' is no timestamp: write it as 2024-05-01"),
        (["show", "orders", "-w", "id ="], "'id =' is no condition: write it as in SQL"),
        (["delete", "orders", "-w", "id ="], "'id =' is no condition: write it as in SQL"),
        (["show", "orders", "-w", "upper(name) = 'X'"], "ask with `holdfast sql`, or leave this condition out"),
        (["delete", "orders", "-w", "foo(name) = 'X'"], "add --spark, or write it otherwise"),
        (["delete", "x.metadata.json", "--all"], "is an Iceberg table, and this command is about Delta tables"),
        (["sql", "SELECT * FROM t"], "nobody said where it is: add --table t=PATH"),
        (["sql", "SELECT * FROM t", "-t", "t=nowhere"], "there is nothing at {home}/nowhere"),
        (["sql", "DELETE FROM t"], "use `holdfast delete`"),
        (["index", "create", "orders", "idd"], "the table has no column 'idd'; did you mean id?"),
        (["index", "create", "orders", "id", "--kind", "tree"], "there is no kind of index 'tree'"),
        (["index", "create", "orders", "id", "--kind", "tree", "-n"], "there is no kind of index 'tree'"),
        (["index", "create", "orders", "id", "-o", "speed=9", "-n"], "speed"),
        (["index", "create", "orders", "name", "--kind", "vector", "-n"], "name"),
        (["take", "orders", "77777"], "`holdfast biography TABLE ID` tells what became of one"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) else "",
)
def test_a_mistake_is_answered_with_what_to_do(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], says: str
) -> None:
    monkeypatch.chdir(home)
    result = run(*command, code=1)
    assert says.format(home=home) in result.stderr
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.output
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["nothing"], "No such command 'nothing'"),
        (["show"], "Missing argument 'TABLE'"),
        (["changes", "t"], "say where changes begin"),
        (["restore", "t"], "say what to bring back"),
        (["append", "t", "no-such-file.csv"], "does not exist"),
        (["append", "t", "{home}/file.txt"], "has no name that says what it is: --format"),
        (["append", "t", "{home}/file.txt", "--property", "a=b"], "add --create"),
        (["update", "t", "--set", "x"], "'x' is not NAME=VALUE"),
        (["merge", "t", "{home}/file.txt", "--on", "id", "--no-update", "--no-insert"], "nothing is left to do"),
        (["cluster", "t", "--by", "a", "--none"], "exclude each other"),
        (["cluster", "t", "--by", "a", "--full", "--max-bytes", "1MB"], "leave --max-bytes out"),
        (["show", "t", "--limit", "1", "--all"], "exclude each other"),
        (["vacuum", "t", "--force"], "give --hours too"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_is_another_exit_code(run: Run, home: Path, command: list[str], says: str) -> None:
    given = [str(home / "orders") if arg == "t" else arg.format(home=home) for arg in command]
    assert says in run(*given, code=2).stderr


def test_programs_get_errors_as_json(run: Run, story: Path) -> None:
    result = run("show", story, "-c", "idd", "--json", code=1)
    assert result.stdout == ""
    printed = json.loads(result.stderr)
    assert (printed["error"], printed["column"]) == ("UnknownColumn", "idd")
    assert "did you mean id?" in printed["message"]


@pytest.mark.parametrize("before", [True, False])
def test_debug_shows_the_traceback(run: Run, story: Path, before: bool) -> None:
    args = ["--debug", "show", story, "-v", 99] if before else ["show", story, "-v", 99, "--debug"]
    result = run(*args, code=1)
    assert result.exception is not None
    assert type(result.exception).__name__ == "UnknownVersion"


def test_a_missing_java_is_said_in_a_sentence(run: Run, story: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_java(*args: object) -> None:
        raise Unavailable("Spark needs Java and none was found that is new enough: install a Java runtime")

    monkeypatch.setattr(holdfast, "session", no_java, raising=False)
    for command in (["sql", "SELECT 1"], ["delete", story, "--all", "--spark"]):
        assert run(*command, code=1).stderr.startswith("Error: Spark needs Java and none was found")


def test_advice_is_given_in_the_words_of_the_command_line() -> None:
    assert sentence(Invalid("broken; call rebuildIndex('by_id')")) == "broken; run `holdfast index rebuild TABLE by_id`"
    assert sentence(Invalid("ask for it with metadata=['_row_id']")) == "ask for it with --ids"


@pytest.mark.parametrize("python", [python for python, _ in SPELLINGS])
def test_what_is_put_in_other_words_is_still_said(python: str) -> None:
    """Messages change; a phrase that nobody says any more would stay here for ever."""
    assert python in _messages()


@cache
def _messages() -> str:
    code = "".join(p.read_text() for p in SOURCES.rglob("*.py") if "cli" not in p.parts)
    return re.sub(r"[\"']\s*f?[\"'](?=[^\"'])", "", code)


def test_every_command_says_in_help_what_the_list_says() -> None:
    for name, entry in COMMANDS.items():
        help_text = import_module(entry.module).command.help
        assert " ".join(help_text.split()).startswith(entry.summary.rstrip(".")), name
