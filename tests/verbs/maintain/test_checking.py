"""Each kind of damage, done by hand, is found as that kind and no other; what can be repaired is; sound tables are."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from holdfast import DeltaTable, Invalid
from holdfast.errors import TableError
from holdfast.model.finding import LISTED, Finding, FindingKind, listed
from holdfast.rows.layers import overlaps
from holdfast.storage.base import ObjectStore
from holdfast.storage.memory import MemoryStore
from holdfast.verbs.maintain.check import CheckReport
from tests.support.damage import (
    append,
    bare,
    commit_key,
    copied,
    created,
    each_add,
    live,
    log_key,
    opened,
    rewrite,
    sample,
)
from tests.support.depth import examples
from tests.support.faulty import CountingStore, Crash, Fault, FaultyStore
from tests.verbs.damages import (
    DAMAGES,
    Damage,
    bad_file,
    duplicate,
    mark_below,
    missing_file,
    wrong_count,
    wrong_newest_checkpoint,
)


def kinds(report: CheckReport) -> set[FindingKind]:
    """What is wrong; notes do not count."""
    return {finding.kind for finding in report.findings if not finding.kind.is_harmless}


by_damage = pytest.mark.parametrize(("damage", "found", "mended"), DAMAGES, ids=[d.__name__ for d, *_ in DAMAGES])


def rows(store: ObjectStore) -> list[dict[str, Any]]:
    return opened(store).toArrow(metadata=["_row_id", "_row_commit_version"]).sort_by("id").to_pylist()


@by_damage
def test_damage_is_found_as_what_it_is(damage: Damage, found: set[FindingKind], mended: bool) -> None:
    store = sample()
    damage(store)
    report = opened(store).check()
    assert kinds(report) == found, str(report)
    assert not report.clean
    for finding in report.findings:
        assert finding.file or finding.kind is FindingKind.MARK_BELOW_DATA
        assert str(finding) in str(report)
    wrong = [finding for finding in report.findings if not finding.kind.is_harmless]
    assert all(finding.repairable for finding in wrong) == (mended or found == {FindingKind.MISSING_FILE})


@by_damage
def test_a_repair_mends_what_it_can_and_no_more(damage: Damage, found: set[FindingKind], mended: bool) -> None:
    store = sample()
    damage(store)
    data = {meta.key: store.get(meta.key) for meta in store.list_all("t") if "_delta_log" not in meta.key}
    readable = (
        sample() if found == {FindingKind.WRONG_COUNT} else store
    )  # a file with other rows than stated is not read
    seen = rows(readable) if mended and found != {FindingKind.NO_ROW_IDS} else None
    report = opened(store).check(repair=True)
    assert kinds(report) == (set() if mended else found), str(report)
    assert bool(report.repaired) >= mended
    assert data == {meta.key: store.get(meta.key) for meta in store.list_all("t") if "_delta_log" not in meta.key}
    assert opened(store).check().findings == report.findings
    if seen is not None:
        assert rows(store) == seen
    if mended:
        assert opened(store).check().clean
        assert opened(store).check(repair=True).repaired == ()


def test_a_table_that_was_read_from_a_wrong_checkpoint_has_its_rows_again() -> None:
    store = sample()
    expected = rows(store)
    wrong_newest_checkpoint(store)
    assert len(rows(store)) == len(expected) - 5, "it is opened, and rows are missing"
    assert kinds(opened(store).check()) == {FindingKind.WRONG_CHECKPOINT}
    report = opened(store).check(repair=True)
    assert report.clean
    assert rows(store) == expected
    assert json.loads(store.get(log_key(f"{6:020d}.crc")))["numFiles"] == 4


def test_spaces_in_a_schema_say_nothing() -> None:
    store = sample()
    key = commit_key(0)
    lines = [json.loads(line) for line in store.get(key).splitlines()]
    (told,) = [line["metaData"] for line in lines if "metaData" in line]
    told["schemaString"] = json.dumps(json.loads(told["schemaString"]), indent=1)
    store.put(key, "\n".join(map(json.dumps, lines)).encode())
    assert opened(store).check().clean
    fields = json.loads(told["schemaString"])
    told["schemaString"] = json.dumps({**fields, "fields": fields["fields"][::-1]})
    store.put(key, "\n".join(map(json.dumps, lines)).encode())
    assert FindingKind.WRONG_CHECKPOINT in kinds(opened(store).check())


def test_a_sound_table_is_found_sound() -> None:
    report = opened(sample()).check()
    assert report.clean
    assert report.findings == ()
    assert str(report) == "memory:///t, version 6, 4 files: sound (log and data)"


def test_nothing_is_written_without_repair() -> None:
    store = sample()
    wrong_count(store)
    before = {meta.key: store.get(meta.key) for meta in store.list_all("t")}
    opened(store).check()
    assert before == {meta.key: store.get(meta.key) for meta in store.list_all("t")}


def test_a_missing_file_goes_only_when_told_to() -> None:
    store = sample()
    first = opened(store).toArrow(metadata=["_file"])["_file"][0].as_py()
    left = [row["id"] for row in opened(store).toArrow(metadata=["_file"]).to_pylist() if row["_file"] != first]
    missing_file(store)
    with pytest.raises(Invalid, match="repair=True"):
        opened(store).check(dropMissing=True)
    assert kinds(opened(store).check(repair=True)) == {FindingKind.MISSING_FILE}
    report = opened(store).check(repair=True, dropMissing=True)
    assert report.clean
    assert report.repaired[0] == "took 1 missing files out of the table (version 7)"
    assert opened(store).historyArrow(1).column("operation").to_pylist() == ["FSCK"]
    assert [row["id"] for row in rows(store)] == sorted(left)


def test_ids_after_a_raised_mark_are_fresh() -> None:
    store = sample()
    mark_below(store)
    opened(store).check(repair=True)
    table = opened(store)
    append(table, range(40, 42))
    assert [row["_row_id"] for row in rows(store)][-2:] == [26, 27]
    assert table.check().clean


def test_the_other_file_of_a_duplicate_is_named() -> None:
    store = sample()
    duplicate(store)
    finding = next(f for f in opened(store).check().findings if f.kind is FindingKind.DUPLICATE_IDS)
    first = live(store).column("key").to_pylist()
    assert finding.file in first
    assert sum(key in finding.what for key in first) == 2
    assert finding.count == 3  # ids 0, 1 and 2; 3 and 4 are hidden in the older file


def test_a_shallow_check_reads_no_data_file() -> None:
    store = sample()
    wrong_count(store)
    bad_file(store)
    assert kinds(opened(store).check(deep=False)) == set()
    missing_file(store)
    assert kinds(opened(store).check(deep=False)) == {FindingKind.MISSING_FILE}


def test_files_nobody_refers_to_are_a_note() -> None:
    store = sample()
    for name in ("t/part-x.parquet", "t/v=a/part-y.parquet", "t/_delta_index/z", "t/.crc"):
        store.put(name, b"12")
    report = opened(store).check()
    assert report.clean
    (note,) = report.findings
    assert (note.kind, note.count, note.file) == (FindingKind.ORPHANS, 2, "part-x.parquet")
    assert "  note: files nobody refers to" in str(report)


def test_a_missing_checksum_is_a_note_and_is_written() -> None:
    store = sample()
    store.delete(log_key(f"{6:020d}.crc"))
    report = opened(store).check()
    assert report.clean
    assert [finding.kind for finding in report.findings] == [FindingKind.NO_CHECKSUM]
    assert opened(store).check(repair=True).findings == ()


def test_a_log_whose_first_commits_are_gone_is_sound() -> None:
    store = sample()
    for version in (0, 1, 2):
        store.delete(commit_key(version))
    assert opened(store).check().clean


@pytest.mark.parametrize("dropped", [True, False])
def test_only_dropping_row_tracking_starts_ids_anew(dropped: bool) -> None:
    store = MemoryStore()
    table = created(store)
    append(table, range(5))
    table.delete()
    append(table, range(5))
    bare(store)
    domain = {"domainMetadata": {"domain": "delta.rowTracking", "configuration": "{}", "removed": True}}
    rewrite(store, 2, lambda lines: [*lines, *([domain] if dropped else [])])
    rewrite(store, 3, each_add(lambda add: add.update(baseRowId=0)))
    assert kinds(opened(store).check()) == (set() if dropped else {FindingKind.REUSED_IDS})


def test_many_findings_of_a_kind_are_counted() -> None:
    found = listed(Finding(FindingKind.MISSING_FILE, f"{n} is gone") for n in range(LISTED + 5))
    assert len(found) == LISTED
    assert found[-1].what.endswith("and 5 more such")
    assert sum(f.count for f in found) == LISTED + 5


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 15)), max_size=12))
def test_overlaps_are_those_of_the_definition(pairs: list[tuple[int, int]]) -> None:
    ranges = sorted((low, low + length) for low, length in pairs)
    got = overlaps(np.array([r[0] for r in ranges], np.int64), np.array([r[1] for r in ranges], np.int64)).tolist()
    for at, (low, _) in enumerate(ranges):
        earlier = [end for _, end in ranges[:at]]
        if any(end > low for end in earlier):
            assert ranges[got[at]][1] == max(earlier)
        else:
            assert got[at] == -1


_step = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 9)),
    st.tuples(st.just("delete"), st.integers(2, 5)),
    st.tuples(st.just("update"), st.integers(2, 5)),
    st.tuples(st.just("rewrite"), st.integers(2, 5)),
    st.tuples(st.just("compact"), st.integers(5, 40)),
    st.tuples(st.just("restore"), st.integers(0, 20)),
)


@examples(20)
@given(st.lists(_step, min_size=2, max_size=9), st.integers(1, 4))
def test_whatever_happens_to_a_table_it_stays_sound(steps: list[tuple[str, int]], interval: int) -> None:
    store = MemoryStore()
    table = created(store, {"delta.checkpointInterval": str(interval)})
    first = 0
    for verb, n in steps:
        match verb:
            case "append":
                append(table, range(first, first + n))
                first += n
            case "delete":
                table.delete(f"id % {n} = 0")
            case "update":
                table.update(f"id % {n} = 1", {"v": "'u'"})
            case "rewrite":
                table.update(f"id % {n} = 1", {"v": "'w'"}, mode="copy-on-write")
            case "compact":
                table.optimize(targetRows=n).executeCompaction()
            case _:
                table.restoreToVersion(n % (table.version + 1))
    report = table.check()
    assert report.clean, str(report)


def _damaged() -> MemoryStore:
    """A copy of the same damaged table each time."""
    return copied(_template())


@cache
def _template() -> MemoryStore:
    """Two appends, and nothing but the rows as it should be."""
    store = MemoryStore()
    table = created(store, {"delta.checkpointInterval": "2"})
    append(table, range(3))
    append(table, range(3, 6))
    rewrite(store, 2, lambda lines: [line for line in lines if "domainMetadata" not in line])
    for name in (f"{2:020d}.checkpoint.parquet", f"{2:020d}.crc", "_last_checkpoint"):
        store.put(log_key(name), b"{torn")
    return store


def test_a_fault_in_a_repair_leaves_a_table_to_be_repaired() -> None:
    before = kinds(opened(_damaged()).check())
    assert before == {
        FindingKind.MARK_BELOW_DATA,
        FindingKind.BAD_CHECKPOINT,
        FindingKind.BAD_HINT,
        FindingKind.BAD_CHECKSUM,
    }

    def mend(store: ObjectStore) -> None:
        opened(store).check(repair=True, deep=False)

    def check(store: ObjectStore) -> None:
        assert [(row["id"], row["_row_id"]) for row in rows(store)] == [(n, n) for n in range(6)]
        assert kinds(opened(store).check(deep=False)) <= before

    counting = CountingStore(_damaged())
    mend(counting)
    assert opened(counting).check().clean
    writes = [n for n, (verb, _) in enumerate(counting.keys, start=1) if verb in ("put", "put_if_absent", "delete")]
    assert len(writes) >= 5
    for fault in Fault:
        for at in sorted({at for n in writes for at in (n, n + 1)}):  # a repair mostly reads, which changes nothing
            store = FaultyStore(_damaged(), at=at, fault=fault)
            with suppress(TableError, Crash):
                mend(store)
            assert store.fired
            check(store.inner)


@pytest.mark.everywhere
def test_spark_looks_at_files_as_this_process_does(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = DeltaTable.create(None).location(path).addColumn("id", "long").addColumn("v", "string").execute()
    for n in range(3):
        append(table, range(n * 5, n * 5 + 5))
    table.delete("id = 3")
    table.update("id = 0", {"v": "'u'"})
    assert table.check().clean
    rewrite_local(tmp_path / "t", 3)
    ours, theirs = DeltaTable.forPath(None, path).check(), DeltaTable.forPath(spark, path).check()
    assert ours == theirs
    assert FindingKind.DUPLICATE_IDS in kinds(ours)


def rewrite_local(table: Path, version: int) -> None:
    """Give the file of a commit the ids of the first one."""
    log = table / "_delta_log"
    for other in log.glob("*.crc"):
        other.unlink()
    commit = log / f"{version:020d}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    commit.write_text("\n".join(map(json.dumps, each_add(lambda add: add.update(baseRowId=0))(lines))) + "\n")
