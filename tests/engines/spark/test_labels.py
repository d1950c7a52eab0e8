"""Packed numbers give every row its own, by the arithmetic that Spark does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64
from pyspark.sql import SparkSession

from holdfast.engines.spark.scan.labels import look_up, packed, width_of
from tests.support.depth import examples

POSITIONS = st.integers(0, 200) | st.integers(65_530, 65_540) | st.integers(300_000, 300_100)


def slices_of(numbers: dict[int, int]) -> list[BitMap64]:
    bits = max((n.bit_length() for n in numbers.values()), default=0)
    return [BitMap64([p for p, n in numbers.items() if n >> bit & 1]) for bit in range(bits)]


@examples(60)
@given(st.lists(st.dictionaries(POSITIONS, st.integers(1, 70_000), max_size=20), max_size=4))
def test_every_number_is_found_where_it_was_put(files: list[dict[int, int]]) -> None:
    slices = [slices_of(numbers) for numbers in files]
    width = width_of(max((len(s) for s in slices), default=1))
    made = packed(slices, width).to_pylist()
    for numbers, chunks in zip(files, made, strict=True):
        for position in {*numbers, *range(0, 210), 65_535, 65_536, 300_050}:
            chunk = chunks[position >> 16] if position >> 16 < len(chunks) else None
            at = (position & 65_535) // (64 // width)
            word = chunk[at] if chunk is not None and at < len(chunk) else 0
            found = word >> (position % (64 // width) * width) & ((1 << width) - 1)
            assert found == numbers.get(position, 0)


def test_widths_are_powers_of_two() -> None:
    assert [width_of(bits) for bits in (1, 2, 3, 4, 5, 8, 9, 16, 17)] == [1, 2, 4, 4, 8, 8, 16, 16, 32]


def test_spark_finds_them_too(spark: SparkSession) -> None:
    numbers = {0: 1, 3: 200, 63: 7, 64: 255, 65_535: 9, 65_536: 128, 131_080: 3}
    table = spark.createDataFrame(packed_table(numbers), "chunks array<array<bigint>>")
    asked = spark.createDataFrame([(p,) for p in (*numbers, 1, 62, 70_000, 900_000)], "p long")
    found = asked.crossJoin(table).selectExpr("p", f"{look_up('chunks', 'p', 8)} AS n").collect()
    assert {row.p: row.n for row in found} == {**numbers, 1: 0, 62: 0, 70_000: 0, 900_000: 0}


def packed_table(numbers: dict[int, int]) -> list[tuple[list[list[int] | None]]]:
    return [(packed([slices_of(numbers)], 8).to_pylist()[0],)]
