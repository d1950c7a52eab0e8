"""A small table for the commands, made once and copied for whoever writes to it."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from holdfast.cli import main
from holdfast.table.delta import DeltaTable

Run = Callable[..., Result]


def some_rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"name {i}" for i in ids],
            "cents": pa.array([i * 10 for i in ids], pa.int64()),
            "day": pa.array([datetime.date(2024, 5, 1 + i % 2) for i in ids]),
            "note": [None if i % 3 else f"a note of some length about number {i}" for i in ids],
        }
    )


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Version 0 creates, 1 and 2 append ten rows each, 3 updates row 3, 4 deletes row 5. It is only read."""
    path = tmp_path_factory.mktemp("cli") / "orders"
    table = DeltaTable.create(None).location(path).addColumns(some_rows(0, 1).schema).partitionedBy("day").execute()
    table.append(some_rows(0, 10))
    table.append(some_rows(10, 10))
    table.update("id = 3", {"cents": "cents + 1000"})
    table.delete("id = 5")
    return path


@pytest.fixture
def orders(story: Path, tmp_path: Path) -> Path:
    """The same, to be written to."""
    return Path(shutil.copytree(story, tmp_path / "orders"))


@pytest.fixture
def run() -> Run:
    """A command in this process; `code` is what it must end with."""

    def invoke(*args: object, code: int = 0, stdin: str | bytes | None = None, width: int = 120) -> Result:
        result = CliRunner(env={"COLUMNS": str(width)}).invoke(main, [str(arg) for arg in args], input=stdin)
        assert result.exit_code == code, (args, result.output, result.exception)
        return result

    return invoke
