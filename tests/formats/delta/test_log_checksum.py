"""The checksum in `_last_checkpoint`, and checksum files."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.formats.delta.checkpoint.checksum import VersionChecksum, read_checksum
from holdfast.formats.delta.checkpoint.last_checkpoint import Hint, canonical_md5, read_hint
from tests.support.depth import examples
from tests.support.golden import require_golden

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def test_every_golden_sum_is_ours() -> None:
    hints = [p.read_bytes() for p in require_golden().glob("delta/*/table/_delta_log/_last_checkpoint")]
    summed = [(json.loads(h)["checksum"], canonical_md5(h)) for h in hints if b'"checksum"' in h]
    assert len(summed) >= 37
    assert [ours for _, ours in summed] == [theirs for theirs, _ in summed]


@examples(50)
@given(st.dictionaries(st.text(max_size=4), TREES, max_size=4), st.randoms(use_true_random=False))
def test_order_spacing_and_the_sum_itself_do_not_matter(fields: dict[str, object], rng: random.Random) -> None:
    names = [name for name in fields if name != "checksum"]
    rng.shuffle(names)
    shuffled = {name: fields[name] for name in names}
    plain = canonical_md5(json.dumps({k: v for k, v in fields.items() if k != "checksum"}).encode())
    assert canonical_md5(json.dumps(shuffled | {"checksum": "x"}, indent=3).encode()) == plain


def test_a_changed_value_changes_the_sum() -> None:
    fields: dict[str, object] = {"version": 10, "size": 13, "tags": {"a b": "ü", "list": [1, 2.50, None, True]}}
    plain = canonical_md5(json.dumps(fields).encode())
    assert canonical_md5(json.dumps(fields | {"size": 14}).encode()) != plain
    assert canonical_md5(json.dumps(fields | {"size": "13"}).encode()) != plain
    good = json.dumps(fields | {"checksum": plain}).encode()
    assert read_hint(good) == Hint(version=10, size=13, checksum=plain)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff"])
def test_what_cannot_be_read_is_told_in_words(data: bytes) -> None:
    assert isinstance(read_hint(data), str)
    assert isinstance(read_checksum(data), str)


def test_a_checksum_file_is_read_for_what_we_compare() -> None:
    checksum = read_checksum(
        b'{"numFiles": 3, "tableSizeBytes": 9, "inCommitTimestampOpt": 5, "histogramOpt": {"x": []}}'
    )
    assert checksum == VersionChecksum(table_size_bytes=9, num_files=3, in_commit_timestamp_opt=5)
