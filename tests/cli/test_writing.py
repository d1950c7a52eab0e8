"""Commands that write: each does what it says, and with --dry-run says it and does nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from holdfast.table.delta import DeltaTable
from tests.cli.conftest import Run, some_rows


def told(result: Result) -> dict[str, Any]:
    (line,) = result.stdout.splitlines()
    record = json.loads(line)
    assert isinstance(record, dict)
    return record


def ids(path: Path) -> set[int]:
    return set(DeltaTable.forPath(None, path).toArrow(["id"]).column("id").to_pylist())


def tree(path: Path) -> set[str]:
    return {str(p) for p in path.rglob("*") if p.is_file() and ".tmp" not in p.name}


@pytest.fixture
def news(tmp_path: Path) -> Path:
    path = tmp_path / "new.csv"
    path.write_text("id,name,cents,day\n3,changed,1,2024-05-02\n99,new,2,2024-05-09\n")
    return path


DRY: list[tuple[str, list[str]]] = [
    ("delete", ["--where", "id < 4"]),
    ("update", ["--set", "cents=0", "--where", "id < 4"]),
    ("merge", ["NEWS", "--on", "id"]),
    ("append", ["NEWS"]),
    ("compact", []),
    ("compact", ["--z-order-by", "id"]),
    ("vacuum", ["--hours", "0", "--force"]),
    ("restore", ["--version", "1"]),
    ("check", ["--repair"]),
    ("properties", ["delta.targetFileSize=1mb"]),
    ("properties", ["delta.feature.domainMetadata=supported"]),
    ("properties", ["--unset", "delta.enableDeletionVectors"]),
    ("enable-row-tracking", []),
    ("cluster", ["--none"]),
]


@pytest.mark.parametrize(("command", "more"), DRY, ids=lambda value: value if isinstance(value, str) else None)
def test_a_dry_run_writes_nothing(run: Run, orders: Path, news: Path, command: str, more: list[str]) -> None:
    before = tree(orders)
    args = [str(news) if arg == "NEWS" else arg for arg in more]
    assert run(command, orders, *args, "--dry-run").stdout
    assert told(run(command, orders, *args, "--dry-run", "--json"))
    assert tree(orders) == before


def test_a_dry_run_foretells_the_deed(run: Run, orders: Path) -> None:
    plan = told(run("delete", orders, "-w", "id < 4", "-n", "--json"))
    done = told(run("delete", orders, "-w", "id < 4", "--json"))
    assert plan["rows"]["deleted"] == done["metrics"]["numDeletedRows"] == 4
    assert done["version"] == 5
    assert ids(orders) == set(range(4, 20)) - {5}


def test_nothing_to_delete_is_said(run: Run, orders: Path) -> None:
    assert "no row satisfies the condition" in run("delete", orders, "-w", "id = 1000").stdout
    assert told(run("delete", orders, "-w", "id = 1000", "--json"))["version"] is None


@pytest.mark.parametrize("command", ["delete", "update"])
def test_every_row_has_to_be_asked_for(run: Run, orders: Path, command: str) -> None:
    sets = ["--set", "cents=0"] if command == "update" else []
    assert f"say which rows to {command}" in run(command, orders, *sets, code=2).stderr
    run(command, orders, *sets, "--all")
    left = DeltaTable.forPath(None, orders).toArrow(["cents"]).column("cents").to_pylist()
    assert left == ([] if command == "delete" else [0] * 19)


def test_update_keeps_the_message(run: Run, orders: Path) -> None:
    shown = run("update", orders, "-s", "cents=cents * 2", "-s", "name='twice'", "-w", "id = 4", "-m", "as asked")
    assert "version 5: 1 row updated" in shown.stdout
    table = DeltaTable.forPath(None, orders)
    assert table.toArrow(["cents", "name"], "id = 4").to_pylist() == [{"cents": 80, "name": "twice"}]
    assert table.historyArrow(1).column("userMetadata").to_pylist() == ["as asked"]


def test_merge_is_an_upsert_unless_told_otherwise(run: Run, orders: Path, news: Path) -> None:
    done = told(run("merge", orders, news, "--on", "id", "--json"))["metrics"]
    assert (done["numTargetRowsUpdated"], done["numTargetRowsInserted"]) == (1, 1)
    row = DeltaTable.forPath(None, orders).toArrow(where="id = 3", metadata=["_row_id"]).to_pylist()[0]
    assert (row["name"], row["note"] is not None, row["_row_id"] < 20) == ("changed", True, True)


def test_merge_deletes_where_it_is_told(run: Run, orders: Path, tmp_path: Path) -> None:
    rows = tmp_path / "cdc.jsonl"
    rows.write_text('{"id": 3, "gone": true}\n{"id": 50, "gone": true}\n{"id": 51, "gone": false}\n')
    run("merge", orders, rows, "--on", "t.id = s.id", "--delete-when", "s.gone", "--no-update")
    assert 3 not in ids(orders)
    assert ids(orders) & {50, 51} == {51}


def test_merge_settles_duplicates(run: Run, orders: Path, tmp_path: Path) -> None:
    rows = tmp_path / "twice.csv"
    rows.write_text("id,cents,name\n3,1,b\n3,2,a\n")
    assert run("merge", orders, rows, "--on", "id", code=1).stderr.startswith("Error: ")
    run("merge", orders, rows, "--on", "id", "--keep", "last", "--by", "cents")
    assert DeltaTable.forPath(None, orders).toArrow(["cents"], "id = 3").to_pylist() == [{"cents": 2}]
    assert "--keep and --by go together" in run("merge", orders, rows, "--on", "id", "--keep", "last", code=2).stderr


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "json"])
def test_rows_are_appended_from_files_of_every_kind(run: Run, orders: Path, tmp_path: Path, suffix: str) -> None:
    rows = some_rows(100, 3)
    file = tmp_path / f"new.{suffix}"
    texts = [json.dumps(r, default=str) for r in rows.to_pylist()]
    match suffix:
        case "parquet":
            pq.write_table(rows, file)
        case "csv":
            body = [f"{r['id']},{r['name']},{r['cents']},{r['day']},{r['note'] or ''}" for r in rows.to_pylist()]
            file.write_text("\n".join(["id,name,cents,day,note", *body]))
        case "jsonl":
            file.write_text("\n".join(texts))
        case _:
            file.write_text(f"[{', '.join(texts)}]")
    assert "would add 3 rows: all of them fit" in run("append", orders, file, "-n").stdout
    assert told(run("append", orders, file, "--json"))["metrics"]["numOutputRows"] == 3
    assert DeltaTable.forPath(None, orders).toArrow(where="id >= 100").sort_by("id").equals(rows)


def test_what_show_prints_append_takes(run: Run, orders: Path, tmp_path: Path) -> None:
    printed = run("show", orders, "--json").stdout
    run("append", "--create", tmp_path / "copy", "-", "--format", "json", stdin=printed)
    assert "say what comes from standard input" in run("append", orders, "-", stdin=printed, code=2).stderr
    assert ids(tmp_path / "copy") == ids(orders)


def test_append_makes_a_table(run: Run, tmp_path: Path, news: Path) -> None:
    created = tmp_path / "made"
    dry = run("append", "--create", created, news, "--partition-by", "day", "-n").stdout
    assert "would make a table" in dry
    assert "cents long" in dry
    assert not created.exists()
    run("append", "--create", created, news, "--partition-by", "day", "-p", "delta.targetFileSize=1mb")
    described = DeltaTable.forPath(None, created).describe()
    assert (described.layout, described.settings["delta.targetFileSize"]) == ("partitioned by day", "1mb")
    run("append", "--create", created, news, "--partition-by", "day", "-p", "delta.targetFileSize=1mb")
    assert DeltaTable.forPath(None, created).toArrow().num_rows == 4
    other = run(
        "append", "--create", created, news, "--cluster-by", "id", "-p", "delta.targetFileSize=2mb", code=1
    ).stderr
    assert "it is not delta.targetFileSize=2mb and clustered by id: leave that out" in other


def test_an_application_is_written_for_once(run: Run, orders: Path, news: Path) -> None:
    assert told(run("append", orders, news, "--txn", "loader=7", "--json"))["version"] == 5
    assert "the table has seen loader=7" in run("append", orders, news, "--txn", "loader=7").stdout
    assert "such as loader=7" in run("append", orders, news, "--txn", "loader", code=2).stderr


def test_restore_brings_rows_back(run: Run, orders: Path) -> None:
    assert (
        "version 2 would take 2 files out and bring 1 file back; rows: 19 now, 20 then"
        in run("restore", orders, "-v", 2, "-n").stdout
    )
    run("restore", orders, "-v", 2)
    assert ids(orders) == set(range(20))
    assert "nothing was written" in run("restore", orders, "-v", 2).stdout


def test_compaction_keeps_rows_and_ids(run: Run, orders: Path) -> None:
    before = DeltaTable.forPath(None, orders).toArrow(metadata=["_row_id"]).sort_by("id")
    assert "files make one" in run("compact", orders, "-n").stdout
    done = told(run("compact", orders, "--json"))
    assert (done["versions"], done["bins"]) == ([5], 2)
    assert DeltaTable.forPath(None, orders).toArrow(metadata=["_row_id"]).sort_by("id").equals(before)
    assert "nothing to do" in run("compact", orders).stdout
    assert "is no size" in run("compact", orders, "--max-bytes", "many", code=2).stderr
    for condition in ("dya = '2024-05-01'", "dya = '2024-05-01' AND id > 1"):
        assert "the table has no column 'dya'" in run("compact", orders, "--where", condition, code=1).stderr


def test_clustering_is_chosen_and_done(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = some_rows(0, 50)
    table = DeltaTable.create(None).location(path).addColumns(rows.schema).execute()
    table.append(rows)
    table.append(rows)
    assert "say by which columns" in run("cluster", path, code=1).stderr
    assert told(run("cluster", path, "--by", "id", "-n", "--json"))["files"] == 2
    done = told(run("cluster", path, "--by", "id", "--json"))
    assert (done["chosen"], done["versions"]) == (3, [4])
    assert table.describe().layout == "clustered by id"
    assert told(run("cluster", path, "-n", "--json"))["bins"] == []
    run("cluster", path, "--none")
    assert table.describe().layout == "neither partitioned nor clustered"


def spread(spans: list[list[int]]) -> list[int]:
    return [version for first, last in spans for version in range(first, last + 1)]


def test_vacuum_tells_what_it_costs(run: Run, orders: Path) -> None:
    run("compact", orders)
    refused = run("vacuum", orders, "--hours", 0, code=1).stderr
    assert "say --force if there are none" in refused
    would = told(run("vacuum", orders, "--hours", 0, "--force", "-n", "--json"))
    exact = told(run("vacuum", orders, "--hours", 0, "--force", "-n", "--versions", "--json"))
    assert "--versions says which" in run("vacuum", orders, "--hours", 0, "--force", "-n").stdout
    did = told(run("vacuum", orders, "--hours", 0, "--force", "--json"))
    assert would["files"] == did["files"] != []
    assert (would["lost"], would["readable"], did["readable"]) == (None, None, None), "this would read every commit"
    assert exact["lost"] == did["lost"] != []
    assert set(spread(did["lost"])) <= set(spread(would["at_risk"]))
    assert not set(spread(did["lost"])) & set(spread(exact["readable"]))
    gone = run("show", orders, "--version", 1, code=1).stderr
    assert "cannot be read any more" in gone
    assert "`holdfast vacuum --dry-run --versions` lists those that can" in gone


def test_a_check_finds_and_repairs(run: Run, orders: Path) -> None:
    assert "sound" in run("check", orders).stdout
    orders.joinpath(told(run("files", orders, "--limit", 1, "--json"))["file"]).unlink()
    checked = run("check", orders, "--json", code=1)
    assert told(checked)["clean"] is False
    assert "a data file is missing" in run("check", orders, "--quick", code=1).stdout
    assert "say --repair too" in run("check", orders, "--drop-missing", code=2).stderr
    run("check", orders, "--repair", "--drop-missing")
    run("check", orders)


def test_properties_are_listed_set_and_unset(run: Run, orders: Path) -> None:
    run("properties", orders, "delta.appendOnly=true")
    listed = {r["name"]: r for r in map(json.loads, run("properties", orders, "--json").stdout.splitlines())}
    assert (listed["delta.appendOnly"]["value"], listed["delta.appendOnly"]["default"]) == ("true", False)
    assert "only takes appends" in run("delete", orders, "--all", code=1).stderr
    assert "only takes appends" in run("restore", orders, "-v", 1, "-n", code=1).stderr
    two = ["delta.appendOnly=false", "--unset", "delta.logRetentionDuration"]
    assert (
        "has no property delta.logRetentionDuration to unset: leave it out\n"
        in run("properties", orders, *two, code=1).stderr
    )
    assert DeltaTable.forPath(None, orders).version == 5
    run("properties", orders, "--unset", "delta.appendOnly")
    assert "128mb (default)" in run("properties", orders).stdout


def test_rows_get_ids(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "plain"
    rows = some_rows(0, 5)
    builder = DeltaTable.create(None).location(path).addColumns(rows.schema).property("holdfast.plain", "true")
    builder.execute().append(rows)
    assert "`holdfast enable-row-tracking`" in run("show", path, "--ids", code=1).stderr
    assert "`holdfast enable-row-tracking`" in run("biography", path, 1, code=1).stderr
    assert "would give ids to 1 file" in run("enable-row-tracking", path, "-n").stdout
    assert "1 file got them" in run("enable-row-tracking", path).stdout
    assert "every row has an id already" in run("enable-row-tracking", path).stdout
    assert json.loads(run("show", path, "--ids", "--json", "-w", "id = 4").stdout)["_row_id"] == 4


def test_indexes_from_making_to_dropping(run: Run, orders: Path) -> None:
    assert "has no index" in run("index", "list", orders).stdout
    assert "would index 19 rows" in run("index", "create", orders, "id", "-n").stdout
    assert told(run("index", "create", orders, "id", "--json"))["entries"] == 19
    run("append", orders, "-", "--format", "csv", stdin="id,name\n70,new\n")
    assert "would index 1 row of 1 file more" in run("index", "refresh", orders, "id", "-n").stdout
    run("index", "refresh", orders, "id")
    assert told(run("index", "stats", orders, "id", "--json"))["tail_rows"] == 0
    assert "20 in 2 segments" in run("index", "stats", orders, "id").stdout
    assert told(run("index", "verify", orders, "id", "--json"))["right"] is True
    run("index", "rebuild", orders, "id")
    assert "btree" in run("index", "list", orders).stdout
    assert json.loads(run("lookup", orders, "id=70", "--json").stdout)["name"] == "new"
    assert "index" in run("files", orders, "--explain", "-w", "id = 70").stdout
    assert "has no index 'ids'" in run("index", "drop", orders, "ids", code=1).stderr
    run("index", "drop", orders, "id")
    assert "has no index" in run("index", "list", orders).stdout


def test_bytes_of_a_failed_read_are_not_written(run: Run, orders: Path, tmp_path: Path) -> None:
    rows = pa.table({"id": ["x"]})
    pq.write_table(rows, tmp_path / "bad.parquet")
    before = tree(orders)
    run("append", orders, tmp_path / "bad.parquet", "-n", code=1)
    run("append", orders, tmp_path / "bad.parquet", code=1)
    assert tree(orders) == before


def test_values_of_a_csv_file_are_not_changed_by_guessing(run: Run, tmp_path: Path) -> None:
    created, file = tmp_path / "made", tmp_path / "codes.csv"
    file.write_text(
        'zip,n,x,long,word,all\n0042,1,0.5,12345678901234567890,NA,\n10115,2,-0.25,1,,\n,3,1e3,2,"",\n00,4,7,3,null,\n'
    )
    shown = run("append", "--create", created, file).stdout
    for name, type_ in (("zip", "string"), ("n", "long"), ("x", "double"), ("long", "string"), ("word", "string")):
        assert re.search(rf"\b{name}\b.*\b{type_}\b", shown), shown
    rows = DeltaTable.forPath(None, created).toArrow().to_pylist()
    assert [row["zip"] for row in rows] == ["0042", "10115", None, "00"]
    assert [row["n"] for row in rows] == [1, 2, 3, 4]
    assert [row["x"] for row in rows] == [0.5, -0.25, 1000.0, 7.0]
    assert [row["long"] for row in rows] == ["12345678901234567890", "1", "2", "3"]
    assert [row["word"] for row in rows] == ["NA", None, "", "null"]
    assert "made a table" not in run("append", "--create", tmp_path / "other", file, "--json").stdout
