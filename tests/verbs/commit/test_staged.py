"""Files that are written and vacuumed before their commit: no commit ever refers to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from holdfast import DeltaTable, IcebergTable
from holdfast.env import Env, fixed
from holdfast.errors import ConcurrentWrite, StagedFilesGone
from holdfast.formats.delta.format import DeltaFormat
from holdfast.model.mutation import Mutation
from holdfast.storage.location import Location
from holdfast.verbs.commit.loop import commit
from holdfast.verbs.open import open_table
from tests.support.faulty import CountingStore

_fresh = count()
Meanwhile = Callable[[Callable[[], Any]], None]
HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": list(ids)})


def made(**properties: str) -> DeltaTable:
    builder = DeltaTable.create(None).location(f"memory://staged/{next(_fresh)}").addColumns(rows(0).schema)
    for name, value in properties.items():
        builder = builder.property(f"delta.{name}", value)
    table = builder.execute()
    table.append(rows(*range(20)))
    return table


def vacuum(table: DeltaTable) -> None:
    DeltaTable.forPath(None, table.handle.newest().snapshot.location.url).vacuum(
        retentionHours=0, enforceRetention=False
    )


VERBS: dict[str, Callable[[DeltaTable], Any]] = {
    "append": lambda t: t.append(rows(100)),
    "overwrite": lambda t: t.overwrite(rows(100)),
    "update": lambda t: t.update("id = 3", {"v": "7"}),
    "update, copied": lambda t: t.update("id = 3", {"v": "7"}, mode="copy-on-write"),
    "delete, copied": lambda t: t.delete("id = 3", mode="copy-on-write"),
    "merge": lambda t: (
        t.alias("t").merge(rows(3, 50), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    ),
}


@pytest.mark.parametrize("feed", ["true", "false"])
@pytest.mark.parametrize("verb", sorted(VERBS))
def test_what_a_vacuum_took_meanwhile_is_not_committed(meanwhile: Meanwhile, verb: str, feed: str) -> None:
    table = made(enableChangeDataFeed=feed)
    before = table.toArrow(metadata=["_row_id"])
    meanwhile(lambda: vacuum(table))
    with pytest.raises(StagedFilesGone, match="run it again") as caught:
        VERBS[verb](table)
    assert caught.value.can_retry
    assert table.historyArrow()["operation"][0].as_py() == "VACUUM END"
    assert table.toArrow(metadata=["_row_id"]) == before
    assert table.check().clean
    VERBS[verb](table)
    assert table.check().clean


def test_a_verb_that_may_be_tried_again_is(meanwhile: Meanwhile) -> None:
    table = made()
    meanwhile(lambda: vacuum(table))
    table.update("id = 3", {"v": "7"}, retry=3)
    assert table.toArrow(where="id = 3")["v"].to_pylist() == [7]
    assert table.check().clean


def test_a_restore_brings_no_file_back_that_a_vacuum_took_meanwhile(meanwhile: Meanwhile) -> None:
    table = made()
    table.overwrite(rows(1))
    meanwhile(lambda: vacuum(table))
    with pytest.raises(ConcurrentWrite, match="deletes files of old versions"):
        table.restoreToVersion(1)
    assert table.toArrow()["id"].to_pylist() == [1]
    assert table.check().clean


def test_a_compaction_that_lost_its_files_is_left_to_the_next(meanwhile: Meanwhile) -> None:
    table = made()
    for n in range(21, 31):
        table.append(rows(n))
    meanwhile(lambda: vacuum(table))
    compacted = table.optimize().executeCompaction()
    assert (compacted.versions, len(compacted.lost)) == ((), 1)
    assert table.check().clean


def staged(table: DeltaTable) -> tuple[Mutation, Location]:
    """A transaction that has written its file and was not committed."""
    kept: list[Mutation] = []
    original = open_table.commit

    def keep(format_: Any, state: Any, mutation: Mutation, env: Env, **named: Any) -> Any:
        kept.append(mutation)
        return original(format_, state, replace(mutation, added=mutation.added.slice(0, 0)), env, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_table, "commit", keep)
        table.append(rows(100))
    return kept[0], table.handle.newest().snapshot.location


@pytest.mark.parametrize(
    ("retention", "after_ms", "late"),
    [
        (None, WEEK_MS - HOUR_MS, False),
        (None, WEEK_MS + HOUR_MS, True),
        ("interval 2 hours", HOUR_MS, False),
        ("interval 2 hours", 3 * HOUR_MS, True),
    ],
)
def test_a_commit_that_comes_late_looks_at_its_files(retention: str | None, after_ms: int, late: bool) -> None:
    table = made(**({} if retention is None else {"deletedFileRetentionDuration": retention}))
    mutation, location = staged(table)
    written_ms = pc.max(mutation.added.column("modified_ms")).as_py()
    counting = CountingStore(location.store)
    far = replace(location, store=counting)
    format_ = DeltaFormat(far)
    state = format_.newest(None)
    assert state is not None
    counting.keys.clear()
    key = mutation.added.column("key")[0].as_py()
    env = fixed(start_ms=written_ms + after_ms)
    if late:
        data = location.store.get(location.key(key))
        location.store.delete(location.key(key))
        with pytest.raises(StagedFilesGone, match=key):
            commit(format_, state, mutation, env)
        location.store.put(location.key(key), data)
        counting.keys.clear()
    landed = commit(format_, format_.newest(state), mutation, env)
    assert landed.version == state.version + 1
    looks = [name for verb, name in counting.keys if verb == "head" and name.endswith(key)]
    assert len(looks) == int(late), "no look where nothing can have been taken"
    assert table.check().clean


def test_an_iceberg_commit_that_comes_late_looks_at_its_files(
    meanwhile: Meanwhile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", rows(0).schema)
    table.append(rows(1, 2))
    before = table.version
    known = set(tmp_path.rglob("*.parquet"))
    original = open_table.commit

    def late(format_: Any, state: Any, mutation: Mutation, env: Env, **named: Any) -> Any:
        return original(format_, state, mutation, replace(env, now_ms=lambda: env.now_ms() + 25 * HOUR_MS), **named)

    monkeypatch.setattr(open_table, "commit", late)
    meanwhile(lambda: [path.unlink() for path in set(tmp_path.rglob("*.parquet")) - known])
    with pytest.raises(StagedFilesGone, match="run it again"):
        table.update("id = 1", {"v": "9"})
    assert (table.version, table.check().clean) == (before, True)
    table.update("id = 1", {"v": "9"})
    assert sorted(table.toArrow()["v"].to_pylist()) == [2, 9]
