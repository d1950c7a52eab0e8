"""A process that opens a table afresh and holds it against what writers said.

It is `python -m tests.concurrency.auditor PATH`. What was said is read from stdin, a line of JSON each; what was found
is said in one.

1. A row is as often changed as somebody was told so, and has the id it had.
2. Whoever was refused had met the row that another changed in the meantime.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import deltalake

from holdfast import DeltaTable

ROOT = Path(__file__).parents[2]


def audited(path: Path, said: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What a process of its own finds; it fails where the table breaks a promise."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.concurrency.auditor", str(path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        input="".join(f"{json.dumps(line)}\n" for line in said),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert not done.returncode, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(path: str, said: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    table = DeltaTable.forPath(None, path)
    rows = table.toArrow(metadata=["_row_id", "_row_commit_version"]).to_pylist()
    tags = _tags(table)
    landed = [line for line in said if line.get("version") is not None]
    refused = [line for line in said if "refused" in line]
    assert len({line["version"] for line in landed}) == len(landed), "a version was promised twice"
    for line in landed:
        assert tags[line["version"]] == line["tag"], f"version {line['version']} is not {line['tag']}"
    assert {line["tag"] for line in refused}.isdisjoint(tags.values()), "what was refused is in the log"
    assert Counter(tags.values()).keys() == {line["tag"] for line in landed}, "the log has what nobody was told of"
    changes = Counter(line["key"] for line in landed)
    assert {row["k"]: row["v"] for row in rows} == {row["k"]: changes[row["k"]] for row in rows}
    # The table was filled in the order of its keys, so a row's id is its key.
    assert sorted((row["k"], row["_row_id"]) for row in rows) == [(k, k) for k in range(len(rows))]
    newest = {line["key"]: line["version"] for line in sorted(landed, key=lambda line: int(line["version"]))}
    assert all(row["_row_commit_version"] == newest.get(row["k"], row["_row_commit_version"]) for row in rows)
    return {
        "rows": len(rows),
        "others": _others_count(path),
        "commits": len(landed),
        "refused": len(refused),
        "false": [line for line in refused if not _is_true(line, tags)],
        "rebased": sum(line["attempts"] > 1 for line in landed),
        "version": table.version,
    }


def _is_true(line: Mapping[str, Any], tags: Mapping[int, str]) -> bool:
    meanwhile = range(line["read"] + 1, line["ended"] + 1)
    return any(tags.get(version, "").endswith(f" {line['key']}") for version in meanwhile)


def _tags(table: DeltaTable) -> dict[int, str]:
    told = table.historyArrow().select(["version", "userMetadata"]).to_pylist()
    return {row["version"]: row["userMetadata"] for row in told if row["userMetadata"] is not None}


def _others_count(path: str) -> int:
    found = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path)).execute("select count(*) as n from t")
    return int(found.read_all()["n"][0].as_py())


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], [json.loads(line) for line in sys.stdin])))
