"""Checkpoints and other engines: another engine reads ours, and ours have the contents of theirs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

from holdfast.env import Env, fixed, system
from holdfast.formats.delta.checkpoint.rows import checkpoint_schema
from holdfast.formats.delta.checkpoint.writer import Policy, write_checkpoint
from holdfast.formats.delta.log.cleanup import clean_log
from holdfast.formats.delta.log.compaction import write_log_compaction
from holdfast.formats.delta.log.file_names import LOG, parse_log_name
from holdfast.formats.delta.log.tombstones import tombstones
from holdfast.formats.delta.protocol.features import reader_features
from holdfast.formats.delta.state import DeltaState, load
from holdfast.storage.local import LocalStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from tests.formats.delta.histories import STATS, Step, env, facts, smith_of
from tests.support.golden import GOLDEN
from tests.support.tablesmith import Tablesmith

CASES = sorted(GOLDEN.glob("delta/*/case.json")) if GOLDEN else []
CHECKPOINTS = sorted(GOLDEN.glob("delta/*/table/_delta_log/*.checkpoint*.parquet")) if GOLDEN else []
EVERYTHING = {
    "delta.checkpoint.writeStatsAsJson": "true",
    "delta.checkpoint.writeStatsAsStruct": "false",
    "delta.dataSkippingNumIndexedCols": "-1",
}
HISTORY = [Step(verb, n) for n, verb in enumerate(["append", "hide", "update", "append", "remove", "inline", "txn"])]


def here(path: Path) -> Location:
    return Location(LocalStore(), str(path).lstrip("/"))


def peer_rows(path: Path) -> list[str]:
    rows = pa.table(QueryBuilder().register("t", DeltaTable(str(path))).execute('select id, "text" from t'))
    return sorted(map(repr, rows.to_pylist()))


def our_rows(smith: Tablesmith) -> list[str]:
    return sorted(repr({"id": r["id"], "text": r["text"]}) for r in smith.rows())


@pytest.mark.parametrize("partition_by", [(), ("part",)])
@pytest.mark.parametrize("stats", sorted(STATS))
@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_delta_rs_reads_the_same_files(
    tmp_path: Path, policy: Policy, stats: str, partition_by: tuple[str, ...]
) -> None:
    location = here(tmp_path)
    smith = smith_of(location, HISTORY, properties=STATS[stats], partition_by=partition_by)
    before = sorted(DeltaTable(str(tmp_path)).file_uris())
    write_checkpoint(load(location), env(), policy=policy)
    smith.forget(smith.version)
    table = DeltaTable(str(tmp_path))
    assert table.version() == smith.version
    assert sorted(table.file_uris()) == before
    assert len(before) == len(smith.live())
    assert peer_rows(tmp_path) == our_rows(smith)
    smith.append([{"id": 1, "text": "after", "part": "a"}])
    assert peer_rows(tmp_path) == our_rows(smith)


def test_delta_rs_reads_beside_compactions_and_after_a_clean_up(tmp_path: Path) -> None:
    location = here(tmp_path)
    smith = smith_of(location, HISTORY)
    write_log_compaction(location, 1, 4)
    assert peer_rows(tmp_path) == our_rows(smith)
    write_checkpoint(load(location, version=5), env())
    later = Env(now_ms=lambda: system().now_ms() + 40 * 86_400_000, new_uuid=env().new_uuid)
    assert len(clean_log(load(location), later).names) == 6  # five commits and the compaction
    assert peer_rows(tmp_path) == our_rows(smith)


def logs_only(path: Path) -> Location:
    """A copy of a table's log in memory."""
    store = MemoryStore(env=fixed())
    for file in sorted((path / LOG).rglob("*")):
        inside = file.relative_to(path / LOG)
        if file.is_file() and (len(inside.parts) > 1 or parse_log_name(inside.name)):
            store.put(f"t/{LOG}/{inside}", file.read_bytes())
    return Location(store, "t", allow_outside=True)


def said(state: DeltaState) -> dict[str, Any]:
    expected = facts(state)
    return {k: v for k, v in expected.items() if k not in ("timestamp", "removed")}


@pytest.mark.golden
@pytest.mark.parametrize("path", CASES, ids=lambda p: p.parent.name)
def test_golden_tables_say_the_same_through_our_checkpoints(path: Path) -> None:
    case = json.loads(path.read_text())
    if case["status"] not in ("readable", "log-only"):
        pytest.skip("not a table that must be read")
    location = logs_only(path.parent / "table")
    state = load(location)
    if state.commit is None:
        pytest.skip("the commit of its version is gone")
    for stats in ("json", "struct"):
        configuration = {**(state.metadata.configuration or {}), **EVERYTHING, **STATS[stats]}
        for limiting in ("delta.dataSkippingStatsColumns", "delta.setTransactionRetentionDuration"):
            configuration.pop(limiting, None)
        configured = replace(state, metadata=msgspec.structs.replace(state.metadata, configuration=configuration))
        copy = Location(MemoryStore(env=fixed()), "t", allow_outside=True)
        copy.store.put(state.commit.key, location.store.get(state.commit.key))
        moved = replace(configured, snapshot=replace(configured.snapshot, location=copy))
        with pytest.MonkeyPatch.context() as patch:
            removed = tombstones(state)
            patch.setattr(
                "holdfast.formats.delta.checkpoint.writer.tombstones", lambda *_, removed=removed, **__: removed
            )
            written = write_checkpoint(moved, env(), policy=_policy(state, stats))
        assert written.created
        assert said(load(copy)) == said(configured)


def _policy(state: DeltaState, stats: str) -> Policy:
    return "v2" if stats == "struct" and "v2Checkpoint" in reader_features(state.protocol) else "classic"


@pytest.mark.golden
def test_columns_have_the_names_and_types_other_engines_give_them(tmp_path: Path) -> None:
    smith = smith_of(here(tmp_path), HISTORY, properties=STATS["both"], partition_by=("part",))
    assert smith.version > 0
    ours = _fields(checkpoint_schema(load(here(tmp_path))).everything)
    fields_of_peers: set[tuple[str, str]] = set()
    for path in CHECKPOINTS:
        try:
            theirs = _fields(pq.read_schema(path))
        except (pa.ArrowException, OSError):
            continue
        for name in theirs.keys() & ours.keys():
            fields_of_peers.add(name)
            if not name[1].endswith("_parsed"):
                assert _plain(theirs[name]) <= _plain(ours[name]), (path, name)
    assert fields_of_peers == ours.keys()


def _fields(schema: pa.Schema) -> dict[tuple[str, str], pa.DataType]:
    structs = [column for column in schema if pa.types.is_struct(column.type)]
    return {(column.name, field.name): field.type for column in structs for field in column.type}


def _plain(type_: pa.DataType) -> frozenset[str]:
    """A type as a set of what it is made of, without names of entries and without nullability."""
    if pa.types.is_struct(type_):
        return frozenset(f"{f.name}:{part}" for f in type_ for part in _plain(f.type))
    if pa.types.is_map(type_):
        return frozenset((f"map {type_.key_type} {type_.item_type}",))
    if pa.types.is_list(type_):
        return frozenset((f"list {type_.value_type}",))
    return frozenset((str(type_),))
