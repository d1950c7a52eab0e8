"""Writing log compactions: a state read from them equals that of their commits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Invalid, UnknownVersion
from holdfast.formats.delta.log.compaction import write_log_compaction
from holdfast.formats.delta.log.file_names import commit_name
from holdfast.formats.delta.state import load
from holdfast.storage.base import ObjectStore
from tests.formats.delta.histories import STEPS, TABLES, Step, at, copies, facts, loaded, smith_of, store
from tests.support.depth import examples
from tests.support.faulty import every_fault

HISTORY = [Step(v, 3) for v in ("append", "domain", "hide", "txn", "update", "drop", "remove")]


@examples(25)
@given(STEPS, TABLES, st.data())
def test_a_compaction_says_what_its_commits_say(steps: list[Step], table: dict[str, Any], data: st.DataObject) -> None:
    location = at(store())
    smith = smith_of(location, steps, **table)
    first = data.draw(st.integers(0, smith.version - 1))
    last = data.draw(st.integers(first + 1, smith.version))
    versions = (last, smith.version)
    before = [facts(loaded(location, version)) for version in versions]
    name = write_log_compaction(location, first, last)
    for version, expected in zip(versions, before, strict=True):
        state = loaded(location, version)
        assert name in [meta.name for meta in state.segment.deltas]
        assert facts(state) == expected


def test_removals_of_what_was_there_before_stay() -> None:
    location = at(store())
    smith = smith_of(location, [Step("append", 0), Step("domain", 3), Step("drop", 3), Step("remove", 0)])
    name = write_log_compaction(location, 3, 4)
    lines = [json.loads(line) for line in location.store.get(location.key("_delta_log", name)).splitlines()]
    assert [next(iter(line)) for line in lines] == ["domainMetadata", "remove"]
    assert lines[0]["domainMetadata"]["removed"] is True
    assert lines[1]["remove"] == next(a["remove"] for a in smith.log[4] if "remove" in a)
    assert "user.d0" not in loaded(location).domains


def test_one_file_under_two_spellings_is_one_file() -> None:
    location = at(store())
    smith = smith_of(location, [])
    smith.commit(
        [{"add": {"path": "a%20b", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}}]
    )
    smith.commit([{"remove": {"path": "./a%20b", "deletionTimestamp": 1, "dataChange": True}}])
    name = write_log_compaction(location, 1, 2)
    lines = location.store.get(location.key("_delta_log", name)).splitlines()
    assert [next(iter(json.loads(line))) for line in lines] == ["remove"]
    assert len(loaded(location).snapshot.files) == 0


def test_a_gap_is_refused_by_name() -> None:
    location = at(store())
    smith = smith_of(location, HISTORY)
    with pytest.raises(UnknownVersion, match=commit_name(smith.version + 1)):
        write_log_compaction(location, 2, smith.version + 1)
    smith.delete(f"_delta_log/{commit_name(3)}")
    with pytest.raises(UnknownVersion, match=commit_name(3)):
        write_log_compaction(location, 2, 5)
    for first, last in ((2, 2), (3, 2), (-1, 2)):
        with pytest.raises(Invalid, match="from one version to a later one"):
            write_log_compaction(location, first, last)
    assert not [m for m in location.store.list_from("t/_delta_log") if "compacted" in m.name]


def test_no_fault_changes_what_the_table_holds() -> None:
    table = store()
    smith_of(at(table), HISTORY)
    make = copies(table)
    expected = facts(loaded(at(make())))

    def check(store_after: ObjectStore) -> None:
        assert facts(load(at(store_after))) == expected
        write_log_compaction(at(store_after), 1, 5)
        assert facts(loaded(at(store_after))) == expected

    assert every_fault(lambda faulty: write_log_compaction(at(faulty), 1, 5), check, make=make) >= 3 * 7
