"""Shredded variants read as what they were before shredding."""

from __future__ import annotations

import datetime as dt
import decimal
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Damaged, Unsupported
from holdfast.parquet.read import FileTask, ReadSpec, read_batches
from holdfast.schema.types import Field, Primitive
from tests.support.depth import examples
from tests.support.variant import decoded

VARIANT = (Field("v", Primitive("variant")),)
B = pa.binary()


def metadata(*names: str) -> bytes:
    ends = [0]
    for name in names:
        ends.append(ends[-1] + len(name.encode()))
    return bytes([1, len(names), *ends]) + "".join(names).encode()


def read(rows: list[Any], typed: pa.DataType | None) -> list[Any]:
    parts = [("metadata", B), ("value", B)] + ([("typed_value", typed)] if typed is not None else [])
    sink = io.BytesIO()
    pq.write_table(pa.table({"v": pa.array(rows, pa.struct(parts))}), sink)
    batches = list(read_batches(sink, ReadSpec(VARIANT), FileTask("file:/x")))
    for batch in batches:
        batch.validate(full=True)
    values = [v for b in batches for v in b.column("v").to_pylist()]
    return [None if v is None else decoded(v["value"], v["metadata"]) for v in values]


@pytest.mark.parametrize(
    ("type_", "value", "meaning"),
    [
        (pa.bool_(), True, ("boolean", True)),
        (pa.bool_(), False, ("boolean", False)),
        (pa.int8(), -128, ("integer", -128)),
        (pa.int64(), 127, ("integer", 127)),
        (pa.int64(), 128, ("integer", 128)),
        (pa.int64(), -(2**31) - 1, ("integer", -(2**31) - 1)),
        (pa.float32(), 0.5, (14, 0.5)),
        (pa.float64(), 0.1, (7, 0.1)),
        (pa.decimal128(5, 2), decimal.Decimal("-1.25"), ("decimal", decimal.Decimal("-1.25"))),
        (pa.decimal128(38, 30), decimal.Decimal("0.5"), ("decimal", decimal.Decimal("0.5"))),
        (pa.date32(), dt.date(1970, 1, 3), (11, 2)),
        (pa.timestamp("us", "UTC"), dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), (12, 10**6)),
        (pa.timestamp("us"), dt.datetime(1970, 1, 1, 0, 0, 1), (13, 10**6)),
        (pa.string(), "x" * 63, ("string", b"x" * 63)),
        (pa.string(), "x" * 64, ("string", b"x" * 64)),
        (pa.binary(), b"\x01", ("binary", b"\x01")),
    ],
)
def test_each_typed_scalar(type_: pa.DataType, value: Any, meaning: Any) -> None:
    row = {"metadata": metadata(), "value": None, "typed_value": value}
    plain = {"metadata": metadata(), "value": b"\x0c\x07", "typed_value": None}
    neither = {"metadata": metadata(), "value": None, "typed_value": None}
    assert read([row, plain, None, neither], type_) == [meaning, ("integer", 7), None, ("null",)]


def test_an_unknown_typed_value_is_refused() -> None:
    with pytest.raises(Unsupported, match="v of file:/x"):
        read([{"metadata": metadata(), "value": None, "typed_value": 1}], pa.timestamp("ms"))


scalars = st.none() | st.integers(-(2**40), 2**40) | st.text(max_size=4)


def encode(value: Any, names: list[str]) -> bytes:
    """A plain encoding with wide integers, unlike the one under test."""
    match value:
        case None:
            return b"\x00"
        case int():
            return bytes([6 << 2]) + value.to_bytes(8, "little", signed=True)
        case str():
            data = value.encode()
            return bytes([16 << 2]) + len(data).to_bytes(4, "little") + data
    ordered = sorted(value, key=str.encode)
    parts = [encode(value[name], names) for name in ordered]
    ends = [sum(map(len, parts[:i])) for i in range(len(parts) + 1)]
    header = (3 << 2 | 3) << 2 | 2
    numbers = [names.index(n) for n in ordered] + ends
    return bytes([header, len(parts)]) + b"".join(n.to_bytes(4, "little") for n in numbers) + b"".join(parts)


@examples(100)
@given(st.lists(st.dictionaries(st.sampled_from("abcd"), scalars), max_size=5))
def test_any_object_is_whole_again_after_shredding_some_fields(objects: list[dict[str, Any]]) -> None:
    """Field a is shredded as a long, b as a string; c and d, and misfits, stay encoded."""
    names = list("abcd")
    shred = pa.struct([
        ("a", pa.struct([("value", B), ("typed_value", pa.int64())])),
        ("b", pa.struct([("value", B), ("typed_value", pa.string())])),
    ])  # fmt: skip
    rows = []
    for fields in objects:
        parts = {}
        for name, kind in (("a", int), ("b", str)):
            fits = isinstance(fields.get(name), kind)
            misfit = None if fits or name not in fields else encode(fields[name], names)
            parts[name] = {"value": misfit, "typed_value": fields[name] if fits else None}
        rest = {n: v for n, v in fields.items() if n in "cd"}
        rows.append(
            {"metadata": metadata(*names), "value": encode(rest, names) if rest else None, "typed_value": parts}
        )
    assert read(rows, shred) == [decoded(encode(o, names), metadata(*names)) for o in objects]


@examples(50)
@given(st.lists(st.none() | st.lists(scalars, max_size=4), max_size=4))
def test_any_array_is_whole_again_after_shredding(arrays: list[list[Any] | None]) -> None:
    element = pa.struct([("value", B), ("typed_value", pa.string())])
    rows = [
        {
            "metadata": metadata(),
            "value": b"\x00" if array is None else None,
            "typed_value": None
            if array is None
            else [
                {
                    "value": None if isinstance(v, str) else encode(v, []),
                    "typed_value": v if isinstance(v, str) else None,
                }
                for v in array
            ],
        }
        for array in arrays
    ]
    expected = [
        ("null",) if array is None else ("array", tuple(decoded(encode(v, []), metadata()) for v in array))
        for array in arrays
    ]
    assert read(rows, pa.list_(element)) == expected


def test_contradictions_are_damage() -> None:
    shred = pa.struct([("a", pa.struct([("value", B), ("typed_value", pa.int64())]))])
    typed = {"a": {"value": None, "typed_value": 1}}
    with pytest.raises(Damaged, match="lacks its field 'a'"):
        read([{"metadata": metadata("b"), "value": None, "typed_value": typed}], shred)
    with pytest.raises(Damaged, match="no object"):
        read([{"metadata": metadata("a"), "value": b"\x00", "typed_value": typed}], shred)


@pytest.mark.parametrize(
    ("listed", "rest", "what"),
    [
        (b"\xc1" + b"\xff" * 4 + b"\x00" * 8, None, "speaks of 4294967296 numbers"),
        (b"\x01\x01\x00\x09a", None, "names that lie outside"),
        (b"\x01\x01\x01\x01a", None, "names that lie outside"),
        (b"\x01\x01\x00\x01\xff", None, "not UTF-8"),
        (metadata("a", "b"), bytes([(1 << 4 | 3 << 2 | 3) << 2 | 2]) + b"\xff" * 4, "speaks of 4294967295 numbers"),
        (metadata("a", "b"), b"\x02\x01\x01\x00\x09\x00", "a field that lies outside"),
        (metadata("a", "b"), b"\x02\x01\x01\x05\x01\x00", "a field that lies outside"),
    ],
)
def test_counts_and_offsets_beyond_the_bytes_are_damage(listed: bytes, rest: bytes | None, what: str) -> None:
    shred = pa.struct([("a", pa.struct([("value", B), ("typed_value", pa.int64())]))])
    typed = {"a": {"value": None, "typed_value": 1}}
    with pytest.raises(Damaged, match=what):
        read([{"metadata": listed, "value": rest, "typed_value": typed}], shred)
