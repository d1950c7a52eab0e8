"""Records of the compact protocol: what is written is read, and nonsense does no harm."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.parquet.pages import thrift
from holdfast.parquet.pages.headers import decoded_levels
from holdfast.parquet.pages.pagemap import load_page_map, page_locations
from tests.parquet.taking import stored
from tests.support.depth import examples

LONGS = st.integers(-(2**63), 2**63 - 1)


def written(value: Any) -> tuple[int, bytes]:
    """The kind of a value, and its bytes."""
    match value:
        case int():
            return thrift.I64, thrift.number(value)
        case bytes():
            return thrift.BINARY, thrift.unsigned(len(value)) + value
        case list():
            parts = [written(v) for v in value]
            return thrift.LIST, thrift.sequence(parts[0][0] if parts else thrift.I64, (body for _, body in parts))
        case _:
            return thrift.STRUCT, thrift.struct(*((at, *written(v)) for at, v in sorted(value.items())))


def values() -> st.SearchStrategy[Any]:
    leaf = st.one_of(LONGS, st.binary(max_size=20))
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(LONGS, max_size=40),
            st.lists(st.dictionaries(st.integers(1, 15), LONGS, max_size=3), max_size=20),
            st.dictionaries(st.integers(1, 15), inner, max_size=5),
        ),
        max_leaves=8,
    )


@examples(100)
@given(st.dictionaries(st.integers(1, 15), values(), max_size=6), st.binary(max_size=4))
def test_what_is_written_is_read(fields: dict[int, Any], behind: bytes) -> None:
    _, data = written(fields)
    assert thrift.record(data + behind, 0) == (fields, len(data))
    assert thrift.skip(data + behind, 0, thrift.STRUCT) == len(data)
    spans, end = thrift.spans(data + behind, 0)
    assert [number for number, _, _ in spans] == sorted(fields)
    assert end == len(data)


@examples(50)
@given(st.lists(LONGS, min_size=1, max_size=30))
def test_many_numbers_at_once(numbers: list[int]) -> None:
    parts = [thrift.number(n) for n in numbers]
    ends = np.cumsum([len(part) for part in parts])
    values, behind = thrift.varints(np.frombuffer(b"".join(parts), np.uint8), np.append(0, ends[:-1]))
    assert values.tolist() == numbers
    assert behind.tolist() == ends.tolist()


@examples(200)
@given(st.binary(max_size=60))
def test_nonsense_is_refused_or_read_within_its_bytes(data: bytes) -> None:
    for read in (lambda: thrift.record(data, 0), lambda: thrift.spans(data, 0), lambda: page_locations(data)):
        with suppress(ValueError, IndexError):
            read()


def test_a_record_without_end_does_not_exhaust_the_stack() -> None:
    for deep in (b"\x1c" * 10_000, b"\x19\x1c" * 10_000):
        with pytest.raises(ValueError, match="too deep"):
            thrift.record(deep, 0)
        with pytest.raises(ValueError, match="too deep"):
            thrift.skip(deep, 0, thrift.STRUCT)


@pytest.mark.parametrize("kinds", [0x11, 0x12, 0x55, 0x88, 0x99, 0xCC])
def test_a_count_beyond_the_bytes_is_refused_at_once(kinds: int) -> None:
    counts = [thrift.unsigned(count) for count in (2**60, 2**32, 100)]
    for count in counts:
        for crafted in (b"\x1b" + count + bytes([kinds]), bytes([0x19, 0xF0 | kinds & 15]) + count):
            with pytest.raises(ValueError, match="longer than what holds it"):
                thrift.record(crafted + bytes(60), 0)
            with pytest.raises(ValueError, match="longer than what holds it"):
                thrift.skip(crafted + bytes(60), 0, thrift.STRUCT)


def test_a_map_that_fits_is_stepped_over() -> None:
    crafted = b"\x1b" + thrift.unsigned(2) + b"\x11" + b"\x01\x02\x01\x01" + b"\x15\x02\x00"
    assert thrift.record(crafted, 0)[0][2] == 1


@pytest.mark.parametrize("header", [2**62 + 1, 2**63 - 1, 201])
def test_levels_beyond_their_bytes_are_not_understood(header: int) -> None:
    assert decoded_levels(thrift.unsigned(header) + bytes(20), 2, 10) is None
    assert decoded_levels(b"", 1, 0) is None


@examples(100)
@given(st.data())
def test_a_damaged_footer_or_index_is_not_understood_or_tiles_its_chunks(data: st.DataObject) -> None:
    file = bytearray(stored(pa.table({"a": range(300), "s": ["x"] * 300}), max_rows_per_page=10))
    footer = int.from_bytes(file[-8:-4], "little") + 8
    for _ in range(data.draw(st.integers(1, 3))):
        file[-data.draw(st.integers(1, footer + 200))] = data.draw(st.integers(0, 255))
    page_map = load_page_map(lambda at, length: bytes(file[at : at + length]), len(file), guess=1 << 16)
    leaves = [] if page_map is None else [page_map.leaf(i) for i in range(len(page_map.levels))]
    for leaf in leaves:
        if leaf is not None:
            assert (np.diff(leaf.firsts) > 0).all()
            assert (leaf.starts < leaf.stops).all()
