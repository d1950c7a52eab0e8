"""Manifests with nullable files and tuples, as other writers write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.formats.iceberg.avro.reader import read_container
from holdfast.formats.iceberg.avro.writer import write_container
from holdfast.formats.iceberg.commit.manifest_writer import stored_tuple_schema

TUPLE = {"type": "record", "name": "r102", "fields": [{"name": "kind", "type": ["null", "string"], "field-id": 1000}]}


def entry_schema(*, file_may_be_null: bool = False, tuple_may_be_null: bool = False) -> dict[str, Any]:
    """The schema of a manifest: BigQuery lets files be null, and Sail partition tuples."""
    tuples: Any = ["null", TUPLE] if tuple_may_be_null else TUPLE
    fields = [
        {"name": "file_path", "type": "string", "field-id": 100},
        {"name": "sort_order_id", "type": ["null", "int"], "field-id": 140},
        {"name": "partition", "type": tuples, "field-id": 102},
    ]
    file: Any = {"type": "record", "name": "r2", "fields": fields}
    wrapped = ["null", file] if file_may_be_null else file
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            {"name": "status", "type": "int", "field-id": 0},
            {"name": "data_file", "type": wrapped, "field-id": 2},
        ],
    }


@pytest.mark.parametrize("file_may_be_null", [False, True])
@pytest.mark.parametrize("tuple_may_be_null", [False, True])
def test_records_that_may_be_null_are_looked_into(file_may_be_null: bool, tuple_may_be_null: bool) -> None:
    schema = entry_schema(file_may_be_null=file_may_be_null, tuple_may_be_null=tuple_may_be_null)
    entry = {"status": 1, "data_file": {"file_path": "f", "sort_order_id": 7, "partition": {"kind": "a"}}}
    data = write_container(schema, [entry], {}, sync=bytes(16))
    found = read_container(data, wanted={"status", "file_path", "partition"}, where="m.avro").records
    assert found.to_pylist() == [{"status": 1, "data_file": {"file_path": "f", "partition": {"kind": "a"}}}]


@pytest.mark.parametrize("file_may_be_null", [False, True])
@pytest.mark.parametrize("tuple_may_be_null", [False, True])
def test_tuples_that_may_be_null_are_stored_again(file_may_be_null: bool, tuple_may_be_null: bool) -> None:
    schema = entry_schema(file_may_be_null=file_may_be_null, tuple_may_be_null=tuple_may_be_null)
    written = json.dumps(schema).encode()
    assert stored_tuple_schema(written) == TUPLE
