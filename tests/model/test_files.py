"""Files chosen by their keys."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.files import FILES, FileTable, NoStats, Slab, hiding
from holdfast.storage.arrays import strings
from tests.support.depth import examples

KEYS = st.lists(st.sampled_from("abcdefgh"), unique=True)


def _files(*slabs: list[str]) -> FileTable:
    def table(keys: list[str]) -> pa.Table:
        columns = {field.name: pa.nulls(len(keys), field.type) for field in FILES}
        return pa.table({**columns, "key": pa.array(keys, pa.string())}, schema=FILES)

    return FileTable(tuple(Slab(table(keys), NoStats(len(keys))) for keys in slabs))


@examples(60)
@given(KEYS, st.integers(0, 8), KEYS, st.sampled_from([set, tuple, strings]))
def test_among_and_outside_part_the_files_and_keep_their_order(
    keys: list[str], cut: int, wanted: list[str], as_: Any
) -> None:
    files = _files(keys[:cut], keys[cut:])
    inside, rest = files.among(as_(wanted)), files.outside(as_(wanted))
    assert inside.column("key").to_pylist() == [key for key in keys if key in wanted]
    assert rest.column("key").to_pylist() == [key for key in keys if key not in wanted]
    assert len(inside.num_records) == len(inside)
    assert len(rest.num_records) == len(rest)


@pytest.mark.parametrize("slabs", [[], [["a"]], [["a", "b"], ["c"]]])
def test_a_file_that_hides_says_so_under_its_own_name(slabs: list[list[str]]) -> None:
    marked = hiding(_files(*slabs)).column("dv").to_pylist()
    named = [key for slab in slabs for key in slab]
    nothing = {"storage": None, "path": None, "offset": None, "size": None}
    assert marked == [{"id": key, "cardinality": 1, **nothing} for key in named]
