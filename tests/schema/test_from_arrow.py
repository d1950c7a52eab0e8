"""Arrow schemas as table schemas."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given

from holdfast.errors import Invalid
from holdfast.schema.arrow import arrow_schema
from holdfast.schema.from_arrow import struct_of
from holdfast.schema.types import Array, Decimal, Primitive, Struct
from tests.schema.strategies import structs
from tests.support.depth import examples


@examples(100)
@given(structs())
def test_what_a_table_gives_it_takes(schema: Struct) -> None:
    assert struct_of(arrow_schema(schema)) == schema


def test_storage_variants_are_the_same_type() -> None:
    arrow = {
        "a": pa.dictionary(pa.int8(), pa.large_string()),
        "b": pa.timestamp("ns", tz="Europe/Berlin"),
        "c": pa.timestamp("s"),
        "d": pa.list_(pa.int8(), 3),
        "e": pa.decimal256(38, 2),
        "f": pa.uint16(),
        "g": pa.binary(4),
        "h": pa.list_view(pa.int64()),
    }
    assert [f.type for f in struct_of(pa.schema(arrow)).fields] == [
        Primitive("string"),
        Primitive("timestamp"),
        Primitive("timestamp_ntz"),
        Array(Primitive("byte")),
        Decimal(38, 2),
        Primitive("integer"),
        Primitive("binary"),
        Array(Primitive("long")),
    ]


@pytest.mark.parametrize("type_", [pa.uint64(), pa.duration("s"), pa.time64("us"), pa.decimal256(50, 2)])
def test_what_no_table_holds_is_refused_by_column(type_: pa.DataType) -> None:
    with pytest.raises(Invalid, match=r"the column s\.x\.element is"):
        struct_of(pa.schema({"s": pa.struct({"x": pa.list_(type_)})}))
