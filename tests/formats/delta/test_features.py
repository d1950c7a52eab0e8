"""Which tables Holdfast reads, and the errors for the others."""

from __future__ import annotations

import pytest

from holdfast.errors import Damaged, Unsupported
from holdfast.formats.delta.log.actions import Protocol
from holdfast.formats.delta.protocol.features import (
    CATALOG,
    READABLE,
    WRITER_ONLY,
    check_readable,
    reader_features,
    table_features,
    writer_features,
)
from holdfast.formats.delta.state import load
from tests.formats.delta.handlog import HandLog, add, metadata, protocol


@pytest.mark.parametrize("name", sorted(READABLE))
def test_what_we_read_we_read(name: str) -> None:
    check_readable(Protocol(3, 7, (name,), (name,)), table="t")


@pytest.mark.parametrize("name", sorted(WRITER_ONLY))
def test_what_only_writers_need_stops_no_reader(name: str) -> None:
    check_readable(Protocol(1, 7, None, (name,)), table="t")


@pytest.mark.parametrize(("reader", "writer"), [(1, 1), (1, 2), (1, 6), (2, 5), (2, 6), (2, 7), (3, 7), (1, 99)])
def test_versions_up_to_ours_are_read(reader: int, writer: int) -> None:
    check_readable(Protocol(reader, writer), table="t")


def test_an_unknown_writer_feature_stops_no_reader() -> None:
    check_readable(Protocol(1, 7, None, ("holograms",)), table="t")


def test_a_refusal_names_features_table_and_remedy() -> None:
    features = ("deletionVectors", "holograms", "geospatial")
    with pytest.raises(Unsupported) as caught:
        check_readable(Protocol(3, 7, features, features), table="file:///t")
    assert caught.value.features == ("geospatial", "holograms")
    for fact in ("file:///t", "readers", "geospatial (geometry and geography columns)", "holograms", "DROP FEATURE"):
        assert fact in str(caught.value)
    assert "deletionVectors" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(CATALOG))
def test_a_table_of_a_catalog_is_refused_by_name(name: str) -> None:
    with pytest.raises(Unsupported, match=f"{name}: its catalog"):
        check_readable(Protocol(3, 7, (name,), (name,)), table="t")


def test_a_reader_version_to_come_is_refused() -> None:
    with pytest.raises(Unsupported, match="reader version 4"):
        check_readable(Protocol(4, 7), table="t")


def test_versions_begin_at_1() -> None:
    with pytest.raises(Damaged, match="reader version 0"):
        check_readable(Protocol(0, 2), table="t")


def test_legacy_versions_imply_features() -> None:
    assert reader_features(Protocol(2, 5)) == {"columnMapping"}
    assert writer_features(Protocol(1, 3)) == {"appendOnly", "invariants", "checkConstraints"}
    assert "identityColumns" in writer_features(Protocol(2, 6))
    assert table_features(Protocol(1, 7, None, ("rowTracking", "appendOnly"))) == ("appendOnly", "rowTracking")


def test_the_protocol_of_the_version_asked_for_decides() -> None:
    log = HandLog()
    log.create(add("a"))
    log.commit(1, protocol(3, 7, rf=["holograms"]))
    assert load(log.location, version=0).version == 0
    with pytest.raises(Unsupported, match="holograms"):
        load(log.location)


def test_refused_before_the_schema_is_looked_at() -> None:
    log = HandLog()
    log.commit(0, protocol(3, 7, rf=["geospatial"]), metadata('{"type": "a riddle"}'))
    with pytest.raises(Unsupported, match="geospatial"):
        load(log.location)
