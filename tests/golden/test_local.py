"""Every golden Delta table, read without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from holdfast.engines.local.scan import scan_table
from holdfast.errors import Invalid
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.state import load
from holdfast.plan.scan.request import Request, plan_scan
from holdfast.storage.open import open_location
from tests.golden.cases import (
    Case,
    Described,
    cases,
    check_content,
    check_counts,
    check_gap,
    check_log,
    check_needs_catalog,
    check_refused,
    check_row_ids,
    each,
    of_status,
    prepared,
)

pytestmark = pytest.mark.golden

READABLE = of_status("readable", "readable-after-prep")


def read(
    path: Path, /, *, version: int | None = None, columns: Sequence[str] | None = None, metadata: Sequence[str] = ()
) -> pa.Table:
    snapshot = load(open_location(str(path)), version=version).snapshot
    plan = plan_scan(snapshot, Request(columns=columns, metadata=metadata))
    return scan_table(plan, load_hidden(snapshot.location, plan.files))


def describe(path: Path) -> Described:
    snapshot = load(open_location(str(path), allow_outside=True)).snapshot
    files = snapshot.files
    hidden = pc.struct_field(files.column("dv"), "cardinality")
    hidden_rows = pc.sum(hidden).as_py() or 0
    known = files.num_records.null_count == 0
    return Described(
        version=snapshot.version,
        columns=snapshot.schema.names,
        partition_columns=snapshot.partition_columns,
        files=len(files),
        dv_files=len(hidden) - hidden.null_count,
        dv_rows=hidden_rows,
        rows=(pc.sum(files.num_records).as_py() or 0) - hidden_rows if known else None,
    )


@each(READABLE)
def test_content(case: Case | None, tmp_path: Path) -> None:
    case, path = prepared(case, tmp_path)
    check_content(case, path, read)


@each([case for case in READABLE if case.says.get("expected_rows_by_version")])
def test_counts_by_version(case: Case | None, tmp_path: Path) -> None:
    case, path = prepared(case, tmp_path)
    check_counts(case, path, read)


@each([case for case in READABLE if case.says.get("expected_row_ids")])
def test_row_ids(case: Case | None, tmp_path: Path) -> None:
    case, path = prepared(case, tmp_path)
    check_row_ids(case, path, read)


@each(of_status("readable", "readable-after-prep", "log-only"))
def test_log(case: Case | None, tmp_path: Path) -> None:
    case, path = prepared(case, tmp_path)
    check_log(case, describe(path))


@each([case for case in of_status("log-only") if case.id.startswith("trino__clone_merge_")])
def test_a_log_that_points_to_another_store_is_followed_only_when_allowed(case: Case | None, tmp_path: Path) -> None:
    _, path = prepared(case, tmp_path)
    with pytest.raises(Invalid, match=r"allow_outside=\['s3://test-bucket/tiny/clone_merge_"):
        read(path)


@each(of_status("negative"))
def test_refused(case: Case | None, tmp_path: Path) -> None:
    _, path = prepared(case, tmp_path)
    check_refused(path, read)


@each(of_status("needs-catalog"))
def test_needs_a_catalog(case: Case | None, tmp_path: Path) -> None:
    _, path = prepared(case, tmp_path)
    check_needs_catalog(path, read)


@each(of_status("reader-gap"))
def test_where_the_reference_readers_fail(case: Case | None, tmp_path: Path) -> None:
    case, path = prepared(case, tmp_path)
    check_gap(case, path, read)


def test_no_status_is_left_out() -> None:
    known = {"readable", "readable-after-prep", "log-only", "negative", "needs-catalog", "reader-gap"}
    assert {case.status for case in cases()} <= known
