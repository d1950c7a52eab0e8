"""The versions whose changes are asked for: outside of the log, cleaned, vacuumed, by moment and by token."""

from __future__ import annotations

import datetime
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from holdfast import DeltaTable
from holdfast.engines.local.changefeed import changes as local_changes_of
from holdfast.errors import Invalid, MissingFile, UnknownVersion
from tests.support.tablesmith import Tablesmith
from tests.verbs.changing_rows import table, told, values


def test_files_that_a_vacuum_took_are_named(tmp_path: Path) -> None:
    t = table(path=str(tmp_path))
    t.append(values((5, "short")))
    t.overwrite(values((6, "c")))
    first = next(
        p for p in tmp_path.glob("**/*.parquet") if pc.any(pc.equal(pa.parquet.read_table(p)["id"], 5)).as_py()
    )
    first.unlink()
    with pytest.raises(MissingFile, match=r"from version 2 to 3 .* are gone, .*vacuum"):
        t.changes(2)
    assert [r[:3] for r in told(t, 0, kind="min-delta")] == [(6, "c", "insert")]


def test_versions_outside_of_the_log() -> None:
    t = table()
    with pytest.raises(UnknownVersion, match=r"changes of version 7 are not there yet: the newest .* is 1"):
        t.changes(7)
    with pytest.raises(Invalid, match="end is before the start"):
        t.changes(1, 0)
    with pytest.raises(Invalid, match="begin with 0"):
        t.changes(-1)
    with pytest.raises(Invalid, match="say where changes begin"):
        t.changes()
    with pytest.raises(Invalid, match=r"no kind of changes 'all'.*min-delta"):
        t.changes(0, kind="all")
    with pytest.raises(Invalid, match="includeDeleted is for append-only and upsert"):
        t.changes(0, kind="min-delta", includeDeleted=True)
    with pytest.raises(Invalid, match="dropUnchanged is for min-delta"):
        t.changes(0, dropUnchanged=True)
    assert t.changes(0, 99).endVersion == 1


def test_a_cleaned_log_is_refused_by_version(tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path, schema=[("id", "long")])
    for i in range(4):
        smith.append([{"id": i}])
    smith.hide(2, [0])
    smith.checkpoint(version=3)
    smith.forget(3)
    t = DeltaTable.forPath(None, tmp_path)
    assert [r[:3] for r in told(t, 3)] == [(2, "insert", 3), (3, "insert", 4), (2, "delete", 5)]
    with pytest.raises(UnknownVersion, match="net change from version 3 on needs version 2"):
        t.changes(3, kind="min-delta")
    with pytest.raises(UnknownVersion, match=r"commit of version 1 is gone.*from version 3 on"):
        t.changes(1)


@pytest.mark.parametrize("own_times", [True, False])
def test_moments_mean_the_versions_within_them(tmp_path: Path, own_times: bool) -> None:
    smith = Tablesmith(tmp_path, schema=[("id", "long")], in_commit_timestamps=own_times)
    for i in range(3):
        smith.append([{"id": i}])
    made = [commit[0]["commitInfo"]["timestamp"] for commit in smith.log]
    t = DeltaTable.forPath(None, tmp_path)

    def at(version: int, more_ms: int = 0) -> datetime.datetime:
        return datetime.datetime.fromtimestamp((made[version] + more_ms) / 1000, datetime.UTC)

    changes = t.changes(at(1), at(2))
    assert (changes.startVersion, changes.endVersion) == (1, 2)
    assert changes.toArrow().column("_commit_timestamp").to_pylist() == [at(1), at(2)]
    later = t.changes(at(1, 1), at(3, -1))
    assert (later.startVersion, later.endVersion) == (2, 2)
    assert t.changes(at(0, -1), at(3, 999_999)).startVersion == 0
    assert t.changes(at(3).isoformat()).endVersion == 3
    with pytest.raises(UnknownVersion, match=r"nothing was committed .* at or after the start"):
        t.changes(at(3, 1))
    with pytest.raises(UnknownVersion, match=r"nothing was committed .* at or before the end"):
        t.changes(0, at(0, -1))


def test_a_token_goes_on_where_its_changes_ended() -> None:
    t = table(1)
    seen = t.changes(0)
    nothing = t.changes(resume=seen.resumeToken)
    assert nothing.toArrow().num_rows == 0
    assert nothing.resumeToken == seen.resumeToken
    t.append(values((5, "b")))
    t.delete("id = 0")
    more = t.changes(resume=nothing.resumeToken, end=2)
    assert [r["id"] for r in more.toArrow().to_pylist()] == [5]
    rest = t.changes(resume=more.resumeToken, kind="min-delta")
    assert [(r["id"], r["_change_type"]) for r in rest.toArrow().to_pylist()] == [(0, "delete")]
    with pytest.raises(Invalid, match="another table"):
        table(1).changes(resume=seen.resumeToken)
    with pytest.raises(Invalid, match="no resume token"):
        t.changes(resume="hf1.nonsense")


def test_a_plan_can_be_carried_elsewhere(tmp_path: Path) -> None:
    t = table(path=str(tmp_path))
    t.update("id = 1", {"v": "'b'"})
    t.delete("id = 2")
    changes = t.changes(0)
    carried = pickle.loads(pickle.dumps(changes.plan))
    assert local_changes_of(carried).equals(changes.toArrow())


def test_what_a_vacuum_took_is_named_with_the_versions_that_needed_it() -> None:
    columns = pa.schema([("k", pa.int64())])
    table = DeltaTable.create(None).location("memory://changes/vacuumed").addColumns(columns).execute()
    table.append(pa.table({"k": [1, 2, 3]}))
    table.delete("k = 1")
    table.purge()
    table.vacuum(0, enforceRetention=False)
    for kind in ("full-delta", "min-delta"):
        with pytest.raises(MissingFile, match=r"changes from version 1 to 2 .* vacuum"):
            table.changes(1, 2, kind=kind)
    assert table.changes(3, kind="full-delta").toArrow().num_rows == 0
