"""What a file says of the ids and versions its rows carry: the truth, or nothing."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.parquet.carried import FOOTER_LENGTH, CarriedIdNotes
from holdfast.parquet.pages.find import CandidateFile
from holdfast.parquet.rowmap import ROW_MAP, decoded, read_carried_ids, read_columns
from holdfast.parquet.write import RowWriter, WriteSpec
from holdfast.rows.rowmap import RowMap, checksum
from holdfast.rows.stamp import LARGEST_ID
from holdfast.schema.types import LONG, Field
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.storage.sink import open_sink
from tests.support.depth import examples

SPEC = WriteSpec(fields=(Field("k", LONG),), id_column="_ids", version_column="_versions", row_group_rows=64)
Numbers = list[int | None]


def written(ids: Numbers, versions: Numbers, spec: WriteSpec = SPEC) -> tuple[MemoryStore, CandidateFile, str | None]:
    """A file with these rows, and what its writer notes of it."""
    store = MemoryStore("carried")
    batch = pa.record_batch(
        [pa.array(range(len(ids)), pa.int64()), pa.array(ids, pa.int64()), pa.array(versions, pa.int64())],
        names=["c0", "c1", "c2"],
    )
    with RowWriter(
        spec, open_sink(Location(store, "t"), lambda: 0), lambda: "f.parquet", notes=CarriedIdNotes
    ) as writer:
        writer.write(batch)
        writer.close()
        (file,) = writer.taken().to_pylist()
    return store, CandidateFile("t/f.parquet", file["size"], 1000, 9, "_ids", "_versions"), file["carried"]


def rows(known: RowMap) -> tuple[list[int], list[int]]:
    return known.ids.to_numpy().tolist(), known.versions.at(np.arange(len(known))).tolist()


def expected(ids: Numbers, versions: Numbers) -> tuple[list[int], list[int]]:
    return [1000 + at if i is None else i for at, i in enumerate(ids)], [9 if v is None else v for v in versions]


@given(st.lists(st.tuples(st.none() | st.integers(0, 900), st.none() | st.integers(0, 8)), min_size=1, max_size=150))
@examples(40)
def test_note_footer_and_columns_say_the_same(identities: list[tuple[int | None, int | None]]) -> None:
    ids, versions = [i for i, _ in identities], [None if i is None else v for i, v in identities]
    store, file, note = written(ids, versions)
    seen = read_carried_ids(store, file)
    carries = any(i is not None for i in ids)
    assert seen.carries is carries
    assert rows(read_columns(store, file)) == expected(ids, versions)
    if not carries:
        assert note == ""
        return
    own = [i for i in ids if i is not None]
    assert (seen.low, seen.high, seen.derived) == (min(own), max(own), len(ids) - len(own))
    assert note is not None
    column, low, high, derived, *inline = note.split(",")
    assert (column, int(low), int(high), int(derived)) == (f"{checksum('_ids'):08x}", seen.low, seen.high, seen.derived)
    assert seen.map is not None
    assert rows(seen.map) == expected(ids, versions)
    for text in inline:
        noted = decoded(text, file.key, "_ids")
        assert noted is not None
        assert rows(noted.bound(1000, 9)) == expected(ids, versions)


def test_a_scattered_file_notes_where_its_ids_lie_and_no_more() -> None:
    ids: Numbers = np.random.default_rng(1).permutation(FOOTER_LENGTH).tolist()
    store, file, note = written(ids, [1] * len(ids), replace(SPEC, row_group_rows=1 << 20))
    assert note == f"{checksum('_ids'):08x},0,{FOOTER_LENGTH - 1},0"
    seen = read_carried_ids(store, file)
    assert (seen.carries, seen.map) == (True, None)
    assert rows(read_columns(store, file))[0] == ids


def test_versions_without_ids_are_nothing_that_a_note_can_say() -> None:
    store, file, note = written([None, None], [None, 3])
    assert note is None
    assert read_carried_ids(store, file).carries
    assert rows(read_columns(store, file)) == ([1000, 1001], [9, 3])


def test_a_file_of_another_tables_column_carries_nothing() -> None:
    store, file, _ = written([5, 6], [1, 1])
    assert not read_carried_ids(store, replace(file, id_column="_others")).carries
    assert not read_carried_ids(store, replace(file, id_column=None)).carries


def again(store: MemoryStore, file: CandidateFile, change: Callable[[pa.Table], pa.Table], text: str) -> CandidateFile:
    """The file as some tool might write it again, with this in its footer."""
    table = change(pq.read_table(pa.BufferReader(store.get(file.key))))
    out = pa.BufferOutputStream()
    with pq.ParquetWriter(out, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({ROW_MAP: text})
    data = out.getvalue().to_pybytes()
    store.put(file.key, data)
    return replace(file, size=len(data))


def same(table: pa.Table) -> pa.Table:
    return table


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (same, "{}"),
        (same, "no base64 %"),
        (same, base64.b64encode(b"\x01" * 40).decode()),
        (same, "{}AAAA"),
        (lambda table: table.slice(1), "{}"),
        (lambda table: table.slice(0, 2), "{}"),
        (lambda table: pa.concat_tables([table, table.slice(0, 1)]), "{}"),
        (lambda table: pa.concat_tables([table.slice(1), table.slice(1, 1)]), "{}"),
    ],
)
def test_a_map_that_does_not_fit_its_file_is_not_believed(change: Callable[[pa.Table], pa.Table], text: str) -> None:
    ids, versions = [70, 50, 60], [1, 2, 3]
    store, file, _ = written(list(ids), list(versions))
    footer = pq.read_metadata(pa.BufferReader(store.get(file.key)))
    noted = footer.metadata[ROW_MAP.encode()].decode()
    file = again(store, file, change, text.format(noted))
    truth = change(pa.table({"ids": ids, "versions": versions}))
    wanted = (truth.column("ids").to_pylist(), truth.column("versions").to_pylist())
    seen = read_carried_ids(store, file)
    assert rows(read_columns(store, file)) == wanted
    if seen.map is not None:
        assert rows(seen.map) == wanted
    assert (seen.map is not None) == (change is same and text == "{}")


def test_a_map_that_a_tool_took_along_to_another_file_is_not_believed() -> None:
    store, file, _ = written([70, 50, 60], [1, 2, 3])
    table = pq.read_table(pa.BufferReader(store.get(file.key))).sort_by("_ids")
    assert ROW_MAP.encode() in table.schema.metadata, "what is in a footer travels with the rows"
    out = pa.BufferOutputStream()
    pq.write_table(table, out)
    data = out.getvalue().to_pybytes()
    store.put("t/sorted.parquet", data)
    sorted_ = replace(file, key="t/sorted.parquet", size=len(data))
    assert read_carried_ids(store, sorted_).map is None
    assert rows(read_columns(store, sorted_))[0] == [50, 60, 70]


def test_a_file_without_statistics_may_carry_any_id() -> None:
    store, file, _ = written([5, 6], [1, 1])
    table = pq.read_table(pa.BufferReader(store.get(file.key)))
    out = pa.BufferOutputStream()
    pq.write_table(table, out, write_statistics=False)
    data = out.getvalue().to_pybytes()
    store.put(file.key, data)
    seen = read_carried_ids(store, replace(file, size=len(data)))
    assert seen.carries
    assert (seen.low, seen.high, seen.derived) == (0, LARGEST_ID, 2)
