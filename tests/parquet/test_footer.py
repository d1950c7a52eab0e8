"""Footers by ranged gets, columns and their ids, and files of a store as Arrow sources."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.errors import Damaged, MissingFile, Unsupported
from holdfast.parquet import source as source_module
from holdfast.parquet.pages.footer import FOOTER_GUESS, Node, columns, read_footer
from holdfast.parquet.source import open_source
from holdfast.storage.base import LARGEST_BYTES, NotFound, ObjectMeta


@dataclass
class Shelf:
    """A store that only reads, and counts how it is read."""

    objects: dict[str, bytes]
    calls: list[str] = field(default_factory=list)
    url: str = "memory://shelf"

    def get(self, key: str, most: int = LARGEST_BYTES) -> bytes:
        self.calls.append("get")
        return self._content(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.calls.append("get_range")
        return self._content(key)[start : start + length]

    def head(self, key: str) -> ObjectMeta:
        self.calls.append("head")
        return ObjectMeta(key, len(self._content(key)), 0)

    def list_from(self, directory: str, start: str = "") -> Iterator[ObjectMeta]:
        raise AssertionError("nothing here lists")

    def list_all(self, directory: str) -> Iterator[ObjectMeta]:
        raise AssertionError("nothing here lists")

    def put(self, key: str, data: bytes) -> None:
        raise AssertionError("nothing here writes")

    def put_if_absent(self, key: str, data: bytes) -> bool:
        raise AssertionError("nothing here writes")

    def delete(self, key: str) -> None:
        raise AssertionError("nothing here deletes")

    def _content(self, key: str) -> bytes:
        if key not in self.objects:
            raise NotFound(key)
        return self.objects[key]


def file_of(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def test_a_footer_costs_one_get_or_two_when_it_is_long() -> None:
    short = file_of(pa.table({"a": range(100_000)}))
    long = file_of(pa.table({f"column_{i}": [i] for i in range(2000)}))
    shelf = Shelf({"short": short, "long": long})
    assert read_footer(shelf, "short", len(short)).num_rows == 100_000
    assert shelf.calls == ["get_range"]
    assert read_footer(shelf, "long", len(long)).num_columns == 2000
    assert shelf.calls == ["get_range"] * 3
    assert int.from_bytes(long[-8:-4], "little") > FOOTER_GUESS


def test_what_is_no_file_of_ours_is_named() -> None:
    whole = file_of(pa.table({"a": [1]}))
    shelf = Shelf(
        {
            "cut": whole[:-3],
            "locked": whole[:-4] + b"PARE",
            "huge": b"PAR1" + b"\xff" * 8 + b"PAR1",
            "mad": b"x" * 20 + bytes([4, 0, 0, 0]) + b"PAR1",
        }
    )
    for key in ("cut", "huge", "mad"):
        with pytest.raises(Damaged, match=f"memory://shelf/{key}"):
            read_footer(shelf, key, len(shelf.objects[key]))
    with pytest.raises(Damaged, match="0 bytes"):
        read_footer(shelf, "cut", 0)
    with pytest.raises(Unsupported, match="encrypted"):
        read_footer(shelf, "locked", len(whole))
    with pytest.raises(MissingFile, match="memory://shelf/gone"):
        read_footer(shelf, "gone", 100)


def numbered(name: str, type_: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, type_, metadata={"PARQUET:field_id": str(number)})


def test_ids_are_known_inside_lists_and_maps() -> None:
    inner = pa.struct([numbered("x", pa.int32(), 3)])
    schema = pa.schema([
        numbered("a", pa.list_(inner), 1),
        numbered("m", pa.map_(pa.string(), pa.struct([numbered("y", pa.int32(), 4)])), 2),
        pa.field("plain", pa.int32()),
    ])  # fmt: skip
    file = pq.ParquetFile(io.BytesIO(file_of(schema.empty_table())))
    expected = [("a", 1), ("x", 3), ("m", 2), ("y", 4)]
    assert _numbered(columns(schema)) == expected
    assert _numbered(columns(file.schema_arrow)) == expected
    assert [(n.name, n.leaf, n.leaves) for n in columns(file.schema_arrow)] == [
        ("a", 0, 1),
        ("m", 1, 2),
        ("plain", 3, 1),
    ]


def _numbered(nodes: Sequence[Node]) -> list[tuple[str, int]]:
    """Names and ids from the top down; what has no id of its own is passed through."""
    own = [[(n.name, n.field_id)] if n.field_id is not None else [] for n in nodes]
    return [each for n, mine in zip(nodes, own, strict=True) for each in (*mine, *_numbered(n.children))]


def test_a_large_remote_file_is_read_by_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"a": pa.array(range(50_000)), "b": pa.array([str(i) for i in range(50_000)])})
    shelf = Shelf({"k": file_of(table)})
    size = len(shelf.objects["k"])
    assert pq.read_table(open_source(shelf, "k", size)).equals(table)
    assert shelf.calls == ["get"]
    shelf.calls.clear()
    monkeypatch.setattr(source_module, "WHOLE", 1000)
    assert pq.read_table(open_source(shelf, "k", size), columns=["b"]).equals(table.select(["b"]))
    assert shelf.calls[:2] == ["head", "get_range"]
    assert 2 < len(shelf.calls) < 10


def test_missing_and_empty_files_are_named(tmp_path: Path) -> None:
    shelf = Shelf({"empty": b""})
    local = Shelf({}, url="file://")
    (tmp_path / "empty").touch()
    for size in (0, None, 10):
        with pytest.raises(Damaged, match="memory://shelf/empty is empty"):
            open_source(shelf, "empty", size)
        with pytest.raises(MissingFile, match="memory://shelf/gone"):
            open_source(shelf, "gone", size)
    with pytest.raises(Damaged, match="empty is empty"):
        open_source(local, str(tmp_path / "empty")[1:], 10)
    with pytest.raises(MissingFile, match="gone is not there"):
        open_source(local, str(tmp_path / "gone")[1:], 10)
