"""Where rows lie on a curve: in the order of their values, and in parts of about the same size."""

from __future__ import annotations

import datetime
import math
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

import holdfast
from holdfast.plan.maintain.curve import PLACE_BITS, Along, curve_of
from tests.support.depth import examples

_TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=10)
_MOMENTS = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))


def _order(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return (1, 0.0)
    return (0, value.encode() if isinstance(value, str) else value)


TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "byte": (pa.int8(), st.integers(-128, 127)),
    "double": (pa.float64(), st.floats()),
    "float": (pa.float32(), st.floats(width=32)),
    "string": (pa.string(), _TEXTS),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us", "UTC"), _MOMENTS.map(lambda m: m.replace(tzinfo=datetime.UTC))),
    "timestamp_ntz": (pa.timestamp("us"), _MOMENTS),
    "decimal": (pa.decimal128(9, 3), st.decimals(-999_999, 999_999, places=3)),
    "long decimal": (pa.decimal128(38, 2), st.integers(-(10**35), 10**35).map(lambda n: Decimal(n).scaleb(-2))),
}


@pytest.mark.parametrize("name", TYPES)
@examples(30)
@given(data=st.data())
def test_greater_values_lie_no_earlier(name: str, data: st.DataObject) -> None:
    type_, values = TYPES[name]
    sample = data.draw(st.lists(st.none() | values, max_size=30))
    rows = sorted(data.draw(st.lists(values, max_size=30)), key=_order)
    curve = curve_of([pa.array(sample, type_)], Along.HILBERT, 3)
    numbers = curve.number([pa.array([None, *rows], type_)])
    assert numbers[0] == 0
    assert (np.diff(numbers) >= 0).all()


@examples(30)
@given(
    columns=st.integers(1, 6),
    parts=st.integers(1, 12),
    along=st.sampled_from(Along),
    seed=st.integers(0, 99),
)
def test_parts_are_stretches_of_the_curve_of_like_size(columns: int, parts: int, along: Along, seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = [pa.array(random.random(2_000)) for _ in range(columns)]
    curve = curve_of(rows, along, parts)
    places = curve.place(rows)
    by_number = np.argsort(curve.number(rows), kind="stable")
    assert (np.diff(places[by_number]) >= 0).all()
    sizes = np.bincount(places >> PLACE_BITS, minlength=curve.parts)
    assert curve.parts == len(sizes) == parts
    assert sizes.max() < 2 * 2_000 / parts


def test_a_column_of_two_values_splits_in_the_middle() -> None:
    many, few = pa.array(np.arange(4096)), pa.array(np.arange(4096) % 2)
    places = curve_of([many, few], Along.HILBERT, 4).place([many, few]) >> PLACE_BITS
    assert all(len(set((np.arange(4096) % 2)[places == part])) == 1 for part in range(4))


@pytest.mark.parametrize(
    "make_column",
    [
        lambda: pa.array([], pa.int64()),
        lambda: pa.array([None] * 5, pa.string()),
        lambda: pa.array([math.nan] * 5),
        lambda: pa.array([7] * 5),
    ],
)
def test_a_column_that_says_nothing_still_gives_places(make_column: Callable[[], pa.Array]) -> None:
    column = make_column()
    curve = curve_of([column, column], Along.HILBERT, 4)
    assert curve.parts == 1
    assert len(curve.place([column, column])) == len(column)


def test_dictionaries_and_slices_are_read_as_what_they_hold() -> None:
    texts = pa.array(["b", "a", None, "c"])
    decimals = pa.array([Decimal("3.5"), None, Decimal("-1.5"), Decimal("2.0")])
    curve = curve_of([texts, decimals], Along.Z_ORDER, 1)
    whole = curve.number([texts, decimals])
    assert curve.number([texts.dictionary_encode(), decimals]).tolist() == whole.tolist()
    assert curve.number([texts.slice(1, 2), decimals.slice(1, 2)]).tolist() == whole[1:3].tolist()


WORKER = """
import pickle, sys
sys.modules["holdfast"] = None  # importing it fails
curve, columns = pickle.load(open(sys.argv[1], "rb"))
print(curve.place(columns).tolist())
"""


def test_a_worker_without_holdfast_finds_places(tmp_path: Path) -> None:
    columns = [pa.array(["b", None, "a"]), pa.array([1.5, math.nan, 0.0]), pa.array([Decimal("1.5")] * 3)]
    curve = curve_of(columns, Along.HILBERT, 2)
    cloudpickle.register_pickle_by_value(holdfast)
    (tmp_path / "task").write_bytes(cloudpickle.dumps((curve, columns)))
    done = subprocess.run([sys.executable, "-c", WORKER, str(tmp_path / "task")], capture_output=True, text=True)
    assert done.stdout.strip() == str(curve.place(columns).tolist()), done.stderr
