"""Scans without Spark: every row once, in order, whatever the threads; errors by name; nothing read in vain."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from holdfast.engines.local.scan import describe, scan_batches, scan_table
from holdfast.errors import Damaged, MissingFile, Unsupported
from holdfast.model.files import FILES, Bounds, FileStats, FileTable, LeafPath, Slab
from holdfast.model.snapshot import HiddenRows, RowIdentity, Snapshot
from holdfast.plan.scan.metadata_columns import NO_METADATA, MetadataColumns
from holdfast.plan.scan.request import Condition, ScanPlan
from holdfast.predicate.records import And, Compare, IsNull, Not, Op, Opaque, Predicate
from holdfast.rows.columns import DELETED, METADATA_COLUMNS, SPEC_ID
from holdfast.schema.types import DataType, Field, Primitive, Struct
from holdfast.storage.base import LARGEST_BYTES
from holdfast.storage.local import LocalStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.storage.open import open_location
from tests.support.depth import examples

LONG, INTEGER = Primitive("long"), Primitive("integer")
SCHEMA = Struct((Field("v", LONG), Field("p", INTEGER)))


class NoStats:
    """Statistics nobody asks for."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def read(self, leaves: Mapping[LeafPath, DataType]) -> FileStats:
        nothing = pa.nulls(self._length, pa.int64())
        return FileStats(nothing, pa.nulls(self._length, pa.bool_()), {leaf: Bounds(*[nothing] * 3) for leaf in leaves})

    def filter(self, mask: pa.Array) -> NoStats:
        return NoStats(mask.true_count)

    def take(self, indices: pa.Array) -> NoStats:
        return NoStats(len(indices))


class Counting(MemoryStore):
    """A store that remembers which objects were read."""

    def __init__(self) -> None:
        super().__init__("counting")
        self.read: list[str] = []

    def get(self, key: str, most: int = LARGEST_BYTES) -> bytes:
        self.read.append(key)
        return super().get(key, most)


@dataclass(frozen=True)
class Made:
    """A file to be: its values, its partition, its hidden positions."""

    values: Sequence[int | None]
    part: int | None = None
    hidden: frozenset[int] = frozenset()


def parquet(values: Sequence[int | None]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"v": pa.array(values, pa.int64())}), sink, row_group_size=3)
    return sink.getvalue()


def laid_down(
    files: Sequence[Made], location: Location, keys: Sequence[str] | None = None
) -> tuple[ScanPlan, HiddenRows]:
    """The files in a store, and a plan that reads all of them."""
    names = keys or [f"part {i}.parquet" for i in range(len(files))]
    rows: list[dict[str, Any]] = []
    base = 0
    for name, made in zip(names, files, strict=True):
        data = parquet(made.values)
        if "://" not in name:
            location.store.put(location.key(name), data)
        dv = {"id": name, "storage": "i", "path": "", "offset": None, "size": 1, "cardinality": len(made.hidden)}
        rows.append(
            {
                "path": name,
                "key": name,
                "size": len(data),
                "modified_ms": 1_700_000_000_123 + base,
                "partition_values": [("p", None if made.part is None else str(made.part))],
                "dv": dv if made.hidden else None,
                "base_row_id": base,
                "default_row_commit_version": base % 7,
            }
        )
        base += len(made.values)
    table = pa.Table.from_pylist(rows, schema=FILES)
    snapshot = Snapshot(
        location=location,
        version=0,
        timestamp_ms=0,
        schema=SCHEMA,
        partition_columns=("p",),
        files=FileTable((Slab(table, NoStats(len(rows))),)),
        identity=RowIdentity(None, None, base),
    )
    hidden = HiddenRows({n: BitMap64(f.hidden) for n, f in zip(names, files, strict=True) if f.hidden})
    return ScanPlan(snapshot, snapshot.files, (), SCHEMA.fields, NO_METADATA, None), hidden


def where(plan: ScanPlan, predicate: Predicate) -> ScanPlan:
    return replace(plan, where=Condition("", "", predicate))


def table_at(store: Any = None) -> Location:
    return Location(store or MemoryStore("t"), "some/table")


made_files = st.lists(
    st.builds(
        Made,
        st.lists(st.none() | st.integers(-3, 3), max_size=8),
        st.none() | st.integers(0, 3),
        st.frozensets(st.integers(0, 8)),
    ),
    max_size=5,
)


@examples(60)
@given(made_files, st.integers(1, 3), st.integers(1, 5), st.none() | st.integers(0, 12))
def test_a_scan_is_what_a_loop_over_the_rows_would_give(
    files: list[Made], threads: int, batch_rows: int, limit: int | None
) -> None:
    location = table_at()
    plan, hidden = laid_down(files, location)
    asked = {name: name.removeprefix("_") for name in METADATA_COLUMNS if name not in (SPEC_ID, DELETED)}
    sizes = dict(zip(plan.files.column("key").to_pylist(), plan.files.column("size").to_pylist(), strict=True))
    times = plan.files.column("modified_ms").cast(pa.timestamp("ms", "UTC")).to_pylist()
    plan = replace(plan, columns=SCHEMA.fields[:1], metadata=MetadataColumns.of_outputs(asked))
    plan = where(plan, And((Not(IsNull(("p",))), Compare(Op.GE, ("v",), 0))))
    expected = []
    base = 0
    for i, made in enumerate(files):
        for at, value in enumerate(made.values):
            if at in made.hidden or made.part is None or value is None or value < 0:
                continue
            expected.append(
                {
                    "v": value,
                    "row_id": base + at,
                    "row_commit_version": base % 7,
                    "row_index": at,
                    "file": f"memory://t/some/table/part%20{i}.parquet",
                    "partition": {"p": made.part},
                    "base_row_id": base,
                    "default_row_commit_version": base % 7,
                    "file_size": sizes[f"part {i}.parquet"],
                    "file_modification_time": times[i],
                    "file_block_start": 0,
                    "file_block_length": sizes[f"part {i}.parquet"],
                }
            )
        base += len(made.values)
    got = scan_batches(plan, hidden, limit=limit, threads=threads, batch_rows=batch_rows).read_all()
    assert got.to_pylist() == expected[:limit]
    assert got.schema.field("v").type == pa.int64()
    assert got.schema.field("partition").type == pa.struct([("p", pa.int32())])


@examples(20)
@given(made_files)
def test_hidden_rows_are_given_and_told_where_that_is_asked_for(files: list[Made]) -> None:
    plan, hidden = laid_down(files, table_at())
    plan = replace(plan, columns=SCHEMA.fields[:1], metadata=MetadataColumns({"gone": DELETED}))
    told = [(value, at in made.hidden) for made in files for at, value in enumerate(made.values)]
    got = scan_table(plan, hidden)
    assert list(zip(got["v"].to_pylist(), got["gone"].to_pylist(), strict=True)) == told


def test_rows_without_columns_are_counted() -> None:
    plan, hidden = laid_down([Made(range(10), 1, frozenset({0, 9})), Made([1])], table_at())
    assert scan_table(replace(plan, columns=()), hidden).num_rows == 9
    assert scan_table(where(replace(plan, columns=()), IsNull(("p",))), hidden).num_rows == 1


def test_local_files_and_remote_ones_read_alike(tmp_path: Any) -> None:
    files = [Made([1, 2, 3], 7, frozenset({1})), Made([4], None)]
    near = scan_table(*laid_down(files, Location(LocalStore(), str(tmp_path)[1:])))
    assert near.to_pylist() == [{"v": 1, "p": 7}, {"v": 3, "p": 7}, {"v": 4, "p": None}]
    assert near.equals(scan_table(*laid_down(files, table_at())))


def test_only_spark_evaluates_what_is_opaque_and_nothing_is_read_before_saying_so() -> None:
    store = Counting()
    plan, hidden = laid_down([Made([1])], table_at(store))
    with pytest.raises(Unsupported, match="v % 2"):
        scan_batches(where(plan, Opaque("v % 2 = 0", (("v",),))), hidden)
    assert store.read == []


@pytest.mark.parametrize(("break_it", "error"), [("delete", MissingFile), ("empty", Damaged), ("tear", Damaged)])
def test_a_file_that_cannot_be_read_is_named(break_it: str, error: type[Damaged]) -> None:
    location = table_at()
    plan, hidden = laid_down([Made([1]), Made([2]), Made([3])], location)
    key = location.key("part 1.parquet")
    if break_it == "delete":
        location.store.delete(key)
    else:
        location.store.put(key, b"" if break_it == "empty" else location.store.get(key)[:-5])
    batches = iter(scan_batches(plan, hidden))
    assert next(batches).column("v").to_pylist() == [1]
    with pytest.raises(error, match=r"part.*1\.parquet"):
        list(batches)


def test_a_limit_stops_the_reading() -> None:
    store = Counting()
    plan, hidden = laid_down([Made([i]) for i in range(50)], table_at(store))
    assert scan_batches(plan, hidden, limit=3, threads=2).read_all().column("v").to_pylist() == [0, 1, 2]
    assert len(store.read) < 10
    store.read.clear()
    assert scan_table(plan, hidden, limit=0).num_rows == 0
    assert store.read == []


def test_a_scan_that_is_given_up_leaves_no_thread_behind() -> None:
    plan, hidden = laid_down([Made(range(100)) for _ in range(20)], table_at())
    before = threading.active_count()
    reader = scan_batches(plan, hidden, batch_rows=1)
    assert reader.read_next_batch().num_rows == 1
    del reader
    assert threading.active_count() == before


def test_hidden_rows_that_were_not_loaded_never_show() -> None:
    plan, _ = laid_down([Made([1, 2], 1, frozenset({0}))], table_at())
    with pytest.raises(AssertionError, match="were not loaded"):
        scan_table(plan, HiddenRows())


def test_a_file_in_another_store_is_read_from_there() -> None:
    outside = open_location("memory://elsewhere/files")
    outside.store.put("files/a.parquet", parquet([5]))
    location = replace(table_at(), allow_outside=True)
    plan, hidden = laid_down([Made([5])], location, ["memory://elsewhere/files/a.parquet"])
    got = scan_table(replace(plan, metadata=MetadataColumns({"_file": "_file"})), hidden)
    assert got.to_pylist() == [{"v": 5, "p": None, "_file": "memory://elsewhere/files/a.parquet"}]


def test_the_plan_is_described() -> None:
    plan, _ = laid_down([Made([1])], table_at())
    assert "1 file," in describe(plan)[0]


def test_no_spark_is_needed() -> None:
    code = "import sys, holdfast.engines.local.scan; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}).returncode == 0
