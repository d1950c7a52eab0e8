"""Ids and physical names."""

from __future__ import annotations

import pytest
from hypothesis import given

from holdfast.env import fixed
from holdfast.errors import UnknownColumn
from holdfast.schema.ddl import parse_type
from holdfast.schema.mapping import (
    all_fields,
    largest_id,
    map_existing_columns,
    map_new_columns,
    physical_path,
    without_mapping,
)
from holdfast.schema.types import Field, Primitive, Struct
from tests.schema.strategies import mapped, structs
from tests.support.depth import examples


@examples(100)
@given(structs(), structs())
def test_new_columns_get_fresh_ids_and_old_ones_keep_theirs(old: Struct, new: Struct) -> None:
    table = mapped(old)
    grown = Struct((*table.fields, Field("later", new)))
    got = map_new_columns(grown, max_id=100, new_uuid=fixed().new_uuid)
    assert Struct(got.schema.fields[:-1]) == table
    ids = [f.field_id for f in all_fields(got.schema)]
    names = [f.physical_name for f in all_fields(got.schema)]
    assert len(set(ids)) == len(ids)
    assert len(set(names)) == len(names)
    assert got.max_id == max(100, max(i for i in ids if i is not None)) == largest_id(got.schema)
    assert all(f.field_id > 100 for f in all_fields(Struct(got.schema.fields[-1:])) if f.field_id)
    assert without_mapping(got.schema) == Struct((*without_mapping(table).fields, Field("later", new)))
    assert map_new_columns(got.schema, max_id=got.max_id, new_uuid=fixed().new_uuid) == got


@examples(100)
@given(structs())
def test_enabling_keeps_the_names_files_have(schema: Struct) -> None:
    got = map_existing_columns(schema)
    assert [f.physical_name for f in all_fields(got.schema)] == [f.name for f in all_fields(schema)]
    assert sorted(f.field_id or 0 for f in all_fields(got.schema)) == list(range(1, got.max_id + 1))


def test_the_largest_id_never_goes_down() -> None:
    schema = Struct((Field("a", Primitive("long"), True, {"delta.columnMapping.id": 3}),))
    got = map_new_columns(schema, max_id=9, new_uuid=fixed().new_uuid)
    assert got.max_id == 9
    assert got.schema.fields[0].physical_name.startswith("col-")
    assert got.schema.fields[0].field_id == 3


def test_physical_paths_go_through_structs() -> None:
    schema = parse_type("struct<s: struct<A: int>, b: int>")
    assert isinstance(schema, Struct)
    table = mapped(schema)
    assert physical_path(table, ("S", "a")) == ("col-1", "col-2")
    with pytest.raises(UnknownColumn, match=r"no column b\.c"):
        physical_path(table, ("b", "c"))
