"""Every golden Iceberg table, read without Spark, and compared with what others read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from holdfast import IcebergTable
from holdfast.errors import TableError, Unsupported
from holdfast.formats.iceberg.state import IcebergState, load
from holdfast.model.finding import FindingKind
from tests.golden.cases import Case, cases, each, prepared
from tests.support.compare import assert_same_rows
from tests.support.iceberg_peers import read_by_duckdb, read_by_pyiceberg

pytestmark = pytest.mark.golden

# DuckDB 1.5.5 ends the process on this one.
CRASHES_DUCKDB = {"impala__iceberg_v2_equality_delete_schema_evolution"}
# Columns that differ only in case, which the comparison takes for one; see the test of its own.
ROUNDED_BY_PYICEBERG = {"impala__iceberg_alltypes_part"}  # it reads doubles of manifests as floats
ONLY_CASE = {"duckdb-iceberg__case_sensitive_names"}
# Tables that nobody reads, we neither, and why.
REFUSED = {
    "dremio-oss__internal_metadata_inconsistent_partitions": "has no field ids",  # and the table no name mapping
    "duckdb-iceberg__t": "no signed 64-bit number",  # an id that the format has no room for
    "impala__iceberg_avro_mixed": "is an avro file",
    "impala__iceberg_migrated_complex_test": "cannot be read as a data file",  # Arrow: a Null type on a group
    "impala__iceberg_migrated_complex_test_orc": "stores its column",  # the name mapping has other ids than the schema
    "impala__iceberg_v3_default_value_avro": "is an avro file",
    "presto__geography_data_type_read": "has the type geography",
    "presto__geometry_map": "has the type geometry",
    "presto__geometry_row": "has the type geometry",
    "trino__none_avro": "is an avro file",
}
LINEAGE = ["_row_id", "_last_updated_sequence_number"]


def of(*statuses: str) -> list[Case]:
    return [case for case in cases("iceberg") if case.status in statuses]


def metadata_of(case: Case) -> Path:
    return case.table / "metadata" / str(case.says["metadata_file"])


def location_of(case: Case) -> str:
    data = metadata_of(case).read_bytes()
    return str(json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)["location"])


def moves_of(case: Case) -> dict[str, str]:
    """Where paths lead: those below the table's location, and those below the place it was taken from."""
    return {location_of(case): str(case.table), str(case.says["path"]): str(case.table)}


# Tables with files that are not below their location.
ELSEWHERE = {
    "duckdb-iceberg__my_table": ["/data/persistent/column_mapping/warehouse/example"],
    "impala__iceberg_multiple_storage_locations": ["/test-warehouse/iceberg_test/hadoop_catalog/ice"],
}


def opened(case: Case) -> IcebergTable:
    return IcebergTable.forMetadata(None, metadata_of(case), relocate=moves_of(case))


@each(of("readable"))
def test_content(case: Case | None, tmp_path: Path) -> None:
    case, _ = prepared(case, tmp_path)
    assert opened(case).toArrow().num_rows == case.says["expected_rows"]


@each(of("readable", "log-only", "reader-gap"))
def test_metadata(case: Case | None, tmp_path: Path) -> None:
    case, _ = prepared(case, tmp_path)
    says = case.says
    if "type:geo" in "".join(says["features"]):
        with pytest.raises(Unsupported, match="has the type geo"):
            load(str(metadata_of(case)), relocate=moves_of(case))
        return
    state = load(str(metadata_of(case)), relocate=moves_of(case), allow_outside=ELSEWHERE.get(case.id, False))
    assert state.metadata.format_version == says["format_version"]
    assert len(state.metadata.snapshots) == says["snapshots"]
    if case.status == "readable" or (case.status == "log-only" and says["data_files"]):
        assert told(state) == {name: says[name] for name in told(state)}


def told(state: IcebergState) -> dict[str, int]:
    deletes = state.contents.deletes
    live = set(state.snapshot.files.column("path").to_pylist())
    vectors = deletes.vectors
    return {
        "data_files": len(live),
        "data_records": pc.sum(state.snapshot.files.num_records).as_py() or 0,
        "position_delete_files": deletes.positions.num_rows,
        "position_delete_rows": pc.sum(deletes.positions["record_count"]).as_py() or 0,
        "equality_delete_files": deletes.equality.num_rows,
        "equality_delete_rows": pc.sum(deletes.equality["record_count"]).as_py() or 0,
        "dv_count": vectors.num_rows,
        "dv_cardinality": pc.sum(vectors["record_count"]).as_py() or 0,
    }


@each([case for case in of("readable") if case.says.get("expected_row_ids")])
def test_row_ids(case: Case | None, tmp_path: Path) -> None:
    case, _ = prepared(case, tmp_path)
    check_row_ids(case, opened(case).toArrow(metadata=LINEAGE))


def check_row_ids(case: Case, got: pa.Table) -> None:
    expected = [{**e["row"], **{name: e[name] for name in LINEAGE}} for e in case.says["expected_row_ids"]]
    rows = [{name: str(value) for name, value in row.items()} for row in (*got.to_pylist(), *expected)]
    texts = [json.dumps(row, sort_keys=True) for row in rows]
    assert sorted(texts[: got.num_rows]) == sorted(texts[got.num_rows :])


@each(of("readable"))
def test_check(case: Case | None, tmp_path: Path) -> None:
    """Tables that others keep as examples read well; some of their files were written anew, smaller, by hand."""
    case, _ = prepared(case, tmp_path)
    found = {finding.kind for finding in opened(case).check(deep=False).findings}
    assert {kind for kind in found if not kind.is_harmless} <= {FindingKind.WRONG_SIZE, FindingKind.WRONG_COUNT}


@each(of("negative"))
def test_refused(case: Case | None, tmp_path: Path) -> None:
    case, _ = prepared(case, tmp_path)
    with pytest.raises(TableError):
        opened(case).toArrow()


@each([case for case in of("reader-gap") if case.id not in REFUSED])
def test_where_the_reference_readers_fail(case: Case | None, tmp_path: Path) -> None:
    case, _ = prepared(case, tmp_path)
    assert case.says.get("expected_rows") in (None, opened(case).toArrow().num_rows)


@each([case for case in of("reader-gap") if case.id in REFUSED])
def test_what_is_refused_is_refused_by_its_reason(case: Case | None, tmp_path: Path) -> None:
    case, _ = prepared(case, tmp_path)
    with pytest.raises(TableError, match=REFUSED[case.id]):
        opened(case).toArrow()


@each([case for case in of("reader-gap") if "format:AVRO" in case.says["features"]])
def test_avro_data_files_are_refused_by_name(case: Case | None, tmp_path: Path) -> None:
    case, _ = prepared(case, tmp_path)
    with pytest.raises(Unsupported, match=r"\.avro is an avro file"):
        opened(case).toArrow()


@each([case for case in of("readable") if case.id not in CRASHES_DUCKDB | ONLY_CASE])
def test_content_is_what_duckdb_reads(case: Case | None, tmp_path: Path) -> None:
    case, _ = prepared(case, tmp_path)
    if case.says.get("silent_wrong_results"):
        pytest.skip("the case names a reader that is wrong")
    try:
        theirs = read_by_duckdb(metadata_of(case), location_of(case), tmp_path)
    except duckdb.Error as error:
        pytest.skip(f"DuckDB does not open it: {str(error)[:80]}")
    assert_same_rows(opened(case).toArrow(), theirs)


@each([case for case in of("readable") if case.id not in ONLY_CASE | ROUNDED_BY_PYICEBERG])
def test_content_is_what_pyiceberg_reads(case: Case | None, tmp_path: Path) -> None:
    case, _ = prepared(case, tmp_path)
    if case.says.get("silent_wrong_results"):
        pytest.skip("the case names a reader that is wrong")
    try:
        theirs = read_by_pyiceberg(metadata_of(case), moves_of(case))
    except Exception as error:  # whatever another library raises, it did not open the table
        pytest.skip(f"pyiceberg does not open it: {str(error)[:80]}")
    assert_same_rows(opened(case).toArrow(), theirs)


@each([case for case in of("readable") if case.id in ROUNDED_BY_PYICEBERG])
def test_partition_values_keep_all_bits_of_a_double(case: Case | None, tmp_path: Path) -> None:
    case, _ = prepared(case, tmp_path)
    assert opened(case).toArrow(where="p_double = 2.222")["p_double"].to_pylist() == [2.222, 2.222]
    assert read_by_pyiceberg(metadata_of(case), moves_of(case))["p_double"][0].as_py() == 2.2219998836517334


@each([case for case in of("readable") if case.id in ONLY_CASE])
def test_columns_whose_names_differ_only_in_case_are_two(case: Case | None, tmp_path: Path) -> None:
    case, _ = prepared(case, tmp_path)
    assert opened(case).toArrow().to_pylist() == read_by_pyiceberg(metadata_of(case), moves_of(case)).to_pylist()
    assert opened(case).toArrow(columns=["uSeR_Id"])["uSeR_Id"].to_pylist() == ["user_1", "user_2", "user_3"]


def test_no_status_is_left_out() -> None:
    assert {case.status for case in cases("iceberg")} <= {"readable", "log-only", "reader-gap", "negative"}


def sample() -> Sequence[Case]:
    """Tables that differ in what reading them asks of Spark."""
    wanted = {
        "icebird__rename_column",
        "impala__iceberg_v2_delete_equality_partitioned",
        "impala__iceberg_v2_partitioned_position_deletes_orc",
        "impala__iceberg_v3_default_value_orc",
        "duckdb-iceberg__t1",  # no field ids, and a name mapping
        "duckdb-iceberg__case_sensitive_names",
        "pg_lake__v3_pos_dv",
    }
    return [case for case in of("readable") if case.id in wanted]
