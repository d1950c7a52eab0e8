"""The Avro reader on the encodings that writers may choose from, and on wrong guesses of record boundaries."""

from __future__ import annotations

import io
import json
import random
import struct
import time
import zlib
from collections.abc import Callable
from typing import Any
from uuid import UUID

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Damaged, Unsupported
from holdfast.formats.iceberg.avro import records as avro_records
from holdfast.formats.iceberg.avro.layouts import Record
from holdfast.formats.iceberg.avro.reader import read_container
from holdfast.formats.iceberg.avro.window import AvroWindow
from holdfast.formats.iceberg.avro.writer import write_container
from holdfast.formats.iceberg.commit.avro_schemas import entry_schema, tuple_schema
from holdfast.formats.iceberg.commit.manifest_writer import stored_tuple_schema
from holdfast.formats.iceberg.metadata.manifests import DATA, ManifestFile, read_manifest
from holdfast.formats.iceberg.metadata.partition_spec import PartitionField, PartitionSpec, Transform
from holdfast.formats.iceberg.metadata.paths import Paths
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from tests.formats.iceberg.test_avro_reader import (
    RECORD,
    SCHEMA,
    as_told,
    file_of,
    one,
    written,
    zigzag,
)
from tests.support.depth import examples

CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda body: body,
    "deflate": lambda body: zlib.compress(body, wbits=-15),
    "zstandard": lambda body: bytes(pa.Codec("zstd").compress(body)),
    "snappy": lambda body: bytes(pa.Codec("snappy").compress(body)) + zlib.crc32(body).to_bytes(4, "big"),
}


class Odd:
    """Writes a value in any of the ways that Avro allows: lists in several runs, with sizes or without."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def value(self, schema: Any, value: Any) -> bytes:
        if isinstance(schema, list):
            at = schema.index("null") if value is None else next(i for i, s in enumerate(schema) if s != "null")
            return zigzag(at) + (b"" if value is None else self.value(schema[at], value))
        kind = schema["type"] if isinstance(schema, dict) else schema
        match kind:
            case "int" | "long":
                return zigzag(value)
            case "string" | "bytes":
                blob = value.encode() if kind == "string" else value
                return zigzag(len(blob)) + bytes(blob)
            case "fixed":
                return bytes(value)
            case "boolean":
                return b"\1" if value else b"\0"
            case "float" | "double":
                return struct.pack("<f" if kind == "float" else "<d", value)
            case "record":
                return b"".join(self.value(f["type"], value[f["name"]]) for f in schema["fields"])
            case "map":
                pairs = [self.value("string", k) + self.value(schema["values"], v) for k, v in value.items()]
                return self._runs(pairs)
            case _:
                return self._runs([self.value(schema["items"], item) for item in value])

    def _runs(self, items: list[bytes]) -> bytes:
        out = b""
        while items:
            count = self._draw.randrange(1, len(items) + 1) if self._draw.random() < 0.5 else len(items)
            body, items = b"".join(items[:count]), items[count:]
            sized = self._draw.random() < 0.3
            out += (zigzag(-count) + zigzag(len(body)) if sized else zigzag(count)) + body
        return out + b"\0"


def odd_file(schema: Any, records: list[Any], *, codec: str, seed: int) -> bytes:
    """A container with blocks of any number of records, empty ones among them."""
    draw, odd = random.Random(seed), Odd(seed)
    head = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode(), "other": b"\0"}
    sync = bytes(range(16))
    notes = b"".join(zigzag(len(k)) + k.encode() + zigzag(len(v)) + v for k, v in head.items())
    out = b"Obj\x01" + zigzag(-len(head)) + zigzag(len(notes)) + notes + b"\0" + sync
    while records or draw.random() < 0.5:
        count = draw.randrange(len(records) + 1)
        body = CODECS[codec](b"".join(odd.value(schema, record) for record in records[:count]))
        records = records[count:]
        out += zigzag(count) + zigzag(len(body)) + body + sync
    return out


@examples(40)
@given(st.lists(RECORD, max_size=40), st.sampled_from(sorted(CODECS)), st.integers(0, 1 << 30))
def test_whatever_avro_lets_a_writer_spell_reads_as_fastavro_reads_it(
    records: list[Any], codec: str, seed: int
) -> None:
    data = odd_file(SCHEMA, records, codec=codec, seed=seed)
    assert read_container(data, where="m.avro").records.to_pylist() == as_told(records)
    if codec in ("null", "deflate"):  # the others need packages here
        assert list(fastavro.reader(io.BytesIO(data))) == records


ENTRY = entry_schema(
    {
        "type": "record",
        "name": "r102",
        "fields": [{"name": "p", "type": ["null", "double"], "field-id": 1000}],
    },
    3,
)


def entry(draw: random.Random) -> dict[str, Any]:
    """An entry as there may be next to any other: paths are the values of several fields."""
    path = f"s3://bucket/{'x' * draw.randrange(90)}/{draw.getrandbits(64)}.parquet"
    columns = range(draw.randrange(5))
    pairs = [{"key": c, "value": draw.randrange(1 << draw.randrange(1, 60))} for c in columns]
    blobs = [{"key": 2147483546, "value": path.encode()}, *({"key": c, "value": draw.randbytes(c)} for c in columns)]
    maybe = draw.choice([None, 0, 1, draw.randrange(1 << 62), draw.randrange(-(1 << 40), 1 << 40)])
    file = {
        "content": draw.randrange(3),
        "file_path": path,
        "file_format": draw.choice(["PARQUET", "parquet", "orc", ""]),
        "partition": {"p": draw.choice([None, draw.random()])},
        "record_count": draw.randrange(1 << 40),
        "file_size_in_bytes": draw.randrange(1 << 20),
        **{name: draw.choice([None, pairs]) for name in ("column_sizes", "value_counts", "null_value_counts")},
        "nan_value_counts": [],
        "lower_bounds": draw.choice([None, blobs]),
        "upper_bounds": blobs,
        "key_metadata": draw.choice([None, path.encode()]),
        "split_offsets": draw.choice([None, [4, 1 << 30]]),
        "equality_ids": draw.choice([None, [1]]),
        "sort_order_id": draw.choice([None, 0]),
        "first_row_id": maybe,
        "referenced_data_file": draw.choice([None, path]),
        "content_offset": maybe,
        "content_size_in_bytes": None,
    }
    return {
        "status": draw.randrange(3),
        "snapshot_id": maybe,
        "sequence_number": draw.choice([None, 0, 1, 300]),
        "file_sequence_number": draw.choice([None, 0, 1, 300]),
        "data_file": file,
    }


@examples(20)
@given(st.integers(0, 1 << 40), st.integers(0, 200))
def test_entries_of_manifests_read_as_fastavro_reads_them(seed: int, count: int) -> None:
    draw = random.Random(seed)
    data = written(ENTRY, [entry(draw) for _ in range(count)], interval=draw.choice([1, 5000, 1 << 20]))
    assert read_container(data, where="m.avro").records.to_pylist() == list(fastavro.reader(io.BytesIO(data)))


def test_records_that_look_alike_are_found_by_their_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(*_: object) -> None:
        raise AssertionError("records were walked one by one")

    monkeypatch.setattr(avro_records, "_chain", nobody)
    draw = random.Random(1)
    entries = [entry(draw) for _ in range(500)]
    for one_of in entries:
        one_of["snapshot_id"] = draw.randrange(1 << 50, 1 << 63)
        one_of["file_sequence_number"] = one_of["sequence_number"]
        one_of["data_file"] |= dict.fromkeys(("referenced_data_file", "lower_bounds", "upper_bounds", "key_metadata"))
    data = written(ENTRY, entries)
    assert read_container(data, where="m.avro").records.to_pylist() == list(fastavro.reader(io.BytesIO(data)))


@examples(40)
@given(st.integers(0, 1 << 40), st.integers(1, 60))
def test_a_guess_never_changes_what_is_read(seed: int, count: int) -> None:
    draw = random.Random(seed)
    data = written(ENTRY, [entry(draw) for _ in range(count)], codec="null")
    right = read_container(data, where="m.avro").records
    true_guess = avro_records._guessed

    def guesses(record: Record, window: AvroWindow) -> Any:
        some = [place for place in true_guess(record, window).tolist() if draw.random() < 0.8]
        wrong = [draw.randrange(window.size) for _ in range(draw.randrange(window.size // record.least))]
        return np.array(sorted({*some, *wrong}), np.int64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro_records, "_guessed", guesses)
        assert read_container(data, where="m.avro").records.equals(right)


def test_a_type_may_be_meant_by_its_name() -> None:
    """Avro's own writers define a type once: a second partition field of the same type is its name."""
    decimal = {"type": "fixed", "name": "decimal_9_2", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}
    fields = [
        {"name": "a", "type": ["null", {"type": "fixed", "name": "uuid_fixed", "size": 16}], "field-id": 1000},
        {"name": "b", "type": ["null", "uuid_fixed"], "field-id": 1001},
        {"name": "c", "type": decimal, "field-id": 1002},
        {"name": "d", "type": ["decimal_9_2", "null"], "field-id": 1003},
    ]
    schema = entry_schema({"type": "record", "name": "r102", "fields": fields}, 2)
    uuid = UUID(int=7).bytes
    tuple_ = {"a": uuid, "b": uuid, "c": b"\0\0\1\0", "d": b"\xff\xff\xff\xff"}
    file = {"content": 0, "file_path": "p", "file_format": "x", "partition": tuple_}
    entry = {"status": 1, "data_file": {**file, "record_count": 1, "file_size_in_bytes": 1}}
    data = write_container(schema, [entry, entry], {}, sync=bytes(16))
    assert len(list(fastavro.reader(io.BytesIO(data)))) == 2
    read = read_container(data, where="m.avro")
    assert read.records.field("data_file").field("partition").to_pylist() == [tuple_, tuple_]
    assert stored_tuple_schema(read.header["avro.schema"])["fields"] == fields
    other = {"type": "record", "name": "r", "namespace": "n.s", "fields": one("long")}
    spaced = file_of([{"name": "x", "type": other}, {"name": "y", "type": "n.s.r"}], 1, b"\x02\x04")
    assert read_container(spaced, where="m.avro").records.to_pylist() == [{"x": {"v": 1}, "y": {"v": 2}}]


def test_tuples_of_two_columns_of_one_type_have_a_schema_that_others_take() -> None:
    for spelled in ("uuid", "decimal(9, 2)", "fixed[7]"):
        fields = tuple(PartitionField(n, 1000 + n, f"p{n}", Transform("identity")) for n in (1, 2))
        schema = entry_schema(tuple_schema(PartitionSpec(0, fields), {1: spelled, 2: spelled}), 3)
        fastavro.parse_schema(schema)  # refuses a name that is defined twice


def test_what_is_always_null_has_no_bytes() -> None:
    fields = [{"name": "n", "type": "null"}, {"name": "v", "type": "long"}]
    assert read_container(file_of(fields, 2, b"\x02\x04"), where="m.avro").records.to_pylist() == [
        {"n": None, "v": 1},
        {"n": None, "v": 2},
    ]


def nested(levels: int) -> Any:
    return "string" if not levels else {"type": "array", "items": nested(levels - 1)}


EMPTY = {"type": "record", "name": "e", "fields": []}
SIGN = zigzag(8) + b"s3://bkt"
SLOW = {
    "very many fields without bytes": file_of(
        [{"name": f"f{n}", "type": EMPTY} for n in range(4000)] + one("long"), 1 << 20, b"\x02" * (1 << 20)
    ),
    "a fixed type of no bytes": file_of(one({"type": "fixed", "name": "f", "size": 0}), 1, b"\0"),
    "a list of very many runs, cut": file_of(
        one({"type": "array", "items": "string"}), 1, (zigzag(1) + b"\0") * (1 << 18)
    ),
    "a list of very many items, cut": file_of(
        one({"type": "array", "items": "string"}), 1, zigzag(1 << 20) + b"\0" * (1 << 20)
    ),
    "very many guesses with lists that overlap": file_of(
        [{"name": "s", "type": "string"}, {"name": "v", "type": nested(1)}], 1, (SIGN + zigzag(1 << 16)) * (1 << 16)
    ),
    "very many guesses with lists within lists": file_of(
        [{"name": "s", "type": "string"}, {"name": "v", "type": nested(3)}], 1, (SIGN + zigzag(1 << 10)) * (1 << 16)
    ),
    "very many fields behind a text that comes often": file_of(
        [{"name": "s", "type": "string"}, *({"name": f"f{n}", "type": "bytes"} for n in range(4000))],
        1,
        SIGN * (1 << 16),
    ),
    "very many choices before the text": file_of(
        [*({"name": f"f{n}", "type": ["null", "long"]} for n in range(60)), {"name": "s", "type": "string"}],
        1,
        (b"\0\2\2" * 20 + SIGN) * (1 << 13),
    ),
    "a list of very long numbers": file_of(one({"type": "array", "items": "long"}), 1, zigzag(9) + b"\xff" * (1 << 20)),
    "two fields of one name": file_of([*one("long"), *one("long")], 1, b"\x02\x02"),
    "a field id that is a truth value": file_of([{"name": "v", "type": "long", "field-id": True}], 1, b"\x02"),
    "a choice within a choice": file_of(one(["null", {"type": ["null", "long"]}]), 1, b"\x02\x02\x02"),
    "a type that is made of itself": file_of(
        one({"type": "record", "name": "w", "fields": [{"name": "a", "type": "w"}, {"name": "b", "type": "w"}]}),
        1,
        b"\0",
    ),
    "a name of no type": file_of(one("uuid_fixed"), 1, bytes(16)),
    "a list with a size below zero": file_of(
        one({"type": "array", "items": "long"}), 1, zigzag(-1) + zigzag(-(1 << 62)) + b"\x02\0"
    ),
    "a list whose size is beyond all numbers": file_of(
        one({"type": "array", "items": "string"}), 1, zigzag(-1) + zigzag((1 << 63) - 1) + b"\x02a\0"
    ),
    "the least number as a count": file_of(
        one({"type": "array", "items": "string"}), 1, zigzag(-(1 << 63)) + zigzag(2) + b"\x02a\0"
    ),
    "the largest number as a length": file_of(
        [*one("string"), {"name": "w", "type": "string"}], 1, b"\0" + zigzag((1 << 63) - 1) + b"a"
    ),
    "a block without records that has bytes": file_of(one("long"), 0, b"\x02"),
}


@pytest.mark.parametrize("lie", SLOW)
def test_what_would_take_long_or_contradicts_itself_is_refused_soon(lie: str) -> None:
    before = time.process_time()
    with pytest.raises((Damaged, Unsupported), match=r"m\.avro"):
        read_container(SLOW[lie], where="m.avro")
    assert time.process_time() - before < 20


def test_lists_that_are_long_or_have_many_runs_read_in_proportion() -> None:
    many = 1 << 16
    for type_, item in (("string", b"\x02a"), (["null", "long"], b"\0"), ("long", b"\x02")):
        runs = (zigzag(1) + item) * many + b"\0"
        one_run = zigzag(many) + item * many + b"\0"
        data = file_of(one({"type": "array", "items": type_}), 2, runs + one_run)
        before = time.process_time()
        records = read_container(data, where="m.avro").records
        assert time.process_time() - before < 20
        assert pa.compute.list_value_length(records.field("v")).to_pylist() == [many, many]


def record(name: str, type_: Any) -> Any:
    return {"type": "record", "name": "f", "fields": [{"name": name, "type": type_}]}


@pytest.mark.parametrize(
    ("changed", "body"),
    [
        ({"status": "string"}, b"\0\0"),
        ({"status": ["null", "int"]}, b"\0\0"),
        ({"status": "int"}, b"\x09\0"),
        ({"data_file": "long"}, b"\0\0\0"),
        ({"data_file": ["null", EMPTY]}, b"\0\0\0"),
        ({"data_file": record("partition", "long")}, b"\0\0\0"),
        ({"data_file": record("record_count", "bytes")}, b"\0\0\0"),
        ({"data_file": record("file_path", ["null", "string"])}, b"\0\0\0"),
        ({"sequence_number": "bytes"}, b"\0\x02\xff"),
    ],
)
def test_a_manifest_of_other_types_is_damaged(changed: dict[str, Any], body: bytes) -> None:
    types = {"status": "int", "sequence_number": ["null", "long"], "data_file": EMPTY} | changed
    store = MemoryStore("avro")
    store.put("t/m.avro", file_of([{"name": name, "type": type_} for name, type_ in types.items()], 1, body))
    manifest = ManifestFile("memory://avro/t/m.avro", DATA, 0, 1, None, None)
    with pytest.raises(Damaged, match=r"m\.avro"):
        read_manifest(Paths(Location(store, "t")), manifest)
