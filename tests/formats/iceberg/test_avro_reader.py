"""The Avro reader against fastavro, and on corrupt bytes: right or Damaged, at little cost."""

from __future__ import annotations

import io
import json
import random
import resource
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Damaged, TableError, Unsupported
from holdfast.formats.iceberg.avro import reader as avro
from holdfast.formats.iceberg.avro.reader import read_container
from tests.support.depth import examples

PAIRS = {
    "type": "array",
    "logicalType": "map",
    "items": {
        "type": "record",
        "name": "k117_v118",
        "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "long"}],
    },
}
BLOBS = {
    "type": "array",
    "logicalType": "map",
    "items": {
        "type": "record",
        "name": "k126_v127",
        "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}],
    },
}
ANY = {
    "type": "array",
    "items": {
        "type": "record",
        "name": "r508",
        "fields": [{"name": "contains_null", "type": "boolean"}, {"name": "low", "type": ["null", "bytes"]}],
    },
}
SCHEMA = {
    "type": "record",
    "name": "entry",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "l", "type": ["null", "long"]},
        {"name": "f", "type": ["null", "float"]},
        {"name": "d", "type": ["double", "null"]},
        {"name": "b", "type": ["null", "boolean"]},
        {"name": "s", "type": "string"},
        {"name": "y", "type": ["null", "bytes"]},
        {"name": "x", "type": ["null", {"type": "fixed", "name": "fx", "size": 5}]},
        {"name": "pairs", "type": ["null", PAIRS]},
        {"name": "blobs", "type": ["null", BLOBS]},
        {"name": "numbers", "type": {"type": "array", "items": "long"}},
        {"name": "any", "type": ["null", ANY]},
        {"name": "texts", "type": ["null", {"type": "map", "values": "string"}]},
        {
            "name": "inner",
            "type": ["null", {"type": "record", "name": "in", "fields": [{"name": "p", "type": ["null", "double"]}]}],
        },
    ],
}
INT, LONG = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(max_size=90)
SINGLE = st.floats(width=32, allow_nan=False)
DOUBLE = st.floats(allow_nan=False)
RECORD = st.fixed_dictionaries(
    {
        "i": INT,
        "l": st.none() | LONG,
        "f": st.none() | SINGLE,
        "d": st.none() | DOUBLE,
        "b": st.none() | st.booleans(),
        "s": TEXT,
        "y": st.none() | st.binary(max_size=200),
        "x": st.none() | st.binary(min_size=5, max_size=5),
        "pairs": st.none() | st.lists(st.fixed_dictionaries({"key": INT, "value": LONG}), max_size=70),
        "blobs": st.none() | st.lists(st.fixed_dictionaries({"key": INT, "value": st.binary(max_size=70)}), max_size=9),
        "numbers": st.lists(LONG, max_size=6),
        "any": st.none()
        | st.lists(st.fixed_dictionaries({"contains_null": st.booleans(), "low": st.none() | st.binary()}), max_size=4),
        "texts": st.none() | st.dictionaries(TEXT, TEXT, max_size=3),
        "inner": st.none() | st.fixed_dictionaries({"p": st.none() | DOUBLE}),
    }
)


def written(schema: Any, records: list[Any], *, codec: str = "deflate", interval: int = 16000) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), records, codec=codec, sync_interval=interval)
    return out.getvalue()


def as_told(records: list[Any]) -> list[Any]:
    """As ours has them: a map is a list of pairs."""
    return [
        {**r, "texts": r["texts"] and [{"key": k, "value": v} for k, v in r["texts"].items()]}
        if r["texts"]
        else {**r, "texts": None if r["texts"] is None else []}
        for r in records
    ]


@examples(60)
@given(st.lists(RECORD, max_size=8), st.sampled_from(["null", "deflate"]), st.sampled_from([1, 300, 16000]))
def test_every_type_reads_as_fastavro_reads_it(records: list[Any], codec: str, interval: int) -> None:
    data = written(SCHEMA, records, codec=codec, interval=interval)
    theirs = list(fastavro.reader(io.BytesIO(data)))
    assert read_container(data, where="m.avro").records.to_pylist() == as_told(theirs)
    some = read_container(data, wanted={"d", "blobs", "p"}, where="m.avro").records.to_pylist()
    assert some == [{"d": r["d"], "blobs": r["blobs"], "inner": r["inner"]} for r in theirs]


def test_logical_types_of_partition_tuples_keep_every_bit() -> None:
    fields = [
        {"name": "double", "type": "double"},
        {"name": "dec", "type": {"type": "fixed", "name": "d9", "size": 9, "logicalType": "decimal", "precision": 20}},
        {"name": "uuid", "type": {"type": "fixed", "name": "u", "size": 16}},
        {"name": "date", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ]
    schema = {"type": "record", "name": "r", "fields": fields}
    for value in (2.222, 1e308, 5e-324, -0.0, 1 / 3, float("inf")):
        uuid = UUID(int=7).bytes
        data = written(
            schema, [{"double": value, "dec": Decimal(-(10**19)), "uuid": uuid, "date": 19000, "ts": 1 << 50}]
        )
        (theirs,) = fastavro.reader(io.BytesIO(data))
        (ours,) = read_container(data, where="m.avro").records.to_pylist()
        assert struct.pack("<d", ours["double"]) == struct.pack("<d", theirs["double"]) == struct.pack("<d", value)
        assert int.from_bytes(ours["dec"], "big", signed=True) == int(theirs["dec"])
        assert (ours["uuid"], ours["date"], ours["ts"]) == (uuid, 19000, 1 << 50)


def test_blocks_and_records_larger_than_a_part_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro, "PART_BYTES", 4000)
    monkeypatch.setattr(avro, "RECORD_BYTES", 20_000)
    draw = random.Random(5)
    schema = {"type": "record", "name": "r", "fields": [{"name": "s", "type": "string"}, {"name": "n", "type": PAIRS}]}
    records = [
        {
            "s": "x" * draw.randrange(5000),
            "n": [{"key": k, "value": draw.randrange(1 << 40)} for k in range(draw.randrange(200))],
        }
        for _ in range(300)
    ]
    for interval in (1, 20_000, 10_000_000):
        data = written(schema, records, codec="deflate", interval=interval)
        assert read_container(data, where="m.avro").records.to_pylist() == records
    with pytest.raises(Damaged, match="beyond"):
        read_container(written(schema, [{"s": "x" * 30_000, "n": []}]), where="m.avro")


def zigzag(value: int) -> bytes:
    number = (value << 1) ^ (value >> 63)
    out = bytearray()
    while number & ~0x7F:
        out.append((number & 0x7F) | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def file_of(fields: list[Any], count: int, body: bytes, *, codec: str = "null", sync: bytes = bytes(16)) -> bytes:
    """A container of one block, told byte by byte."""
    head = {
        "avro.schema": json.dumps({"type": "record", "name": "r", "fields": fields}).encode(),
        "avro.codec": codec.encode(),
    }
    out = b"Obj\x01" + zigzag(len(head))
    for name, value in head.items():
        out += zigzag(len(name)) + name.encode() + zigzag(len(value)) + value
    return out + b"\0" + bytes(16) + zigzag(count) + zigzag(len(body)) + body + sync


def one(type_: Any) -> list[Any]:
    return [{"name": "v", "type": type_}]


def deflated(size: int) -> bytes:
    packer = zlib.compressobj(9, wbits=-15)
    out = b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20))
    return out + packer.flush()


EMPTY = {"type": "record", "name": "e", "fields": []}
LIES = {
    "a text longer than the block": file_of(one("string"), 1, zigzag(1 << 20) + b"abc"),
    "bytes longer than any memory": file_of(one("bytes"), 1, zigzag(1 << 60) + b"abc"),
    "bytes below zero": file_of(one("bytes"), 1, zigzag(-5) + b"abc"),
    "a text that is no UTF-8": file_of(one("string"), 1, zigzag(2) + b"\xff\xfe"),
    "a block count of 2^62": file_of(one("long"), 1 << 62, b"\x02"),
    "a block count below zero": file_of(one("long"), -1, b"\x02"),
    "a block count that is too small": file_of(one("long"), 1, b"\x02\x02"),
    "a block count that is too large": file_of(one("long"), 3, b"\x02\x02"),
    "records without bytes, many": file_of([], 1 << 62, b""),
    "a list of 2^62 items": file_of(one({"type": "array", "items": "long"}), 1, zigzag(1 << 62) + b"\0\0"),
    "a list of 2^62 items below zero": file_of(
        one({"type": "array", "items": "long"}), 1, zigzag(-(1 << 62)) + zigzag(4) + b"\0\0"
    ),
    "a list of 2^62 pairs": file_of(one(PAIRS), 1, zigzag(1 << 62) + b"\0\0\0"),
    "a list of 2^62 blobs": file_of(one(BLOBS), 1, zigzag(1 << 62) + b"\0\0\0"),
    "a list of another size than it says": file_of(
        one({"type": "array", "items": "string"}), 1, zigzag(-1) + zigzag(9) + b"\x02a\0"
    ),
    "a map of 2^62 entries": file_of(one({"type": "map", "values": "boolean"}), 1, zigzag(1 << 62) + b"\0\0"),
    "a list of nothings": file_of(one({"type": "array", "items": EMPTY}), 1, zigzag(1 << 62) + b"\0"),
    "a list of nulls": file_of(one({"type": "array", "items": "null"}), 1, zigzag(1 << 62) + b"\0"),
    "a number of eleven bytes": file_of(one("long"), 1, b"\xff" * 10 + b"\0"),
    "a number of 70 bits": file_of(one("long"), 1, b"\xff" * 9 + b"\x7f"),
    "an int of 40 bits": file_of(one("int"), 1, zigzag(1 << 40)),
    "a double of four bytes": file_of(one("double"), 1, bytes(4)),
    "a fixed of another length": file_of(one({"type": "fixed", "name": "f", "size": 1 << 40}), 1, bytes(4)),
    "a fixed of no length": file_of(one({"type": "fixed", "name": "f", "size": "4"}), 1, bytes(4)),
    "a boolean of 7": file_of(one("boolean"), 1, b"\x07"),
    "a choice of neither": file_of(one(["null", "long"]), 1, b"\x04\x02"),
    "another sync marker": file_of(one("long"), 1, b"\x02", sync=b"x" * 16),
    "deflated bytes that end early": file_of(one("long"), 1, deflated(1 << 20)[:-3], codec="deflate"),
    "deflated bytes that are none": file_of(one("long"), 1, b"\xff\xff", codec="deflate"),
    "deflated bytes that grow a thousand times": file_of(
        one({"type": "array", "items": "long"}), 1, deflated(1 << 30), codec="deflate"
    ),
    "snappy that claims 4 GB": file_of(one("long"), 1, b"\xff\xff\xff\xff\x0f" + b"abcd", codec="snappy"),
    "snappy of another checksum": file_of(one("long"), 1, b"\x01\x00\x02" + b"abcd", codec="snappy"),
    "zstandard that is none": file_of(one("long"), 1, b"abcdefgh", codec="zstandard"),
    "an unknown codec": file_of(one("long"), 1, b"\x02", codec="lzma"),
    "a schema of levels without end": b"Obj\x01\x02" + zigzag(11) + b"avro.schema" + zigzag(100_000) + b"[" * 100_000,
    "a header that claims 2^62 notes": b"Obj\x01" + zigzag(1 << 62) + bytes(30),
    "a header without a schema": b"Obj\x01\0" + bytes(16),
    "nothing behind the magic": b"Obj\x01",
    "no magic": b"PAR1",
    "a field without a type": file_of([{"name": "v"}], 1, b"\x02"),
    "a type that is a number": file_of(one(7), 1, b"\x02"),
    "a list of nothing said": file_of(one({"type": "array"}), 1, b"\x02"),
    "a field id that is a text": file_of([{"name": "v", "type": "long", "field-id": "x"}], 1, b"\x02"),
    "types within types": file_of(one(json.loads('{"type":' * 40 + '"long"' + "}" * 40)), 1, b"\x02"),
    "null records of very many fields": file_of(
        one(
            [
                "null",
                {"type": "record", "name": "w", "fields": [{"name": f"f{n}", "type": "long"} for n in range(4000)]},
            ]
        ),
        300_000,
        bytes(300_000),
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_bytes_that_lie_are_damaged_and_cost_little(lie: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((Damaged, Unsupported), match=r"m\.avro"):
        read_container(LIES[lie], where="m.avro")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 700_000, "in kilobytes"


def cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))]


def flipped(data: bytes, draw: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(draw.randrange(1, 4)):
        out[draw.randrange(len(out))] = draw.randrange(256)
    return bytes(out)


def spliced(data: bytes, draw: random.Random) -> bytes:
    at, end = sorted(draw.randrange(len(data)) for _ in range(2))
    return data[:at] + draw.randbytes(draw.randrange(12)) + data[end:]


@pytest.mark.parametrize("mutate", [cut, flipped, spliced])
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_mutations_are_read_or_damaged(mutate: Callable[[bytes, random.Random], bytes], codec: str) -> None:
    draw = random.Random(f"{mutate.__name__} {codec}")
    records = [
        {
            "i": n,
            "l": None if n % 3 else n << 40,
            "f": 0.5,
            "d": n / 7,
            "b": True,
            "s": "path" * n,
            "y": b"y",
            "x": b"12345",
            "pairs": [{"key": k, "value": n * k} for k in range(n)],
            "blobs": [{"key": k, "value": bytes(8)} for k in range(n)],
            "numbers": [4],
            "any": [{"contains_null": False, "low": b"a"}],
            "texts": {"a": "b"},
            "inner": {"p": 2.5},
        }
        for n in range(6)
    ]
    data = written(SCHEMA, records, codec=codec)
    for _ in range(250):
        with suppress(TableError):
            found = read_container(mutate(data, draw), where="m.avro").records
            found.validate(full=True)
            assert isinstance(found, pa.StructArray)
