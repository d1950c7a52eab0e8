"""What a vacuum may delete, from a listing and what is needed."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast.plan.maintain.vacuum import LISTED, DirectoryLayout, Kept, plan_vacuum
from tests.support.depth import examples

HORIZON = 100
LAYOUT = DirectoryLayout("_delta_log", ("_change_data",), ("_day", "a.b", "p"))


def _listed(*files: tuple[str, int]) -> pa.Table:
    return pa.Table.from_pylist([{"key": k, "size": 10, "modified_ms": at} for k, at in files], LISTED)


def _going(*keys: str, needed: tuple[str, ...] = ()) -> list[str]:
    plan = plan_vacuum(
        _listed(*((key, 0) for key in keys)), pa.array(needed, pa.string()), {}, {}, horizon_ms=HORIZON, layout=LAYOUT
    )
    return plan.keys.to_pylist()


@examples(50)
@given(
    files=st.dictionaries(st.sampled_from("abcdefgh"), st.integers(95, 105)),
    needed=st.sets(st.sampled_from("abcdefgh")),
    pinned=st.dictionaries(st.sampled_from(["x", "y"]), st.sets(st.sampled_from("abcdefgh"))),
)
def test_only_what_is_both_old_and_unneeded_goes(
    files: dict[str, int], needed: set[str], pinned: dict[str, set[str]]
) -> None:
    pins = {name: pa.array(sorted(keys), pa.string()) for name, keys in pinned.items()}
    plan = plan_vacuum(
        _listed(*files.items()),
        pa.array(sorted(needed), pa.string()),
        pins,
        dict.fromkeys(pins, 3),
        horizon_ms=HORIZON,
        layout=LAYOUT,
    )
    idle = {key for key, at in files.items() if at < HORIZON} - needed
    assert set(plan.keys.to_pylist()) == idle - set().union(*pinned.values())
    assert plan.bytes == 10 * plan.files.num_rows
    assert plan.kept == tuple(Kept(p, 3, len(idle & keys), 10 * len(idle & keys)) for p, keys in pinned.items())


def test_hidden_names_are_not_ours() -> None:
    others = ["_delta_log/0.json", "_delta_index/x", ".hidden", "p=1/_tmp/x", "p=1/.x.crc", "_holdfast/erasures/1.json"]
    others += ["_symlink_format_manifest/manifest", "directory/"]
    ours = ["part-0.parquet", "p=1/part-0.parquet", "ab/deletion_vector_1.bin", "_change_data/p=1/cdc-0.parquet"]
    assert _going(*others, *ours) == ours


def test_what_we_left_behind_goes() -> None:
    left = ["_holdfast/stage/1/part-0.parquet", "_holdfast/scan/ab/_spark_metadata/0", ".part-0.parquet.holdfast-tmp"]
    left += ["_delta_log/.1.holdfast-tmp", "p=1/.part-0.parquet.holdfast-tmp", "_holdfast/index/a/1/run-0.parquet"]
    assert _going(*left) == left
    assert _going("a.holdfast-tmp") == ["a.holdfast-tmp"]  # not hidden: a file like any other
    assert _going(".user.tmp") == []


def test_partitions_may_be_named_like_hidden_directories() -> None:
    assert _going("_day=1/x", "p=2/_day=1/x", "_day=_1/p=.2/x") == ["_day=1/x", "p=2/_day=1/x", "_day=_1/p=.2/x"]
    assert _going("_days=1/x", "_day/x", "a-b=1/.x") == []


def test_a_table_inside_of_another_is_left_alone() -> None:
    inner = [
        "x",
        "inner/_delta_log/0.json",
        "inner/a",
        "inner/p=1/b",
        "inner2/c",
        "deep/er/_delta_log/0.json",
        "deep/d",
    ]
    assert _going(*inner, "deep/er/e") == ["x", "inner2/c", "deep/d"]


def test_odd_letters_are_compared_as_they_are() -> None:
    keys = ["p=a%20b/x", "p=a b/x", "p=ü%/x", "p=a+b/x"]
    assert _going(*keys, needed=("p=a b/x", "p=ü%/x")) == ["p=a%20b/x", "p=a+b/x"]
