"""What the log says of metadata columns, file by file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from holdfast.model.files import FILES, FileTable, Slab
from holdfast.model.snapshot import RowIdentity, Snapshot
from holdfast.plan.scan.metadata_bounds import metadata_bounds
from holdfast.predicate.bounds import Range, Single
from holdfast.rows.rowmap import ROW_IDS, checksum
from holdfast.schema.types import LONG, Field, Struct
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from tests.plan.test_prune import Told

IDENTITY = RowIdentity("ids", "versions", 1000)


def snapshot(files: list[dict[str, Any]], identity: RowIdentity | None = IDENTITY) -> Snapshot:
    """Files by base, version, rows and note; the size of each is 100."""
    rows = [
        {
            "path": f"f{i}",
            "key": f"a b/f{i}" if f.get("odd") else f"f{i}",
            "size": 100,
            "base_row_id": f.get("base"),
            "default_row_commit_version": f.get("version"),
            "tags": None if f.get("note") is None else [(ROW_IDS, f["note"])],
        }
        for i, f in enumerate(files)
    ]
    slab = Slab(pa.Table.from_pylist(rows, schema=FILES), Told(files))
    return Snapshot(Location(MemoryStore(), "t"), 3, 0, Struct((Field("k", LONG),)), (), FileTable((slab,)), identity)


def bounds(
    name: str, files: list[dict[str, Any]], identity: RowIdentity | None = IDENTITY
) -> list[tuple[Any, Any, Any]]:
    of = snapshot(files, identity)
    known = metadata_bounds(of.files, of, {("c",): name})[("c",)]
    assert isinstance(known, Range)
    return list(zip(known.low.to_pylist(), known.high.to_pylist(), known.null_count.to_pylist(), strict=True))


FRESH = {"base": 50, "version": 7, "rows": 10, "note": "100"}
CARRIES = {**FRESH, "note": f"100,{checksum('ids'):08x},3,40,0"}
MIXED = {**FRESH, "note": f"100,{checksum('ids'):08x},3,40,2"}
FOREIGN = {**FRESH, "note": None}


def test_ids_lie_between_what_is_noted() -> None:
    id_bounds = bounds("_row_id", [FRESH, CARRIES, MIXED, FOREIGN])
    assert id_bounds == [(50, 59, 0), (3, 40, 0), (3, 59, 0), (0, 59, 0)]


def test_versions_are_those_of_fresh_files_and_at_most_those_of_others() -> None:
    version_bounds = bounds("_row_commit_version", [FRESH, CARRIES, MIXED, FOREIGN])
    assert version_bounds == [(7, 7, 0), (0, 7, 0), (0, 7, 0), (0, 7, 0)]


def test_a_table_without_columns_of_identity_has_fresh_files_only() -> None:
    assert bounds("_row_commit_version", [FOREIGN], RowIdentity(None, None, 99)) == [(7, 7, 0)]
    assert bounds("_row_id", [FOREIGN], RowIdentity(None, None, 99)) == [(50, 59, 0)]


def test_what_the_log_does_not_say_is_not_known() -> None:
    no_rows, no_base = {**FRESH, "rows": None}, {**FRESH, "base": None, "version": None}
    assert bounds("_row_id", [no_rows, no_base]) == [(None, None, 0), (None, None, None)]
    assert bounds("_row_commit_version", [no_rows, no_base]) == [(0, 7, 0), (None, None, None)]
    assert bounds("_row_index", [no_rows, FRESH]) == [(None, None, 0), (0, 9, 0)]


def test_rows_of_files_without_a_base_have_no_ids_where_that_is_allowed() -> None:
    gap = {**FRESH, "base": None, "version": None}
    assert bounds("_row_id", [gap, FRESH], replace(IDENTITY, has_gaps=True)) == [(None, None, 10), (50, 59, 0)]


def test_constants_of_files_are_known_exactly() -> None:
    of = snapshot([FRESH, {**FOREIGN, "odd": True}])
    columns = {("f",): "_file", ("b",): "_base_row_id", ("v",): "_default_row_commit_version"}
    known = metadata_bounds(of.files, of, columns)
    shown = {column[0]: bound.value.to_pylist() for column, bound in known.items() if isinstance(bound, Single)}
    assert shown == {
        "f": [of.location.spark_uri("f0"), of.location.spark_uri("a b/f1")],
        "b": [50, 50],
        "v": [7, 7],
    }


@pytest.mark.parametrize("name", ["_deleted", "_partition"])
def test_others_say_nothing(name: str) -> None:
    of = snapshot([FRESH])
    assert metadata_bounds(of.files, of, {("c",): name}) == {}


def test_without_row_tracking_nothing_is_said_of_ids() -> None:
    of = snapshot([FRESH], None)
    assert metadata_bounds(of.files, of, {("c",): "_row_id"}) == {}
