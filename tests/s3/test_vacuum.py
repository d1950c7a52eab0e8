"""Vacuum of a table in a bucket: one listing, deletes in bulk."""

from __future__ import annotations

import pyarrow as pa
import pytest

from holdfast import DeltaTable
from holdfast.env import Env, system
from holdfast.errors import UnknownVersion
from holdfast.formats.delta.state import load
from holdfast.model.mutation import TableDefinition
from holdfast.schema.types import LONG, STRING, Field, Struct
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.write import make
from holdfast.verbs.maintain.vacuum import vacuum
from holdfast.verbs.open.delta_handle import DeltaHandle
from tests.s3.conftest import Place

pytestmark = pytest.mark.s3


def test_files_in_a_bucket_go(place: Place) -> None:
    location = place()
    shape = TableDefinition(Struct((Field("id", LONG), Field("p", STRING))), ("p",))
    table = DeltaTable(DeltaHandle(None, make(location, shape, system(), mode=CreateMode.CREATE, plain=False)))
    table.append(pa.table({"id": pa.array(range(6), pa.int64()), "p": ["a b", "ü/%41?#", "c"] * 2}))
    table.delete("id < 5")
    table.purge()
    later = Env(now_ms=lambda: system().now_ms() + 8 * 86_400_000, new_uuid=system().new_uuid)
    done = vacuum(load(location), later)
    assert len(done.paths) == 4  # two files removed, one written anew, and the vectors
    assert str(table.readableVersions()) == str(done.readable) == "0, 3 to 5"
    assert table.toArrow().column("id").to_pylist() == [5]
    with pytest.raises(UnknownVersion, match="vacuum of version 4"):
        table.toArrow(version=1)
    left = {meta.key for meta in location.store.list_all(location.directory)}
    assert not left & {location.key(path) for path in done.paths}
