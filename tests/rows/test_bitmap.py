from __future__ import annotations

import zlib
from pathlib import Path
from struct import pack, unpack_from

import pytest
from hypothesis import given
from hypothesis.strategies import DataObject, binary, data, integers, sampled_from
from pyroaring import BitMap, BitMap64

from holdfast.errors import Damaged, LimitReached
from holdfast.rows import bitmap, z85
from tests.rows.bitmaps import bitmaps
from tests.support.depth import examples
from tests.support.golden import require_golden

EMPTY_32 = pack("<II", 12346, 0)


def array_32(*positions: int) -> bytes:
    """A 32-bit bitmap of one array container, spelled out."""
    return pack(f"<IIHHI{len(positions)}H", 12346, 1, 0, len(positions) - 1, 16, *positions)


def runs_32(*runs: tuple[int, int], cardinality: int | None = None) -> bytes:
    """A 32-bit bitmap of one run container, spelled out."""
    rows = sum(more + 1 for _, more in runs) if cardinality is None else cardinality
    head = pack("<IBHHH", 12347, 1, 0, rows - 1, len(runs))
    return head + b"".join(pack("<HH", *run) for run in runs)


def portable(*buckets: tuple[int, bytes], count: int | None = None) -> bytes:
    head = pack("<Iq", bitmap.PORTABLE, len(buckets) if count is None else count)
    return head + b"".join(pack("<I", key) + body for key, body in buckets)


def native(*buckets: bytes) -> bytes:
    return pack("<Ii", bitmap.NATIVE, len(buckets)) + b"".join(pack("<i", len(body)) + body for body in buckets)


def decode(blob: bytes, cardinality: int | None = None) -> BitMap64:
    return bitmap.decode(blob, expected_cardinality=cardinality, where="vector.bin@1")


def test_the_inline_vector_of_the_protocol() -> None:
    blob = z85.decode("^Bg9^0rr910000000000iXQKl0rr91000935c8Xg000311onP9", 40)
    assert decode(blob, 4) == BitMap64([0, 1, 4, 5])


@examples(150)
@given(bitmaps())
def test_positions_come_back_from_bytes(positions: BitMap64) -> None:
    blob = bitmap.encode(positions)
    assert decode(blob, len(positions)) == positions
    assert bitmap.unframe(bitmap.frame(blob), size=len(blob), where="x") == blob


@pytest.mark.parametrize(
    ("positions", "kind"),
    [
        (range(0, 65536, 17), "n_array_containers"),
        (range(0, 65536, 2), "n_bitset_containers"),
        (range(100, 60_000), "n_run_containers"),
        (range((3 << 32) + 7, (3 << 32) + 200_000, 3), "n_bitset_containers"),
    ],
)
def test_each_kind_of_container_is_written_and_read(positions: range, kind: str) -> None:
    got = decode(bitmap.encode(BitMap64(positions)), len(positions))
    assert got == BitMap64(positions)
    assert kind in {name for name, number in got.get_statistics().items() if number}


@pytest.mark.parametrize("step", [1, 2, 40])
@pytest.mark.parametrize("containers", [1, 3, 4, 9])
def test_buckets_with_and_without_an_offset_header(containers: int, step: int) -> None:
    positions = BitMap64(range(0, containers * 65536, step)) | BitMap64(range(0, 50, 7))
    assert decode(bitmap.encode(positions), len(positions)) == positions


def test_runs_are_written_where_they_are_shorter() -> None:
    assert len(bitmap.encode(BitMap64(range(10, 1_000_000)))) < 300


def test_encoding_leaves_the_bitmap_as_it_was() -> None:
    positions = BitMap64(optimize=False)
    positions.update(range(1000))
    before = positions.get_statistics()
    bitmap.encode(positions)
    assert positions.get_statistics() == before


def test_empty_buckets_are_gaps() -> None:
    blob = portable((0, EMPTY_32), (1, EMPTY_32), (2, array_32(3, 9)))
    assert decode(blob, 2) == BitMap64([(2 << 32) + 3, (2 << 32) + 9])
    assert decode(portable(), 0) == BitMap64()


def test_the_largest_bucket_key() -> None:
    assert decode(portable((2**31 - 1, array_32(1)))).max() == ((2**31 - 1) << 32) + 1


def test_the_native_format_of_old_writers() -> None:
    later = BitMap(range(0, 200_000, 3)).serialize()
    blob = native(array_32(1, 5), EMPTY_32, later)
    assert decode(blob) == BitMap64([1, 5]) | BitMap64(range(2 << 32, (2 << 32) + 200_000, 3))
    assert decode(native(), 0) == BitMap64()


@pytest.mark.parametrize(
    ("blob", "what"),
    [
        (b"", "no magic number"),
        (pack("<I", 7) + bytes(8), "expected 1681511377, found 7"),
        (pack(">I", bitmap.PORTABLE) + bytes(8), "not a bitmap"),
        (pack("<I", bitmap.PORTABLE), "ends in the middle"),
        (portable(count=-1), "-1 buckets"),
        (portable((0, EMPTY_32), count=2**40), "cannot stand in"),
        (portable((0, array_32(1)), (0, array_32(2))), "keys ascend"),
        (portable((1, array_32(1)), (0, array_32(2))), "keys ascend"),
        (portable((2**31, array_32(1))), "below 2\\*\\*31"),
        (portable((0, pack("<II", 1, 2))), "not a roaring bitmap"),
        (portable((0, pack("<II", 12346, 2**32 - 1))), "ends after the blob"),
        (portable((0, array_32(1, 2)))[:-1], "ends after the blob"),
        (portable((0, array_32(1, 2))) + b"\0", "bytes follow"),
        (portable((0, EMPTY_32)) + b"\0", "bytes follow"),
        (portable() + b"\0", "bytes follow"),
        (portable((0, array_32(2, 1))), "out of order"),
        (portable((0, array_32(1, 1))), "out of order"),
        (portable((0, runs_32((0, 3), (2, 9)))), "out of order"),
        (portable((0, runs_32((65_530, 9)))), "out of order"),
        (portable((0, runs_32((0, 3), cardinality=9))), "container counts: expected 9, found 4"),
        (portable((0, pack("<IIHHIH", 12346, 1, 0, 0, 17, 5))), "container offsets"),
        (native(array_32(1)) + b"\0", "bytes follow"),
        (native(array_32(1) + b"\0"), "bucket length"),
        (pack("<Ii", bitmap.NATIVE, -1), "-1 buckets"),
        (pack("<Iii", bitmap.NATIVE, 1, 8), "cannot stand in"),
    ],
)
def test_what_is_wrong_is_said_and_where(blob: bytes, what: str) -> None:
    with pytest.raises(Damaged, match=what) as caught:
        decode(blob)
    assert caught.value.path == "vector.bin@1"
    assert "vector.bin@1" in str(caught.value)


def test_a_wrong_cardinality_is_damaged() -> None:
    with pytest.raises(Damaged, match="cardinality: expected 3, found 2") as caught:
        decode(portable((0, array_32(1, 2))), 3)
    assert (caught.value.expected, caught.value.found) == ("3", "2")


def test_positions_beyond_the_format_are_refused() -> None:
    with pytest.raises(LimitReached, match="largest a deletion vector can hold"):
        bitmap.encode(BitMap64([2**63]))


@examples(400)
@given(bitmaps(), data())
def test_changed_bytes_decode_or_are_damaged(positions: BitMap64, draw: DataObject) -> None:
    blob = bytearray(bitmap.encode(positions))
    for _ in range(draw.draw(integers(1, 4))):
        # Most of what can go wrong is in the headers, which come first.
        limit = draw.draw(sampled_from([min(len(blob), 40), len(blob)]))
        blob[draw.draw(integers(0, limit - 1))] = draw.draw(integers(0, 255))
    _decodes_or_is_damaged(bytes(blob[: draw.draw(sampled_from([len(blob), len(blob) * 2 // 3]))]))


@examples(200)
@given(sampled_from([bitmap.PORTABLE, bitmap.NATIVE]), binary(max_size=60))
def test_noise_after_the_magic_decodes_or_is_damaged(magic: int, noise: bytes) -> None:
    _decodes_or_is_damaged(pack("<I", magic) + noise)


def _decodes_or_is_damaged(blob: bytes) -> None:
    match outcome(blob):
        case Damaged() as error:
            assert error.path == "vector.bin@1"
        case got:
            assert decode(bitmap.encode(got), len(got)) == got


def outcome(blob: bytes) -> BitMap64 | Damaged:
    try:
        return decode(blob)
    except Damaged as error:
        return error


@pytest.mark.parametrize(
    ("framed", "size", "what"),
    [
        (bitmap.frame(b"abcd"), 5, "expected 13, found 12"),
        (bitmap.frame(b"abcd")[:-1], 4, "wrong number of bytes"),
        (pack(">i", 3) + b"abcd" + pack(">I", zlib.crc32(b"abcd")), 4, "size differs from the descriptor"),
        (pack(">i", 4) + b"abce" + pack(">I", zlib.crc32(b"abcd")), 4, "CRC-32"),
        (b"", -8, "cannot have -8 bytes"),
    ],
)
def test_a_bad_frame_is_damaged(framed: bytes, size: int, what: str) -> None:
    with pytest.raises(Damaged, match=what):
        bitmap.unframe(framed, size=size, where="x")


def test_a_frame_is_big_endian() -> None:
    assert bitmap.frame(b"abcd") == bytes.fromhex("00000004") + b"abcd" + zlib.crc32(b"abcd").to_bytes(4, "big")


def test_every_golden_vector_file_reads_and_comes_back() -> None:
    files = sorted(require_golden().glob("delta/*/table/**/deletion_vector_*.bin"))
    assert len(files) >= 60
    vectors = sum(_walk(file) for file in files)
    assert vectors >= len(files)


def _walk(file: Path) -> int:
    content = file.read_bytes()
    assert content[0] == 1
    at = 1
    count = 0
    while at < len(content):
        (size,) = unpack_from(">i", content, at)
        blob = bitmap.unframe(content[at : at + size + 8], size=size, where=f"{file}@{at}")
        positions = bitmap.decode(blob, expected_cardinality=None, where=f"{file}@{at}")
        assert decode(bitmap.encode(positions), len(positions)) == positions
        assert len(positions) > 0
        at += size + 8
        count += 1
    return count
