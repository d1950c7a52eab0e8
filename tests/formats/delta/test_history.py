"""DESCRIBE HISTORY and DESCRIBE DETAIL."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from holdfast.errors import Invalid, NotATable
from holdfast.formats.delta.detail import DETAIL, detail
from holdfast.formats.delta.history.commits import HISTORY, history
from holdfast.formats.delta.state import load
from tests.formats.delta.handlog import SCHEMA, HandLog, add, domain, metadata, protocol


def test_commits_newest_first_with_the_columns_of_describe_history() -> None:
    log = HandLog()
    info = {
        "timestamp": 1,
        "userId": 42,
        "userName": "ada",
        "operation": "MERGE",
        "operationParameters": {"predicate": "[]", "matched": [{"a": 1}], "flag": True, "none": None},
        "job": {"jobId": "1", "jobName": "j", "novelty": 3},
        "notebook": {"notebookId": "n"},
        "clusterId": "c",
        "readVersion": 0,
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
        "operationMetrics": {"numFiles": 3, "numOutputRows": "9"},
        "userMetadata": "why",
        "engineInfo": "engine",
        "novelty": 1,
    }
    log.create()
    log.commit(1, {"commitInfo": info}, add("a"))
    log.commit(2, {"commitInfo": {"inCommitTimestamp": 5}})
    rows = history(log.location)
    assert rows.schema == HISTORY
    newest, middle, oldest = rows.to_pylist()
    assert (newest["version"], newest["timestamp"]) == (2, datetime.fromtimestamp(0.005, UTC))
    assert middle | {"timestamp": None} == {
        "version": 1,
        "timestamp": None,
        "userId": "42",
        "userName": "ada",
        "operation": "MERGE",
        "operationParameters": [("predicate", "[]"), ("matched", '[{"a":1}]'), ("flag", "true"), ("none", None)],
        "job": {
            "jobId": "1",
            "jobName": "j",
            "jobRunId": None,
            "runId": None,
            "jobOwnerId": None,
            "triggerType": None,
        },
        "notebook": {"notebookId": "n"},
        "clusterId": "c",
        "readVersion": 0,
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
        "operationMetrics": [("numFiles", "3"), ("numOutputRows", "9")],
        "userMetadata": "why",
        "engineInfo": "engine",
    }
    assert [name for name, value in oldest.items() if value is not None] == ["version", "timestamp"]
    assert history(log.location, limit=2).column("version").to_pylist() == [2, 1]
    assert history(log.location, limit=0).num_rows == 0


def test_commits_cleaned_up_are_absent() -> None:
    log = HandLog()
    log.create()
    log.commit(1)
    log.commit(2)
    log.checkpoint(1, protocol(), metadata())
    log.delete(f"{0:020d}.json")
    assert history(log.location).column("version").to_pylist() == [2, 1]


@pytest.mark.parametrize("info", ["text", 3, None, []])
def test_a_commit_info_that_is_no_object_says_nothing(info: object) -> None:
    log = HandLog()
    log.create({"commitInfo": info})
    assert history(log.location).column("operation").to_pylist() == [None]


def test_requests_that_make_no_sense() -> None:
    log = HandLog()
    with pytest.raises(NotATable):
        history(log.location)
    log.create()
    with pytest.raises(Invalid, match="-1 commits"):
        history(log.location, limit=-1)


def test_a_table_in_one_row() -> None:
    log = HandLog()
    schema = json.loads(SCHEMA)
    schema["fields"][0]["metadata"] = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
    mapped = metadata(
        json.dumps(schema), partitions=["day"], delta__columnMapping__mode="name", delta__appendOnly="true"
    )
    mapped["metaData"] |= {"name": "n", "description": "d"}
    wf = ["clustering", "domainMetadata"]
    clustered = domain("delta.clustering", {"clusteringColumns": [["col-1"], ["gone", "deep"]]})
    log.commit(0, protocol(3, 7, rf=["columnMapping"], wf=wf), mapped, clustered, add("a"), add("b"))
    state = load(log.location)
    row = detail(state)
    assert row.schema == DETAIL
    assert row.drop_columns(["settings", "readers"]).to_pylist() == [
        {
            "format": "delta",
            "id": "5f54ef5f",
            "name": "n",
            "description": "d",
            "location": "memory:/t",
            "createdAt": datetime.fromtimestamp(0.001, UTC),
            "lastModified": datetime.fromtimestamp(state.snapshot.timestamp_ms / 1000, UTC),
            "partitionColumns": ["day"],
            "clusteringColumns": ["id", "gone.deep"],
            "numFiles": 2,
            "sizeInBytes": 20,
            "properties": [("delta.appendOnly", "true"), ("delta.columnMapping.mode", "name")],
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "tableFeatures": ["clustering", "columnMapping", "domainMetadata"],
        }
    ]
