"""Commands that look: what they show and what they print for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import Result

from holdfast.table.delta import DeltaTable
from tests.cli.conftest import Run


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_show_gives_the_rows_of_a_scan(run: Run, story: Path) -> None:
    want = DeltaTable.forPath(None, story).toArrow(["id", "cents"], "cents > 100", metadata=["_row_id"])
    got = lines(run("show", story, "-c", "id,cents", "-w", "cents > 100", "--ids", "--json"))
    assert [(r["id"], r["cents"], r["_row_id"]) for r in got] == [tuple(r.values()) for r in want.to_pylist()]


def test_people_see_some_rows_and_programs_all(run: Run, story: Path) -> None:
    assert len(lines(run("show", story, "--json"))) == 19
    assert len(lines(run("show", story, "--json", "--limit", 4))) == 4
    result = run("show", story, "--limit", 4)
    assert len(result.stdout.splitlines()) == 1 + 4
    assert "4 rows, and there are more" in result.stderr
    assert "19 rows\n" in run("show", story, "--all").stderr


@pytest.mark.parametrize(("option", "value"), [("--version", "2"), ("--at", "2099-01-01")])
def test_show_goes_back_in_time(run: Run, story: Path, option: str, value: str) -> None:
    if option == "--version":
        assert lines(run("show", story, option, value, "-w", "id = 3", "--json"))[0]["cents"] == 30
    else:
        assert "has no version at 2099-01-01" in run("show", story, option, value, code=1).stderr


def test_a_pinned_version_goes_by_its_name(run: Run, orders: Path) -> None:
    DeltaTable.forPath(None, orders).pin(1, "first load")
    assert len(lines(run("show", orders, "--version", "first load", "--json"))) == 10


def test_history_tells_each_commit(run: Run, story: Path) -> None:
    output = run("history", story).stdout
    assert "where id = 3; 1 row updated, +1 file, 1 deletion vector added" in output
    assert [r["version"] for r in lines(run("history", story, "--json"))] == [4, 3, 2, 1, 0]
    assert [r["version"] for r in lines(run("history", story, "--json", "--limit", 2))] == [4, 3]
    assert "2 commits, and there are more" in run("history", story, "--limit", 2).stderr


def test_detail_counts_live_rows(run: Run, story: Path) -> None:
    detail = lines(run("detail", story, "--json"))[0]
    assert (detail["numRows"], detail["hiddenRows"], detail["version"], detail["numFiles"]) == (19, 2, 4, 5)
    shown = run("detail", story).stdout
    assert "19, 2 more are hidden by deletion vectors" in shown
    assert "partitioned by day" in shown
    assert "materialized" not in shown


def test_files_give_live_and_hidden_rows(run: Run, story: Path) -> None:
    files = lines(run("files", story, "--json"))
    assert sum(f["rows"] for f in files) == 19
    assert sum(f["hidden_rows"] for f in files) == 2
    assert {f["partition"]["day"] for f in files} == {"2024-05-01", "2024-05-02"}
    assert sorted(f["base_row_id"] for f in files) == [0, 5, 10, 15, 20]
    some = lines(run("files", story, "--json", "-w", "day = '2024-05-01'"))
    assert {f["partition"]["day"] for f in some} == {"2024-05-01"}


def test_files_explain_what_a_condition_reads(run: Run, story: Path) -> None:
    explanation = lines(run("files", story, "--explain", "-w", "id = 3", "--json"))[0]
    assert explanation["files_read"] < explanation["files_total"] == 5
    shown = run("files", story, "--explain", "-w", "id = 3").stdout
    assert f"{explanation['files_read']} of 5 files" in shown
    assert "overlaps id = 3" in shown


def test_changes_pair_a_row_with_itself(run: Run, story: Path) -> None:
    changes = lines(run("changes", story, "--from", 3, "--json"))
    kinds = [(r["_change_type"], r["id"], r["cents"]) for r in changes]
    assert kinds == [("update_preimage", 3, 30), ("update_postimage", 3, 1030), ("delete", 5, 50)]
    shown = run("changes", story, "--from", 3, "--to", 3)
    assert "update from" in shown.stdout
    assert "--resume hf1." in shown.stderr
    token = shown.stderr.split("--resume ")[1].strip()
    assert [r["id"] for r in lines(run("changes", story, "--resume", token, "--json"))] == [5]
    new = lines(run("changes", story, "--from", 2, "--kind", "upsert", "--json"))
    assert {r["id"] for r in new} == {3, *range(10, 20)}


def test_a_biography_is_told(run: Run, story: Path) -> None:
    row = lines(run("show", story, "-w", "id = 3", "--ids", "--json"))[0]["_row_id"]
    life = lines(run("biography", story, row, "--json"))[0]
    assert [(e["what"], e["version"]) for e in life["events"]] == [("born", 1), ("changed", 3)]
    shown = run("biography", story, row).stdout
    assert f"row {row} is in the table" in shown
    assert "changed" in shown


def test_rows_are_taken_by_id_in_the_order_asked(run: Run, story: Path) -> None:
    ids = [r["_row_id"] for r in lines(run("show", story, "--ids", "--json"))]
    wanted_ids = [ids[7], ids[2], ids[7]]
    assert [r["_row_id"] for r in lines(run("take", story, *wanted_ids, "--json"))] == wanted_ids
    assert "--skip-missing" in run("take", story, 9999, code=1).stderr
    assert lines(run("take", story, 9999, "--skip-missing", "--json")) == []


@pytest.mark.parametrize(
    ("key", "ids"),
    [("id=3", [3]), ("id=3,4,99", [3, 4]), ("day=2024-05-02.. id=0..9", [1, 3, 7, 9]), ("cents=..20", [0, 1, 2])],
)
def test_rows_are_looked_up_by_values(run: Run, story: Path, key: str, ids: list[int]) -> None:
    assert sorted(r["id"] for r in lines(run("lookup", story, *key.split(), "--json"))) == ids


def test_maps_are_objects_and_the_rest_is_json(run: Run, tmp_path: Path) -> None:
    rows = pa.table(
        {
            "m": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
            "b": pa.array([b"\x00\xff", None], pa.binary()),
            "x": pa.array([float("nan"), 1.5]),
            "s": pa.array([{"l": [1, None]}, None], pa.struct([("l", pa.list_(pa.int64()))])),
            "t": pa.array(["[bold]x[/bold] :smile:", "y" * 2000]),
        }
    )
    DeltaTable.create(None).location(tmp_path / "t").addColumns(rows.schema).execute().append(rows)
    first, second = lines(run("show", tmp_path / "t", "--json"))
    assert first == {"m": {"a": 1}, "b": "AP8=", "x": None, "s": {"l": [1, None]}, "t": "[bold]x[/bold] :smile:"}
    assert second["t"] == "y" * 2000
    shown = run("show", tmp_path / "t").stdout
    assert "[bold]x[/bold] :smile:" in shown.replace("\n", "")
    assert "0x00ff" in shown
    assert "(2,000 characters)" in "".join(part.strip() for part in shown.split("\n"))


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("command", ["show", "history", "detail", "files", "changes", "biography"])
def test_nothing_is_wider_than_the_terminal(run: Run, story: Path, command: str, width: int) -> None:
    more = {"changes": ["--from", 1], "biography": [3], "show": ["--ids"]}.get(command, [])
    output = run(command, story, *more, width=width).stdout
    assert max(len(line) for line in output.splitlines()) <= width
    assert len(output.splitlines()) > 2


def test_a_sentence_that_a_program_reads_is_one_line(run: Run, story: Path) -> None:
    (line,) = run("check", story, width=40).stdout.splitlines()
    assert line.endswith("sound (log and data)")
