"""A table's properties decide how its rows are stored."""

from __future__ import annotations

import pytest

from holdfast.errors import Invalid
from holdfast.model.snapshot import RowIdentity
from holdfast.model.write_spec import write_spec
from holdfast.schema.types import LONG, Field, Struct

SCHEMA = Struct((Field("a", LONG), Field("p", LONG)))


def test_what_a_table_says_nothing_of() -> None:
    spec = write_spec(SCHEMA, ("p",), {})
    assert (spec.codec, spec.target_bytes, spec.string_prefix) == ("zstd", 128 << 20, 32)
    assert (spec.tight_bounds, spec.id_column, spec.random_prefix, spec.store_partitions) == (None, None, 0, False)
    assert (spec.fields, spec.partition_columns, spec.stats_leaves) == (SCHEMA.fields, ("p",), (("a",),))


def test_what_its_properties_say() -> None:
    properties = {
        "delta.targetFileSize": "64 MB",
        "delta.parquet.compression.codec": "SNAPPY",
        "delta.enableDeletionVectors": "true",
        "delta.dataSkippingStringPrefixLength": "8",
        "delta.randomizeFilePrefixes": "true",
        "delta.writePartitionColumnsToParquet": "true",
        "delta.dataSkippingNumIndexedCols": "0",
    }
    spec = write_spec(SCHEMA, (), properties, clustering=(("p",),), carried=RowIdentity("_id", "_version", 7))
    assert (spec.target_bytes, spec.codec, spec.tight_bounds, spec.string_prefix) == (64 << 20, "snappy", True, 8)
    assert (spec.random_prefix, spec.store_partitions, spec.stats_leaves) == (2, True, (("p",),))
    assert (spec.id_column, spec.version_column) == ("_id", "_version")
    assert write_spec(SCHEMA, (), properties, deletion_vectors=False).tight_bounds is None
    assert write_spec(SCHEMA, (), {"delta.targetFileSize": "1048576"}).target_bytes == 1 << 20


@pytest.mark.parametrize(
    ("name", "value"),
    [("delta.targetFileSize", "big"), ("delta.targetFileSize", "0"), ("delta.parquet.compression.codec", "lzo")],
)
def test_what_makes_no_sense_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(Invalid, match=f"{name} is '{value}'"):
        write_spec(SCHEMA, (), {name: value})
