"""Deletion vectors: all storage types load alike, and every error is detected."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from holdfast.env import fixed
from holdfast.errors import Damaged, Invalid, MissingFile, Unsupported
from holdfast.formats.delta.deletion_vectors import CLOSE_BYTES, DvFile, inline, load_hidden, pack
from holdfast.formats.delta.log.actions import DeletionVector
from holdfast.formats.delta.stats.reader import JsonStats
from holdfast.model.files import DV, FILES, FileTable, Slab
from holdfast.storage.local import LocalStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from tests.support.depth import examples
from tests.support.golden import require_golden

UUID_A = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")


class Counting(MemoryStore):
    """A store that remembers what was fetched."""

    def __init__(self) -> None:
        super().__init__("t", fixed())
        self.fetched: list[tuple[str, int, int]] = []

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.fetched.append((key, start, length))
        return super().get_range(key, start, length)


@pytest.fixture
def store() -> Counting:
    return Counting()


@pytest.fixture
def here(store: Counting) -> Location:
    return Location(store, "dir/table")


def table(vectors: Mapping[str, DeletionVector | None], rows: int | None = None) -> FileTable:
    dvs = [
        v
        and {
            "id": v.unique_id,
            "storage": v.storage_type,
            "path": v.path_or_inline_dv,
            "offset": v.offset,
            "size": v.size_in_bytes,
            "cardinality": v.cardinality,
        }
        for v in vectors.values()
    ]
    columns = {f.name: pa.nulls(len(dvs), f.type) for f in FILES}
    columns |= {"path": pa.array(list(vectors)), "key": pa.array(list(vectors)), "dv": pa.array(dvs, DV)}
    texts = pa.array([None if rows is None else f'{{"numRecords":{rows}}}'] * len(dvs), pa.string())
    return FileTable((Slab(pa.table(columns, schema=FILES), JsonStats(texts)),))


def save(here: Location, file: DvFile) -> tuple[DeletionVector, ...]:
    here.store.put(here.key(file.key), file.data)
    return file.vectors


def test_files_without_vectors_hide_nothing(here: Location) -> None:
    assert load_hidden(here, table({"a": None})).positions == {}
    assert load_hidden(here, FileTable()).positions == {}


def test_every_way_of_storing_loads_alike(here: Location, store: Counting) -> None:
    positions = BitMap64([0, 1, 4, 5])
    (relative,) = save(here, pack([positions], uuid=UUID_A))
    (prefixed,) = save(here, pack([positions], uuid=UUID_A, prefix="ab"))
    assert prefixed.path_or_inline_dv == "ab^-aqEH.-t@S}K{vb[*k^"
    store.put("else where/v.bin", pack([positions], uuid=UUID_A).data)
    absolute = DeletionVector("p", "memory://t/else%20where/v.bin", relative.size_in_bytes, 4, 1)
    spelled = DeletionVector("i", "^Bg9^0rr910000000000iXQKl0rr91000935c8Xg000311onP9", 40, 4)  # by another engine
    vectors = {"u": relative, "up": prefixed, "p": absolute, "i": inline(positions), "j": spelled, "none": None}
    with pytest.raises(Invalid, match="allow_outside"):
        load_hidden(here, table(vectors, rows=6))
    here = replace(here, allow_outside=("memory://t/else where",))
    assert load_hidden(here, table(vectors, rows=6)).positions == dict.fromkeys(["u", "up", "p", "i", "j"], positions)
    assert sorted(key for key, _, _ in store.fetched) == [
        "dir/table/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
        "dir/table/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
        "else where/v.bin",
    ]


@pytest.mark.parametrize(
    ("text", "size", "positions"),
    [
        ("^Bg9^0rr910000000000iXQKl0rr91000005c8Xg##093", 34, [3]),
        ("^Bg9^0rr910000000000iXQKl0rr91000315c8Xg000f5", 36, [0, 5]),
    ],
)
def test_both_spellings_of_a_short_last_group(here: Location, text: str, size: int, positions: list[int]) -> None:
    vector = DeletionVector("i", text, size, len(positions))
    assert load_hidden(here, table({"a": vector})).positions == {"a": BitMap64(positions)}


@given(st.lists(st.sets(st.integers(0, 2**34), min_size=1, max_size=20), min_size=1, max_size=8), st.randoms())
@examples(40)
def test_vectors_packed_together_come_apart_again(sets: list[set[int]], rng: random.Random) -> None:
    store = Counting()
    here = Location(store, "t")
    bitmaps = [BitMap64(s) for s in sets]
    vectors = save(here, pack(bitmaps, uuid=UUID_A))
    chosen = rng.sample(range(len(bitmaps)), rng.randint(1, len(bitmaps)))
    hidden = load_hidden(here, table({str(i): vectors[i] for i in chosen}))
    assert hidden.positions == {str(i): bitmaps[i] for i in chosen}
    assert len(store.fetched) == 1


def test_what_lies_far_apart_is_not_fetched(here: Location, store: Counting) -> None:
    scattered = BitMap64(range(0, 2**24, 2))  # two megabytes in bitmap containers
    vectors = save(here, pack([BitMap64([1]), scattered, BitMap64([2]), BitMap64([3])], uuid=UUID_A))
    assert vectors[1].size_in_bytes > CLOSE_BYTES
    hidden = load_hidden(here, table({"a": vectors[0], "c": vectors[2], "d": vectors[3]}))
    assert hidden.positions == {"a": BitMap64([1]), "c": BitMap64([2]), "d": BitMap64([3])}
    assert [start for _, start, _ in store.fetched] == [0, vectors[2].offset]
    assert sum(length for _, _, length in store.fetched) < 1000


def test_a_vector_may_be_shared_by_files(here: Location) -> None:
    (vector,) = save(here, pack([BitMap64([7])], uuid=UUID_A))
    assert load_hidden(here, table({"a": vector, "b": vector})).positions == {"a": BitMap64([7]), "b": BitMap64([7])}


def test_a_vector_that_points_nowhere(here: Location) -> None:
    vectors = pack([BitMap64([1])], uuid=UUID_A).vectors
    with pytest.raises(MissingFile, match=r"deletion_vector_d2c639aa.*data file part-1") as caught:
        load_hidden(here, table({"part-1": vectors[0]}))
    assert caught.value.path == "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def flip(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]


@pytest.mark.parametrize(
    "damage",
    [flip(0), flip(1), flip(4), flip(5), flip(20), flip(-1 % 37), lambda d: d[:-1], lambda d: d[:1], lambda d: b""],
    ids=["version", "size", "size low", "magic", "body", "crc", "cut", "only a version", "empty"],
)
def test_damaged_bytes_are_noticed_and_named(here: Location, damage: Callable[[bytes], bytes]) -> None:
    file = pack([BitMap64([1, 5, 9])], uuid=UUID_A)
    here.store.put(here.key(file.key), damage(file.data))
    with pytest.raises(Damaged) as caught:
        load_hidden(here, table({"part-1": file.vectors[0]}))
    assert "part-1" in str(caught.value)
    assert file.key in str(caught.value)
    assert caught.value.path == file.key
    assert caught.value.offset is not None


@pytest.mark.parametrize(
    "changes",
    [{"cardinality": 4}, {"size_in_bytes": 3}, {"offset": 2}, {"offset": 5000}, {"size_in_bytes": -1}, {"offset": -1}],
    ids=str,
)
def test_a_descriptor_that_disagrees_is_noticed(here: Location, changes: dict[str, int]) -> None:
    (vector,) = save(here, pack([BitMap64([1, 5, 9])], uuid=UUID_A))
    with pytest.raises(Damaged, match="part-1"):
        load_hidden(here, table({"part-1": msgspec.structs.replace(vector, **changes)}))


@pytest.mark.parametrize(
    "vector",
    [
        DeletionVector("i", "00000", 40, 1),
        DeletionVector("i", "~~~~~", 4, 1),
        msgspec.structs.replace(inline(BitMap64([1])), cardinality=2),
        DeletionVector("u", "short", 40, 1, 1),
        DeletionVector("u", '"' * 20, 40, 1, 1),
    ],
    ids=str,
)
def test_malformed_descriptors_name_the_data_file(here: Location, vector: DeletionVector) -> None:
    with pytest.raises(Damaged, match="part-1"):
        load_hidden(here, table({"part-1": vector}))


def test_positions_end_with_the_file(here: Location) -> None:
    (vector,) = save(here, pack([BitMap64([1, 5])], uuid=UUID_A))
    assert load_hidden(here, table({"a": vector}, rows=6)).positions == {"a": BitMap64([1, 5])}
    for v in (vector, inline(BitMap64([1, 5]))):
        with pytest.raises(Damaged, match="hides position 5, and the file has 5 rows"):
            load_hidden(here, table({"a": v}, rows=5))


def test_paths_of_vectors_are_not_trusted(here: Location) -> None:
    uuid = pack([BitMap64([1])], uuid=UUID_A).vectors[0].path_or_inline_dv
    for vector in (DeletionVector("p", "s3://other/v.bin", 40, 1, 1), DeletionVector("u", "../x" + uuid, 40, 1, 1)):
        with pytest.raises(Invalid, match="allow_outside"):
            load_hidden(here, table({"a": vector}))
    with pytest.raises(MissingFile):
        load_hidden(here, table({"a": DeletionVector("u", "/etc" + uuid, 40, 1, 1)}))
    with pytest.raises(Unsupported, match="'r'"):
        load_hidden(here, table({"a": DeletionVector("r", "x", 40, 1, 1)}))


def test_a_file_twice_is_damage(here: Location) -> None:
    one, two = table({"a": inline(BitMap64([1]))}), table({"a": inline(BitMap64([2]))})
    with pytest.raises(Damaged, match="a twice"):
        load_hidden(here, FileTable(one.slabs + two.slabs))


@pytest.mark.golden
def test_all_golden_vectors() -> None:
    """Every vector any commit names, where its file was published; absolute ones point to buckets of others."""
    loaded = 0
    for log in sorted(require_golden().glob("delta/*/table/_delta_log")):
        vectors = {vector.unique_id: vector for vector in _vectors_named(log)}
        here = Location(LocalStore(), str(log.parent).lstrip("/"))
        try:
            hidden = load_hidden(here, table(vectors)).positions
        except MissingFile:
            continue
        assert {key: len(positions) for key, positions in hidden.items()} == {
            v.unique_id: v.cardinality for v in vectors.values()
        }
        loaded += len(hidden)
    assert loaded >= 70


def _vectors_named(log: Path) -> Iterator[DeletionVector]:
    for commit in sorted(log.glob("*.json")):
        for line in commit.read_bytes().splitlines():
            with suppress(msgspec.DecodeError):  # some golden logs are damaged on purpose
                raw = msgspec.json.decode(line)
                descriptor = raw.get("add", {}).get("deletionVector")
                if descriptor and descriptor["storageType"] != "p":
                    yield msgspec.convert(descriptor, DeletionVector)
