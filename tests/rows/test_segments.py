from __future__ import annotations

import zlib
from struct import pack

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import (
    DataObject,
    SearchStrategy,
    binary,
    builds,
    data,
    integers,
    lists,
    one_of,
    permutations,
)

from holdfast.errors import Damaged, Invalid
from holdfast.rows import segment_bytes
from holdfast.rows.segments import IdArray, IdRange, RangeWithBitmap, RangeWithHoles, Segment, SortedArray, choose
from holdfast.rows.sequence import RowIdSequence
from holdfast.rows.stamp import LARGEST_ID
from tests.rows.slicing import id_at, position_of, sequence_without, sliced, sliced_sequence, without_positions
from tests.support.depth import examples


def numbers(ids: list[int]) -> np.ndarray:
    return np.array(ids, np.int64)


def without(ids: list[int], gone: list[int]) -> list[int]:
    return [i for i in ids if i not in set(gone)]


RANGES = builds(
    lambda start, n: list(range(start, start + n)),
    one_of(integers(0, 10**6), integers(2**62, 2**63 - 400)),
    integers(0, 300),
)
HOLED = builds(
    lambda ids, gone: [i for at, i in enumerate(ids) if at not in gone],
    RANGES,
    lists(integers(0, 299), max_size=8).map(set),
)
SPARSE = builds(lambda ids, keep: ids[::keep], RANGES, integers(1, 9))
SCATTERED = lists(integers(0, LARGEST_ID), unique=True, max_size=40)
IDS: SearchStrategy[list[int]] = one_of(
    RANGES, HOLED, SPARSE, SCATTERED.map(sorted), SCATTERED, HOLED.flatmap(permutations).map(list)
)


@examples(200)
@given(IDS)
def test_a_segment_is_the_list_it_was_made_from(ids: list[int]) -> None:
    segment = choose(numbers(ids))
    assert len(segment) == len(ids)
    assert segment.to_numpy().tolist() == ids
    assert segment.take(np.arange(len(ids))).tolist() == ids
    assert segment.find(numbers(ids)).tolist() == list(range(len(ids)))
    if ids:
        assert (segment.low, segment.high) == (min(ids), max(ids))
        assert id_at(segment, len(ids) - 1) == ids[-1]
        assert position_of(segment, ids[0]) == 0
    for beside in {*(i + 1 for i in ids[:20] if i < LARGEST_ID), *(i - 1 for i in ids[:20]), 0, LARGEST_ID} - set(ids):
        assert position_of(segment, beside) is None
    with pytest.raises(IndexError):
        id_at(segment, len(ids))


@examples(200)
@given(IDS, data())
def test_slice_and_delete_follow_the_list(ids: list[int], draw: DataObject) -> None:
    segment = choose(numbers(ids))
    start, stop = draw.draw(integers(0, len(ids))), draw.draw(integers(0, len(ids)))
    assert sliced(segment, start, stop).to_numpy().tolist() == ids[start:stop]
    gone = draw.draw(lists(integers(0, len(ids) - 1), max_size=10)) if ids else []
    left = [i for at, i in enumerate(ids) if at not in gone]
    assert without_positions(segment, np.array(gone, np.int64)).to_numpy().tolist() == left


@pytest.mark.parametrize(
    ("ids", "shape"),
    [
        ([], IdRange),
        (list(range(100, 200)), IdRange),
        (without(list(range(1000)), [7, 900]), RangeWithHoles),
        (list(range(0, 1000, 2)), RangeWithBitmap),
        (list(range(0, 10**6, 1000)), SortedArray),
        ([5, 4, 9], IdArray),
        ([3, 3], IdArray),
    ],
)
def test_the_shape_follows_the_disorder(ids: list[int], shape: type) -> None:
    assert type(choose(numbers(ids))) is shape
    assert type(choose(np.array(ids, np.uint64))) is shape


@examples(200)
@given(one_of(HOLED, SPARSE, SCATTERED.map(sorted)))
def test_no_other_shape_is_shorter(ids: list[int]) -> None:
    chosen = choose(numbers(ids))
    assert len(segment_bytes.encode([chosen])) == 9 + chosen.encoded_bytes
    for other in every_shape(ids):
        assert len(segment_bytes.encode([other])) >= 9 + chosen.encoded_bytes


def every_shape(ids: list[int]) -> list[Segment]:
    if len(ids) < 2:
        return []
    shapes: list[Segment] = [SortedArray(numbers(ids)), IdArray(numbers(ids))]
    start, end = ids[0], ids[-1] + 1
    if end - start < 10_000:
        there = set(ids)
        shapes.append(RangeWithHoles(start, end, numbers([i for i in range(start, end) if i not in there])))
        bits = np.zeros((end - start + 63) // 64, np.uint64)
        for i in ids:
            bits[(i - start) // 64] |= np.uint64(1) << np.uint64((i - start) % 64)
        shapes.append(RangeWithBitmap(start, end, bits))
    return shapes


def test_an_id_below_zero_or_beyond_the_largest_is_refused() -> None:
    with pytest.raises(Invalid, match="between 0 and"):
        choose(numbers([-1, 4]))
    with pytest.raises(Invalid, match="between 0 and"):
        choose(np.array([2**63], np.uint64))


@examples(200)
@given(lists(IDS, max_size=5))
def test_segments_come_back_from_bytes_in_their_shapes(parts: list[list[int]]) -> None:
    segments = [choose(numbers(ids)) for ids in parts]
    back = segment_bytes.decode(segment_bytes.encode(segments), where="x")
    assert [type(segment) for segment in back] == [type(segment) for segment in segments]
    assert [segment.to_numpy().tolist() for segment in back] == parts


def test_the_bytes_of_a_range_are_pinned() -> None:
    content = bytes.fromhex("01 01000000 00 0500000000000000 0300000000000000")
    assert segment_bytes.encode([IdRange(5, 8)]) == content + zlib.crc32(content).to_bytes(4, "little")


@examples(300)
@given(lists(IDS, min_size=1, max_size=3), data())
def test_hostile_bytes_decode_or_are_damaged(parts: list[list[int]], draw: DataObject) -> None:
    content = bytearray(segment_bytes.encode([choose(numbers(ids)) for ids in parts])[:-4])
    for _ in range(draw.draw(integers(1, 3))):
        content[draw.draw(integers(0, min(len(content), 40) - 1))] = draw.draw(integers(0, 255))
    decodes_or_is_damaged(sealed(bytes(content)))


@examples(200)
@given(binary(max_size=60))
def test_noise_is_damaged_or_decodes(noise: bytes) -> None:
    decodes_or_is_damaged(sealed(b"\x01\x01\0\0\0" + noise))
    with pytest.raises(Damaged):
        segment_bytes.decode(b"\x01" + noise[:40], where="x")


def sealed(content: bytes) -> bytes:
    """With the right CRC, so that the checks behind it are reached."""
    return content + pack("<I", zlib.crc32(content))


def decodes_or_is_damaged(stored: bytes) -> None:
    segments = outcome(stored)
    if isinstance(segments, Damaged):
        assert segments.path == "here"
        return
    for segment in segments:
        if len(segment):
            ends = [0, len(segment) - 1]
            ids = segment.take(np.array(ends))
            assert 0 <= segment.low <= ids.min() <= ids.max() <= segment.high <= LARGEST_ID
            if not isinstance(segment, IdArray):
                assert segment.find(ids).tolist() == ends


def outcome(stored: bytes) -> tuple[Segment, ...] | Damaged:
    try:
        return segment_bytes.decode(stored, where="here")
    except Damaged as error:
        return error


def test_a_flipped_bit_and_a_newer_version_are_told_apart() -> None:
    stored = bytearray(segment_bytes.encode([IdRange(5, 8)]))
    stored[7] ^= 1
    with pytest.raises(Damaged, match="CRC-32"):
        segment_bytes.decode(bytes(stored), where="x")
    with pytest.raises(Damaged, match="written in version 2"):
        segment_bytes.decode(b"\x02" + bytes(stored[1:]), where="x")


@examples(150)
@given(lists(IDS, max_size=5), data())
def test_a_sequence_is_the_concatenated_list(parts: list[list[int]], draw: DataObject) -> None:
    ids = [i for part in parts for i in part]
    sequence = RowIdSequence.of(choose(numbers(part)) for part in parts)
    assert len(sequence) == len(ids)
    assert sequence.to_numpy().tolist() == ids
    assert sequence.find(numbers(ids)).tolist() == [ids.index(i) for i in ids]
    start, stop = draw.draw(integers(0, len(ids))), draw.draw(integers(0, len(ids)))
    assert sliced_sequence(sequence, start, stop).to_numpy().tolist() == ids[start:stop]
    assert [
        *sliced_sequence(sequence, 0, start).to_numpy(),
        *sliced_sequence(sequence, start, len(ids)).to_numpy(),
    ] == ids
    assert RowIdSequence.decode(sequence.encode(), where="x").to_numpy().tolist() == ids
    if ids:
        at = draw.draw(integers(0, len(ids) - 1))
        assert id_at(sequence, at) == ids[at]
        gone = draw.draw(lists(integers(0, len(ids) - 1), max_size=10))
        left = [i for p, i in enumerate(ids) if p not in gone]
        assert sequence_without(sequence, np.array(gone, np.int64)).to_numpy().tolist() == left


@examples(100)
@given(IDS)
def test_a_sequence_from_ids_holds_them(ids: list[int]) -> None:
    assert RowIdSequence.from_ids(numbers(ids)).to_numpy().tolist() == ids


def test_a_compacted_file_is_cut_into_the_ranges_it_came_from() -> None:
    ids = np.concatenate([np.arange(5000, 6000), np.arange(0, 1000), np.arange(10**9, 10**9 + 500)])
    sequence = RowIdSequence.from_ids(ids)
    assert sequence.segments == (IdRange(5000, 6000), IdRange(0, 1000), IdRange(10**9, 10**9 + 500))
    assert len(sequence.encode()) < 70


def test_a_fresh_file_is_one_range_and_an_empty_one_is_none() -> None:
    assert RowIdSequence.from_range(10, 3).segments == (IdRange(10, 13),)
    assert RowIdSequence.from_range(10, 0).segments == ()
    assert position_of(RowIdSequence.from_range(10, 3), 13) is None
    with pytest.raises(IndexError):
        id_at(RowIdSequence.from_range(10, 3), 3)
    with pytest.raises(IndexError):
        sequence_without(RowIdSequence.from_range(10, 3), np.array([3]))
