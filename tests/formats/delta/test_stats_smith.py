"""Statistics and deletion vectors of generated tables, for every kind of checkpoint."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as Number
from pathlib import Path
from typing import Any

import pytest

from holdfast.formats.delta import state
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.schema.types import leaves
from holdfast.storage.local import LocalStore
from holdfast.storage.location import Location
from tests.support.smith_checkpoint import KINDS
from tests.support.tablesmith import Tablesmith

STRUCT = {"type": "struct", "fields": [{"name": "a.b", "type": "integer", "nullable": True, "metadata": {}}]}
SCHEMA: list[tuple[str, Any]] = [
    ("id", "long"),
    ("d", "double"),
    ("dec", "decimal(20,3)"),
    ("day", "date"),
    ("ts", "timestamp"),
    ("ntz", "timestamp_ntz"),
    ("s", STRUCT),
    ("text", "string"),
]


def row(i: int) -> dict[str, Any]:
    moment = datetime(1969, 12, 31, 23, 59, 58, 999_999) + timedelta(seconds=i)
    return {
        "id": 2**62 + i,
        "d": -0.1 * i,
        "dec": Number(f"-{i}.125"),
        "day": date(1969, 12, 31) + timedelta(days=i),
        "ts": moment.replace(tzinfo=UTC),
        "ntz": moment,
        "s": {"a.b": i} if i % 2 else None,
        "text": "x" * (30 + i),
    }


@pytest.mark.parametrize("mapping", [None, "name"])
@pytest.mark.parametrize("stats", ["json", "struct", "both"])
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_hold_and_are_close(tmp_path: Path, kind: str, stats: str, mapping: str | None) -> None:
    smith = Tablesmith(tmp_path, schema=SCHEMA, column_mapping=mapping, features=["v2Checkpoint"])
    smith.append([row(i) for i in range(8)], files=2)
    smith.hide(1, [0], storage="i")
    smith.checkpoint(kind, stats=stats)
    smith.forget(2)
    snapshot = state.load(Location(LocalStore(), str(tmp_path).lstrip("/"))).snapshot
    names = {path[0].name: tuple(p.physical_name for p in path) for path, _ in leaves(snapshot.schema)}
    stats = snapshot.files.stats({tuple(p.physical_name for p in path): t for path, t in leaves(snapshot.schema)})
    keys = snapshot.files.column("key").to_pylist()
    assert stats.num_records.to_pylist() == [4, 4]
    assert dict(zip(keys, stats.tight.to_pylist(), strict=True)) == dict(
        zip(dict.fromkeys(r["_file"] for r in smith.rows()), [True, False], strict=True)
    )
    hidden = load_hidden(snapshot.location, snapshot.files).positions
    assert {key: list(positions) for key, positions in hidden.items()} == {smith.rows()[-1]["_file"]: [0]}
    for live in smith.rows():
        at = keys.index(live["_file"])
        for name, leaf in names.items():
            value = live[name]["a.b"] if name == "s" and live[name] else live[name]
            low, high = stats.bounds[leaf].low[at].as_py(), stats.bounds[leaf].high[at].as_py()
            assert value is None or low <= value, (name, low, value)
            assert value is None or high is None or value <= high, (name, high, value)
            assert high is not None or name == "text"
    ids = stats.bounds[names["id"]]
    assert sorted(ids.low.to_pylist()) == [2**62, 2**62 + 4]
    lowest = sorted(stats.bounds[names["d"]].low.to_pylist())
    assert all(math.isclose(bound, value, rel_tol=1e-6) for bound, value in zip(lowest, (-0.7, -0.3), strict=True))


def test_a_compacted_log_reads_like_its_commits(tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path, schema=SCHEMA)
    smith.append([row(i) for i in range(4)], files=2)
    smith.hide(0, [0])
    smith.remove(1)
    smith.compact_log(0, 3)
    snapshot = state.load(Location(LocalStore(), str(tmp_path).lstrip("/"))).snapshot
    assert snapshot.files.column("key").to_pylist() == [smith.rows()[0]["_file"]]
    assert snapshot.notes == ()
