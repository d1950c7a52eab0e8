"""Properties as users ask for them."""

from __future__ import annotations

from typing import cast

import pytest

from holdfast.errors import Invalid
from holdfast.schema.properties import PREFIX, PROPERTIES
from holdfast.schema.requests import requested, spelled


def test_known_properties_in_any_case_and_users_own() -> None:
    got = requested(
        {"delta.APPENDONLY": "true", "team": "x", "my.delta.thing": "y", "delta.constraints.Small": "a < 1"}
    )
    assert got.properties == {
        "delta.appendOnly": "true",
        "team": "x",
        "my.delta.thing": "y",
        "delta.constraints.small": "a < 1",
    }
    assert got.features == frozenset()


def test_features_are_asked_for_by_name() -> None:
    got = requested({"delta.feature.deletionVectors": "supported", "delta.feature.v2Checkpoint": "enabled"})
    assert got.properties == {}
    assert got.features == {"deletionVectors", "v2Checkpoint"}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("delta.enableRowTracing", "true", "did you mean delta.enableRowTracking"),
        ("enableRowTracking", "true", "did you mean delta.enableRowTracking"),
        ("ENABLEDELETIONVECTORS", "true", "did you mean delta.enableDeletionVectors"),
        ("delta.materializedRowIdColumnName", "x", "delta.rowTracking.materializedRowIdColumnName"),
        ("delta.rowTracking.materializedRowIdColumnName", "x", "kept by the table itself"),
        ("delta.columnMapping.maxColumnId", "3", "kept by the table itself"),
        ("delta.zzz", "x", "there is no property delta.zzz"),
        ("delta.appendOnly", "yes", "true or false"),
        ("delta.checkpointInterval", "ten", "a whole number"),
        ("delta.logRetentionDuration", "soon", "a span of time"),
        ("delta.columnMapping.mode", "names", "one of none, name, id"),
        ("delta.isolationLevel", "Snapshot", "one of Serializable, WriteSerializable"),
        ("delta.feature.x", "true", "can only be 'supported'"),
        ("delta.feature.", "supported", "names nothing"),
        ("delta.constraints.c", " ", "give it a condition"),
        ("delta.minReaderVersion", "3", r"delta\.feature\.<name>"),
    ],
)
def test_refused(name: str, value: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        requested({name: value})


def test_two_spellings_of_one_property_must_agree() -> None:
    with pytest.raises(Invalid, match="asked for twice"):
        requested({"delta.appendOnly": "true", "delta.appendonly": "false"})
    assert requested({"delta.appendOnly": "true", "delta.appendonly": "true"}).properties == {
        "delta.appendOnly": "true"
    }


def test_a_value_is_text() -> None:
    with pytest.raises(Invalid, match="give it as text, 'true'"):
        requested(cast("dict[str, str]", {"delta.appendOnly": True}))


@pytest.mark.parametrize("name", sorted(PROPERTIES))
def test_every_known_name_is_spelled_right(name: str) -> None:
    assert spelled(name) == spelled(name.upper()) == name
    if name.startswith(PREFIX):
        with pytest.raises(Invalid, match=f"did you mean {name}"):
            spelled(name.removeprefix(PREFIX))
