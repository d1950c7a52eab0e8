"""Ways to change the bytes of a file, drawn from a generator of random numbers and from nothing else.

1. The same generator gives the same bytes.
2. A change is of the bytes, or of the meaning: values of JSON, or rows and columns of Parquet. The name says which.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

DEEP = 5_000
_EXTREMES = (
    *(value.to_bytes(size, "little") for size in (1, 2, 4, 8) for value in (0, (1 << 8 * size) - 1, 1 << 8 * size - 1)),
    *(struct.pack("<q", value) for value in (2**60, 2**62, -(2**62), 2**40)),
    struct.pack("<d", float("nan")),
    b"\xff" * 9 + b"\x01",  # the longest number of Thrift and Avro
    b"\x80" * 10,
)
_ODD: tuple[Callable[[], str], ...] = tuple(
    (lambda text=text: text)  # type: ignore[misc]
    for text in (
        *("null", "true", "-1", "0", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1e400"),
        *("1.5", '""', "[]", "{}", '"\\u0000"', '"\\ud800"', '"a/../../b"', '"%00"', '"%ff"', '"s3://other/x"'),
        *('[[1],{"a":[null]}]', "18446744073709551616" * 20, '"' + "n" * 5_000 + '"', "NaN", "[1,2"),
        *("[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP),
    )
)


def changed(shape: str, data: bytes, others: Sequence[bytes], rng: Random) -> tuple[str, bytes]:
    """The name of a change, and the bytes after it; `shape` is json, lines, parquet or bytes."""
    if shape in ("json", "lines") and rng.random() < 0.7:
        return _json(data, rng, lines=shape == "lines")
    if shape == "parquet" and rng.random() < 0.4:
        try:
            return _table(data, rng)
        except (pa.ArrowException, OSError):  # the file is not Parquet to begin with
            pass
    new = bytearray(data)
    names = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        change = rng.choice(_CHANGES)
        change(new, others, rng)
        names.append(change.__name__.strip("_"))
    return "bytes: " + ", ".join(names), bytes(new)


def _at(data: bytearray, rng: Random) -> int:
    """A place; often near an end, where lengths and indexes of files are."""
    size = max(len(data), 1)
    near = rng.random()
    if near < 0.3:
        return max(0, size - 1 - int(rng.expovariate(1 / 40)))
    return min(size - 1, int(rng.expovariate(1 / 20))) if near < 0.5 else rng.randrange(size)


def _flip(data: bytearray, _: Sequence[bytes], rng: Random) -> None:
    if data:
        data[_at(data, rng)] ^= 1 << rng.randrange(8)


def _overwrite(data: bytearray, _: Sequence[bytes], rng: Random) -> None:
    value, at = rng.choice(_EXTREMES), _at(data, rng)
    data[at : at + len(value)] = value


def _insert(data: bytearray, _: Sequence[bytes], rng: Random) -> None:
    at = _at(data, rng)
    data[at:at] = rng.choice((rng.choice(_EXTREMES), rng.randbytes(rng.randrange(1, 64))))


def _truncate(data: bytearray, _: Sequence[bytes], rng: Random) -> None:
    del data[_at(data, rng) :]


def _cut_out(data: bytearray, _: Sequence[bytes], rng: Random) -> None:
    at = _at(data, rng)
    del data[at : at + rng.randrange(1, 64)]


def _zero(data: bytearray, _: Sequence[bytes], rng: Random) -> None:
    at = _at(data, rng)
    end = min(len(data), at + rng.randrange(1, 128))
    data[at:end] = bytes(end - at)


def _repeat(data: bytearray, _: Sequence[bytes], rng: Random) -> None:
    at, size = _at(data, rng), rng.randrange(1, 256)
    data[at:at] = data[at : at + size]


def _swap(data: bytearray, _: Sequence[bytes], rng: Random) -> None:
    a, b, size = _at(data, rng), _at(data, rng), rng.randrange(1, 32)
    if max(a, b) + size <= len(data) and abs(a - b) >= size:
        data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]


def _splice(data: bytearray, others: Sequence[bytes], rng: Random) -> None:
    if others:
        other, at = rng.choice(others), _at(data, rng)
        data[at:] = other[min(at, len(other)) :]


def _replace(data: bytearray, others: Sequence[bytes], rng: Random) -> None:
    data[:] = rng.choice((*others, b"", b"\x00" * len(data), rng.randbytes(min(len(data), 4096))))


_CHANGES = (_flip, _flip, _flip, _overwrite, _overwrite, _insert, _truncate, _cut_out, _zero, _repeat, _swap, _splice)
_CHANGES = (*_CHANGES, _replace)


def _json(data: bytes, rng: Random, *, lines: bool) -> tuple[str, bytes]:
    """A value of a JSON text taken out, put in another's place, said twice, or made something else."""
    parts = data.split(b"\n") if lines else [data]
    whole = [n for n, part in enumerate(parts) if part.strip()]
    if not whole:
        return "meaning: nothing to change", data
    number = rng.choice(whole)
    try:
        record = json.loads(parts[number])
    except ValueError:
        return "meaning: nothing to change", data
    places = list(_places(record))
    if not places:
        return "meaning: nothing to change", data
    holder, key = rng.choice(places)
    name = rng.choice(("odd", "odd", "odd", "gone", "swapped", "twice", "line", "inside"))
    if name == "odd":
        holder[key] = _MARK
        text = json.dumps(record).replace(f'"{_MARK}"', rng.choice(_ODD)())
    elif name == "gone":
        del holder[key]
        text = json.dumps(record)
    elif name == "swapped":
        other, at = rng.choice(places)
        holder[key], other[at] = other[at], holder[key]
        try:
            text = json.dumps(record)
        except (ValueError, RecursionError):  # a value put into itself
            return "meaning: nothing to change", data
    elif name == "twice":
        value = json.dumps(holder[key])
        holder[key] = _MARK
        text = json.dumps(record).replace(f'"{_MARK}"', f"{rng.choice(_ODD)()}, {json.dumps(str(key))}: {value}")
    elif name == "inside" and isinstance(holder[key], str) and holder[key][:1] in "{[":
        inner = json.loads(holder[key])  # JSON in a text of JSON: schemas, statistics, domains
        deeper = list(_places(inner))
        if deeper:
            inside, at = rng.choice(deeper)
            inside[at] = _MARK
        holder[key] = json.dumps(inner).replace(f'"{_MARK}"', rng.choice(_ODD)())
        text = json.dumps(record)
    else:
        parts[number] = rng.choice((b"", parts[number] + parts[number], b"\xff\xfe", parts[rng.choice(whole)]))
        return "meaning: line", b"\n".join(parts)
    parts[number] = text.encode("utf-8", "surrogatepass")
    return f"meaning: {name} {key}", b"\n".join(parts)


_MARK = "@mutated@"


def _places(value: Any) -> Any:
    """Every value of a record, as what holds it and under which key; those of long records not all."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            yield holder, key
            waiting.append(holder[key])


def _table(data: bytes, rng: Random) -> tuple[str, bytes]:
    """The rows of a Parquet file as somebody else would have written them."""
    table = pq.read_table(io.BytesIO(data))
    at = rng.randrange(table.num_columns) if table.num_columns else 0
    name = rng.choice(("fewer", "more", "without", "renamed", "retyped", "nulls", "none", "no ids"))
    match name:
        case "fewer":
            table = table.slice(0, rng.randrange(max(table.num_rows, 1)))
        case "more":
            table = pa.concat_tables([table, table.slice(0, 1)])
        case "without":
            table = table.remove_column(at)
        case "renamed":
            fields = [f.with_name("x") if n == at else f for n, f in enumerate(table.schema)]
            table = table.cast(table.schema) if not fields else pa.table(table.columns, pa.schema(fields))
        case "retyped":
            column = pa.array([str(v) for v in table.column(at).to_pylist()], pa.string())
            table = table.set_column(at, table.schema.field(at).with_type(pa.string()), column)
        case "nulls":
            type_ = table.schema.field(at).type
            table = table.set_column(at, table.schema.field(at), pa.nulls(table.num_rows, type_))
        case "none":
            table = table.slice(0, 0)
        case _:
            table = pa.table(table.columns, pa.schema([f.remove_metadata() for f in table.schema]))
    sink = io.BytesIO()
    pq.write_table(table, sink)
    # Another value in a row is nowhere told of, unlike another row or column.
    return f"{'values' if name == 'nulls' else 'meaning'}: {name}", sink.getvalue()
