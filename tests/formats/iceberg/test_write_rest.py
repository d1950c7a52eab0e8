"""Tables of a REST catalog, which writes the metadata itself: creation, changes, races, lost answers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdfast import IcebergTable
from holdfast.errors import ConcurrentWrite, NotATable
from tests.formats.iceberg.rest import rest_catalog

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": ["a"] * len(ids)}, SCHEMA)


@pytest.mark.parametrize("version", [2, 3])
def test_a_table_of_a_rest_catalog(tmp_path: Path, version: int) -> None:
    with rest_catalog(tmp_path) as (catalog, server):
        table = IcebergTable.create(
            None, catalog, "db.t", SCHEMA, partitionedBy=["bucket(2, id)"], formatVersion=version
        )
        table.append(rows(*range(6)))
        table.delete("id = 1", mode="merge-on-read")
        other = IcebergTable.load(None, catalog, "db.t")
        merges = [t.alias("t").merge(rows(9), "t.id = s.id").whenNotMatchedInsertAll() for t in (table, other)]
        merges[0].execute()
        with pytest.raises(ConcurrentWrite):
            merges[1].execute()
        server.lost = 1
        assert other.append(rows(10)).version == table.version
        other.setProperties({"write.delete.mode": "merge-on-read"})
        assert sorted(table.toArrow()["id"].to_pylist()) == [0, 2, 3, 4, 5, 9, 10]
        if version == 3:
            ids = table.toArrow(metadata=["_row_id"])["_row_id"].to_pylist()
            assert len(set(ids)) == 7
        before = table.version
        table.append(rows(11).append_column("x", [[1]]), mergeSchema=True)
        table.renameColumn("x", "y")
        table.changeColumnType("y", "long")
        table.restoreToVersion(before)
        assert other.toArrow().column_names == ["id", "v", "y"]
        assert sorted(other.toArrow()["id"].to_pylist()) == [0, 2, 3, 4, 5, 9, 10]
        assert other.check().clean
        if version == 3:
            table.createIndex("id")
            assert other.lookup(id=9).num_rows == 1
        with pytest.raises(NotATable):
            IcebergTable.load(None, catalog, "db.nothing")
