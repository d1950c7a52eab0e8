"""The details of a table: its settings, and which readers can open it."""

from __future__ import annotations

import pytest

from holdfast.env import system
from holdfast.formats.delta.commit.post_commit import DEFAULT_INTERVAL
from holdfast.formats.delta.detail import describe, detail, settings_of
from holdfast.formats.delta.log import cleanup
from holdfast.formats.delta.log.actions import Protocol
from holdfast.formats.delta.log.tombstones import file_retention_ms
from holdfast.formats.delta.protocol.features import DELTA_LAKE, FEATURES, VERSION_1, VERSION_2, readers_of
from holdfast.formats.delta.state import load
from holdfast.model.mutation import TableDefinition
from holdfast.model.write_spec import write_spec
from holdfast.schema.properties import (
    CHECKPOINT_INTERVAL,
    DEFAULTS,
    DELETED_FILE_RETENTION,
    ISOLATION_LEVEL,
    LOG_RETENTION,
    check,
    is_known,
    isolation,
    span_ms,
)
from holdfast.schema.requests import requested
from holdfast.schema.types import LONG, Field, Struct
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.write import make
from tests.formats.delta.handlog import HandLog

SCHEMA = Struct(tuple(Field(f"c{n}", LONG) for n in range(40)))


def test_the_defaults_told_are_those_that_hold() -> None:
    assert write_spec(SCHEMA, (), DEFAULTS) == write_spec(SCHEMA, (), {})
    assert DEFAULTS[CHECKPOINT_INTERVAL] == DEFAULT_INTERVAL
    log = HandLog()
    log.create()
    untold = file_retention_ms(load(log.location))
    assert untold == span_ms(DELETED_FILE_RETENTION, DEFAULTS[DELETED_FILE_RETENTION]) == 7 * 24 * 3_600_000
    assert DEFAULTS[LOG_RETENTION] == cleanup.DEFAULT_RETENTION
    assert isolation(DEFAULTS[ISOLATION_LEVEL]) is isolation(None)


def test_the_defaults_told_can_be_asked_for() -> None:
    assert dict(requested(DEFAULTS).properties) == DEFAULTS
    for name, value in DEFAULTS.items():
        assert is_known(name)
        check(name, value)


def test_a_table_tells_its_own_settings_and_the_rest() -> None:
    settings = settings_of({"delta.checkpointInterval": "3", "delta.appendOnly": "true"})
    assert settings == {**DEFAULTS, "delta.checkpointInterval": "3"}


@pytest.mark.parametrize(
    ("protocol", "old", "mapped", "listed", "release"),
    [
        (Protocol(1, 2), "yes", "yes", "yes", "yes"),
        (Protocol(1, 7, None, ("rowTracking",)), "yes", "yes", "yes", "yes"),
        (Protocol(2, 5), "no", "yes", "yes, those that know columnMapping", "yes, 1.2.0 and newer"),
        (Protocol(3, 7, (), ()), "no", "no", "yes", "yes, 2.3.0 and newer"),
        (
            Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "rowTracking", "domainMetadata")),
            "no",
            "no",
            "yes, those that know deletionVectors",
            "yes, 2.3.0 and newer",
        ),
        (
            Protocol(3, 7, ("columnMapping", "v2Checkpoint"), ()),
            "no",
            "no",
            "yes, those that know columnMapping, v2Checkpoint",
            "yes, 3.0.0 and newer",
        ),
        (
            Protocol(3, 7, ("variantType", "appendOnly"), ()),
            "no",
            "no",
            "yes, those that know variantType",
            "yes, 2.3.0 and newer, in releases that know variantType",
        ),
    ],
)
def test_who_opens_a_table(protocol: Protocol, old: str, mapped: str, listed: str, release: str) -> None:
    readers = readers_of(protocol)
    assert readers[VERSION_1].split(":")[0] == old
    assert readers[VERSION_2].split(":")[0] == mapped
    assert readers[FEATURES] == listed
    assert readers[DELTA_LAKE] == release


def test_a_description_reads_well() -> None:
    location = Location(MemoryStore(), "t")
    definition = TableDefinition(Struct((Field("id", LONG),)), (), {"delta.checkpointInterval": "5"}, (("id",),))
    state = make(location, definition, system(), mode=CreateMode.CREATE, plain=False)
    text = str(describe(state))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0].startswith("table memory:")
    assert lines[1] == "files 0, 0 bytes, clustered by id"
    assert "delta.checkpointInterval 5" in lines
    assert "delta.enableRowTracking true" in lines
    assert "delta.isolationLevel Serializable (default)" in lines
    assert "Delta Lake for Spark yes, 2.3.0 and newer" in lines
    row = detail(state).to_pylist()[0]
    assert dict(row["settings"])["delta.checkpointInterval"] == "5"
    assert dict(row["readers"])[VERSION_1] == "no: the table asks for reader version 3"


def test_a_bare_table_is_described_too() -> None:
    log = HandLog()
    log.create()
    assert "neither partitioned nor clustered" in str(describe(load(log.location)))
    assert "features  none" not in str(describe(load(log.location)))
