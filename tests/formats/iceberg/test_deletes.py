"""Which deletes hide which rows: random histories against a model of the rules, file by file, row by row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import IcebergTable
from holdfast.errors import Damaged
from holdfast.storage.open import open_location
from tests.formats.iceberg.smith import Entry, Smith, column, identity
from tests.support.depth import examples

NAMES = count()
COLUMNS = [column(1, "id"), column(2, "part", "string"), column(3, "x", "double")]
LONGS, TEXTS, DOUBLES = pa.int64(), pa.string(), pa.float64()
PARTS = [None, "a", "b"]


def smith(version: int = 2, **more: Any) -> Smith:
    return Smith(f"memory://iceberg-{next(NAMES)}/t", COLUMNS, version=version, **more)


def rows(ids: list[int | None], part: str | None = None, x: list[float | None] | None = None) -> dict[str, pa.Array]:
    return {
        "id": pa.array(ids, LONGS),
        "part": pa.array([part] * len(ids), TEXTS),
        "x": pa.array(x or [None] * len(ids), DOUBLES),
    }


def ids_of(builder: Smith, **scan: Any) -> list[int | None]:
    return IcebergTable.forMetadata(None, builder.metadata(), **scan).toArrow()["id"].to_pylist()


@dataclass
class ModelFile:
    entry: Entry
    rows: list[tuple[int | None, str | None]]
    sequence: int
    hidden: set[int] = field(default_factory=set)  # by vector
    has_vector: bool = False


@dataclass
class Model:
    """The rules, followed one row at a time."""

    files: list[ModelFile] = field(default_factory=list)
    positions: list[tuple[int, int, str | None, list[tuple[str, int]]]] = field(default_factory=list)
    equality: list[tuple[int, int, str | None, tuple[str, ...], list[tuple[Any, ...]]]] = field(default_factory=list)

    def live(self) -> Counter[tuple[int | None, str | None]]:
        found: Counter[tuple[int | None, str | None]] = Counter()
        for file in self.files:
            for at, row in enumerate(file.rows):
                if not self._is_gone(file, at, row):
                    found[row] += 1
        return found

    def _is_gone(self, file: ModelFile, at: int, row: tuple[int | None, str | None]) -> bool:
        entry = file.entry
        place = (entry["spec"], entry["partition"].get("part"))
        if file.has_vector:
            if at in file.hidden:
                return True
        else:
            for sequence, spec, part, named in self.positions:
                if (spec, part) == place and file.sequence <= sequence and (entry["file_path"], at) in named:
                    return True
        values = {"id": row[0], "part": row[1]}
        for sequence, spec, part, names, gone in self.equality:
            reaches = spec == 0 or (spec, part) == place
            if reaches and file.sequence < sequence and tuple(values[n] for n in names) in gone:
                return True
        return False


@examples(60)
@given(st.data(), st.sampled_from([2, 3]))
def test_histories(data: st.DataObject, version: int) -> None:
    builder = smith(version, specs=[[], [identity(2, "part")]])
    model, draw = Model(), data.draw
    fresh = count()
    for _ in range(draw(st.integers(1, 6))):
        adding, removing = [], []
        sequence = builder.sequence + 1
        for _ in range(draw(st.integers(0, 2))):
            spec, part = draw(st.sampled_from([(0, None), *((1, p) for p in PARTS)]))
            ids = draw(st.lists(st.none() | st.integers(0, 5), min_size=1, max_size=6))
            parts = draw(st.lists(st.sampled_from(PARTS), min_size=len(ids), max_size=len(ids)))
            parts = [part] * len(ids) if spec else parts
            content = {"id": pa.array(ids, LONGS), "part": pa.array(parts, TEXTS)}
            entry = builder.data(
                content, partition={"part": part} if spec else {}, spec=spec, name=f"data/{next(fresh)}.parquet"
            )
            adding.append(entry)
            model.files.append(ModelFile(entry, list(zip(ids, parts, strict=True)), sequence))
        if model.files and draw(st.booleans()):
            kind = draw(st.sampled_from(["positions", "one", "equality", *(["vector"] if version == 3 else [])]))
            like = draw(st.sampled_from(model.files))
            spec, part = like.entry["spec"], like.entry["partition"].get("part")
            if kind == "equality":
                names = draw(st.sampled_from([("id",), ("id", "part"), ("part",)]))
                gone = draw(
                    st.lists(st.tuples(st.none() | st.integers(0, 5), st.sampled_from(PARTS)), min_size=1, max_size=3)
                )
                keys = [tuple(dict(zip(("id", "part"), g, strict=True))[n] for n in names) for g in gone]
                numbers = {"id": 1, "part": 2}
                types = {"id": LONGS, "part": TEXTS}
                arrays = {n: pa.array([k[i] for k in keys], types[n]) for i, n in enumerate(names)}
                removing.append(builder.equality({n: numbers[n] for n in names}, arrays, like=like.entry))
                model.equality.append((sequence, spec, part, names, keys))
            elif kind == "vector" and not like.has_vector:  # a second one would have to replace the first
                hidden = sorted(set(draw(st.lists(st.integers(0, len(like.rows) - 1), min_size=1, max_size=4))))
                removing += builder.vectors([(like.entry, hidden)])
                like.hidden, like.has_vector = set(hidden), True
            elif kind != "vector":
                targets = (
                    [like] if kind == "one" else draw(st.lists(st.sampled_from(model.files), min_size=1, max_size=3))
                )
                named = sorted({(t.entry["file_path"], draw(st.integers(0, len(t.rows) - 1))) for t in targets})
                removing.append(builder.positions(named, like=like.entry, one=kind == "one"))
                model.positions.append((sequence, spec, part, named))
        if adding or removing:
            builder.commit(adding, removing)
    table = IcebergTable.forMetadata(None, builder.metadata())
    got = table.toArrow(columns=["id", "part"])
    assert Counter(zip(got["id"].to_pylist(), got["part"].to_pylist(), strict=True)) == model.live()
    result = table.toArrow(columns=["id", "part"], metadata=["_deleted"])
    assert result.num_rows == sum(len(f.rows) for f in model.files)
    left = result.filter(pa.compute.invert(result["_deleted"]))
    assert Counter(zip(left["id"].to_pylist(), left["part"].to_pylist(), strict=True)) == model.live()


def test_a_delete_of_the_same_commit_counts_by_position_and_not_by_value() -> None:
    builder = smith()
    file = builder.data(rows([1, 2, 3]))
    builder.commit([file], [builder.positions([(file["file_path"], 0)]), builder.equality({"id": 1}, {"id": [2]})])
    assert ids_of(builder) == [2, 3]


def test_null_deletes_null_and_nan_deletes_nan() -> None:
    builder = smith()
    nan = float("nan")
    builder.commit([builder.data(rows([1, None, 3, 4], x=[1.0, nan, nan, None]))])
    builder.commit(deletes=[builder.equality({"id": 1, "x": 3}, {"id": pa.array([None], LONGS), "x": pa.array([nan])})])
    assert ids_of(builder) == [1, 3, 4]
    builder.commit(deletes=[builder.equality({"x": 3}, {"x": pa.array([None], DOUBLES)})])
    assert ids_of(builder) == [1, 3]


def test_a_vector_puts_position_deletes_out_of_force() -> None:
    builder = smith(3)
    file = builder.data(rows([1, 2, 3]))
    builder.commit([file])
    builder.commit(deletes=[builder.positions([(file["file_path"], 0)])])
    builder.commit(deletes=builder.vectors([(file, [2])]))
    assert ids_of(builder) == [1, 2]


def test_vectors_share_a_file_and_are_told_apart_by_their_place() -> None:
    builder = smith(3)
    files = [builder.data(rows([10 * n + i for i in range(3)])) for n in range(3)]
    builder.commit(files)
    builder.commit(deletes=builder.vectors([(files[0], [0]), (files[2], [1, 2])]))
    assert ids_of(builder) == [1, 2, 10, 11, 12, 20]


def test_a_bare_vector_without_a_puffin_file_around_it_is_read() -> None:
    builder = smith(3)
    file = builder.data(rows([1, 2, 3]))
    builder.commit([file])
    builder.commit(deletes=builder.vectors([(file, [1])], bare=True))
    assert ids_of(builder) == [1, 3]


def test_equality_deletes_by_a_column_that_was_dropped_since() -> None:
    builder = smith()
    builder.commit([builder.data(rows([1, 2, 3], x=[0.5, 1.5, 2.5]))])
    builder.commit(deletes=[builder.equality({"x": 3}, {"x": [1.5]})])
    builder.evolve(COLUMNS[:2])
    assert ids_of(builder) == [1, 3]


@pytest.mark.parametrize(
    ("stored", "named", "is_same"),
    [
        ("/w/t/data/f.parquet", "hdfs://host:8020/w/t/data/f.parquet", True),
        ("hdfs://host/w/t/data/f.parquet", "/w/t/data/f.parquet", True),
        ("s3://b/w/t/data/f.parquet", "s3a://b/w/t/data/f.parquet", True),
        ("file:///w/t/data/f.parquet", "file:/w/t/data/f.parquet", True),
        ("s3://b/w/t/data/f.parquet", "s3://other/w/t/data/f.parquet", False),
        ("/w/t/data/f%20.parquet", "/w/t/data/f .parquet", False),
    ],
)
def test_a_position_delete_finds_its_file_whatever_store_is_spelled(stored: str, named: str, is_same: bool) -> None:
    root = stored.removesuffix("/data/f.parquet").removesuffix("/data/f%20.parquet")
    builder = smith(spelled=root)
    file = builder.data(rows([1, 2, 3]), name=stored.removeprefix(f"{root}/"))
    assert file["file_path"] == stored
    builder.commit([file], [builder.positions([(named, 0)])])
    assert ids_of(builder, relocate={root: builder.root}) == ([2, 3] if is_same else [1, 2, 3])


def test_two_vectors_for_one_file_are_refused() -> None:
    builder = smith(3)
    file = builder.data(rows([1, 2, 3]))
    builder.commit([file])
    builder.commit(deletes=builder.vectors([(file, [1])]))
    builder.commit(deletes=builder.vectors([(file, [2])]))
    with pytest.raises(Damaged, match="two deletion vectors"):
        ids_of(builder)


def test_a_vector_placed_otherwise_than_its_file_is_refused() -> None:
    builder = smith(3, specs=[[], [identity(2, "part")]])
    file = builder.data(rows([1, 2, 3], "a"), partition={"part": "a"}, spec=1)
    builder.commit([file])
    builder.commit(deletes=[builder.vectors([(file, [1])])[0] | {"partition": {"part": "b"}}])
    with pytest.raises(Damaged, match="different partitions"):
        ids_of(builder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"record_count": 2}, "cardinality"),
        ({"content_size_in_bytes": 41}, "number of bytes|size differs|CRC"),
        ({"content_offset": 3}, "size differs|CRC"),
        ({"content_offset": None}, "no content_offset"),
        ({"content_size_in_bytes": None}, "no content_size_in_bytes"),
    ],
)
def test_a_wrong_descriptor_is_refused(change: dict[str, Any], words: str) -> None:
    builder = smith(3)
    file = builder.data(rows([1, 2, 3]))
    builder.commit([file])
    builder.commit(deletes=[builder.vectors([(file, [1])])[0] | change])
    with pytest.raises(Damaged, match=words):
        ids_of(builder)


@pytest.mark.parametrize("at", [5, 9, 20, -2])
def test_wrong_bytes_of_a_vector_are_refused(at: int) -> None:
    builder = smith(3)
    file = builder.data(rows([1, 2, 3]))
    builder.commit([file])
    (vector,) = builder.vectors([(file, [1])], bare=True)
    place = open_location(vector["file_path"])
    body = bytearray(place.store.get(place.directory))
    body[at] ^= 0x40
    place.store.put(place.directory, bytes(body))
    builder.commit(deletes=[vector])
    with pytest.raises(Damaged):
        ids_of(builder)


def test_a_position_past_the_end_is_refused() -> None:
    builder = smith()
    file = builder.data(rows([1, 2, 3]))
    builder.commit([file], [builder.positions([(file["file_path"], 3)])])
    with pytest.raises(Damaged, match="position 3"):
        ids_of(builder)
