"""Writing checksum files: they agree with the replayed state, and with those of other engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from holdfast.errors import UnknownVersion
from holdfast.formats.delta.checkpoint.checksum import read_checksum
from holdfast.formats.delta.checkpoint.crc_write import crc_body, write_crc
from holdfast.formats.delta.checkpoint.file_counts import SIZE_BINS
from holdfast.formats.delta.log.file_names import checksum_name
from holdfast.formats.delta.state import load
from holdfast.storage.base import ObjectStore
from holdfast.storage.open import open_location
from tests.formats.delta.histories import STEPS, TABLES, Step, at, copies, facts, loaded, row, smith_of, store
from tests.support.depth import examples
from tests.support.faulty import every_fault
from tests.support.golden import GOLDEN
from tests.support.smith_log import checksum

FOUND = sorted(GOLDEN.glob("delta/*/table/_delta_log/[0-9]*.crc")) if GOLDEN else []
CHECKSUMS = sorted({path.parent: path for path in FOUND}.values())  # the newest of each table
_OURS = ("tableSizeBytes", "numFiles", "numMetadata", "numProtocol", "metadata", "protocol", "inCommitTimestampOpt")
_COUNTED = ("numDeletedRecordsOpt", "numDeletionVectorsOpt", "deletedRecordCountsHistogramOpt")


@examples(20)
@given(STEPS, TABLES)
def test_a_checksum_says_what_the_commits_say(steps: list[Step], table: dict[str, Any]) -> None:
    location = at(store())
    smith = smith_of(location, steps, **table)
    name = write_crc(loaded(location), txn_id="t")
    assert name == checksum_name(smith.version)
    body = json.loads(location.store.get(location.key("_delta_log", name)))
    expected = json.loads(json.dumps(checksum(smith.replay(), smith.log[-1][0]["commitInfo"].get("inCommitTimestamp"))))
    by_name = {key: _sorted(value) for key, value in body.items() if key in expected}
    assert by_name == {key: _sorted(value) for key, value in expected.items()}
    live = smith.live()
    assert body["txnId"] == "t"
    assert sum(body["fileSizeHistogram"]["fileCounts"]) == len(live)
    assert sum(body["fileSizeHistogram"]["totalBytes"]) == body["tableSizeBytes"]
    assert sum(body["deletedRecordCountsHistogramOpt"]["deletedRecordCounts"]) == len(live)
    expected_files = [{**add, "dataChange": False} for add in live]
    if len(live) <= 50:
        assert _sorted(body["allFiles"]) == _sorted(expected_files)
    assert facts(loaded(location))["version"] == smith.version


def _sorted(value: Any) -> Any:
    return sorted(value, key=json.dumps) if isinstance(value, list) and value and isinstance(value[0], dict) else value


def test_long_lists_are_left_out() -> None:
    location = at(store())
    smith = smith_of(location, [])
    smith.append([row(5 * n) for n in range(51)], files=51)
    smith.commit([{"txn": {"appId": f"a{n}", "version": 1}} for n in range(101)])
    smith.commit(
        [{"domainMetadata": {"domain": f"d{n}", "configuration": "", "removed": False}} for n in range(10)]
    )  # and that of row tracking
    body = crc_body(loaded(location))
    assert body["numFiles"] == 51
    assert not {"allFiles", "setTransactions", "domainMetadata", "txnId"} & body.keys()


def test_a_checksum_is_written_once_and_only_of_a_commit() -> None:
    location = at(store())
    smith = smith_of(location, [Step("append", 1)])
    smith.put(f"_delta_log/{checksum_name(smith.version)}", b"{}")
    state = load(location)
    assert write_crc(state) is None
    assert location.store.get(location.key("_delta_log", checksum_name(smith.version))) == b"{}"
    smith.checkpoint()
    smith.forget(smith.version + 1)
    with pytest.raises(UnknownVersion, match="has no"):
        write_crc(load(location))


def test_the_bins_are_those_of_other_engines() -> None:
    assert len(SIZE_BINS) == 95
    assert list(SIZE_BINS) == sorted(set(SIZE_BINS))


@pytest.mark.golden
@pytest.mark.parametrize("path", CHECKSUMS, ids=lambda p: f"{p.parents[2].name}-{p.stem.lstrip('0') or 0}")
def test_checksums_of_other_engines_say_the_same(path: Path) -> None:
    if isinstance(read_checksum(path.read_bytes()), str):
        pytest.skip("a checksum file that is broken on purpose")
    body = json.loads(path.read_text())
    status = json.loads((path.parents[2] / "case.json").read_text())["status"]
    if status not in ("readable", "log-only"):
        pytest.skip("not a table that must be read")
    try:
        state = load(open_location(str(path.parents[1])), version=int(path.stem))
    except UnknownVersion:
        pytest.skip("its version is gone")
    if state.snapshot.notes:
        pytest.skip("made by hand, of no commit")
    ours = json.loads(json.dumps(crc_body(state)))
    for key in _OURS:
        if key in body:
            assert ours.get(key) == body[key], key
    histogram = body.get("fileSizeHistogram") or body.get("histogramOpt")
    if histogram is not None and len(histogram["sortedBinBoundaries"]) == 95:
        assert ours["fileSizeHistogram"] == histogram
    for key in _COUNTED:
        if key in body and key in ours:
            assert ours[key] == body[key], key
    if "allFiles" in body:
        assert [a["path"] for a in _sorted(ours["allFiles"])] == [a["path"] for a in _sorted(body["allFiles"])]


def test_no_fault_changes_what_the_table_holds() -> None:
    table = store()
    smith_of(at(table), [Step("append", 1), Step("hide", 2)])
    make = copies(table)
    expected = facts(loaded(at(make())))

    def check(store_after: ObjectStore) -> None:
        assert facts(loaded(at(store_after))) == expected
        write_crc(loaded(at(store_after)))
        assert facts(loaded(at(store_after))) == expected

    assert every_fault(lambda faulty: write_crc(load(at(faulty))), check, make=make) >= 6
