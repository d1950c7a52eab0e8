"""The command as a process: quick where the log is enough, quiet in pipes, complete in shells."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from pyspark.sql import SparkSession

from holdfast.cli import COMMANDS, main
from tests.cli.conftest import Run

LOG_ONLY = ("history", "detail", "files", "show")
QUICK_S = 4  # of processor time; measured 1.2


def _python(code: str, *args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def test_what_the_log_tells_comes_quickly_and_without_spark(story: Path) -> None:
    code = (
        "import sys; from holdfast.cli import main\n"
        "for command in sys.argv[2:]:\n"
        "    main([command, sys.argv[1], '--json'], prog_name='holdfast', standalone_mode=False)\n"
        "print(*({'pyspark', 'py4j', 'pandas', 'sqlglot', 'pyiceberg'} & set(sys.modules)), file=sys.stderr)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = _python(code, story, *LOG_ONLY)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < QUICK_S
    assert output.stdout.count("\n") > 20
    assert output.stderr.split() == []


def test_no_help_loads_spark() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from holdfast.cli import main\n"
        "for name in sys.argv[1:]:\n"
        "    assert CliRunner().invoke(main, [name, '--help']).exit_code == 0, name\n"
        "    assert 'pyspark' not in sys.modules, name\n"
    )
    _python(code, *(name for name in COMMANDS if name != "sql"))


def test_the_list_of_commands_loads_none() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from holdfast.cli import main\n"
        "print(CliRunner().invoke(main, ['--help']).output, file=sys.stderr)\n"
        "print(*(name for name in sys.modules if name.startswith('holdfast.cli.') or name == 'pyarrow'))"
    )
    output = _python(code)
    assert sorted(output.stdout.split()) == ["holdfast.cli.failure", "holdfast.cli.stderr", "holdfast.cli.visible"]
    assert all(name in output.stderr for name in COMMANDS)


@pytest.mark.parametrize(
    ("typed", "word", "offered"),
    [
        ([], "enable", ["enable-row-tracking"]),
        (["show"], "--ve", ["--version"]),
        (["index"], "re", ["rebuild", "refresh"]),
        (["changes", "t", "--kind"], "", ["append-only", "full-delta", "min-delta", "upsert"]),
    ],
    ids=["command", "option", "subcommand", "value"],
)
def test_a_shell_completes_it(typed: list[str], word: str, offered: list[str]) -> None:
    shell = BashComplete(main, {}, "holdfast", "_HOLDFAST_COMPLETE")
    assert sorted(item.value for item in shell.get_completions(typed, word)) == offered


def test_an_error_of_the_process_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast.cli", "show", str(tmp_path / "none")]
    process = subprocess.run(command, capture_output=True, text=True)
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr == f"Error: there is nothing at {tmp_path}/none: check the path\n"


def test_sql_over_tables_by_name_and_by_path(run: Run, story: Path, spark: SparkSession) -> None:
    query = f"SELECT o.id, p._row_id FROM o JOIN `{story}` p ON o.id = p.id WHERE o.cents > 1000"
    output = run("sql", query, "-t", f"o={story}", "--ids", "--json").stdout
    assert output == '{"id":3,"_row_id":6}\n'
    assert "Spark says: [UNRESOLVED_COLUMN" in run("sql", "SELECT nothing FROM o", "-t", f"o={story}", code=1).stderr
    assert "2 rows, and there are more" in run("sql", "SELECT * FROM o", "-t", f"o={story}", "-l", 2).stderr


def test_a_change_that_only_spark_can_evaluate(run: Run, orders: Path, spark: SparkSession) -> None:
    """`--spark` does what the command alone refuses."""
    where = ["-w", "reverse(name) = '4 eman'"]
    assert "add --spark" in run("delete", orders, *where, code=1).stderr
    assert "1 row deleted" in run("delete", orders, *where, "--spark").stdout
