"""Which metadata columns texts of a change name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import Invalid, NoRowIdentity
from holdfast.model.files import FileTable
from holdfast.model.snapshot import RowIdentity, Snapshot
from holdfast.plan.dml.metadata_names import metadata_used
from holdfast.plan.scan.metadata_columns import MetadataColumns
from holdfast.plan.scan.request import with_metadata
from holdfast.schema.types import LONG, STRING, Field, Primitive, Struct
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore

SCHEMA = Struct((Field("k", LONG), Field("s", Struct((Field("_row_id", LONG),)))))
TRACKED = Snapshot(Location(MemoryStore(), "t"), 1, 0, SCHEMA, (), FileTable(), RowIdentity(None, None, -1))
PLAIN = replace(TRACKED, identity=None)
SOURCE = Struct((Field("k", LONG), Field("_row_id", LONG)))
NOTHING = Struct(())


@pytest.mark.parametrize(
    ("text", "alias", "source", "named"),
    [
        ("_row_id = 5", None, NOTHING, ["_row_id"]),
        ("k = 1 AND _ROW_ID IN (1, 2) OR `_pos` < 3", None, NOTHING, ["_row_id", "_pos"]),
        ("t._row_id = s.rid", "t", NOTHING, ["_row_id"]),
        ("db.t._row_id = 1", "t", NOTHING, ["_row_id"]),
        ("_partition.day = 'x'", None, NOTHING, ["_partition"]),
        ("t._partition.day = 'x'", "t", NOTHING, ["_partition"]),
        ("abs(_row_commit_version - 3) < 1", None, NOTHING, ["_row_commit_version"]),
        ("s._row_id = 5", None, NOTHING, []),  # a field of the table's own struct
        ("s._row_id = t.k", "t", SOURCE, []),
        ("_row_id = 5", "t", SOURCE, []),  # the source's
        ("t._row_id = s._row_id", "t", SOURCE, ["_row_id"]),
        ("k = '_row_id'", None, NOTHING, []),
        ("_deleted", None, NOTHING, []),
        ("_row_identity = 3", None, NOTHING, []),
        ("k IN (SELECT _row_id FROM others)", None, NOTHING, ["_row_id"]),  # perhaps
        ("_row_id = 5 -- the fifth", None, NOTHING, ["_row_id"]),
    ],
)
def test_names_that_are_no_columns(text: str, alias: str | None, source: Struct, named: list[str]) -> None:
    assert list(metadata_used([text], TRACKED, SCHEMA, alias, source).canonical) == named


def test_a_column_of_the_table_wins() -> None:
    schema = Struct((Field("_Row_Id", STRING),))
    used = metadata_used(["_row_id = 'x' AND _row_index = 1"], TRACKED, schema)
    assert used.canonical == {"_row_index": "_row_index"}


def test_several_spellings_mean_one_column() -> None:
    used = metadata_used(["_pos < 3", "_row_index > 1", "_last_updated_sequence_number = 2"], TRACKED, SCHEMA)
    assert used.canonical == {
        "_pos": "_row_index",
        "_row_index": "_row_index",
        "_last_updated_sequence_number": "_row_commit_version",
    }
    assert [(f.name, f.type) for f in with_metadata(TRACKED, NOTHING, used)] == [
        (name, LONG) for name in used.canonical
    ]


def test_what_a_table_does_not_have_is_refused_but_where_it_may_be_anothers() -> None:
    with pytest.raises(NoRowIdentity, match="enableRowTracking"):
        metadata_used(["_row_id = 5"], PLAIN, SCHEMA)
    with pytest.raises(Invalid, match="no partition specs"):
        metadata_used(["_spec_id = 5"], PLAIN, SCHEMA)
    assert metadata_used(["k IN (SELECT _row_id FROM others)"], PLAIN, SCHEMA).canonical == {}
    assert metadata_used(["_file = 'x'"], PLAIN, SCHEMA).canonical == {"_file": "_file"}


def test_fields_have_the_types_that_scans_give() -> None:
    fields = with_metadata(TRACKED, NOTHING, MetadataColumns({"_file": "_file", "_spec_id": "_spec_id"}))
    assert [f.type for f in fields] == [STRING, Primitive("integer")]
